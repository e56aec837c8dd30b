//! Each function, on a problem whose answer is known.

use onnxmem::{pack, Buffers, Effort, Goal, Graph, Node, Options, Tensor};
use std::sync::atomic::AtomicI32;

const MIB: i64 = 1 << 20;
const LOWER: [i64; 4] = [0, 0, 1, 2];
const UPPER: [i64; 4] = [2, 2, 3, 4];
const SIZE: [i64; 4] = [4, 2, 1, 4];

fn four() -> Buffers<'static> {
    Buffers { lower: &LOWER, upper: &UPPER, size: &SIZE, ..Buffers::default() }
}

/// A chain whose last node reads the first tensor, too: 17 MiB, or 16 if the first node runs again.
fn skip() -> Graph {
    let tensor = |size, producer, consumers: &[i32]| Tensor { size, producer: Some(producer), consumers: consumers.to_vec(), ..Tensor::default() };
    let nodes = [500, 20, 20, 10].map(|cost| Node { cost: cost * 1_000_000, ..Node::default() }).to_vec();
    Graph { nodes, tensors: vec![tensor(8 * MIB, 0, &[1, 3]), tensor(8 * MIB, 1, &[2]), tensor(MIB, 2, &[3])] }
}

#[test]
fn places() {
    let (offsets, packed) = pack(&LOWER, &UPPER, &SIZE, 1).unwrap();
    assert_eq!((packed.arena, packed.bound, packed.proven, packed.fits), (7, 7, true, None));
    assert_eq!(four().verify(&offsets).unwrap().arena, 7);
    assert_eq!(four().verify(&[0, 0, 6, 0]).unwrap_err().status, 1);
    for (capacity, fits) in [(6, Some(false)), (7, Some(true))] {
        assert_eq!(Buffers { capacity: Some(capacity), ..four() }.pack(&Options::default()).unwrap().1.fits, fits);
    }
    let fixed = Buffers { fixed: &[-1, 0, -1, -1], ..four() };
    assert_eq!(fixed.pack(&Options { effort: Effort::Fast, ..Options::default() }).unwrap().0[1], 0);
    let wide = Buffers { alignment: &[8, 1, 4, 1], ..four() };
    assert_eq!(wide.pack(&Options::default()).unwrap().0[2] % 4, 0);
}

#[test]
fn nothing() {
    let (offsets, packed) = pack(&[], &[], &[], 64).unwrap();
    assert_eq!((offsets.len(), packed.arena), (0, 0));
    let none = Graph::default();
    assert_eq!(none.order(&Options::default()).unwrap().peak, 0);
    assert_eq!(none.limit(Goal::Bytes(0), 0, &Options::default()).unwrap().peak, 0);
    none.verify_order(&[], &[]).unwrap();
    none.verify_limit(&[], &[]).unwrap();
    none.lifetimes(&[]).unwrap();
}

#[test]
fn faults() {
    let e = pack(&[3], &[3], &[1], 1).unwrap_err();
    assert_eq!((e.status, e.to_string().contains("buffer 0")), (3, true));
    let flag = AtomicI32::new(1);
    let ended = four().pack(&Options { cancel: Some(&flag), ..Options::default() });
    assert!(ended.map_or(true, |(_, p)| p.proven || p.ended));
}

#[test]
fn orders_and_limits() {
    let (g, options) = (skip(), Options::default());
    let r = g.order(&options).unwrap();
    assert_eq!((r.peak, r.bound, r.proven, r.order.len()), (17 * MIB, 17 * MIB, true, 4));
    assert_eq!(g.verify_order(&r.order, &r.certificates).unwrap(), (17 * MIB, 17 * MIB));
    assert_eq!(g.verify_order(&[1, 0, 2, 3], &[]).unwrap_err().status, 1);
    let (buffer, [lower, upper, size]) = g.lifetimes(&r.order).unwrap();
    assert_eq!((buffer.len(), pack(&lower, &upper, &size, 1).unwrap().1.arena), (3, 17 * MIB));
    let below = g.limit(Goal::Percent(95.0), 0, &options).unwrap();
    assert_eq!((below.peak, below.feasible, below.steps.as_slice()), (16 * MIB, Some(true), &[0, 1, 2, 0, 3][..]));
    assert_eq!(g.verify_limit(&below.steps, &below.swaps).unwrap().0, 16 * MIB);
    let swapped = g.limit(Goal::Bytes(16 * MIB), 1_000_000_000, &options).unwrap();
    assert_eq!(swapped.swaps.len(), 1);
    assert_eq!(g.verify_limit(&swapped.steps, &swapped.swaps).unwrap().0, 16 * MIB);
    assert_eq!(onnxmem::version(), env!("CARGO_PKG_VERSION"));
}

//! Orders and places for the memory of a computation, with proofs: libonnxmem in Rust.
//!
//! [`pack`] gives buffers of known lifetimes their offsets, [`Graph::order`] orders nodes for the
//! smallest peak, [`Graph::limit`] runs some again below a limit. Each answer has a check by code
//! that the searches do not use. Sizes and offsets are bytes; a lifetime is half-open, from step
//! lower to before step upper. `onnxmem.h` documents the library.

mod raw;

use std::ffi::{c_char, c_int, CStr};
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicI32;
use std::time::Duration;

/// Why there is no answer: a status of `onnxmem.h`, such as 3 for an input that contradicts
/// itself, and a text that names the buffer, node or tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub status: i32,
    pub text: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// Calls the library with a place for its error.
fn call(f: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), Error> {
    let mut text = [0 as c_char; 1000];
    match f(text.as_mut_ptr(), text.len()) {
        0 => Ok(()),
        // SAFETY: the library ends the text with 0.
        status => Err(Error { status, text: unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned() }),
    }
}

/// How much a search may work.
#[derive(Clone, Copy, Default)]
pub enum Effort {
    #[default]
    Default,
    /// A fraction of a second.
    Fast,
    /// Minutes.
    Max,
}

/// Options of a search.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    pub effort: Effort,
    /// The time after which the best so far is the answer.
    pub time_limit: Option<Duration>,
    /// The same as soon as this is not 0, from any thread.
    pub cancel: Option<&'a AtomicI32>,
}

impl Options<'_> {
    fn raw(&self) -> raw::Options {
        raw::Options {
            effort: self.effort as i32,
            time_limit: self.time_limit.map_or(0, |t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX).max(1)),
            cancel: self.cancel.map_or(null(), |c| c.as_ptr().cast_const()),
            ..raw::Options::new()
        }
    }
}

/// Buffers to be placed in one arena. `lower`, `upper` and `size` have an element for each, and so
/// have the other lists, unless they are empty: then they are left out.
#[derive(Clone, Copy, Default)]
pub struct Buffers<'a> {
    pub lower: &'a [i64],
    pub upper: &'a [i64],
    pub size: &'a [i64],
    /// Offsets are multiples of it, sizes are rounded up to it; 0: 1.
    pub common_alignment: i64,
    /// Of one offset, whose size is then not rounded; 0: the common one.
    pub alignment: &'a [i64],
    /// The offset that a buffer must have; below 0: any.
    pub fixed: &'a [i64],
    /// The arena's largest size; [`Packed::fits`] says whether it is kept.
    pub capacity: Option<i64>,
}

/// What is known of an arena.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// The end of the last buffer.
    pub arena: i64,
    /// No arena of these buffers is smaller.
    pub bound: i64,
    /// The two are equal.
    pub proven: bool,
    /// With a capacity: whether it is kept; `None`: not known.
    pub fits: Option<bool>,
    /// The search was ended early.
    pub ended: bool,
}

impl Packed {
    fn of(p: raw::Packed, capacity: Option<i64>) -> Self {
        let fits = capacity.and(if p.fits < 0 { None } else { Some(p.fits == 1) });
        Self { arena: p.arena, bound: p.bound, proven: p.proven != 0, fits, ended: p.ended != 0 }
    }
}

/// The first element of a list that has `count` of them; NULL if it is left out.
fn list<T>(what: &str, values: &[T], count: usize) -> *const T {
    assert!(values.is_empty() || values.len() == count, "{what}: expected {count} elements, found {}", values.len());
    if values.is_empty() {
        null()
    } else {
        values.as_ptr()
    }
}

impl Buffers<'_> {
    fn raw(&self, capacity: &i64) -> raw::Buffers {
        let n = self.size.len();
        assert!(self.lower.len() == n && self.upper.len() == n, "lower, upper and size: expected as many elements");
        raw::Buffers {
            count: n,
            lower: self.lower.as_ptr(),
            upper: self.upper.as_ptr(),
            size: self.size.as_ptr(),
            common_alignment: self.common_alignment,
            alignment: list("alignment", self.alignment, n),
            fixed: list("fixed", self.fixed, n),
            pool_capacity: capacity,
            ..raw::Buffers::new()
        }
    }

    /// Places the buffers: the offset of each, and the arena.
    pub fn pack(&self, options: &Options) -> Result<(Vec<i64>, Packed), Error> {
        let capacity = self.capacity.unwrap_or(-1);
        let (buffers, options) = (self.raw(&capacity), options.raw());
        let (mut offsets, mut packed) = (vec![0; self.size.len()], raw::Packed::default());
        // SAFETY: each array has `count` elements, and lives until the call returns.
        call(|text, bytes| unsafe { raw::onnxmem_pack(&buffers, &options, offsets.as_mut_ptr(), &mut packed, null_mut(), null_mut(), text, bytes) })?;
        Ok((offsets, Packed::of(packed, self.capacity)))
    }

    /// Checks offsets; the bound is then what is proven without a search.
    pub fn verify(&self, offsets: &[i64]) -> Result<Packed, Error> {
        assert!(offsets.len() == self.size.len(), "offsets: expected as many elements as size");
        let capacity = self.capacity.unwrap_or(-1);
        let (buffers, mut packed) = (self.raw(&capacity), raw::Packed::default());
        // SAFETY: as in pack.
        call(|text, bytes| unsafe { raw::onnxmem_verify_pack(&buffers, offsets.as_ptr(), null(), &mut packed, text, bytes) })?;
        Ok(Packed::of(packed, self.capacity))
    }
}

/// Places buffers that are live from step `lower` to before step `upper`.
pub fn pack(lower: &[i64], upper: &[i64], size: &[i64], alignment: i64) -> Result<(Vec<i64>, Packed), Error> {
    Buffers { lower, upper, size, common_alignment: alignment, ..Buffers::default() }.pack(&Options::default())
}

/// A node of a graph.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Bytes that it needs besides, while it runs.
    pub workspace: i64,
    /// Nanoseconds; if all are 0, they are estimated from the bytes that a node moves.
    pub cost: i64,
    /// It must not run again.
    pub once: bool,
    /// Tensors that it reads and overwrites in place (for limits).
    pub writes: Vec<i32>,
}

/// A tensor of a graph.
#[derive(Clone, Debug, Default)]
pub struct Tensor {
    pub size: i64,
    /// The node that makes it; `None`: it is there from the start.
    pub producer: Option<i32>,
    pub consumers: Vec<i32>,
    /// It lives to the last step.
    pub output: bool,
    /// It counts nowhere.
    pub resident: bool,
    /// Tensors of its size that it may be written over by their last reader.
    pub reuses: Vec<i32>,
    /// A tensor of which it is a range, and the offset there.
    pub parent: Option<(i32, i64)>,
}

/// Nodes in program order, and the tensors that they read and make.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub tensors: Vec<Tensor>,
}

/// A lower bound of the peak: what it is (`kind` as in `onnxmem.h`) and of which nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    pub kind: i32,
    pub bytes: i64,
    pub nodes: Vec<i32>,
}

/// An order of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Ordered {
    /// The node of each step.
    pub order: Vec<i32>,
    pub peak: i64,
    pub program_peak: i64,
    /// No order has a smaller peak.
    pub bound: i64,
    pub proven: bool,
    pub ended: bool,
    pub certificates: Vec<Certificate>,
}

/// The largest peak.
#[derive(Clone, Copy)]
pub enum Goal {
    Bytes(i64),
    /// Of the best order's peak.
    Percent(f64),
}

/// A tensor that leaves for a host and returns; `out` and `into` are indices into steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Swap {
    pub tensor: i32,
    pub out: i32,
    pub into: i32,
}

/// Steps below a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// Nodes as they run; of N nodes, N + 2k and N + 2k + 1 are out and in of swap k. Empty: none.
    pub steps: Vec<i32>,
    pub swaps: Vec<Swap>,
    pub limit: i64,
    /// Of the steps; without any, the smallest that was found.
    pub peak: i64,
    pub bound: i64,
    pub best_order: i64,
    /// Time of repeated nodes and of waiting, in per cent of a step.
    pub extra_percent: f64,
    /// No steps within the limit take less.
    pub extra_at_least: f64,
    /// Steps within the limit; `Some(false)`: proven impossible; `None`: none found.
    pub feasible: Option<bool>,
    pub ended: bool,
}

/// Lists one after another, and where each begins.
fn lists<'a>(all: impl Iterator<Item = &'a Vec<i32>>) -> (Vec<i64>, Vec<i32>) {
    let (mut begin, mut items) = (vec![0], vec![]);
    for one in all {
        items.extend_from_slice(one);
        begin.push(items.len() as i64);
    }
    (begin, items)
}

/// A block of the library's results.
struct Block(*const std::ffi::c_void);

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block is the library's, and freed once.
        unsafe { raw::onnxmem_free(self.0.cast_mut()) }
    }
}

/// A slice of a result; empty if it is NULL.
///
/// # Safety
/// `first` has `count` elements that live as long as the slice.
unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() {
        &[]
    } else {
        std::slice::from_raw_parts(first, count)
    }
}

impl Graph {
    /// Calls a function with the graph as the library has it.
    fn with<R>(&self, f: impl FnOnce(&raw::Graph) -> R) -> R {
        let (nodes, tensors) = (&self.nodes, &self.tensors);
        let workspace: Vec<i64> = nodes.iter().map(|n| n.workspace).collect();
        let cost: Vec<i64> = nodes.iter().map(|n| n.cost).collect();
        let once: Vec<u8> = nodes.iter().map(|n| n.once.into()).collect();
        let (write_begin, write) = lists(nodes.iter().map(|n| &n.writes));
        let size: Vec<i64> = tensors.iter().map(|t| t.size).collect();
        let producer: Vec<i32> = tensors.iter().map(|t| t.producer.unwrap_or(-1)).collect();
        let (consumer_begin, consumer) = lists(tensors.iter().map(|t| &t.consumers));
        let output: Vec<u8> = tensors.iter().map(|t| t.output.into()).collect();
        let resident: Vec<u8> = tensors.iter().map(|t| t.resident.into()).collect();
        let (reuse_begin, reuse) = lists(tensors.iter().map(|t| &t.reuses));
        let parent: Vec<i32> = tensors.iter().map(|t| t.parent.map_or(-1, |p| p.0)).collect();
        let offset: Vec<i64> = tensors.iter().map(|t| t.parent.map_or(0, |p| p.1)).collect();
        f(&raw::Graph {
            node_count: nodes.len(),
            tensor_count: tensors.len(),
            workspace: workspace.as_ptr(),
            cost: cost.as_ptr(),
            once: once.as_ptr(),
            write_begin: write_begin.as_ptr(),
            write: write.as_ptr(),
            size: size.as_ptr(),
            producer: producer.as_ptr(),
            consumer_begin: consumer_begin.as_ptr(),
            consumer: consumer.as_ptr(),
            output: output.as_ptr(),
            resident: resident.as_ptr(),
            reuse_begin: reuse_begin.as_ptr(),
            reuse: reuse.as_ptr(),
            parent: parent.as_ptr(),
            offset: offset.as_ptr(),
            ..raw::Graph::new()
        })
    }

    /// Orders the nodes for the smallest peak.
    pub fn order(&self, options: &Options) -> Result<Ordered, Error> {
        let (mut order, mut r, options) = (vec![0; self.nodes.len()], raw::Ordered::default(), options.raw());
        // SAFETY: each array has as many elements as the counts say, and lives until the call returns.
        self.with(|g| call(|text, bytes| unsafe { raw::onnxmem_order(g, &options, order.as_mut_ptr(), &mut r, text, bytes) }))?;
        let _block = Block(r.certificates.cast());
        // SAFETY: the library's block holds them until it is freed.
        let found = unsafe { slice(r.certificates, r.certificate_count) };
        let certificates =
            found.iter().map(|c| Certificate { kind: c.kind, bytes: c.bytes, nodes: unsafe { slice(c.nodes, c.node_count) }.to_vec() }).collect();
        let (proven, ended) = (r.proven != 0, r.ended != 0);
        Ok(Ordered { order, peak: r.peak, program_peak: r.program_peak, bound: r.bound, proven, ended, certificates })
    }

    /// Checks an order, and proves its certificates again: its peak, and the bound that holds.
    pub fn verify_order(&self, order: &[i32], certificates: &[Certificate]) -> Result<(i64, i64), Error> {
        assert!(order.len() == self.nodes.len(), "order: expected as many elements as nodes");
        let list: Vec<raw::Certificate> = certificates
            .iter()
            .map(|c| raw::Certificate { kind: c.kind, reserved: 0, bytes: c.bytes, node_count: c.nodes.len(), nodes: c.nodes.as_ptr() })
            .collect();
        let mut r = raw::Ordered::default();
        // SAFETY: as in order.
        self.with(|g| call(|text, bytes| unsafe { raw::onnxmem_verify_order(g, null(), order.as_ptr(), list.as_ptr(), list.len(), &mut r, text, bytes) }))?;
        Ok((r.peak, r.bound))
    }

    /// The buffers of an order, for [`Buffers`]: that of each tensor (-1: none), and lower, upper
    /// and size of each buffer.
    pub fn lifetimes(&self, order: &[i32]) -> Result<(Vec<i32>, [Vec<i64>; 3]), Error> {
        assert!(order.len() == self.nodes.len(), "order: expected as many elements as nodes");
        let (mut buffer, mut count) = (vec![0; self.tensors.len()], 0);
        let mut lists = [(); 3].map(|()| vec![0; self.nodes.len() + self.tensors.len()]);
        let [lower, upper, size] = &mut lists;
        // SAFETY: as in order.
        self.with(|g| {
            call(|text, bytes| unsafe {
                raw::onnxmem_lifetimes(
                    g,
                    order.as_ptr(),
                    buffer.as_mut_ptr(),
                    &mut count,
                    lower.as_mut_ptr(),
                    upper.as_mut_ptr(),
                    size.as_mut_ptr(),
                    text,
                    bytes,
                )
            })
        })?;
        lists.iter_mut().for_each(|l| l.truncate(count));
        Ok((buffer, lists))
    }

    /// Looks for steps below a limit that take the least extra time. With `host_link`, in bytes per
    /// second each way, tensors may be swapped to a host; 0: there is none.
    pub fn limit(&self, goal: Goal, host_link: i64, options: &Options) -> Result<Limited, Error> {
        let mut wanted = raw::Goal { host_link, ..raw::Goal::new() };
        match goal {
            Goal::Bytes(b) => wanted.bytes = b,
            Goal::Percent(p) => wanted.percent = p,
        }
        let (mut r, options) = (raw::Limited::default(), options.raw());
        // SAFETY: as in order.
        self.with(|g| call(|text, bytes| unsafe { raw::onnxmem_limit(g, &wanted, &options, &mut r, text, bytes) }))?;
        let _block = Block(r.steps.cast());
        // SAFETY: the library's block holds them until it is freed.
        let (steps, swaps) = unsafe { (slice(r.steps, r.step_count).to_vec(), slice(r.swaps, r.swap_count)) };
        Ok(Limited {
            steps,
            swaps: swaps.iter().map(|s| Swap { tensor: s.tensor, out: s.out, into: s.into }).collect(),
            limit: r.limit,
            peak: r.peak,
            bound: r.bound,
            best_order: r.best_order,
            extra_percent: r.extra_percent,
            extra_at_least: r.extra_at_least,
            feasible: if r.feasible < 0 { None } else { Some(r.feasible == 1) },
            ended: r.ended != 0,
        })
    }

    /// Checks steps: that each reader finds what it read in its first run. Their peak, and the
    /// bound that holds.
    pub fn verify_limit(&self, steps: &[i32], swaps: &[Swap]) -> Result<(i64, i64), Error> {
        let swapped: Vec<i32> = swaps.iter().map(|s| s.tensor).collect();
        let (mut peak, mut bound) = (0, 0);
        // SAFETY: as in order.
        self.with(|g| {
            call(|text, bytes| unsafe {
                raw::onnxmem_verify_limit(g, null(), steps.as_ptr(), steps.len(), swapped.as_ptr(), swapped.len(), &mut peak, &mut bound, text, bytes)
            })
        })?;
        Ok((peak, bound))
    }
}

/// The version of the library, such as "0.1.0".
pub fn version() -> &'static str {
    // SAFETY: a text of the library, which is never unloaded.
    unsafe { CStr::from_ptr(raw::onnxmem_version()) }.to_str().unwrap_or("")
}

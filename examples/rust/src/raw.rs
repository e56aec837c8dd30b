//! onnxmem.h: its structs and functions, which the header documents.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

/// A struct that the caller fills: it begins with its size, and zero leaves a field out.
macro_rules! given {
    ($name:ident { $($field:ident: $type:ty = $zero:expr),* $(,)? }) => {
        #[repr(C)]
        pub struct $name { pub struct_size: usize, $(pub $field: $type),* }

        impl $name {
            pub fn new() -> Self {
                Self { struct_size: std::mem::size_of::<Self>(), $($field: $zero),* }
            }
        }
    };
}

given!(Options { effort: i32 = 0, replay: i32 = 0, time_limit: i64 = 0, cancel: *const i32 = null() });

given!(Buffers {
    count: usize = 0,
    lower: *const i64 = null(),
    upper: *const i64 = null(),
    size: *const i64 = null(),
    common_alignment: i64 = 0,
    alignment: *const i64 = null(),
    fixed: *const i64 = null(),
    hint: *const i64 = null(),
    gap_begin: *const i64 = null(),
    gap_lower: *const i64 = null(),
    gap_upper: *const i64 = null(),
    gap_from: *const i64 = null(),
    gap_to: *const i64 = null(),
    pool_count: usize = 0,
    pool_capacity: *const i64 = null(),
    pool: *const i32 = null(),
});

given!(Graph {
    node_count: usize = 0,
    tensor_count: usize = 0,
    workspace: *const i64 = null(),
    cost: *const i64 = null(),
    once: *const u8 = null(),
    write_begin: *const i64 = null(),
    write: *const i32 = null(),
    size: *const i64 = null(),
    producer: *const i32 = null(),
    consumer_begin: *const i64 = null(),
    consumer: *const i32 = null(),
    output: *const u8 = null(),
    resident: *const u8 = null(),
    reuse_begin: *const i64 = null(),
    reuse: *const i32 = null(),
    parent: *const i32 = null(),
    offset: *const i64 = null(),
});

given!(Goal { bytes: i64 = 0, percent: f64 = 0.0, host_link: i64 = 0, no_recompute: i32 = 0, least: i32 = 0 });

/// A struct that the library fills; that of zeros is empty.
macro_rules! taken {
    ($name:ident { $($field:ident: $type:ty = $zero:expr),* $(,)? }) => {
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name { $(pub $field: $type),* }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $zero),* }
            }
        }
    };
}

taken!(Packed { arena: i64 = 0, bound: i64 = 0, proven: i32 = 0, fits: i32 = 0, ended: i32 = 0, reserved: i32 = 0 });
taken!(Certificate { kind: i32 = 0, reserved: i32 = 0, bytes: i64 = 0, node_count: usize = 0, nodes: *const i32 = null() });
taken!(Ordered {
    peak: i64 = 0,
    program_peak: i64 = 0,
    bound: i64 = 0,
    proven: i32 = 0,
    ended: i32 = 0,
    certificate_count: usize = 0,
    certificates: *const Certificate = null(),
});
taken!(Swap { tensor: i32 = 0, out: i32 = 0, into: i32 = 0, reserved: i32 = 0 });
taken!(Limited {
    limit: i64 = 0,
    peak: i64 = 0,
    bound: i64 = 0,
    best_order: i64 = 0,
    extra_percent: f64 = 0.0,
    extra_at_least: f64 = 0.0,
    feasible: i32 = 0,
    ended: i32 = 0,
    step_count: usize = 0,
    swap_count: usize = 0,
    steps: *const i32 = null(),
    swaps: *const Swap = null(),
});

#[rustfmt::skip]
#[cfg_attr(windows, link(name = "onnxmem", kind = "raw-dylib"))]
extern "C" {
    pub fn onnxmem_pack(buffers: *const Buffers, options: *const Options, offsets: *mut i64, packed: *mut Packed, pools: *mut i32, infeasible: *mut u8, error: *mut c_char, error_bytes: usize) -> c_int;
    pub fn onnxmem_verify_pack(buffers: *const Buffers, offsets: *const i64, pools: *const i32, packed: *mut Packed, error: *mut c_char, error_bytes: usize) -> c_int;
    pub fn onnxmem_order(graph: *const Graph, options: *const Options, order: *mut i32, ordered: *mut Ordered, error: *mut c_char, error_bytes: usize) -> c_int;
    pub fn onnxmem_verify_order(graph: *const Graph, options: *const Options, order: *const i32, certificates: *const Certificate, certificate_count: usize, ordered: *mut Ordered, error: *mut c_char, error_bytes: usize) -> c_int;
    pub fn onnxmem_lifetimes(graph: *const Graph, order: *const i32, buffer: *mut i32, count: *mut usize, lower: *mut i64, upper: *mut i64, size: *mut i64, error: *mut c_char, error_bytes: usize) -> c_int;
    pub fn onnxmem_limit(graph: *const Graph, goal: *const Goal, options: *const Options, limited: *mut Limited, error: *mut c_char, error_bytes: usize) -> c_int;
    pub fn onnxmem_verify_limit(graph: *const Graph, options: *const Options, steps: *const i32, step_count: usize, swapped: *const i32, swap_count: usize, peak: *mut i64, bound: *mut i64, error: *mut c_char, error_bytes: usize) -> c_int;
    pub fn onnxmem_free(block: *mut c_void);
    pub fn onnxmem_version() -> *const c_char;
}

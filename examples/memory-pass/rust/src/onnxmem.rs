//! What this program calls of libonnxmem; onnxmem.h has the rest.

use std::ffi::{c_char, c_int, CStr};

/// `onnxmem_buffers`.
#[repr(C)]
struct Buffers {
    struct_size: usize,
    count: usize,
    lower: *const i64,
    upper: *const i64,
    size: *const i64,
    common_alignment: i64,
    // An older header: the library takes what is behind it as zero.
}

/// `onnxmem_packed`.
#[repr(C)]
#[derive(Default)]
pub struct Packed {
    pub arena: i64,
    pub bound: i64,
    pub proven: i32,
    pub fits: i32,
    pub ended: i32,
    reserved: i32,
}

extern "C" {
    fn onnxmem_pack(
        buffers: *const Buffers,
        options: *const u8,
        offsets: *mut i64,
        packed: *mut Packed,
        pools: *mut i32,
        infeasible: *mut u8,
        error: *mut c_char,
        error_bytes: usize,
    ) -> c_int;
}

/// Places buffers that are live from step `lower` to before step `upper`, in bytes.
pub fn pack(lower: &[i64], upper: &[i64], size: &[i64], alignment: i64) -> Result<(Vec<i64>, Packed), String> {
    assert!(lower.len() == size.len() && upper.len() == size.len());
    let buffers = Buffers {
        struct_size: std::mem::size_of::<Buffers>(),
        count: size.len(),
        lower: lower.as_ptr(),
        upper: upper.as_ptr(),
        size: size.as_ptr(),
        common_alignment: alignment,
    };
    let (mut offsets, mut packed, mut error) = (vec![0; size.len()], Packed::default(), [0 as c_char; 300]);
    let null = std::ptr::null_mut::<u8>();
    // SAFETY: each array has `count` elements, and lives until the call returns.
    let status = unsafe {
        onnxmem_pack(&buffers, null, offsets.as_mut_ptr(), &mut packed, null.cast(), null, error.as_mut_ptr(), error.len())
    };
    if status == 0 {
        return Ok((offsets, packed));
    }
    // SAFETY: the library ends the text with 0.
    Err(unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned())
}

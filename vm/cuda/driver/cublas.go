package driver

import (
	"fmt"
	"os"
	"unsafe"
)

// BLAS is an opened cuBLAS.
type BLAS struct {
	path    string
	entries struct {
		Create_v2, Destroy_v2, GetVersion_v2, SetStream_v2, SetWorkspace_v2, SetMathMode, GemmStridedBatchedEx uintptr
	}
}

// OpenBLAS opens cuBLAS. newest is the version of CUDA that the driver supports (Version),
// or 0: a library of a later major version is not opened. The error wraps ErrNoBLAS if
// there is none, if it lacks a function, or if ONNXMEM_CUBLAS is "off".
func OpenBLAS(newest int) (*BLAS, error) {
	if os.Getenv("ONNXMEM_CUBLAS") == "off" {
		return nil, fmt.Errorf("%w: ONNXMEM_CUBLAS is off", ErrNoBLAS)
	}
	path, handle, err := blasLibrary.open(newest)
	if err != nil {
		return nil, err
	}
	b := &BLAS{path: path}
	if err := bind(handle, "cublas", &b.entries); err != nil {
		return nil, fmt.Errorf("%w that onnxmem can use: %s: %w", ErrNoBLAS, path, err)
	}
	return b, nil
}

// Path returns the path of the library.
func (b *BLAS) Path() string { return b.path }

// BLASHandle is the state of the library for the work of one stream.
type BLASHandle struct {
	b  *BLAS
	at uintptr
}

// NewHandle creates the state for a stream, in the current context. Products of float32
// are computed in float32 unless they ask for TF32, and those of 16-bit types are summed up
// in float32.
func (b *BLAS) NewHandle(s Stream) (*BLASHandle, error) {
	const noReducedSums = 16 // of CUBLAS_DEFAULT_MATH: no sums in fewer bits than the arithmetic
	h := &BLASHandle{b: b}
	if err := checkBLAS("cublasCreate", call(b.entries.Create_v2, uintptr(unsafe.Pointer(&h.at)))); err != nil {
		return nil, err
	}
	err := checkBLAS("cublasSetStream", call(b.entries.SetStream_v2, h.at, uintptr(s)))
	if err == nil {
		err = checkBLAS("cublasSetMathMode", call(b.entries.SetMathMode, h.at, noReducedSums))
	}
	if err != nil {
		_ = h.Destroy()
		return nil, err
	}
	return h, nil
}

// Destroy frees the state.
func (h *BLASHandle) Destroy() error {
	return checkBLAS("cublasDestroy", call(h.b.entries.Destroy_v2, h.at))
}

// Version returns the version of the library: 10000 times the major version, plus 100
// times the minor one, plus the patch.
func (h *BLASHandle) Version() (int, error) {
	var v int32
	err := checkBLAS("cublasGetVersion", call(h.b.entries.GetVersion_v2, h.at, uintptr(unsafe.Pointer(&v))))
	return int(v), err
}

// SetWorkspace makes the library use device memory that begins at a multiple of 256, and
// nothing else.
func (h *BLASHandle) SetWorkspace(at Ptr, bytes int64) error {
	if s := call(h.b.entries.SetWorkspace_v2, h.at, uintptr(at), uintptr(bytes)); s != 0 {
		return checkBLAS("cublasSetWorkspace", s)
	}
	return nil
}

// BLASType is the type of a matrix's elements, as CUDA numbers them.
type BLASType int32

// The types of matrices.
const (
	BLASFloat32  BLASType = 0
	BLASFloat16  BLASType = 2
	BLASBFloat16 BLASType = 14
)

// BLASMatrix is a matrix of a batch: column by column, Lead elements apart, and the
// matrices of the batch Stride elements apart.
type BLASMatrix struct {
	At        Ptr
	Lead      int32
	Stride    int64
	Transpose bool
}

// BLASProduct is a batch of products C = alpha·A·B + beta·C, where A is M x K, B is K x N,
// after they were transposed, and C is M x N. Sums are of float32, and so are products unless
// the operands are rounded to TF32.
type BLASProduct struct {
	M, N, K, Batch int32
	Type           BLASType
	A, B, C        BLASMatrix
	TF32           bool // for BLASFloat32
}

// PreparedProduct is a product with everything that a call needs; a call costs no
// allocation.
type PreparedProduct struct {
	h    *BLASHandle
	args [23]uintptr
}

// Prepare returns a product that can be put on the stream. alpha and beta are the
// addresses of two float32 outside of Go's heap; they are read when the product is put on
// the stream.
func (h *BLASHandle) Prepare(p *BLASProduct, alpha, beta unsafe.Pointer) *PreparedProduct {
	const (
		computeFloat32 = 68          // CUBLAS_COMPUTE_32F
		computeTF32    = 77          // CUBLAS_COMPUTE_32F_FAST_TF32
		anyAlgorithm   = ^uintptr(0) // CUBLAS_GEMM_DEFAULT
		transposed     = uintptr(1)  // CUBLAS_OP_T
	)
	turned := func(m *BLASMatrix) uintptr {
		if m.Transpose {
			return transposed
		}
		return 0
	}
	t, compute := uintptr(p.Type), uintptr(computeFloat32)
	if p.TF32 {
		compute = computeTF32
	}
	return &PreparedProduct{h, [23]uintptr{
		h.at, turned(&p.A), turned(&p.B), uintptr(p.M), uintptr(p.N), uintptr(p.K), uintptr(alpha),
		uintptr(p.A.At), t, uintptr(p.A.Lead), uintptr(p.A.Stride),
		uintptr(p.B.At), t, uintptr(p.B.Lead), uintptr(p.B.Stride), uintptr(beta),
		uintptr(p.C.At), t, uintptr(p.C.Lead), uintptr(p.C.Stride),
		uintptr(p.Batch), compute, anyAlgorithm,
	}}
}

// Run puts the product on the stream.
func (p *PreparedProduct) Run() error {
	if s := call(p.h.b.entries.GemmStridedBatchedEx, p.args[:]...); s != 0 {
		return checkBLAS("cublasGemmStridedBatchedEx", s)
	}
	return nil
}

// checkBLAS makes an error of a status of cuBLAS that is not success.
func checkBLAS(what string, s Status) error {
	if s == 0 {
		return nil
	}
	names := map[Status]string{
		1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE", 8: "CUBLAS_STATUS_ARCH_MISMATCH",
		11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED", 14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED",
	}
	return &BLASError{Error{Call: what, Status: s, Name: names[s]}}
}

// BLASError is a call of cuBLAS that failed. Its statuses are not those of the driver.
type BLASError struct{ e Error }

func (e *BLASError) Error() string { return e.e.Error() }

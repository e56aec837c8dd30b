package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// pack finds the packed form of one side of a product, from element off of t on,
// where t is constant float32 and memory for it is wanted.
func (c *Call) pack(to *gemm.Packed, from *gemm.Dense, t *Tensor, off, depth int, right bool) bool {
	if !t.Const || from.Format != gemm.Float32 || depth == 0 {
		return false
	}
	m := *from
	m.At = element[float32](t, off)
	bytes, whole := gemm.PackedABytes(m.Len, depth), gemm.PackA
	if right {
		bytes, whole = gemm.PackedBBytes(m.Len, depth), gemm.PackB
	}
	at, ok := c.Runtime.Pack(PackKey{m.At, t.Type, nil, right, m.Len, depth, m.Step, m.Deep}, bytes, func(dst unsafe.Pointer) {
		whole(dst, &m, m.Len, depth)
	})
	*to = gemm.Packed{At: at, K: depth}
	return ok
}

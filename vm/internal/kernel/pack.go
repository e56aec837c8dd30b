package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// pack finds the packed form of one side of a product, from element off of t on,
// where t is constant and memory for it is wanted. Numbers of 16 bits are packed
// as float32 only where the product would read them across: otherwise they are
// widened as they are used, which costs little and needs no memory.
func (c *Invocation) pack(to *gemm.Packed, from *gemm.Dense, t *Tensor, off, depth int, right bool) bool {
	straight := right && from.Step == 1 || !right && from.Deep == 1
	if !t.Const || depth == 0 || from.Format != gemm.Float32 && straight {
		return false
	}
	m := *from
	if t.At != nil {
		m.At = elementAt(t, off, t.width())
	}
	bytes, whole := gemm.PackedABytes(m.Len, depth), gemm.PackA
	if right {
		bytes, whole = gemm.PackedBBytes(m.Len, depth), gemm.PackB
	}
	key := PackKey{At: m.At, Type: t.Type, Right: right, Len: m.Len, K: depth, Step: m.Step, Deep: m.Deep}
	if t.Made != nil {
		key.At, key.Made, key.Off = nil, t.Made, off // it may move
	}
	at, ok := c.Runtime.Pack(key, bytes, func(dst unsafe.Pointer) {
		whole(dst, &m, m.Len, depth, c.Runtime)
		c.poll() // what is half packed is not kept
	})
	*to = gemm.Packed{At: at, K: depth}
	return ok
}

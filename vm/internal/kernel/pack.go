package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// pack finds the packed form of one side of a product, which begins at element off of t. It
// returns false if t is not constant, or if no memory may be used for it. Numbers of 16 bits are
// packed in their own format, which takes no more memory than the constant did: the products
// widen them strip by strip, close to the processor.
func (c *Invocation) pack(to *gemm.Packed, from *gemm.Dense, t *Tensor, off, depth int, right bool) bool {
	return c.packAs(to, from, t, off, depth, right, from.Format)
}

// packWide is pack, as float32, for a right side that products of few rows read many times. 16-bit
// numbers are packed so only if the products would read them across rows. Otherwise they are widened
// when they are used.
func (c *Invocation) packWide(to *gemm.Packed, from *gemm.Dense, t *Tensor, off, depth int) bool {
	if from.Format != gemm.Float32 && from.Step == 1 {
		return false
	}
	return c.packAs(to, from, t, off, depth, true, gemm.Float32)
}

// packAs is pack into strips of the given format: float32, or that of the numbers.
func (c *Invocation) packAs(to *gemm.Packed, from *gemm.Dense, t *Tensor, off, depth int, right bool, format gemm.Format) bool {
	if t.Alike != nil && depth > 0 && format == gemm.Float32 && t.Type == graph.Float32 {
		return c.packAlike(to, t, right)
	}
	if !t.Packs() || depth == 0 {
		return false
	}
	m := *from
	if t.At != nil {
		m.At = elementAt(t, off, t.Width())
	}
	bytes, whole := gemm.PackedABytes(m.Len, depth), gemm.PackA
	if right {
		bytes, whole = gemm.PackedBBytes(m.Len, depth), gemm.PackB
	}
	if format != gemm.Float32 {
		bytes /= 2
		whole = func(dst unsafe.Pointer, _ gemm.Operand, n, k int, run gemm.Packing) gemm.Packed {
			return gemm.PackNarrow(dst, &m, n, k, right, run)
		}
	}
	key := form.PackKey{At: m.At, Type: t.Type, Narrow: format != gemm.Float32, Right: right, Len: m.Len, K: depth, Step: m.Step, Deep: m.Deep, Taps: m.Taps}
	if t.Made != nil {
		key.At, key.Made, key.Off = nil, t.Made, off // its address may change
	}
	at, ok := c.Runtime.Pack(key, bytes, func(dst unsafe.Pointer) {
		whole(dst, &m, m.Len, depth, c.Runtime)
		c.Poll() // a stop discards the half-packed operand
	})
	*to = gemm.Packed{At: at, K: depth, Format: format}
	return ok
}

// packAlike is pack for a tensor whose elements are all alike: one short strip serves in the
// place of every strip, and stays in the first-level cache.
func (c *Invocation) packAlike(to *gemm.Packed, t *Tensor, right bool) bool {
	number := *(*float32)(t.Alike)
	key := form.PackKey{Alike: 1<<32 | uint64(math.Float32bits(number)), Type: t.Type, Right: right}
	at, ok := c.Runtime.Pack(key, gemm.AlikeBytes(right), func(dst unsafe.Pointer) { gemm.PackAlike(dst, number, right) })
	*to = gemm.Packed{At: at, Alike: true}
	return ok
}

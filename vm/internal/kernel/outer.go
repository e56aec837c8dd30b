package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// mostWidened is how many bytes of float32 the operands of a product take that is added up without
// being written.
const mostWidened = 1 << 21

// AddsUp reports whether a node is a sum or mean, which SumOfProduct may compute.
func AddsUp(n *graph.Node) bool {
	k := Lookup(n.Domain, n.Op)
	return k != nil && k.sum != nil
}

// SumOfProduct makes the kernel of node c, a sum or mean of all elements of what another node makes, a
// product of few depths, of 16 bits: it makes the elements in pieces, rounds them, and adds them up. The
// bits are those of the two nodes. It returns nil for others.
func SumOfProduct(product, c *Invocation) Run {
	by := Lookup(product.Node.Domain, product.Node.Op)
	if by == nil || by.sides == nil || !AddsUp(c.Node) || !multipliesHalves(product) {
		return nil
	}
	return Lookup(c.Node.Domain, c.Node.Op).sum.ofProduct(by.sides(product), product, c)
}

// multipliesHalves reports whether the operands of a product are two matrices of 16 bits, to which nothing
// is added.
func multipliesHalves(c *Invocation) bool {
	return !c.Has(2) && len(c.In[0].Shape) == 2 && len(c.In[1].Shape) == 2 && isHalf(c.In[0]) && isHalf(c.In[1]) && isHalf(c.Out[0])
}

// ofProduct is SumOfProduct.
func (r reduction) ofProduct(p *product, product, c *Invocation) Run {
	x, out := c.In[0], c.Out[0]
	if p == nil || p.batches != 1 || p.alpha != 1 || p.bStep != 1 || !isHalf(x) || !isHalf(out) || x.Layout != form.Plain || out.Len() != 1 || p.m*p.n <= mostKept {
		return nil
	}
	room := mul(4, p.k, p.m+p.n)
	if !gemm.IsOuter(p.n, p.k) || room > mostWidened {
		return nil
	}
	wide := c.Shared(room)
	a := gemm.Dense{Len: p.m, Step: p.aStep, Deep: p.aDeep, Format: formatOf(product.In[0].Type)}
	b := gemm.Dense{Len: p.n, Step: p.bStep, Deep: p.bDeep, Format: formatOf(product.In[1].Type)}
	o := &gemm.Outer{Rows: p.m, Columns: p.n, Depth: p.k}
	to := narrowType(x.Type)
	sum := r.inPieces(c, p.m*p.n, 1, func(row []float32, _, _, from int) {
		o.Elements(row, from)
		simd.RoundWide(row, row, to)
	})
	c.by("without the product", nil)
	return func(w *work.Pool) error {
		all := span[float32](w.Shared(wide), room/4)
		left, right := all[:o.Depth*o.Rows], all[o.Depth*o.Rows:]
		a.At, b.At = product.In[0].At, product.In[1].At
		a.Pack(left, o.Rows, 0, 0, o.Depth)
		b.Pack(right, o.Columns, 0, 0, o.Depth)
		o.A, o.B = unsafe.Pointer(unsafe.SliceData(left)), unsafe.Pointer(unsafe.SliceData(right))
		return sum(w)
	}
}

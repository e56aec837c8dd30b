package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// dynamicGroup is a product whose operand is quantized at every run. It is differentiated as if
// that were not rounded (the straight-through estimator: Bengio, Léonard, Courville 2013, section 3).
func dynamicGroup(m *matcher, n *graph.Node) (group, bool) {
	only := func(t ID) *graph.Node {
		if r := m.readers[t]; len(r) == 1 {
			return r[0]
		}
		return nil
	}
	p, ok := ops.DynamicProductOf(n, func(t ID) *graph.Node { return m.maker[t] }, only)
	if !ok {
		return group{}, false
	}
	rest := []ID{p.Weight, p.Scale}
	if p.Zero != graph.None {
		rest = append(rest, p.Zero)
	}
	return group{domain: spelledDomain, op: "DynamicProduct", x: p.X, rest: rest, inner: []*graph.Node{p.Product, p.Cast, p.Scales}, last: p.Last}, true
}

// dynamicGrad is d·Wᵀ, with the weight as reals, which are made for this product alone.
func dynamicGrad(c *Backward) {
	x, w, scale := c.shape(c.X(0)), c.shape(c.X(1)), c.shape(c.X(2))
	if c.err != nil {
		return
	}
	if len(w) != 2 || len(x) < 2 || len(scale) > 1 {
		c.Failf("weight %v and scales %v: expected a matrix, with one scale or one for each column", w, scale)
		return
	}
	in := []ID{c.X(1), c.X(2)}
	if zero := c.X(3); c.present(zero) {
		in = append(in, zero)
	}
	real := c.with("DequantizeLinear", attrs{"axis": 1}, in...)
	d := c.with("Gemm", attrs{"transB": 1}, c.reshape(c.D(0), []int64{elements(x[:len(x)-1]), w[1]}), real)
	c.Set(0, c.reshape(d, x))
}

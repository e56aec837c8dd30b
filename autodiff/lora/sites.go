package lora

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// site is a node beside which an adapter can stand.
type site struct {
	key
	node       *graph.Node    // the operator
	last       *graph.Node    // the node whose result the adapter adds to; mostly the same
	x          graph.TensorID // what the adapter reads
	transposed bool           // it reads x transposed
	in, out    int64
	kernel     []int64       // of a convolution
	attrs      []*graph.Attr // of a convolution: strides and the like
	elem       graph.DType   // in which the model computes there
	module     string

	// How the weight would be merged: W += factor B A, or its transpose, in the initializer.
	// factor is 0 for a quantized weight.
	flipped bool    // the initializer is [in, out]
	factor  float64 // 1 / alpha of a Gemm
}

// key is what sites with one adapter have in common.
type key struct {
	weight graph.TensorID
	kind   Kind
}

// pointwise reports whether a site is a product, or a convolution of 1 x 1.
func (s *site) pointwise() bool {
	return s.kind == Linear || s.kind == Convolution && !slices.ContainsFunc(s.kernel, func(k int64) bool { return k != 1 })
}

type opKey struct{ domain, op string }

// table lists the operators with a constant weight beside which adapters can stand. Each row
// returns the site of a node; nil: there can be none.
var table = map[opKey]func(g *graph.Graph, n *graph.Node) *site{
	{"", "MatMul"}:                   matMulSite,
	{"", "Gemm"}:                     gemmSite,
	{"", "Conv"}:                     convSite,
	{"", "Gather"}:                   gatherSite,
	{"", "MatMulInteger"}:            dynamicSite,
	{"com.microsoft", "MatMulNBits"}: packedSite,
}

// findSites lists the sites of a graph, in the order of its nodes.
func findSites(g *graph.Graph) (list []*site) {
	for _, n := range g.Nodes {
		row := table[opKey{n.Domain, n.Op}]
		if row == nil || len(n.Inputs) < 2 || n.Inputs[0] < 0 || n.Inputs[1] < 0 || len(n.Outputs) == 0 || n.Outputs[0] < 0 {
			continue
		}
		if s := row(g, n); s != nil && s.in > 0 && s.out > 0 && float(s.elem) {
			s.node = n
			if s.last == nil {
				s.last = n
			}
			list = append(list, s)
		}
	}
	nameSites(g, list)
	return list
}

// float reports whether adapters compute in a type.
func float(t graph.DType) bool {
	return t == graph.Float32 || t == graph.Float16 || t == graph.BFloat16 || t == graph.Float64
}

// matrix returns the site of a product by a constant matrix, whose rows are its inputs.
func matrix(g *graph.Graph, t graph.TensorID) *site {
	o, ok := operandOf(g, t)
	if !ok || len(o.shape) != 2 {
		return nil
	}
	s := &site{key: key{o.weight, Linear}, in: o.shape[0], out: o.shape[1], elem: o.elem, flipped: !o.turned, factor: 1}
	if o.quantized {
		s.factor = 0
	}
	return s
}

func matMulSite(g *graph.Graph, n *graph.Node) *site {
	s := matrix(g, n.Inputs[1])
	if s == nil || fixed(g, n.Inputs[0]) {
		return nil
	}
	s.x = n.Inputs[0]
	return s
}

func gemmSite(g *graph.Graph, n *graph.Node) *site {
	s := matMulSite(g, n)
	if s == nil {
		return nil
	}
	if a := n.Attr("transB"); a != nil && a.Int != 0 {
		s.in, s.out, s.flipped = s.out, s.in, !s.flipped
	}
	if a := n.Attr("transA"); a != nil && a.Int != 0 {
		s.transposed = true
	}
	if a := n.Attr("alpha"); a != nil && a.Float != 1 {
		if a.Float == 0 {
			return nil
		}
		s.factor /= float64(a.Float)
	}
	return s
}

func convSite(g *graph.Graph, n *graph.Node) *site {
	o, ok := operandOf(g, n.Inputs[1])
	if group := n.Attr("group"); !ok || len(o.shape) < 3 || o.turned || group != nil && group.Int != 1 {
		return nil
	}
	s := &site{key: key{o.weight, Convolution}, x: n.Inputs[0], in: o.shape[1], out: o.shape[0], kernel: o.shape[2:], elem: o.elem, factor: 1}
	if o.quantized {
		s.factor = 0
	}
	for _, a := range n.Attrs {
		s.attrs = append(s.attrs, a.Clone())
	}
	return s
}

func gatherSite(g *graph.Graph, n *graph.Node) *site {
	o, ok := operandOf(g, n.Inputs[0])
	axis := n.Attr("axis")
	if !ok || len(o.shape) != 2 || o.turned || axis != nil && axis.Int != 0 || fixed(g, n.Inputs[1]) {
		return nil
	}
	s := &site{key: key{o.weight, Embedding}, x: n.Inputs[1], in: o.shape[0], out: o.shape[1], elem: o.elem, factor: 1, flipped: true}
	if o.quantized {
		s.factor = 0
	}
	return s
}

// packedSite is that of a product by weights of few bits. Its scales have the type of its input.
func packedSite(g *graph.Graph, n *graph.Node) *site {
	k, rows := n.Attr("K"), n.Attr("N")
	if k == nil || rows == nil || len(n.Inputs) < 3 || n.Inputs[2] < 0 || g.Tensors[n.Inputs[1]].Data == nil || g.Tensors[n.Inputs[2]].Data == nil {
		return nil
	}
	return &site{key: key{n.Inputs[1], Linear}, x: n.Inputs[0], in: k.Int, out: rows.Int, elem: g.Tensors[n.Inputs[2]].Data.Type}
}

// dynamicSite is that of a product whose other operand is quantized at every run: the adapter reads
// it as it is before, and adds to the scaled result.
func dynamicSite(g *graph.Graph, n *graph.Node) *site {
	maker := func(t graph.TensorID) *graph.Node {
		if t < 0 || g.Tensors[t].Maker < 0 {
			return nil
		}
		return g.Nodes[g.Tensors[t].Maker]
	}
	reader := func(t graph.TensorID) *graph.Node {
		if r := g.Tensors[t].Readers; len(r) == 1 && !g.Tensors[t].Output {
			return g.Nodes[r[0]]
		}
		return nil
	}
	p, ok := ops.DynamicProductOf(n, maker, reader)
	if !ok || g.Tensors[p.Weight].Data == nil || fixed(g, p.X) || len(g.Tensors[p.Weight].Data.Dims) != 2 {
		return nil
	}
	dims := g.Tensors[p.Weight].Data.Dims
	return &site{key: key{p.Weight, Linear}, x: p.X, last: p.Last, in: dims[0], out: dims[1], elem: graph.Float32}
}

// fixed reports whether a tensor is an initializer.
func fixed(g *graph.Graph, t graph.TensorID) bool { return g.Tensors[t].Data != nil }

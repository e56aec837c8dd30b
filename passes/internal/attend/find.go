package attend

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// none is no tensor.
const none = graph.TensorID(graph.None)

// finder looks for attention in a graph.
type finder struct {
	g       *graph.Graph
	version int64 // of ai.onnx
	values  []*ops.Value
	maker   []*graph.Node
	readers [][]*graph.Node // nil stands for a reader outside
	kept    map[string]int
}

// attention is a group of nodes that compute it.
type attention struct {
	softmax, last *graph.Node // last: the product with the values
	inner         []*graph.Node
	q, k, v       graph.TensorID // as the products read them; k is [..., size, keys]
	scale         float64
	factors       []factor // of scores, whose numbers are not known, from the product outwards
	masks         []mask   // from the product outwards
	lead          []int64  // axes of scores before those of queries and keys: batch and heads
	wide          bool     // scores of 16 bits are float32 in the Softmax
}

// factor is a Mul, or a Div, by a tensor of one element.
type factor struct {
	op string
	by graph.TensorID
}

func newFinder(m *graph.Model, values []*ops.Value) *finder {
	g := m.Graph
	f := &finder{g: g, version: m.Opset(""), values: values, kept: map[string]int{}}
	f.maker, f.readers = make([]*graph.Node, len(g.Tensors)), make([][]*graph.Node, len(g.Tensors))
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				f.maker[t] = n
			}
		}
		n.Reads(func(t graph.TensorID) { f.readers[t] = append(f.readers[t], n) })
	}
	for _, t := range g.Outputs {
		f.readers[t] = append(f.readers[t], nil)
	}
	return f
}

// all returns every attention that can be replaced, in the order of the graph, and counts the others.
func (f *finder) all() (list []*attention) {
	clear(f.kept)
	for _, n := range f.g.Nodes {
		if n.Op != "Softmax" || n.Domain != "" || !f.exact(n.Inputs[0]) {
			continue
		}
		a := &attention{softmax: n, scale: 1, inner: []*graph.Node{n}}
		if !f.weights(a) {
			continue
		}
		why := f.scores(a)
		if why == "" {
			why = f.fits(a)
		}
		if why != "" {
			f.kept[why]++
			continue
		}
		list = append(list, a)
	}
	return list
}

// weights goes from the Softmax to the product with the values; it returns false if that is no attention.
func (f *finder) weights(a *attention) bool {
	p := a.softmax.Outputs[0]
	shape := f.shape(p)
	if len(shape) < 3 || !f.alongLast(a.softmax, len(shape)) || len(a.softmax.Outputs) != 1 {
		return false
	}
	for range 8 {
		if isNaN, last := f.replacedNaN(p); last != nil {
			a.inner, p = append(a.inner, isNaN, last), last.Outputs[0]
			continue
		}
		n := f.onlyReader(p)
		if n == nil || n.Domain != "" {
			return false
		}
		switch n.Op {
		case "MatMul":
			a.last, a.v = n, n.Inputs[1]
			return n.Inputs[0] == p && n.Inputs[1] != p
		}
		if !f.passes(n, p) {
			return false
		}
		a.inner, p = append(a.inner, n), n.Outputs[0]
	}
	return false
}

// passes reports whether a node only hands on scores or weights: in another type, or with other axes
// before those of queries and keys.
func (f *finder) passes(n *graph.Node, t graph.TensorID) bool {
	if n.Domain != "" || len(n.Outputs) == 0 || n.Inputs[0] != t || !f.exact(n.Outputs[0]) {
		return false
	}
	switch n.Op {
	case "Cast":
		return f.elem(n.Outputs[0]).Floating()
	case "Identity":
		return true
	case "Dropout":
		return f.drops(n) == 0
	case "Reshape":
		from, to := f.shape(t), f.shape(n.Outputs[0])
		return len(to) >= 3 && len(from) >= 3 && slices.Equal(from[len(from)-2:], to[len(to)-2:])
	}
	return false
}

// drops is the share of elements that a Dropout drops in inference.
func (f *finder) drops(n *graph.Node) float64 {
	if len(n.Inputs) > 2 && n.Inputs[2] >= 0 {
		if v, known := f.number(n.Inputs[2]); !known || v != 0 {
			return 1
		}
	}
	if len(n.Outputs) > 1 && n.Outputs[1] >= 0 && len(f.readers[n.Outputs[1]]) > 0 {
		return 1
	}
	return 0
}

// scores goes from the Softmax to the product of queries and keys.
func (f *finder) scores(a *attention) (why string) {
	const unknown = "their scores are made in a form that is not known"
	t := a.softmax.Inputs[0]
	last := f.shape(t)[len(f.shape(t))-2:]
	first := f.elem(t)
	for range 16 {
		n := f.maker[t]
		if n == nil || n.Domain != "" || len(n.Inputs) == 0 || !f.exact(t) {
			return unknown
		}
		a.inner = append(a.inner, n)
		if s := f.shape(t); len(s) == 4 && a.lead == nil {
			a.lead = s[:2]
		}
		next, ok := none, true
		switch n.Op {
		case "MatMul":
			a.q, a.k = n.Inputs[0], n.Inputs[1]
			a.wide = first == graph.Float32 && f.elem(t) != graph.Float32
			slices.Reverse(a.masks)
			slices.Reverse(a.factors)
			return ""
		case "Add", "Where":
			if a.scale != 1 || len(a.factors) > 0 {
				return "their scores are scaled behind the mask"
			}
			var m mask
			if next, m, ok = f.masked(n, last); ok {
				a.masks = append(a.masks, m)
			}
		case "Mul", "Div":
			var by float64
			if next, by, ok = f.scaled(n); ok {
				a.scale *= by
				break
			}
			var x factor
			if next, x, ok = f.factor(n); ok {
				a.factors = append(a.factors, x)
			}
		default:
			if ok = f.passes(n, n.Inputs[0]); ok {
				next = n.Inputs[0]
			}
		}
		if !ok || !f.exact(next) || len(f.shape(next)) < 3 || !slices.Equal(f.shape(next)[len(f.shape(next))-2:], last) {
			return unknown
		}
		t = next
	}
	return unknown
}

// scaled returns what a product with a known number, or a quotient by one, scales.
func (f *finder) scaled(n *graph.Node) (t graph.TensorID, by float64, ok bool) {
	divides, is := arithmetic(n)
	for k := 1; is && k >= 0; k-- {
		v, known := f.number(n.Inputs[k])
		if !known || k == 0 && divides || !f.alike(n.Inputs[1-k], n.Outputs[0]) {
			continue
		}
		if divides {
			v = 1 / v
		}
		return n.Inputs[1-k], v, v != 0 && !math.IsInf(v, 0) && !math.IsNaN(v)
	}
	return none, 0, false
}

// arithmetic reports whether a node is a product or a quotient of two tensors.
func arithmetic(n *graph.Node) (divides, ok bool) {
	switch n.Op {
	case "Mul":
		return false, n.Domain == "" && len(n.Inputs) == 2
	case "Div":
		return true, n.Domain == "" && len(n.Inputs) == 2
	}
	return false, false
}

// factor returns what a node multiplies by a tensor of one element, or divides by one, of any number.
func (f *finder) factor(n *graph.Node) (t graph.TensorID, x factor, ok bool) {
	divides, is := arithmetic(n)
	for k := 1; is && k >= 0; k-- {
		by := n.Inputs[k]
		one := f.exact(by) && product(f.shape(by)) == 1 && f.elem(by) == f.elem(n.Outputs[0])
		if one && (k == 1 || !divides) && f.alike(n.Inputs[1-k], n.Outputs[0]) {
			return n.Inputs[1-k], factor{n.Op, by}, true
		}
	}
	return none, x, false
}

// replacedNaN returns the two nodes that replace the NaN of weights by 0, nil if there are none.
func (f *finder) replacedNaN(t graph.TensorID) (isNaN, last *graph.Node) {
	r := f.readers[t]
	if len(r) != 2 || r[0] == nil || r[1] == nil {
		return nil, nil
	}
	isNaN, last = r[0], r[1]
	switch isNaN.Op {
	case "Where":
		isNaN, last = last, isNaN
	}
	if isNaN.Op != "IsNaN" || isNaN.Domain != "" || last.Op != "Where" || last.Domain != "" || len(last.Inputs) != 3 ||
		last.Inputs[0] != isNaN.Outputs[0] || last.Inputs[2] != t || f.onlyReader(isNaN.Outputs[0]) != last {
		return nil, nil
	}
	if zero, known := f.number(last.Inputs[1]); !known || zero != 0 || !f.alike(last.Outputs[0], t) {
		return nil, nil
	}
	return isNaN, last
}

// alongLast reports whether a Softmax is along the last axis alone.
func (f *finder) alongLast(n *graph.Node, rank int) bool {
	axis := int64(-1)
	if f.version < 13 {
		axis = 1
	}
	if at := n.Attr("axis"); at != nil {
		axis = at.Int
	}
	return axis == -1 || axis == int64(rank)-1
}

// onlyReader returns the node that reads a tensor, if it is the only reader.
func (f *finder) onlyReader(t graph.TensorID) *graph.Node {
	r := f.readers[t]
	if len(r) == 0 || slices.ContainsFunc(r, func(n *graph.Node) bool { return n == nil || n != r[0] }) {
		return nil
	}
	return r[0]
}

// number is the one element of a constant, before casts.
func (f *finder) number(t graph.TensorID) (float64, bool) {
	for range 4 {
		if t < 0 {
			return 0, false
		}
		if int(t) < len(f.values) {
			if list, ok := f.values[t].Floats(); ok && len(list) == 1 && f.elem(t).Floating() {
				return list[0], true
			}
			if list, ok := f.values[t].Ints(); ok && len(list) == 1 {
				return float64(list[0]), true
			}
		}
		n := f.maker[t]
		if n == nil || !ops.Casts(n) {
			return 0, false
		}
		t = n.Inputs[0]
	}
	return 0, false
}

func (f *finder) elem(t graph.TensorID) graph.DType { return f.g.Tensors[t].Type.Elem }

func (f *finder) exact(t graph.TensorID) bool { return t >= 0 && f.g.Tensors[t].Type.Exact() }

// shape is that of a tensor with exact lengths.
func (f *finder) shape(t graph.TensorID) []int64 {
	s := make([]int64, len(f.g.Tensors[t].Type.Shape))
	for i, d := range f.g.Tensors[t].Type.Shape {
		s[i] = int64(d)
	}
	return s
}

// alike reports whether two tensors have one shape.
func (f *finder) alike(t, u graph.TensorID) bool {
	return f.exact(t) && f.exact(u) && slices.Equal(f.shape(t), f.shape(u))
}

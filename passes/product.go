package passes

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// product is a node of the main graph that multiplies by a transposed matrix: with
// FoldAny a Gemm reads the constant as it lies.
type product struct {
	node      *graph.Node // MatMul or Gemm
	transpose *graph.Node
	result    *graph.Tensor
	weight    *graph.Tensor // before it is transposed
	left      bool          // it is the first operand, not the second
}

// minGemm is the first opset in which Gemm may leave out its third input.
const minGemm = 11

// products finds the products of a model whose types have been inferred. Transposes
// that may be folded at no cost, or that other nodes read, too, are left out.
func (s *State) products(m *graph.Model, all []*component) []product {
	if s.opt.NoViews || m.Opset("") < minGemm {
		return nil
	}
	free := map[*graph.Node]bool{}
	for _, c := range all {
		for _, n := range c.nodes {
			free[n.n] = c.grows(s.round) <= 0
		}
	}
	g := m.Graph
	var list []product
	taken := map[*graph.Node]bool{} // with its other operand
	for _, n := range g.Nodes {
		if n.Domain != "" || n.Op != "Transpose" || free[n] || !swapsTwo(g, n) {
			continue
		}
		t, w := g.Tensors[n.Outputs[0]], g.Tensors[n.Inputs[0]]
		if t.Output || !isConstant(g, w) {
			continue
		}
		readers := make([]product, 0, len(t.Readers))
		for _, r := range t.Readers {
			p := g.Nodes[r]
			if left, ok := multiplies(g, p, n.Outputs[0]); ok && !taken[p] {
				readers = append(readers, product{p, n, g.Tensors[p.Outputs[0]], w, left})
			}
		}
		if len(readers) < len(t.Readers) {
			continue
		}
		for _, p := range readers {
			taken[p.node] = true
			list = append(list, p)
		}
	}
	return list
}

// isConstant reports whether a tensor is an initializer or stands in a Constant node.
func isConstant(g *graph.Graph, t *graph.Tensor) bool {
	return t.Data != nil || t.Maker >= 0 && ops.IsConstant(g.Nodes[t.Maker])
}

// swapsTwo reports whether a node transposes a floating-point matrix.
func swapsTwo(g *graph.Graph, n *graph.Node) bool {
	if !n.Semantics.Known || n.Semantics.Call != nil || len(n.Inputs) != 1 || len(n.Outputs) != 1 || n.Inputs[0] < 0 || n.Outputs[0] < 0 {
		return false
	}
	a := n.Attr("perm")
	typ := g.Tensors[n.Inputs[0]].Type
	return typ.Ranked && len(typ.Shape) == 2 && (typ.Elem == graph.Float32 || typ.Elem == graph.Float64 || typ.Elem == graph.Float16) &&
		(a == nil || slices.Equal(a.Ints, []int64{1, 0}))
}

// multiplies reports whether a node multiplies by tensor t, so that a Gemm may take its
// place: all lengths are known, and none is 0. left says that t is the first operand; the
// second then has two axes, since a Gemm has no batches of those.
func multiplies(g *graph.Graph, n *graph.Node, t graph.TensorID) (left, ok bool) {
	if n.Domain != "" || !n.Semantics.Known || n.Semantics.Call != nil || len(n.Inputs) < 2 || n.Inputs[0] == n.Inputs[1] || n.Inputs[0] < 0 || n.Inputs[1] < 0 || n.Outputs[0] < 0 {
		return false, false
	}
	other := n.Inputs[0]
	if left = other == t; left {
		other = n.Inputs[1]
	} else if n.Inputs[1] != t {
		return false, false
	}
	if n.Op == "Gemm" {
		return left, len(n.Inputs) < 3 || n.Inputs[2] != t
	}
	x := g.Tensors[other].Type
	return left, n.Op == "MatMul" && x.Ranked && (len(x.Shape) == 2 || len(x.Shape) > 2 && !left) &&
		!slices.ContainsFunc(x.Shape, func(d graph.Dim) bool { return !d.Exact() || d == 0 })
}

// multiply replaces products in a copy of the model, which it returns, by Gemms between
// Reshapes. It returns the names of the results. open says that the lengths of the
// model's inputs are open in the file: then nodes compute the shape of the result.
func (s *State) multiply(m *graph.Model, list []product, open bool) (*graph.Model, []foldedProduct) {
	at := map[*graph.Node]int{}
	for i, n := range m.Graph.Nodes {
		at[n] = i
	}
	c := *m
	c.Graph = m.Graph.Clone()
	g := c.Graph
	r := &rewriter{g: g, names: map[string]bool{}, version: m.Opset(""), open: open}
	noteNames(g, r.names)
	replaced, gone := map[*graph.Node][]*graph.Node{}, map[*graph.Node]bool{}
	var done []foldedProduct
	for _, p := range list {
		n := g.Nodes[at[p.node]]
		transpose := g.Nodes[at[p.transpose]]
		replaced[n] = r.gemm(n, transpose.Inputs[0], p.left)
		gone[transpose] = true
		done = append(done, foldedProduct{p.result.Name, g.Tensors[transpose.Outputs[0]].Name})
	}
	var nodes []*graph.Node
	dead := map[graph.TensorID]bool{}
	for _, n := range g.Nodes {
		switch {
		case gone[n]:
			dead[n.Outputs[0]] = true
		case replaced[n] != nil:
			nodes = append(nodes, replaced[n]...)
		default:
			nodes = append(nodes, n)
		}
	}
	g.Nodes = nodes
	g.DropTensors(func(t graph.TensorID) bool { return dead[t] })
	g.Link()
	return &c, done
}

// foldedProduct is a product whose second operand is no longer transposed.
type foldedProduct struct{ result, transposed string }

// rewriter adds nodes to a graph.
type rewriter struct {
	g       *graph.Graph
	names   map[string]bool
	version int64
	open    bool
	nodes   []*graph.Node // in the place of the present product
}

// gemm returns the nodes in the place of a product by the transposed of w.
func (r *rewriter) gemm(n *graph.Node, w graph.TensorID, left bool) []*graph.Node {
	r.nodes = nil
	operand, trans := 1, "transB"
	if left {
		operand, trans = 0, "transA"
	}
	if n.Op == "Gemm" {
		m := *n
		m.Span = graph.Span{}
		m.Inputs = slices.Clone(n.Inputs)
		m.Inputs[operand] = w
		old := int64(0)
		m.Attrs = nil
		for _, a := range n.Attrs {
			if a.Name == trans {
				old = a.Int
			} else {
				m.Attrs = append(m.Attrs, a)
			}
		}
		m.Attrs = append(m.Attrs, intAttr(trans, 1-min(old*old, 1)))
		return []*graph.Node{&m}
	}
	x, y := n.Inputs[0], n.Outputs[0]
	if left {
		return []*graph.Node{{Name: n.Name, Op: "Gemm", Inputs: []graph.TensorID{w, n.Inputs[1]}, Outputs: []graph.TensorID{y}, Attrs: []*graph.Attr{intAttr(trans, 1)}, Props: n.Props}}
	}
	name := r.g.Tensors[y].Name
	shape := r.g.Tensors[x].Type.Shape
	rank := len(shape)
	if rank == 2 {
		return []*graph.Node{{Name: n.Name, Op: "Gemm", Inputs: []graph.TensorID{x, w}, Outputs: []graph.TensorID{y}, Attrs: []*graph.Attr{intAttr("transB", 1)}, Props: n.Props}}
	}
	rows := r.node("Reshape", name+".rows", nil, x, r.ints(name+".rows.shape", -1, int64(shape[rank-1])))
	z := r.node("Gemm", name+".product", []*graph.Attr{intAttr("transB", 1)}, rows, w)
	columns := int64(r.g.Tensors[w].Type.Shape[0])
	var to graph.TensorID
	if r.open {
		var lead graph.TensorID
		if r.version >= 15 {
			lead = r.node("Shape", name+".lead", []*graph.Attr{intAttr("end", -1)}, x)
		} else {
			lead = r.node("Slice", name+".lead", nil, r.node("Shape", name+".lengths", nil, x),
				r.ints(name+".from", 0), r.ints(name+".to", int64(rank-1)))
		}
		to = r.node("Concat", name+".shape", []*graph.Attr{intAttr("axis", 0)}, lead, r.ints(name+".columns", columns))
	} else {
		lengths := []int64{}
		for _, d := range shape[:rank-1] {
			lengths = append(lengths, int64(d))
		}
		to = r.ints(name+".shape", append(lengths, columns)...)
	}
	r.nodes = append(r.nodes, &graph.Node{Name: n.Name, Op: "Reshape", Inputs: []graph.TensorID{z, to}, Outputs: []graph.TensorID{y}})
	return r.nodes
}

func intAttr(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

// tensor adds a tensor with a name like that.
func (r *rewriter) tensor(name string) graph.TensorID {
	unique := name
	for k := 2; r.names[unique]; k++ {
		unique = fmt.Sprintf("%s.%d", name, k)
	}
	r.names[unique] = true
	return r.g.NewTensor(unique)
}

// node adds a node and returns its output.
func (r *rewriter) node(op, name string, attrs []*graph.Attr, in ...graph.TensorID) graph.TensorID {
	out := r.tensor(name)
	r.nodes = append(r.nodes, &graph.Node{Name: r.g.Tensors[out].Name, Op: op, Inputs: in, Outputs: []graph.TensorID{out}, Attrs: attrs})
	return out
}

// ints adds an initializer.
func (r *rewriter) ints(name string, v ...int64) graph.TensorID {
	id := r.tensor(name)
	raw := []byte{}
	for _, k := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(k))
	}
	r.g.Tensors[id].Data = &graph.Data{Name: r.g.Tensors[id].Name, Type: graph.Int64, Dims: []int64{int64(len(v))}, Raw: raw, Bytes: int64(len(raw))}
	return id
}

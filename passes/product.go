package passes

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// product is a node that multiplies by a transposed matrix: with FoldAny a Gemm reads the
// constant as it lies.
type product struct {
	in        int         // the place of its graph in the list of graphsIn
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
	var list []product
	constants := map[*graph.Graph][]bool{}
	for in, e := range graphsIn(m.Graph) {
		constants[e.g] = constantsOf(e.g, constants[e.outer])
		list = append(list, productsOf(in, e.g, constants[e.g], free, m.IRVersion >= initializersInBodies || e.outer == nil)...)
	}
	return list
}

// initializersInBodies is the first IR version in which a body may have initializers.
const initializersInBodies = 4

// nested is a graph with the one that it stands in, nil for the main graph.
type nested struct{ g, outer *graph.Graph }

// graphsIn lists a graph and, after it, the bodies in it. A clone has the same list.
func graphsIn(g *graph.Graph) []nested {
	list := []nested{{g, nil}}
	for i := 0; i < len(list); i++ {
		for _, n := range list[i].g.Nodes {
			for _, b := range bodiesOf(n) {
				list = append(list, nested{b, list[i].g})
			}
		}
	}
	return list
}

// constantsOf reports for each tensor of a graph whether it is an initializer, stands in a
// Constant node, or is captured from such a tensor of the outer graph.
func constantsOf(g *graph.Graph, outer []bool) []bool {
	list := make([]bool, len(g.Tensors))
	for id, t := range g.Tensors {
		list[id] = t.Data != nil && !t.Capture || t.Maker >= 0 && ops.IsConstant(g.Nodes[t.Maker])
	}
	for _, c := range g.Captures {
		list[c.Inner] = outer[c.Outer]
	}
	return list
}

// productsOf finds the products of one graph, without its bodies. shapes says that it may
// have initializers, which products of more than two axes need.
func productsOf(in int, g *graph.Graph, constants []bool, free map[*graph.Node]bool, shapes bool) []product {
	var list []product
	taken := map[*graph.Node]bool{} // with its other operand
	for _, n := range g.Nodes {
		if n.Domain != "" || n.Op != "Transpose" || free[n] || !swapsTwo(g, n) {
			continue
		}
		t := g.Tensors[n.Outputs[0]]
		if t.Output || !constants[n.Inputs[0]] {
			continue
		}
		readers := make([]product, 0, len(t.Readers))
		for _, r := range t.Readers {
			p := g.Nodes[r]
			left, ok := multiplies(g, p, n.Outputs[0])
			if ok && !taken[p] && (shapes || len(g.Tensors[p.Outputs[0]].Type.Shape) == 2) {
				readers = append(readers, product{in, p, n, g.Tensors[p.Outputs[0]], g.Tensors[n.Inputs[0]], left})
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
// Reshapes. It returns the names of the results. open says that lengths of tensors are open
// in the file, because those of the model's inputs are, or follow from the value of an
// input: then nodes compute the shape of the result.
func (s *State) multiply(m *graph.Model, list []product, open bool) (*graph.Model, []foldedProduct) {
	c := *m
	c.Graph = m.Graph.Clone()
	from, to := graphsIn(m.Graph), graphsIn(c.Graph)
	r := &rewriter{names: map[string]bool{}, version: m.Opset(""), open: open}
	noteNames(c.Graph, r.names)
	var done []foldedProduct
	for first := 0; first < len(list); {
		in, next := list[first].in, first
		for next < len(list) && list[next].in == in {
			next++
		}
		r.g = to[in].g
		done = append(done, r.replace(from[in].g, in, list[first:next])...)
		first = next
	}
	return &c, done
}

// replace replaces the products of the graph, a copy of from.
func (r *rewriter) replace(from *graph.Graph, in int, list []product) (done []foldedProduct) {
	at := map[*graph.Node]int{}
	for i, n := range from.Nodes {
		at[n] = i
	}
	g := r.g
	replaced, gone := map[*graph.Node][]*graph.Node{}, map[*graph.Node]bool{}
	for _, p := range list {
		n := g.Nodes[at[p.node]]
		transpose := g.Nodes[at[p.transpose]]
		replaced[n] = r.gemm(n, transpose.Inputs[0], p.left)
		gone[transpose] = true
		done = append(done, foldedProduct{in: in, result: p.result.Name, transposed: g.Tensors[transpose.Outputs[0]].Name})
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
	return done
}

// foldedProduct is a product one of whose operands is no longer transposed.
type foldedProduct struct {
	in                 int          // the place of its graph in the list of graphsIn
	g                  *graph.Graph // that graph, once the model stays as it is
	result, transposed string
}

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

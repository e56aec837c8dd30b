package folding

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// minGemm is the first opset in which Gemm may leave out its third input.
const minGemm = 11

// Products finds the products of a model whose types have been inferred. Transposes
// that may be folded at no cost, or that other nodes read, too, are left out.
func (f *Folder) Products(m *graph.Model, all []*Component) []Product {
	if f.NoViews || f.Runtime != "" || m.Opset("") < minGemm {
		return nil
	}
	free := map[*graph.Node]bool{}
	for _, c := range all {
		for _, n := range c.nodes {
			free[n.n] = c.grows(f.Round) <= 0
		}
	}
	x := productFinder{graphs: GraphsIn(m.Graph), index: map[*graph.Graph]int{}, taken: map[*graph.Node]bool{}, shapes: m.IRVersion >= initializersInBodies}
	for i, e := range x.graphs {
		x.index[e.G] = i
	}
	var list []Product
	constants := map[*graph.Graph][]bool{}
	for from, e := range x.graphs {
		constants[e.G] = constantsOf(e.G, constants[e.outer])
		for _, n := range e.G.Nodes {
			if !ops.Permutes(n) || free[n] || !swapsTwo(e.G, n) {
				continue
			}
			w := e.G.Tensors[n.Inputs[0]]
			t := Product{from: from, transpose: n, weight: w, fixed: constants[e.G][n.Inputs[0]] || w.Input && w.Declared != nil && w.Declared.Type.Exact()}
			if readers, all := x.readers(from, n.Outputs[0], t); all {
				list = append(list, readers...)
				for _, p := range readers {
					x.taken[p.node] = true
				}
			}
		}
	}
	return list
}

// initializersInBodies is the first IR version in which a body may have initializers.
const initializersInBodies = 4

// Nested is a graph with the one that it stands in, nil for the main graph.
type Nested struct{ G, outer *graph.Graph }

// GraphsIn lists a graph and, after it, the bodies in it. A clone has the same list.
func GraphsIn(g *graph.Graph) []Nested {
	list := []Nested{{g, nil}}
	for i := 0; i < len(list); i++ {
		for _, n := range list[i].G.Nodes {
			for _, b := range bodiesOf(n) {
				list = append(list, Nested{b, list[i].G})
			}
		}
	}
	return list
}

// PathsIn returns a name for each graph in a graph: "" for that itself, and for a body the
// first output of its node and its place there, behind those of the graphs around it. So a
// body has the same name in a copy of the graph whose other nodes were changed.
func PathsIn(g *graph.Graph) map[*graph.Graph]string {
	paths := map[*graph.Graph]string{g: ""}
	for _, x := range GraphsIn(g) {
		for _, n := range x.G.Nodes {
			for k, b := range bodiesOf(n) {
				name := ""
				for _, t := range n.Outputs {
					if t >= 0 && name == "" {
						name = x.G.Tensors[t].Name
					}
				}
				paths[b] = fmt.Sprintf("%s%s\x00%d\x00", paths[x.G], name, k)
			}
		}
	}
	return paths
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

// productFinder finds the products by a transposed constant.
type productFinder struct {
	graphs []Nested
	index  map[*graph.Graph]int
	taken  map[*graph.Node]bool // with their other operand
	shapes bool                 // bodies may have initializers, which products of more than two axes need
}

// readers returns the products by a tensor of a graph, in that graph and in the bodies
// that capture the tensor. all says that nothing else reads it, and that all of these can
// read the constant.
func (f *productFinder) readers(in int, id graph.TensorID, of Product) (list []Product, all bool) {
	g := f.graphs[in].G
	t := g.Tensors[id]
	if t.Output {
		return nil, false
	}
	for _, r := range t.Readers {
		n := g.Nodes[r]
		if slices.Contains(n.Inputs, id) {
			p := of
			p.in, p.node = in, n
			if p.left, all = multiplies(g, n, id); !all || f.taken[n] || g.NeverRuns != "" {
				return nil, false
			}
			p.result = g.Tensors[n.Outputs[0]]
			if !p.fixed && len(p.result.Type.Shape) > 2 {
				return nil, false // the shape of the result would have to be computed
			}
			if in > 0 && !f.shapes && len(p.result.Type.Shape) > 2 {
				return nil, false
			}
			list = append(list, p)
			continue
		}
		for _, b := range bodiesOf(n) {
			for _, c := range b.Captures {
				if c.Outer != id {
					continue
				}
				if slices.ContainsFunc(b.Tensors, func(u *graph.Tensor) bool { return u.Name == of.weight.Name && !u.Capture }) {
					return nil, false // the body would read that one
				}
				more, all := f.readers(f.index[b], c.Inner, of)
				if !all {
					return nil, false
				}
				list = append(list, more...)
			}
		}
	}
	return list, true
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

// Multiply replaces products in a copy of the model, which it returns, by Gemms between
// Reshapes. It returns the names of the results. open says that lengths of tensors are open
// in the file, because those of the model's inputs are, or follow from the value of an
// input: then nodes compute the shape of the result.
func Multiply(m *graph.Model, list []Product, open bool) (*graph.Model, []FoldedProduct) {
	c := *m
	c.Graph = m.Graph.Clone()
	old, graphs := GraphsIn(m.Graph), GraphsIn(c.Graph)
	r := &rewriter{names: map[string]bool{}, version: m.Opset(""), open: open}
	noteNames(c.Graph, r.names)
	copies := map[*graph.Node]*graph.Node{}
	outer := map[*graph.Graph]*graph.Graph{}
	for i, e := range graphs {
		outer[e.G] = e.outer
		for k, n := range e.G.Nodes {
			copies[old[i].G.Nodes[k]] = n
		}
	}
	w := &sweeper{nodes: map[*graph.Node]bool{}, tensors: map[*graph.Tensor]bool{}, views: map[*graph.Node][]*graph.Node{}}
	var done []FoldedProduct
	for _, p := range list {
		from, n, transpose := graphs[p.from].G, copies[p.node], copies[p.transpose]
		r.g = graphs[p.in].G
		w.views[n] = r.gemm(n, captured(r.g, from, transpose.Inputs[0], outer), p.left)
		t := from.Tensors[transpose.Outputs[0]]
		w.nodes[n], w.nodes[transpose], w.tensors[t] = true, true, true
		done = append(done, FoldedProduct{In: p.in, Result: p.result.Name, Transposed: t.Name})
	}
	w.graph(c.Graph)
	return &c, done
}

// captured returns the tensor of g that stands for one of an outer graph, or of g itself.
// Bodies between the two capture it from now on.
func captured(g, from *graph.Graph, id graph.TensorID, outer map[*graph.Graph]*graph.Graph) graph.TensorID {
	if g == from {
		return id
	}
	id = captured(outer[g], from, id, outer)
	for _, c := range g.Captures {
		if c.Outer == id {
			return c.Inner
		}
	}
	t := outer[g].Tensors[id]
	inner := g.NewTensor(t.Name)
	g.Tensors[inner].Capture, g.Tensors[inner].Type = true, t.Type
	g.Captures = append(g.Captures, graph.Capture{Inner: inner, Outer: id})
	return inner
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

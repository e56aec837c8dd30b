package autodiff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// fusedDomain is the domain of the functions that compute gradients.
const fusedDomain = graph.SwapDomain

// fuser collects the functions of a graph. Calls with equal bodies share one
// function.
type fuser struct {
	functions []*graph.Function
	byBody    map[string]*graph.Function
	names     map[string]int
}

// fusedConstants is the largest number of elements of a constant within a
// function body; a larger constant is an input of the function.
const fusedConstants = 64

// emitGradient emits the gradient of c's node by its rule; a gradient of several nodes
// becomes calls of functions. Parts that share no tensor become separate calls:
// the gradients of a convolution's input and of its weights are needed, and
// freed, at different times.
func (t *tape) emitGradient(c *Backward) {
	if t.fuse == nil || !c.rule.Fused {
		c.rule.Grad(c)
		return
	}
	first := len(t.g.Nodes)
	c.rule.Grad(c)
	if t.err != nil {
		return
	}
	nodes := slices.Clone(t.g.Nodes[first:])
	t.g.Nodes = t.g.Nodes[:first]
	put := func(n *graph.Node) { t.g.Nodes = append(t.g.Nodes, n) }
	for _, part := range connected(nodes) {
		part = leadingTo(part, c.grads)
		if len(part) < 2 {
			for _, n := range part {
				put(n)
			}
			continue
		}
		put(t.fused(c, part))
	}
}

// connected splits the nodes into groups that share no tensors, in the order of
// their first nodes.
func connected(nodes []*graph.Node) [][]*graph.Node {
	part := make([]int, len(nodes)) // the smallest index of a node in the same group
	maker := map[ID]int{}
	for i, n := range nodes {
		part[i] = i
		for _, t := range n.Inputs {
			m, made := maker[t]
			if !made || part[m] == part[i] {
				continue
			}
			low, high := min(part[m], part[i]), max(part[m], part[i])
			for k := range i + 1 {
				if part[k] == high {
					part[k] = low
				}
			}
		}
		for _, t := range n.Outputs {
			maker[t] = i
		}
	}
	var list [][]*graph.Node
	at := map[int]int{}
	for i, n := range nodes {
		k, there := at[part[i]]
		if !there {
			k = len(list)
			at[part[i]] = k
			list = append(list, nil)
		}
		list[k] = append(list[k], n)
	}
	return list
}

// leadingTo keeps the nodes on which some of the tensors depend.
func leadingTo(nodes []*graph.Node, to []ID) []*graph.Node {
	needed := map[ID]bool{}
	for _, t := range to {
		needed[t] = t != graph.None
	}
	var kept []*graph.Node
	for _, n := range slices.Backward(nodes) {
		if slices.ContainsFunc(n.Outputs, func(t ID) bool { return needed[t] }) {
			kept = append(kept, n)
			for _, t := range n.Inputs {
				needed[t] = t != graph.None
			}
		}
	}
	slices.Reverse(kept)
	return kept
}

// fused returns a call of a function whose body is the nodes. Its inputs are the
// inputs of the forward node, its outputs and their gradients, "" if the body
// does not read one, then large constants. Its outputs are the gradients of the
// forward inputs listed in attribute wrt. The call also has the attributes of the
// forward node, for kernels; the body contains them already.
func (t *tape) fused(c *Backward, nodes []*graph.Node) *graph.Node {
	b := &bodyBuilder{t: t, g: &graph.Graph{}, inner: map[ID]ID{}}
	in := slices.Concat(padded(c.Node.Inputs, len(c.Node.Inputs)), padded(c.Node.Outputs, len(c.Node.Outputs)), padded(c.d, len(c.Node.Outputs)))
	made := map[ID]bool{}
	for _, n := range nodes {
		for _, id := range n.Outputs {
			made[id] = true
		}
	}
	read := map[ID]bool{}
	for _, n := range nodes {
		for _, id := range n.Inputs {
			if id != graph.None && !made[id] && !read[id] {
				read[id] = true
				if !slices.Contains(in, id) && !t.fitsInBody(id) {
					in = append(in, id)
				}
			}
		}
	}
	for i, id := range in {
		if id != graph.None && (!read[id] || slices.Contains(in[:i], id)) {
			in[i] = graph.None
		}
	}
	for len(in) > 0 && in[len(in)-1] == graph.None {
		in = in[:len(in)-1]
	}
	for i, id := range in {
		x := b.g.NewTensor("x" + strconv.Itoa(i))
		b.g.Inputs = append(b.g.Inputs, x)
		if id != graph.None {
			b.inner[id] = x
		}
	}
	for _, n := range nodes {
		b.add(n)
	}
	call := &graph.Node{Domain: fusedDomain, Inputs: in}
	var wrt []int64
	for i, d := range c.grads {
		if d != graph.None && made[d] && !slices.Contains(call.Outputs, d) {
			wrt = append(wrt, int64(i))
			call.Outputs = append(call.Outputs, d)
			b.g.Outputs = append(b.g.Outputs, b.inner[d])
		}
	}
	b.g.Link()
	for _, a := range c.Node.Attrs {
		if a.Graph == nil && a.Graphs == nil && a.Tensor == nil {
			call.Attrs = append(call.Attrs, a)
		}
	}
	call.Attrs = append(call.Attrs, attrs{"wrt": wrt}.list()...)
	call.Op = t.fuse.function(gradName(c.Node.Op), b.g, call.Attrs, t.opsets).Name
	call.Name = t.unique(t.scope + call.Op)
	t.mark(call)
	return call
}

// padded extends a list to n tensors with graph.None.
func padded(list []ID, n int) []ID {
	out := slices.Repeat([]ID{graph.None}, n)
	copy(out, list)
	return out
}

// fitsInBody reports whether a tensor is a constant of the emitter that may be part of a
// body.
func (e *emitter) fitsInBody(id ID) bool {
	t := e.g.Tensors[id]
	return t.Data != nil && e.made[id] && elements(t.Data.Dims) <= fusedConstants
}

// gradName is the name of an operator's gradient: ConvGrad, GeluGrad,
// LayerNormGrad.
func gradName(op string) string { return strings.Replace(op, "Normalization", "Norm", 1) + "Grad" }

// bodyBuilder copies nodes into the body of a function.
type bodyBuilder struct {
	t     *tape
	g     *graph.Graph
	inner map[ID]ID // maps tensors of the main graph to those of the body
}

// tensor returns the body's tensor; it makes small constants.
func (b *bodyBuilder) tensor(id ID) ID {
	if id == graph.None {
		return graph.None
	}
	if t, there := b.inner[id]; there {
		return t
	}
	t := b.g.NewTensor("t" + strconv.Itoa(len(b.g.Tensors)))
	b.inner[id] = t
	if d := b.t.g.Tensors[id].Data; d != nil {
		own := *d
		own.Name = ""
		b.g.Nodes = append(b.g.Nodes, &graph.Node{Op: "Constant", Outputs: []ID{t}, Attrs: attrs{"value": &own}.list()})
	}
	return t
}

func (b *bodyBuilder) add(n *graph.Node) {
	c := &graph.Node{Op: n.Op, Domain: n.Domain, Attrs: n.Attrs}
	for _, id := range n.Inputs {
		c.Inputs = append(c.Inputs, b.tensor(id))
	}
	for _, id := range n.Outputs {
		c.Outputs = append(c.Outputs, b.tensor(id))
	}
	b.g.Nodes = append(b.g.Nodes, c)
}

// function returns the function with that body and those attributes; it makes one
// if there is none.
func (f *fuser) function(name string, body *graph.Graph, attributes []*graph.Attr, opsets []graph.Opset) *graph.Function {
	var names []string
	for _, a := range attributes {
		names = append(names, a.Name)
	}
	key := name + fmt.Sprint(names) + describe(body)
	if fn := f.byBody[key]; fn != nil {
		return fn
	}
	f.names[name]++
	if k := f.names[name]; k > 1 {
		name += "_" + strconv.Itoa(k)
	}
	fn := &graph.Function{Domain: fusedDomain, Name: name, Attrs: names, Body: body}
	for _, o := range opsets {
		if o.Domain == "" || slices.ContainsFunc(body.Nodes, func(n *graph.Node) bool { return n.Domain == o.Domain }) {
			fn.Opsets = append(fn.Opsets, o)
		}
	}
	f.byBody[key] = fn
	f.functions = append(f.functions, fn)
	return fn
}

// describe serialises a body: two bodies are equal if their descriptions are.
func describe(g *graph.Graph) string {
	var s strings.Builder
	fmt.Fprint(&s, len(g.Inputs), g.Outputs)
	for _, n := range g.Nodes {
		fmt.Fprint(&s, "\n", n.Domain, n.Op, n.Inputs, n.Outputs)
		for _, a := range n.Attrs {
			fmt.Fprint(&s, " ", a.Name, a.Type, a.Float, a.Int, a.String, a.Ints)
			if a.Tensor != nil {
				fmt.Fprintf(&s, " %v%v%x", a.Tensor.Type, a.Tensor.Dims, a.Tensor.Raw)
			}
		}
	}
	return s.String()
}

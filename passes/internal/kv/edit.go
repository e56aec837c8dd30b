package kv

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// editor adds nodes and tensors to the graph of a rewriter.
type editor struct {
	r     *rewriter
	given int // tensors of the given graph
	names map[string]bool
	dead  map[*graph.Node]bool // nodes whose results nobody reads in the given graph
	index graph.TensorID       // the new input: position of the first new token

	made    map[string]graph.TensorID         // tensors that are needed once, by what they are
	numbers map[graph.TensorID]graph.TensorID // corrected positions
}

// indexName is the name of the new input, unless another tensor has it.
const indexName = "write_index"

// begin adds the index input.
func (e *editor) begin(r *rewriter) {
	*e = editor{r: r, given: len(r.g.Tensors), names: map[string]bool{}, dead: map[*graph.Node]bool{}, made: map[string]graph.TensorID{}, numbers: map[graph.TensorID]graph.TensorID{}}
	var note func(g *graph.Graph)
	note = func(g *graph.Graph) {
		for _, t := range g.Tensors {
			e.names[t.Name] = true
		}
		for _, n := range g.Nodes {
			e.names[n.Name] = true
			for _, a := range n.Bodies() {
				for _, b := range a.All() {
					note(b)
				}
			}
		}
	}
	note(r.g)
	for _, n := range e.unused() {
		e.dead[n] = true
	}
	e.index = e.tensor(indexName)
	r.g.Tensors[e.index].Declared = &graph.Declared{Type: graph.TensorOf(graph.Int64, 1), Symbols: []string{""}}
	r.g.Inputs = append(r.g.Inputs, e.index)
}

// tensor adds a tensor. Names that are taken get a number.
func (e *editor) tensor(name string) graph.TensorID {
	unique := name
	for k := 2; e.names[unique]; k++ {
		unique = fmt.Sprintf("%s.%d", name, k)
	}
	e.names[unique] = true
	e.r.facts = append(e.r.facts, fact{})
	return e.r.g.NewTensor(unique)
}

// node adds a node with one output.
func (e *editor) node(op, name string, attrs []*graph.Attr, inputs ...graph.TensorID) graph.TensorID {
	out := e.tensor(name)
	e.r.g.Nodes = append(e.r.g.Nodes, &graph.Node{Name: e.r.nameOf(out), Op: op, Inputs: inputs, Outputs: []graph.TensorID{out}, Attrs: attrs})
	return out
}

// once makes a tensor the first time that it is needed.
func (e *editor) once(what string, f func() graph.TensorID) graph.TensorID {
	t, ok := e.made[what]
	if !ok {
		t = f()
		e.made[what] = t
	}
	return t
}

// constant adds an initializer of integers.
func (e *editor) constant(elem graph.DType, dims, v []int64) graph.TensorID {
	return e.once(fmt.Sprint("constant ", elem, dims, v), func() graph.TensorID {
		id := e.tensor(indexName + ".constant")
		d := &graph.Data{Name: e.r.nameOf(id), Type: elem, Dims: dims}
		for _, x := range v {
			if elem == graph.Int32 {
				d.Raw = binary.LittleEndian.AppendUint32(d.Raw, uint32(int32(x)))
			} else {
				d.Raw = binary.LittleEndian.AppendUint64(d.Raw, uint64(x))
			}
		}
		d.Bytes = int64(len(d.Raw))
		e.r.g.Tensors[id].Data = d
		e.r.facts[id].pure = true
		return id
	})
}

// ints is a list of int64.
func (e *editor) ints(v ...int64) graph.TensorID {
	return e.constant(graph.Int64, []int64{int64(len(v))}, v)
}

func (e *editor) add(a, b graph.TensorID, name string) graph.TensorID {
	return e.node("Add", name, nil, a, b)
}

func intAttr(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

// indices are the write index for each of the batch.
func (e *editor) indices() graph.TensorID {
	return e.once("indices", func() graph.TensorID {
		c := e.r.caches[0]
		if d := e.r.g.Tensors[c.past].Declared; d.Type.Shape[0] == 1 {
			return e.index
		}
		batch := e.node("Shape", indexName+".batch", []*graph.Attr{intAttr("start", 0), intAttr("end", 1)}, c.fresh)
		return e.node("Expand", indexName+".each", nil, e.index, batch)
	})
}

// fresh is the number of new tokens of a run, in a list.
func (e *editor) fresh() graph.TensorID {
	input, axis := e.r.newAxis()
	if input == graph.None {
		return e.ints(e.r.fresh)
	}
	return e.once("fresh", func() graph.TensorID {
		return e.node("Shape", indexName+".new", []*graph.Attr{intAttr("start", axis), intAttr("end", axis+1)}, input)
	})
}

// freshNumber is the same as a scalar.
func (e *editor) freshNumber() graph.TensorID {
	return e.once("fresh number", func() graph.TensorID {
		return e.node("Squeeze", indexName+".new.scalar", nil, e.fresh(), e.ints(0))
	})
}

// newAxis returns an axis of a graph input that is as long as there are new tokens; no
// input if their number is a constant.
func (r *rewriter) newAxis() (input graph.TensorID, axis int64) {
	if r.opt.New == "" {
		return graph.None, 0
	}
	for _, id := range r.g.Inputs {
		t := r.g.Tensors[id]
		if t.Declared == nil {
			continue
		}
		for axis, symbol := range t.Declared.Symbols {
			if symbol == r.opt.New || fmt.Sprintf("%s[%d]", t.Name, axis) == r.opt.New {
				return id, int64(axis)
			}
		}
	}
	return graph.None, 0
}

// count is the number of tokens that each of the batch has after the run.
func (e *editor) count() graph.TensorID {
	return e.once("count", func() graph.TensorID {
		return e.add(e.indices(), e.fresh(), indexName+".tokens")
	})
}

// lag is what the position lacks to that of a full cache: a scalar, not positive.
func (e *editor) lag() graph.TensorID {
	return e.once("lag", func() graph.TensorID {
		at := e.node("Squeeze", indexName+".scalar", nil, e.index, e.ints(0))
		var full graph.TensorID
		if e.r.opt.New == "" {
			full = e.constant(graph.Int64, []int64{}, []int64{e.r.fresh - e.r.opt.Capacity})
		} else {
			full = e.add(e.freshNumber(), e.constant(graph.Int64, []int64{}, []int64{-e.r.opt.Capacity}), indexName+".full")
		}
		return e.add(at, full, indexName+".lag")
	})
}

// scatter adds a node that writes the new tokens into a cache.
func (e *editor) scatter(c *cache, name string) {
	e.r.g.Nodes = append(e.r.g.Nodes, &graph.Node{
		Name: e.unique(name), Op: "TensorScatter", Inputs: []graph.TensorID{c.past, c.fresh, e.indices()},
		Outputs: []graph.TensorID{c.present}, Attrs: []*graph.Attr{axisOf(c)},
	})
}

// unique is a name that no tensor or node has.
func (e *editor) unique(name string) string {
	for k := 2; ; k++ {
		n := fmt.Sprintf("%s.%d", name, k)
		if !e.names[n] {
			e.names[n] = true
			return n
		}
	}
}

// within keeps indices within bounds.
func (e *editor) within(t graph.TensorID, elem graph.DType, least, most int64) graph.TensorID {
	name := e.r.nameOf(t) + ".within"
	low := e.node("Max", name, nil, t, e.constant(elem, []int64{}, []int64{least}))
	return e.node("Min", name, nil, low, e.constant(elem, []int64{}, []int64{most}))
}

// minusInfinity is -∞ in the types that scores have.
var minusInfinity = map[graph.DType][]byte{
	graph.Float32: {0, 0, 0x80, 0xff}, graph.Float64: {0, 0, 0, 0, 0, 0, 0xf0, 0xff}, graph.Float16: {0, 0xfc}, graph.BFloat16: {0x80, 0xff},
}

// hide returns scores with -∞ for the tokens to come, which lie along an axis.
func (e *editor) hide(scores graph.TensorID, axis int) (graph.TensorID, error) {
	elem := e.r.full().g.Tensors[scores].Type.Elem
	raw, ok := minusInfinity[elem]
	if !ok {
		return graph.None, fmt.Errorf("scores of type %v: expected floating-point ones", elem)
	}
	behind := e.r.rank(scores) - 1 - axis
	seen := e.once(fmt.Sprint("seen ", behind), func() graph.TensorID {
		number := func(v int64) graph.TensorID { return e.constant(graph.Int64, []int64{}, []int64{v}) }
		places := e.once("places", func() graph.TensorID {
			return e.node("Range", indexName+".places", nil, number(0), number(e.r.opt.Capacity), number(1))
		})
		if behind > 0 {
			axes := make([]int64, behind)
			for k := range axes {
				axes[k] = int64(k) + 1
			}
			places = e.node("Unsqueeze", indexName+".places", nil, places, e.ints(axes...))
		}
		tokens := e.once("tokens", func() graph.TensorID { return e.add(e.index, e.fresh(), indexName+".end") })
		return e.node("Less", indexName+".seen", nil, places, tokens)
	})
	least := e.once(fmt.Sprint("least ", elem), func() graph.TensorID {
		id := e.tensor(indexName + ".hidden")
		e.r.g.Tensors[id].Data = &graph.Data{Name: e.r.nameOf(id), Type: elem, Dims: []int64{}, Raw: raw, Bytes: int64(len(raw))}
		return id
	})
	return e.node("Where", e.r.nameOf(scores)+".seen", nil, seen, scores, least), nil
}

// number corrects a position that a node reads as a number.
func (r *rewriter) number(n *graph.Node, i int) error {
	t := n.Inputs[i]
	made, done := r.edit.numbers[t]
	if !done {
		elem := r.full().g.Tensors[t].Type.Elem
		if elem != graph.Int64 && elem != graph.Int32 {
			return r.refuse(n, "reads %q, a position of type %v: expected int64 or int32", graph.Short(r.nameOf(t)), elem)
		}
		lag := r.edit.lag()
		if elem == graph.Int32 {
			lag = r.edit.once("lag, int32", func() graph.TensorID {
				return r.edit.node("Cast", indexName+".lag32", []*graph.Attr{intAttr("to", int64(graph.Int32))}, lag)
			})
		}
		lines := r.numbers(t)
		if slices.ContainsFunc(lines, func(l line) bool { return l.slope != 1 }) {
			var slopes, dims []int64
			for _, l := range lines {
				slopes = append(slopes, l.slope)
			}
			for _, d := range r.shape(t) {
				dims = append(dims, int64(d))
			}
			lag = r.edit.node("Mul", r.nameOf(t)+".lag", nil, lag, r.edit.constant(elem, dims, slopes))
		}
		made = r.edit.add(t, lag, r.nameOf(t)+".now")
		r.edit.numbers[t] = made
	}
	n.Inputs[i] = made
	n.Span = graph.Span{}
	return nil
}

// correctShape corrects the shape of a cache that enters: its axis of tokens is the whole
// capacity now.
func (r *rewriter) correctShape(n *graph.Node) error {
	c := r.cacheOf(input(n, 0))
	switch {
	case c == nil:
		return nil
	case n.Op != "Shape" || n.Domain != "":
		return r.refuse(n, "reads the cache %q: expected only the node that extends it, and Shape, to do so", graph.Short(r.nameOf(c.past)))
	}
	rank := r.rank(c.past)
	start, end := attr.Int(n, "start", 0), attr.Int(n, "end", int64(rank))
	for _, v := range []*int64{&start, &end} {
		if *v < 0 {
			*v += int64(rank)
		}
		*v = max(0, min(*v, int64(rank)))
	}
	if int64(c.axis) < start || int64(c.axis) >= end {
		return nil
	}
	less := make([]int64, end-start)
	less[int64(c.axis)-start] = -1
	var by graph.TensorID
	if r.opt.New != "" {
		by = r.edit.node("Mul", r.nameOf(n.Outputs[0])+".less", nil, r.edit.ints(less...), r.edit.fresh())
	} else {
		less[int64(c.axis)-start] = -r.fresh
		by = r.edit.ints(less...)
	}
	out := n.Outputs[0]
	raw := r.edit.tensor(r.nameOf(out) + ".capacity")
	n.Outputs[0] = raw
	r.g.Nodes = append(r.g.Nodes, &graph.Node{Name: r.edit.unique(n.Name), Op: "Add", Inputs: []graph.TensorID{raw, by}, Outputs: []graph.TensorID{out}})
	return nil
}

// unused returns the nodes none of whose results is read or is an output, again and again
// until there are no more.
func (e *editor) unused() (list []*graph.Node) {
	g := e.r.g
	read := make([]int, len(g.Tensors))
	for _, t := range g.Outputs {
		read[t]++
	}
	for _, n := range g.Nodes {
		n.Reads(func(t graph.TensorID) { read[t]++ })
	}
	gone := map[*graph.Node]bool{}
	for again := true; again; {
		again = false
		for _, n := range slices.Backward(g.Nodes) {
			if gone[n] || slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t >= 0 && read[t] > 0 }) {
				continue
			}
			gone[n], again = true, true
			list = append(list, n)
			n.Reads(func(t graph.TensorID) { read[t]-- })
		}
	}
	return list
}

// finish removes what the rewriting made superfluous and puts the nodes into an order.
func (e *editor) finish() error {
	g := e.r.g
	gone := map[*graph.Node]bool{}
	for _, n := range e.unused() {
		gone[n] = !e.dead[n]
	}
	removed := map[graph.TensorID]bool{}
	for n := range gone {
		for _, t := range n.Outputs {
			if gone[n] && t >= 0 {
				removed[t] = true
			}
		}
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return gone[n] })
	g.DropTensors(func(t graph.TensorID) bool { return removed[t] })
	g.Span = graph.Span{}
	g.Link()
	order, err := g.Topological()
	if err != nil {
		return err
	}
	g.Reorder(order)
	return nil
}

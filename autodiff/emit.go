package autodiff

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// ID is a tensor of the graph being built; graph.None is no tensor.
type ID = graph.TensorID

// emitter adds nodes to a graph and infers the type of every tensor at once. Its
// methods return the tensors that they make. err keeps the first error; from then
// on the methods return graph.None.
type emitter struct {
	g       *graph.Graph
	version int64          // of ai.onnx
	opsets  []graph.Opset  // of all domains
	values  []*ops.Value   // folded elements of each tensor, if known
	taken   map[string]int // names in use, and how often each was asked for
	consts  map[string]ID  // constants by content

	salt   int                // part of the hashes by which gorgonia distinguishes operators
	scope  string             // prefix of the names of emitted tensors
	made   map[ID]bool        // constants that the emitter made
	makers map[ID]*graph.Node // of the tensors that emitted nodes make
	// forwardMakers are the makers of the tensors of the graph that is differentiated.
	forwardMakers map[ID]*graph.Node
	spelled       []group   // groups whose nodes the emitter made, to be differentiated as one operator
	fused         bool      // gradients of convolutions' weights are single nodes
	fuse          *fuser    // nil: other gradients are emitted as standard operators
	saving        savingSet // the savings that are on
	waiting       bool      // gradients wait for each other before updates

	items map[ID][]ID // of sequences, where they are known

	groups int // marked groups that were begun

	openDims bool // attributes may not depend on lengths (TrainRange)

	stands map[*graph.Node]*graph.Node // for a node that replaces a group: the last node of the group

	phase string // purpose of the emitted nodes: forward, backward, accumulate or update
	of    string // the forward node or parameter for which they are emitted

	err error
}

// Metadata keys of nodes (docs/formats/training.md).
const (
	keyPhase = "onnxmem.phase"
	keyOf    = "onnxmem.of"

	phaseForward    = "forward"
	phaseBackward   = "backward"
	phaseAccumulate = "accumulate"
	phaseUpdate     = "update"
)

// attrs are attributes by name, of type int, int64, float64 (written as float),
// string or []int64.
type attrs map[string]any

// list returns the attributes in the form of a node, sorted by name.
func (a attrs) list() []*graph.Attr {
	var list []*graph.Attr
	for _, name := range slices.Sorted(maps.Keys(a)) {
		at := &graph.Attr{Name: name}
		switch v := a[name].(type) {
		case int:
			at.Type, at.Int = graph.AttrInt, int64(v)
		case int64:
			at.Type, at.Int = graph.AttrInt, v
		case graph.DType:
			at.Type, at.Int = graph.AttrInt, int64(v)
		case float64:
			at.Type, at.Float = graph.AttrFloat, float32(v)
		case string:
			at.Type, at.String = graph.AttrString, v
		case []int64:
			at.Type, at.Ints = graph.AttrInts, v
		case *graph.Data:
			at.Type, at.Tensor = graph.AttrTensor, v
		default:
			panic(fmt.Sprintf("autodiff: attribute %s of type %T", name, v))
		}
		list = append(list, at)
	}
	return list
}

// newEmitter adds to a graph whose types and values are known.
func newEmitter(g *graph.Graph, opsets []graph.Opset, values []*ops.Value) *emitter {
	e := &emitter{
		g: g, opsets: opsets, version: graph.FindOpset(opsets, ""), values: values,
		taken: map[string]int{}, consts: map[string]ID{}, made: map[ID]bool{}, makers: map[ID]*graph.Node{}, phase: phaseForward,
		saving: allSavings,
	}
	for _, t := range g.Tensors {
		e.taken[t.Name] = 1
	}
	for _, n := range g.Nodes {
		e.taken[n.Name] = 1
	}
	return e
}

// unique returns a name that is not in use.
func (e *emitter) unique(name string) string {
	e.taken[name]++
	for try := name; ; e.taken[name]++ {
		if k := e.taken[name]; k > 1 {
			try = name + "_" + strconv.Itoa(k)
		}
		if try == name || e.taken[try] == 0 {
			e.taken[try] = max(e.taken[try], 1)
			return try
		}
	}
}

// fail keeps the first error.
func (e *emitter) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// newTensor adds a tensor of a known type.
func (e *emitter) newTensor(name string, t graph.Type, v *ops.Value) ID {
	id := e.g.NewTensor(name)
	e.g.Tensors[id].Type = t
	e.values = append(e.values, v)
	return id
}

// emit adds a node with that many outputs. Missing inputs at the end are dropped.
func (e *emitter) emit(op string, a attrs, outputs int, in ...ID) []ID {
	return e.emitIn("", op, a, outputs, in...)
}

// emitIn is emit for an operator of another domain.
func (e *emitter) emitIn(domain, op string, a attrs, outputs int, in ...ID) []ID {
	out := make([]ID, outputs)
	for k := range out {
		out[k] = graph.None
	}
	if e.err != nil {
		return out
	}
	for len(in) > 0 && in[len(in)-1] == graph.None {
		in = in[:len(in)-1]
	}
	n := &graph.Node{Name: e.unique(e.scope + op), Op: op, Domain: domain, Inputs: slices.Clone(in), Attrs: a.list()}
	e.mark(n)
	n.Outputs = make([]ID, outputs)
	for k := range n.Outputs {
		name := n.Name
		if k > 0 {
			name = e.unique(n.Name + "." + strconv.Itoa(k))
		}
		n.Outputs[k] = e.newTensor(name, graph.Type{}, nil)
		e.makers[n.Outputs[k]] = n
	}
	e.g.Nodes = append(e.g.Nodes, n)
	if !e.infer(n) {
		return out
	}
	return n.Outputs
}

// mark writes the purpose of a node into its metadata.
func (e *emitter) mark(n *graph.Node) {
	n.SetProp(keyPhase, e.phase)
	if e.of != "" {
		n.SetProp(keyOf, e.of)
	}
}

// infer sets the types and values of the outputs of a node.
func (e *emitter) infer(n *graph.Node) bool {
	in := make([]ops.Arg, len(n.Inputs))
	for i, t := range n.Inputs {
		if t != graph.None {
			in[i] = ops.Arg{Present: true, Type: e.g.Tensors[t].Type, Value: e.values[t]}
		}
	}
	out, err := ops.Apply(n, graph.FindOpset(e.opsets, n.Domain), in)
	if err != nil {
		e.fail(graph.Errorf("%w (emitted for %s)", err, e.of).AtNode(fmt.Sprintf("node %q (%s)", n.Name, n.OpName())))
		return false
	}
	for k, t := range n.Outputs {
		if t == graph.None {
			continue
		}
		if !out[k].Exact() {
			err := graph.Errorf("output %d: a length of %v is not known: expected fixed shapes in a training graph", k, out[k].Type)
			e.fail(err.AtNode(fmt.Sprintf("node %q (%s)", n.Name, n.OpName())))
			return false
		}
		e.g.Tensors[t].Type, e.values[t] = out[k].Type, out[k].Value
	}
	return true
}

// op adds a node with one output and no attributes.
func (e *emitter) op(name string, in ...ID) ID { return e.emit(name, nil, 1, in...)[0] }

// with adds a node with one output.
func (e *emitter) with(name string, a attrs, in ...ID) ID { return e.emit(name, a, 1, in...)[0] }

// typeOf is the type of a tensor.
func (e *emitter) typeOf(t ID) graph.Type {
	if t == graph.None {
		return graph.Type{}
	}
	return e.g.Tensors[t].Type
}

// shape is the shape of a tensor. An unknown length is an error of the model.
func (e *emitter) shape(t ID) []int64 {
	typ := e.typeOf(t)
	if t == graph.None {
		return nil
	}
	if !typ.Exact() {
		err := graph.Errorf("has type %v: expected a fixed shape on a path to the loss", typ)
		err.Tensor = e.g.Tensors[t].Name
		e.fail(err)
		return nil
	}
	s := make([]int64, len(typ.Shape))
	for i, d := range typ.Shape {
		s[i] = int64(d)
	}
	return s
}

// rank is the number of axes of a tensor.
func (e *emitter) rank(t ID) int { return len(e.shape(t)) }

// ints gives the elements of an integer tensor if they are known.
func (e *emitter) ints(t ID) ([]int64, bool) {
	if t == graph.None {
		return nil, false
	}
	return e.values[t].Ints()
}

// elements is the number of elements of a shape.
func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

package lower

import (
	"encoding/binary"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/device"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Frame is a graph that is ready to run: the main graph, a body, or one call of a
// local function.
type Frame struct {
	Site    *Site
	Graph   *graph.Graph
	Tensors []*values.Tensor // by TensorID; nil for inputs that a call leaves out
	values  []*ops.Value     // by TensorID: folded elements; nil if unknown
	Steps   []*Step
	row     string // the rewriter that runs
	changed bool   // by it: a task, a layout, or what is constant

	computed []*Step // the constants that were computed when the session was built

	opsets []graph.Opset
	block  int32 // channels in a block of the graph's images (attr.NchwcBlock); 0: the graph does not tell

	loops bool   // the body of a loop
	round uint64 // the loop that runs it, counted over all of the session
}

// maxCalled bounds the nodes of called functions in a session, which counts them at each
// call: n functions, each of which calls the next one twice, would make 2^n nodes.
const maxCalled = 1 << 18

// builder makes the frames of a session.
type builder struct {
	s      *Site
	bodies []plan.Subgraph // in the plan's order
	next   int             // index of the next entry

	rewriters []Rewriter // of the session

	called int   // nodes of called functions, at each call
	at     *Step // the node that is being prepared, nil before the first

	workspace device.Workspace // of the main graph's node that is being prepared

	inFunction bool
	inLoop     bool                     // the next frame is the body of a loop
	inBranch   bool                     // in a branch of an If, which may never run
	layouts    map[*graph.Graph]*layout // of graphs within local functions
	shapes     map[string][]int         // of tensors, by their lengths
}

// NewBuilder begins the frames of a session, whose pools are there.
func NewBuilder(s *Site) *builder {
	return &builder{s: s, bodies: s.Program.Plan.Subgraphs, layouts: map[*graph.Graph]*layout{}, shapes: map[string][]int{}, rewriters: s.rewriters()}
}

// Wrap names the node that is being prepared in an error.
func (b *builder) Wrap(err error) error {
	if b.at == nil {
		return err
	}
	return b.at.Wrap(err)
}

// Frame builds a graph's tensors and steps. outer is the frame around a body, nil
// for other graphs; args are the inputs of a function, nil for omitted ones.
func (b *builder) Frame(g *graph.Graph, opsets []graph.Opset, outer *Frame, args map[graph.TensorID]*values.Tensor, a *area, known []*ops.Value) (*Frame, error) {
	if err := b.s.takeHeap(len(g.Nodes)); err != nil {
		return nil, err
	}
	f := &Frame{Site: b.s, Graph: g, Tensors: make([]*values.Tensor, len(g.Tensors)), values: known}
	f.loops, b.inLoop = b.inLoop, false
	for _, c := range g.Captures {
		f.Tensors[c.Inner] = outer.Tensors[c.Outer]
	}
	own := 0
	for id, t := range g.Tensors {
		if arg, isArg := args[graph.TensorID(id)]; isArg && !t.Capture {
			f.Tensors[id] = arg
		} else if !t.Capture {
			own++
		}
	}
	made := make([]values.Tensor, own) // in one piece, as the steps
	for id, t := range g.Tensors {
		if _, isArg := args[graph.TensorID(id)]; isArg || t.Capture {
			continue
		}
		if err := b.tensor(&made[0], g, graph.TensorID(id), a); err != nil {
			return nil, err
		}
		f.Tensors[id], made = &made[0], made[1:]
	}
	a.tensors = nil
	b.s.Frames = append(b.s.Frames, f)
	if err := b.views(f); err != nil {
		return nil, err
	}
	if b.s.oneForm() {
		f.findForms()
	}
	return f, b.steps(f, opsets, a)
}

// views gives each tensor that views a constant the place of that constant, wherever the
// plan puts it, unless it is an output, and each tensor without a planned place that of the
// outer tensor that it views. Tensors that view nothing go to the side pool.
func (b *builder) views(f *Frame) error {
	order, _ := f.Graph.Topological()
	for _, n := range order {
		fixed := f.fixed(f.Graph.Nodes[n])
		for k, id := range f.Graph.Nodes[n].Outputs {
			if id < 0 || f.Tensors[id].Const || f.Graph.Tensors[id].Dynamic != "" {
				continue
			}
			t := f.Tensors[id]
			t.Computed = fixed
			if v := viewedOf(f.Graph.Nodes[n], k); v != graph.None {
				placed := t.Room > 0 || b.s.Options.Separate
				if from := f.Tensors[v]; from != nil && (from.Const && !f.Graph.Tensors[id].Output || !placed && (from.Room > 0 || from.Const)) {
					t.At, t.Room, t.Const, t.Guarded = from.At, max(from.Room, int64(from.Bytes())), from.Const, from.Guarded
					continue
				}
			}
			if t.Room > 0 {
				continue
			}
			if t.Exact && t.Bytes() > 0 {
				block, err := b.s.Mem.Side.Hold(values.NameOf(t.Name), int64(t.Bytes()))
				if err != nil {
					return err
				}
				t.At, t.Room = unsafe.Pointer(unsafe.SliceData(block)), int64(len(block))
			}
		}
	}
	return nil
}

// fixed reports whether a node computes from constants alone ([kernel.Tensor.Fixed]). Those
// that move bytes to and from a host pool, or into a larger tensor, do not change them.
func (f *Frame) fixed(n *graph.Node) bool {
	if !n.Semantics.Known || n.Semantics.Random || len(n.Bodies()) > 0 || n.Semantics.Call != nil && !n.Semantics.Call.Function.Own() {
		return false
	}
	shapes := ops.OfShape(n)
	for _, id := range n.Inputs {
		if id < 0 || f.Tensors[id] == nil { // left out, here or in the call of the function
			continue
		}
		if t := f.Tensors[id]; !t.Fixed() && !(shapes && t.Exact) {
			return false
		}
	}
	return true
}

// tensor builds n, one tensor of a frame.
func (b *builder) tensor(n *values.Tensor, g *graph.Graph, id graph.TensorID, a *area) error {
	t := g.Tensors[id]
	if d := b.s.Program.ConstantOf(g, id); d != nil {
		c, err := b.s.constant(d)
		if err != nil {
			return err
		}
		if b.s.GPU != nil {
			b.s.GPU.Constants.Found(d, c)
		}
		*n = values.Tensor{Tensor: *c, Name: t.Name, Exact: true}
		return nil
	}
	n.Name, n.Type = t.Name, t.Type.Elem
	if t.Type.Exact() && n.Type != graph.Undefined {
		n.Exact = true
		n.Shape = b.shape(t.Type.Shape)
	}
	p := &a.tensors[id]
	n.At, n.Room, n.Guarded = p.at, p.bytes, p.guarded
	if n.Exact && n.Type == graph.String {
		if err := b.placeStrings(n); err != nil {
			return err
		}
	}
	if n.At == nil {
		n.At = unsafe.Pointer(&values.Empty)
		if b.s.Mem.Guard != nil {
			n.At = b.s.Mem.Guard.Nothing
		}
	}
	return nil
}

// shape returns exact lengths as a shape. Tensors of the same shape share it: nothing writes to
// the shape of a tensor that is exact.
func (b *builder) shape(dims []graph.Dim) []int {
	key := make([]byte, 0, 64)
	for _, d := range dims {
		key = binary.LittleEndian.AppendUint64(key, uint64(d))
	}
	if shape, is := b.shapes[string(key)]; is {
		return shape
	}
	shape := make([]int, len(dims))
	for i, d := range dims {
		shape[i] = int(d)
	}
	b.shapes[string(key)] = shape
	return shape
}

// placeStrings gives a string tensor of known shape a place of its own, since the plan has
// none.
func (b *builder) placeStrings(t *values.Tensor) error {
	size, err := values.SizeOf(t.Type, t.Shape)
	if err == nil && size > 0 {
		var block []byte
		if block, err = b.s.Mem.Side.Hold(values.NameOf(t.Name), size); err == nil {
			clear(block)
			t.At, t.Room = unsafe.Pointer(unsafe.SliceData(block)), size
		}
	}
	if err != nil {
		return values.About(t.Name, err)
	}
	return nil
}

// endsOf returns room for the inputs and outputs of all nodes of a graph: in one piece, since a
// list of its own for each takes twice the memory.
func endsOf(g *graph.Graph) []*values.Tensor {
	n := 0
	for _, node := range g.Nodes {
		n += len(node.Inputs) + len(node.Outputs)
	}
	return make([]*values.Tensor, n)
}

// take returns the tensors of a list of inputs or outputs, nil for those that are left out, in
// the first part of some room, and the rest of the room.
func (f *Frame) take(room []*values.Tensor, ids []graph.TensorID) (list, rest []*values.Tensor) {
	n := len(ids)
	list, rest = room[:n:n], room[n:]
	for i, id := range ids {
		if id >= 0 {
			list[i] = f.Tensors[id]
		}
	}
	return list, rest
}

// order is the planned order, or, if tensors are separate, another one ([reversed]).
func (b *builder) order(g *graph.Graph) ([]graph.NodeID, error) {
	if !b.s.Options.Separate {
		return g.Topological()
	}
	return reversed(g), nil
}

// planFrees finds the step after which each dynamic tensor of the frame is freed.
func (f *Frame) planFrees(place []int) {
	output := map[graph.TensorID]bool{}
	for _, t := range f.Graph.Outputs {
		output[t] = true
	}
	for id, g := range f.Graph.Tensors {
		t := f.Tensors[id]
		if t == nil || t.Room > 0 || t.Exact || t.Const || g.Capture || g.Maker < 0 || output[graph.TensorID(id)] {
			continue
		}
		last := place[g.Maker]
		for _, r := range g.Readers {
			last = max(last, place[r])
		}
		own := f.Steps[last].own()
		own.Frees = append(own.Frees, t)
	}
}

// Release frees the blocks of the frame's outputs, except outputs that are inputs or
// captures: the next iteration, or the caller, still reads those.
func (f *Frame) Release() {
	for _, id := range f.Graph.Outputs {
		if t := f.Tensors[id]; f.Graph.Tensors[id].Maker >= 0 && t != nil && (t.Block != nil || t.Box != nil) {
			f.Site.Release(t)
		}
	}
}

package lower

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/device"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
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

	opsets []graph.Opset
	block  int32 // channels in a block of the graph's images (attr.NchwcBlock); 0: the graph does not tell

	loops bool   // the body of a loop
	round uint64 // the loop that runs it, counted over all of the session
}

// Step is one node of a frame. A graph has many, so what few of them need is behind pointers.
type Step struct {
	Frame  *Frame
	ID     graph.NodeID
	Device bool             // run puts it on the session's device
	Late   bool             // the kernel is prepared at run time, each time
	live   bool             // set while it is prepared at run time
	Boxes  bool             // it makes or reads a sequence, an optional or a map
	In     []*values.Tensor // nil for those that are left out, of which there is none at the end
	Out    []*values.Tensor
	Kernel *kernel.Kernel
	Run    kernel.Run // nil: nothing to do
	task   *Task      // that its node is in; nil: the node is one by itself
	More   *belongings
	Way    string // which algorithm runs (describe); "" if the operator has only one

	Invocation *kernel.Invocation // nil: there is none now; see call
}

// belongings is what few steps have.
type belongings struct {
	Joined *joined // how a convolution or product is computed from and to bytes; nil: it is not

	Frees   []*values.Tensor // dynamic tensors that no later step reads
	Scratch []*store.Guarded // of the kernel, in a guarded session
	heap    int64            // bytes that the kernel keeps on Go's heap
	tables  [][]byte         // blocks that the kernel keeps in the side pool
	kept    *kept            // what it keeps during a loop; nil: nothing
	sources []source         // what its kernel has packed
}

// Has returns what few steps have, for reading.
func (st *Step) Has() *belongings {
	if st.More == nil {
		return &noBelongings
	}
	return st.More
}

var noBelongings belongings

// own returns what few steps have, to be changed.
func (st *Step) own() *belongings {
	if st.More == nil {
		st.More = &belongings{}
	}
	return st.More
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

// Node is the node of a step.
func (st *Step) Node() *graph.Node { return st.Frame.Graph.Nodes[st.ID] }

// version is that of the node's operator.
func (st *Step) version() int64 { return graph.FindOpset(st.Frame.opsets, st.Node().Domain) }

// Call returns the invocation of the node's kernel. It is made when it is first asked for, and
// dropped once the kernel is prepared, if nothing stands in it then (dropCall).
func (st *Step) Call() *kernel.Invocation {
	if st.Invocation != nil {
		return st.Invocation
	}
	list := make([]*kernel.Tensor, len(st.In)+len(st.Out))
	for i, t := range st.In {
		list[i] = t.Kernels()
	}
	for i, t := range st.Out {
		list[len(st.In)+i] = t.Kernels()
	}
	st.Invocation = &kernel.Invocation{
		Call: form.Call{
			Node:    st.Node(),
			Version: st.version(),
			Block:   st.Frame.block,
			Runtime: st,
			In:      list[:len(st.In):len(st.In)],
			Out:     list[len(st.In):],
		},
		Walls:   st.Frame.Site.walls(),
		Workers: st.Frame.Site.Pool.Workers(),
	}
	return st.Invocation
}

// dropCall drops the invocation of a step whose kernel is prepared, unless the kernel has written
// something there that others read. A kernel that needs it when it runs holds it itself. In a
// graph of many nodes, invocations take as much memory as steps.
func (st *Step) dropCall() {
	c, s := st.Invocation, st.Frame.Site
	switch {
	case c == nil, st.Kernel == nil && st.task == nil, st.Late, st.Has().Joined != nil:
	case s.GPU != nil, s.Mem.Guard != nil, s.Compared != nil, s.Options.Poison:
	case c.Residual != nil, c.Taken, len(c.Packed) > 0, c.SharedBytes > 0, c.EachBytes > 0:
	default:
		st.Invocation = nil
	}
}

// packed returns the constant inputs that the step's kernel has packed.
func (st *Step) packed() []*kernel.Tensor {
	if st.Invocation == nil {
		return nil
	}
	return st.Invocation.Packed
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

// prepareAll prepares the kernels, in the listed order, which is that of the plan's bodies.
func (l *lowering) prepareAll() error {
	for _, st := range l.f.Steps {
		l.at = st
		if l.f.Graph == l.s.Program.Model.Graph {
			l.workspace = l.workspaceOf(st.ID)
		}
		if err := l.prepare(st); err != nil {
			return err
		}
		st.dropCall()
	}
	return nil
}

// prepare finds the kernel of a node, or builds its bodies, and prepares it.
func (l *lowering) prepare(st *Step) error {
	n := st.Node()
	if len(st.Out) == 1 && st.Out[0] != nil && st.Out[0].Const {
		return nil
	}
	if special, err := l.control(st, l.opsets, l.a); special || err != nil {
		var e *graph.Error
		if err != nil && !errors.As(err, &e) {
			e = graph.Errorf("%w", err)
			return e.AtNode(st.Frame.Graph.Label(st.ID))
		}
		return err
	}
	if st.Elsewhere() {
		return nil
	}
	if t := st.Task(); t != nil && t.run != nil {
		if st.Run = t.run; st.Device {
			return nil
		}
		_, err := l.s.ScratchFor(st)
		return err
	}
	if do := st.boxer(); do != nil {
		st.Run, st.Boxes = st.runBoxer(do), true
		return nil
	}
	if st.Kernel = kernel.Lookup(n.Domain, n.Op); st.Kernel == nil {
		l.s.Missing.add(st.Frame.Graph.Label(st.ID), n.OpName(), ErrNoKernel)
		return nil
	}
	switch open, err := st.check(); {
	case err != nil && !l.inBranch:
		return graph.Errorf("%w", err).AtNode(st.Frame.Graph.Label(st.ID))
	case err != nil, open, !st.Exact():
		// Its shapes are unknown, or unproven, before it runs; or the node is wrong
		// for these shapes, but in a branch that may never run.
		st.Late = true
		return nil
	case st.Idle() || st.inPlace():
		return nil
	}
	if done, err := l.prepareOnDevice(st); done || err != nil {
		return err
	}
	joined, err := st.prepareQuantized()
	if !joined {
		err = l.fuse(st)
	}
	if errors.Is(err, form.ErrDataDependent) {
		st.Late = true
		return nil
	}
	if err != nil {
		l.s.Missing.add(st.Frame.Graph.Label(st.ID), n.OpName(), err)
		return nil
	}
	call := st.Call()
	if j := st.Has().Joined; j != nil {
		call = &j.call
	}
	st.describe(call.Way)
	_, err = l.s.ScratchFor(st)
	return err
}

// Exact reports whether all shapes of a node are known before it runs.
func (st *Step) Exact() bool {
	for _, t := range st.In {
		if t != nil && !t.Exact {
			return false
		}
	}
	for _, t := range st.Out {
		if t != nil && !t.Exact {
			return false
		}
	}
	return true
}

// Idle reports whether the node has no output element to compute, because its
// outputs are empty or omitted. Kernels never see such a node, so they need not
// guard against division by zero or an access to the first element.
func (st *Step) Idle() bool {
	for _, t := range st.Out {
		if t != nil && (t.Shape == nil || t.Len() > 0) {
			return false
		}
	}
	return true
}

// Wrap names the node in an error, unless the error is about a changed file.
func (st *Step) Wrap(err error) error {
	if errors.Is(err, mapped.ErrChanged) {
		return err
	}
	var e *graph.Error
	if !errors.As(err, &e) {
		e = graph.Errorf("%w", st.By(err))
	}
	return e.AtNode(st.Frame.Graph.Label(st.ID))
}

// Heap implements kernel.Runtime.
func (st *Step) Heap(bytes int64) error {
	if err := st.Frame.Site.Mem.Take(bytes); err != nil {
		return err
	}
	st.own().heap += bytes
	st.Frame.Site.Mem.Tables += bytes
	return nil
}

// Table implements kernel.Runtime: tables lie in the side pool.
func (st *Step) Table(bytes int64) (unsafe.Pointer, error) {
	b, err := st.Frame.Site.Mem.Side.Hold("a table of a kernel", bytes)
	if err != nil {
		return nil, err
	}
	own := st.own()
	own.tables = append(own.tables, b)
	st.Frame.Site.Mem.Tables += int64(len(b))
	if st.Frame.Site.Mem.Guard == nil {
		st.Frame.Site.Mem.SideTables += int64(len(b))
	}
	return unsafe.Pointer(unsafe.SliceData(b)), nil
}

// freeTables frees the memory that a kernel kept, before it is prepared again.
func (st *Step) freeTables() {
	if st.More == nil {
		return
	}
	s := st.Frame.Site
	s.Mem.Give(st.More.heap)
	s.Mem.Tables -= st.More.heap
	st.More.heap = 0
	for _, b := range st.More.tables {
		s.Mem.Side.Give(b)
		s.Mem.Tables -= int64(len(b))
		if s.Mem.Guard == nil {
			s.Mem.SideTables -= int64(len(b))
		}
	}
	st.More.tables = st.More.tables[:0]
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

// PrepareLate finds the shapes of the outputs and prepares the kernel at run time,
// from the actual inputs.
func (st *Step) PrepareLate() error {
	st.live = true
	defer func() { st.live = false }()
	if _, err := st.check(); err != nil {
		return err
	}
	st.Run = nil
	if st.Idle() {
		return nil
	}
	st.freeTables()
	st.Call().SharedBytes, st.Call().EachBytes = 0, 0
	if w := st.Call().Walls; w != nil {
		w.Reset()
	}
	run, err := st.Kernel.Prepare(st.Call())
	if err != nil {
		return err
	}
	st.Run = run
	grown, err := st.Frame.Site.ScratchFor(st)
	if grown {
		return st.Frame.Site.GrowScratch()
	}
	return err
}

// Live implements kernel.Runtime.
func (st *Step) Live() bool { return st.live }

// Known implements kernel.Runtime.
func (st *Step) Known(i int) ([]int64, bool) {
	if st.Frame.values == nil || i >= len(st.Node().Inputs) {
		return nil, false
	}
	t := st.Node().Inputs[i]
	if t < 0 {
		return nil, false
	}
	return st.Frame.values[t].Ints()
}

// Resize implements kernel.Runtime.
func (st *Step) Resize(i int, shape []int) error { return st.Frame.Site.Resize(st.Out[i], shape) }

// Repeats implements kernel.Runtime. Any body or function may be part of a loop.
func (st *Step) Repeats() bool { return st.Frame.Graph != st.Frame.Site.Program.Model.Graph }

// Seed implements kernel.Runtime. It hashes the output's name, so that the order of
// the nodes does not matter.
func (st *Step) Seed() uint64 {
	h := st.Frame.Site.Options.Seed ^ st.Frame.Site.Runs*0x9e3779b97f4a7c15
	for _, c := range []byte(st.Out[0].Name) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}

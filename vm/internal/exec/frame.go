package exec

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// frame is a graph that is ready to run: the main graph, a body, or one call of a
// local function.
type frame struct {
	s       *Session
	g       *graph.Graph
	tensors []*values.Tensor // by TensorID; nil for inputs that a call leaves out
	values  []*ops.Value     // by TensorID: folded elements; nil if unknown
	steps   []*step

	opsets []graph.Opset
	block  int32 // channels in a block of the graph's images (attr.NchwcBlock); 0: the graph does not tell

	normGradients bool // a kernel computes some

	captured map[graph.TensorID]bool // of a session on a device: what bodies read

	loops bool   // the body of a loop
	round uint64 // the loop that runs it, counted over all of the session
}

// step is one node of a frame. A graph has many, so what few of them need is behind pointers.
type step struct {
	f         *frame
	node      graph.NodeID
	device    bool             // run puts it on the session's device
	late      bool             // the kernel is prepared at run time, each time
	live      bool             // set while it is prepared at run time
	boxes     bool             // it makes or reads a sequence, an optional or a map
	in        []*values.Tensor // nil for those that are left out, of which there is none at the end
	out       []*values.Tensor
	kernel    *kernel.Kernel
	run       kernel.Run // nil: nothing to do
	fusedInto *step      // the step that does the work of this one; nil: itself
	more      *belongings
	way       string // which algorithm runs (describe); "" if the operator has only one

	invocation *kernel.Invocation // nil: there is none now; see call
}

// belongings is what few steps have.
type belongings struct {
	task   *task   // what it does for several nodes; nil: nothing
	joined *joined // how a convolution or product is computed from and to bytes; nil: it is not

	frees   []*values.Tensor // dynamic tensors that no later step reads
	scratch []*store.Guarded // of the kernel, in a guarded session
	heap    int64            // bytes that the kernel keeps on Go's heap
	tables  [][]byte         // blocks that the kernel keeps in the side pool
	kept    *kept            // what it keeps during a loop; nil: nothing
	sources []source         // what its kernel has packed
}

// has returns what few steps have, for reading.
func (st *step) has() *belongings {
	if st.more == nil {
		return &noBelongings
	}
	return st.more
}

var noBelongings belongings

// own returns what few steps have, to be changed.
func (st *step) own() *belongings {
	if st.more == nil {
		st.more = &belongings{}
	}
	return st.more
}

// maxCalled bounds the nodes of called functions in a session, which counts them at each
// call: n functions, each of which calls the next one twice, would make 2^n nodes.
const maxCalled = 1 << 18

// nodeHeap is what a node of a session, its tensors and its part of the graph take of Go's
// heap, estimated from above. Up to 3 KiB are live (networks of 170 to 24,070 nodes), and
// until a collection Go lets the heap grow to twice of that.
const nodeHeap = 6 << 10

// takeHeap counts Go's heap for the nodes of a graph.
func (s *Session) takeHeap(nodes int) error {
	if s.opt.Device != nil { // the limit is one of the device
		return nil
	}
	bytes := int64(nodes) * nodeHeap
	if err := s.Mem.Take(bytes); err != nil {
		return err
	}
	s.Mem.Heap += bytes
	return nil
}

// builder makes the frames of a session.
type builder struct {
	s      *Session
	bodies []plan.Subgraph // in the plan's order
	next   int             // index of the next entry

	rewriters []Rewriter // of the session

	called int   // nodes of called functions, at each call
	at     *step // the node that is being prepared, nil before the first

	workspace workspace // of the main graph's node that is being prepared

	inFunction bool
	inLoop     bool                     // the next frame is the body of a loop
	inBranch   bool                     // in a branch of an If, which may never run
	layouts    map[*graph.Graph]*layout // of graphs within local functions
	shapes     map[string][]int         // of tensors, by their lengths
}

// frame builds a graph's tensors and steps. outer is the frame around a body, nil
// for other graphs; args are the inputs of a function, nil for omitted ones.
func (b *builder) frame(g *graph.Graph, opsets []graph.Opset, outer *frame, args map[graph.TensorID]*values.Tensor, a *area, known []*ops.Value) (*frame, error) {
	if err := b.s.takeHeap(len(g.Nodes)); err != nil {
		return nil, err
	}
	f := &frame{s: b.s, g: g, tensors: make([]*values.Tensor, len(g.Tensors)), values: known}
	f.loops, b.inLoop = b.inLoop, false
	for _, c := range g.Captures {
		f.tensors[c.Inner] = outer.tensors[c.Outer]
	}
	own := 0
	for id, t := range g.Tensors {
		if arg, isArg := args[graph.TensorID(id)]; isArg && !t.Capture {
			f.tensors[id] = arg
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
		f.tensors[id], made = &made[0], made[1:]
	}
	a.tensors = nil
	b.s.frames = append(b.s.frames, f)
	if err := b.views(f); err != nil {
		return nil, err
	}
	return f, b.steps(f, opsets, a)
}

// views gives each tensor that views a constant the place of that constant, wherever the
// plan puts it, unless it is an output, and each tensor without a planned place that of the
// outer tensor that it views. Tensors that view nothing go to the side pool.
func (b *builder) views(f *frame) error {
	order, _ := f.g.Topological()
	for _, n := range order {
		fixed := f.fixed(f.g.Nodes[n])
		for k, id := range f.g.Nodes[n].Outputs {
			if id < 0 || f.tensors[id].Const || f.g.Tensors[id].Dynamic != "" {
				continue
			}
			t := f.tensors[id]
			t.Computed = fixed
			if v := viewedOf(f.g.Nodes[n], k); v != graph.None {
				placed := t.Room > 0 || b.s.opt.Separate
				if from := f.tensors[v]; from != nil && (from.Const && !f.g.Tensors[id].Output || !placed && (from.Room > 0 || from.Const)) {
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
func (f *frame) fixed(n *graph.Node) bool {
	if !n.Semantics.Known || n.Semantics.Random || len(n.Bodies()) > 0 || n.Semantics.Call != nil && !n.Semantics.Call.Function.Own() {
		return false
	}
	shapes := ops.OfShape(n)
	for _, id := range n.Inputs {
		if id < 0 || f.tensors[id] == nil { // left out, here or in the call of the function
			continue
		}
		if t := f.tensors[id]; !t.Fixed() && !(shapes && t.Exact) {
			return false
		}
	}
	return true
}

// tensor builds n, one tensor of a frame.
func (b *builder) tensor(n *values.Tensor, g *graph.Graph, id graph.TensorID, a *area) error {
	t := g.Tensors[id]
	if d := b.s.pr.ConstantOf(g, id); d != nil {
		c, err := b.s.constant(d)
		if err != nil {
			return err
		}
		if b.s.gpu != nil {
			b.s.gpu.constants.Found(d, c)
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
func (f *frame) take(room []*values.Tensor, ids []graph.TensorID) (list, rest []*values.Tensor) {
	n := len(ids)
	list, rest = room[:n:n], room[n:]
	for i, id := range ids {
		if id >= 0 {
			list[i] = f.tensors[id]
		}
	}
	return list, rest
}

// n is the node of a step.
func (st *step) n() *graph.Node { return st.f.g.Nodes[st.node] }

// version is that of the node's operator.
func (st *step) version() int64 { return graph.FindOpset(st.f.opsets, st.n().Domain) }

// call returns the invocation of the node's kernel. It is made when it is first asked for, and
// dropped once the kernel is prepared, if nothing stands in it then (dropCall).
func (st *step) call() *kernel.Invocation {
	if st.invocation != nil {
		return st.invocation
	}
	list := make([]*kernel.Tensor, len(st.in)+len(st.out))
	for i, t := range st.in {
		list[i] = t.Kernels()
	}
	for i, t := range st.out {
		list[len(st.in)+i] = t.Kernels()
	}
	st.invocation = &kernel.Invocation{
		Call: form.Call{
			Node:    st.n(),
			Version: st.version(),
			Block:   st.f.block,
			Runtime: st,
			In:      list[:len(st.in):len(st.in)],
			Out:     list[len(st.in):],
		},
		Walls:   st.f.s.walls(),
		Workers: st.f.s.Pool.Workers(),
	}
	return st.invocation
}

// dropCall drops the invocation of a step whose kernel is prepared, unless the kernel has written
// something there that others read. A kernel that needs it when it runs holds it itself. In a
// graph of many nodes, invocations take as much memory as steps.
func (st *step) dropCall() {
	c, s := st.invocation, st.f.s
	switch {
	case c == nil, st.kernel == nil && st.fusedInto == nil && st.task() == nil, st.late, st.has().joined != nil:
	case s.gpu != nil, s.Mem.Guard != nil, s.watch.comparer != nil, s.opt.Poison:
	case c.Residual != nil, c.Taken, len(c.Packed) > 0, c.SharedBytes > 0, c.EachBytes > 0:
	default:
		st.invocation = nil
	}
}

// packed returns the constant inputs that the step's kernel has packed.
func (st *step) packed() []*kernel.Tensor {
	if st.invocation == nil {
		return nil
	}
	return st.invocation.Packed
}

// order is the planned order, or, if tensors are separate, another one ([reversed]).
func (b *builder) order(g *graph.Graph) ([]graph.NodeID, error) {
	if !b.s.opt.Separate {
		return g.Topological()
	}
	return reversed(g), nil
}

// planFrees finds the step after which each dynamic tensor of the frame is freed.
func (f *frame) planFrees(place []int) {
	output := map[graph.TensorID]bool{}
	for _, t := range f.g.Outputs {
		output[t] = true
	}
	for id, g := range f.g.Tensors {
		t := f.tensors[id]
		if t == nil || t.Room > 0 || t.Exact || t.Const || g.Capture || g.Maker < 0 || output[graph.TensorID(id)] {
			continue
		}
		last := place[g.Maker]
		for _, r := range g.Readers {
			last = max(last, place[r])
		}
		own := f.steps[last].own()
		own.frees = append(own.frees, t)
	}
}

// prepareAll prepares the kernels, in the listed order, which is that of the plan's bodies.
func (l *lowering) prepareAll() error {
	for _, st := range l.f.steps {
		l.at = st
		if l.f.g == l.s.pr.Model.Graph {
			l.workspace = l.s.gpu.workspaceOf(st.node, l.a)
		}
		if err := l.prepare(st); err != nil {
			return err
		}
		st.dropCall()
	}
	return nil
}

// prepare finds the kernel of a node, or builds its bodies, and prepares it.
func (l *lowering) prepare(st *step) error {
	n := st.n()
	if len(st.out) == 1 && st.out[0] != nil && st.out[0].Const {
		return nil
	}
	if special, err := l.control(st, l.opsets, l.a); special || err != nil {
		var e *graph.Error
		if err != nil && !errors.As(err, &e) {
			e = graph.Errorf("%w", err)
			return e.AtNode(st.f.g.Label(st.node))
		}
		return err
	}
	if st.fusedInto != nil {
		return nil
	}
	if t := st.task(); t != nil && t.run != nil {
		if st.run = t.run; st.device {
			return nil
		}
		_, err := l.s.scratchFor(st)
		return err
	}
	if do := st.boxer(); do != nil {
		st.run, st.boxes = st.runBoxer(do), true
		return nil
	}
	if st.kernel = kernel.Lookup(n.Domain, n.Op); st.kernel == nil {
		l.s.missing.add(st.f.g.Label(st.node), n.OpName(), ErrNoKernel)
		return nil
	}
	switch open, err := st.check(); {
	case err != nil && !l.inBranch:
		return graph.Errorf("%w", err).AtNode(st.f.g.Label(st.node))
	case err != nil, open, !st.exact():
		// Its shapes are unknown, or unproven, before it runs; or the node is wrong
		// for these shapes, but in a branch that may never run.
		st.late = true
		return nil
	case st.idle() || st.inPlace():
		return nil
	}
	if done, err := l.s.gpu.prepare(st, l.workspace); done || err != nil {
		return err
	}
	joined, err := st.prepareQuantized()
	if !joined {
		err = l.fuse(st)
	}
	if errors.Is(err, form.ErrDataDependent) {
		st.late = true
		return nil
	}
	if err != nil {
		l.s.missing.add(st.f.g.Label(st.node), n.OpName(), err)
		return nil
	}
	call := st.call()
	if j := st.has().joined; j != nil {
		call = &j.call
	}
	st.describe(call.Way)
	_, err = l.s.scratchFor(st)
	return err
}

// scratchFor records the scratch that a prepared kernel asks for, and reports
// whether the session's scratch must grow. In a guarded session every node has its
// own scratch.
func (s *Session) scratchFor(st *step) (grown bool, err error) {
	c := st.call()
	if s.Mem.Guard != nil {
		return false, s.guardScratch(st)
	}
	if grown = c.SharedBytes > s.scratch.shared || c.EachBytes > s.scratch.each; grown {
		s.scratch.largest = st
	}
	s.scratch.shared, s.scratch.each = max(s.scratch.shared, c.SharedBytes), max(s.scratch.each, c.EachBytes)
	return grown, nil
}

// exact reports whether all shapes of a node are known before it runs.
func (st *step) exact() bool {
	for _, t := range st.in {
		if t != nil && !t.Exact {
			return false
		}
	}
	for _, t := range st.out {
		if t != nil && !t.Exact {
			return false
		}
	}
	return true
}

// idle reports whether the node has no output element to compute, because its
// outputs are empty or omitted. Kernels never see such a node, so they need not
// guard against division by zero or an access to the first element.
func (st *step) idle() bool {
	for _, t := range st.out {
		if t != nil && (t.Shape == nil || t.Len() > 0) {
			return false
		}
	}
	return true
}

// do runs the node. It returns a panic of the kernel as an error.
func (st *step) do() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = st.wrap(st.f.s.panicked(r))
		}
	}()
	st.enter()
	if err := st.f.s.gpu.before(st); err != nil {
		return st.wrap(err)
	}
	if st.late {
		if err := st.prepareLate(); err != nil {
			return st.wrap(err)
		}
	}
	s := st.f.s
	if s.opt.Poison && s.Mem.Guard == nil {
		s.poisonScratch(st)
	}
	if s.watch.comparer != nil {
		s.ToHost(st.in...)
		s.watch.comparer.before(st)
	}
	if st.run != nil {
		if s.Mem.Guard != nil {
			st.useScratch(s.Pool)
		}
		if err := st.run(s.Pool); err != nil {
			return st.wrap(err)
		}
		s.gpu.after(st)
		if s.Mem.Guard != nil {
			if err := s.checkGuards(st); err != nil {
				return st.wrap(err)
			}
		}
	}
	if s.watch.comparer != nil {
		s.ToHost(st.out...)
		s.watch.comparer.after(st)
	}
	if st.more != nil {
		for _, t := range st.more.frees {
			s.Release(t)
		}
	}
	return nil
}

// wrap names the node in an error, unless the error is about a changed file.
func (st *step) wrap(err error) error {
	if errors.Is(err, mapped.ErrChanged) {
		return err
	}
	var e *graph.Error
	if !errors.As(err, &e) {
		e = graph.Errorf("%w", st.by(err))
	}
	return e.AtNode(st.f.g.Label(st.node))
}

// Heap implements kernel.Runtime.
func (st *step) Heap(bytes int64) error {
	if err := st.f.s.Mem.Take(bytes); err != nil {
		return err
	}
	st.own().heap += bytes
	st.f.s.Mem.Tables += bytes
	return nil
}

// Table implements kernel.Runtime: tables lie in the side pool.
func (st *step) Table(bytes int64) (unsafe.Pointer, error) {
	b, err := st.f.s.Mem.Side.Hold("a table of a kernel", bytes)
	if err != nil {
		return nil, err
	}
	own := st.own()
	own.tables = append(own.tables, b)
	st.f.s.Mem.Tables += int64(len(b))
	if st.f.s.Mem.Guard == nil {
		st.f.s.Mem.SideTables += int64(len(b))
	}
	return unsafe.Pointer(unsafe.SliceData(b)), nil
}

// freeTables frees the memory that a kernel kept, before it is prepared again.
func (st *step) freeTables() {
	if st.more == nil {
		return
	}
	s := st.f.s
	s.Mem.Give(st.more.heap)
	s.Mem.Tables -= st.more.heap
	st.more.heap = 0
	for _, b := range st.more.tables {
		s.Mem.Side.Give(b)
		s.Mem.Tables -= int64(len(b))
		if s.Mem.Guard == nil {
			s.Mem.SideTables -= int64(len(b))
		}
	}
	st.more.tables = st.more.tables[:0]
}

// release frees the blocks of the frame's outputs, except outputs that are inputs or
// captures: the next iteration, or the caller, still reads those.
func (f *frame) release() {
	for _, id := range f.g.Outputs {
		if t := f.tensors[id]; f.g.Tensors[id].Maker >= 0 && t != nil && (t.Block != nil || t.Box != nil) {
			f.s.Release(t)
		}
	}
}

// ends returns the tensors of a list of inputs or outputs.
func (f *frame) ends(ids []graph.TensorID) (list []*values.Tensor) {
	for _, id := range ids {
		list = append(list, f.tensors[id])
	}
	return list
}

// runAll runs the nodes of a body or function.
func (f *frame) runAll() error {
	if f.s.watch.comparer != nil {
		f.s.ToHost(f.ends(f.g.Inputs)...)
	}
	f.s.watch.comparer.enter(f)
	for _, st := range f.steps {
		if err := st.do(); err != nil {
			return err
		}
	}
	if f.s.watch.comparer != nil {
		f.s.ToHost(f.ends(f.g.Outputs)...)
	}
	f.s.watch.comparer.leave(f)
	return nil
}

// prepareLate finds the shapes of the outputs and prepares the kernel at run time,
// from the actual inputs.
func (st *step) prepareLate() error {
	st.live = true
	defer func() { st.live = false }()
	if _, err := st.check(); err != nil {
		return err
	}
	st.run = nil
	if st.idle() {
		return nil
	}
	st.freeTables()
	st.call().SharedBytes, st.call().EachBytes = 0, 0
	if w := st.call().Walls; w != nil {
		w.Reset()
	}
	run, err := st.kernel.Prepare(st.call())
	if err != nil {
		return err
	}
	st.run = run
	grown, err := st.f.s.scratchFor(st)
	if grown {
		return st.f.s.growScratch()
	}
	return err
}

// Live implements kernel.Runtime.
func (st *step) Live() bool { return st.live }

// Known implements kernel.Runtime.
func (st *step) Known(i int) ([]int64, bool) {
	if st.f.values == nil || i >= len(st.n().Inputs) {
		return nil, false
	}
	t := st.n().Inputs[i]
	if t < 0 {
		return nil, false
	}
	return st.f.values[t].Ints()
}

// Resize implements kernel.Runtime.
func (st *step) Resize(i int, shape []int) error { return st.f.s.Resize(st.out[i], shape) }

// Repeats implements kernel.Runtime. Any body or function may be part of a loop.
func (st *step) Repeats() bool { return st.f.g != st.f.s.pr.Model.Graph }

// Seed implements kernel.Runtime. It hashes the output's name, so that the order of
// the nodes does not matter.
func (st *step) Seed() uint64 {
	h := st.f.s.opt.Seed ^ st.f.s.control.step*0x9e3779b97f4a7c15
	for _, c := range []byte(st.out[0].Name) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}

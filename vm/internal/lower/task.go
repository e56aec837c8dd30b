package lower

import (
	"iter"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Task is what the kernel at a step does, if that is not to read the inputs of the step's node
// and to write its outputs. A node is in one task, or is one by itself.
type Task struct {
	By     string  // the row that made it
	At     *Step   // the step at which it runs, which has the name of its algorithm (Way)
	Covers []*Step // whose work it does
	Reads  []Place
	Writes []Place // what else the nodes make exists only within the kernel (tensor.inside)

	// The kernel: one that is ready, or one from bytes to bytes that is still to be prepared; if
	// there is neither, that of the step's node, which does it all.
	run    kernel.Run
	joined *joined
}

// Rows see the frame as tasks: nodes that no task has taken, and the tasks of other rows, by the
// places that they read and write. A node that a task has taken is none of these.

// untaken goes through the nodes that are in no task, in the order in which they run. A row may
// make tasks of them meanwhile.
func (l *lowering) untaken() iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		for _, id := range l.order {
			if st := l.f.untaken(id); st != nil && !yield(st) {
				return
			}
		}
	}
}

// untaken returns the step of a node that is in no task, and is computed when it runs; else nil.
func (f *Frame) untaken(id graph.NodeID) *Step {
	if st := f.Steps[id]; st.task == nil && !st.Once() {
		return st
	}
	return nil
}

// tasks goes through the tasks of several nodes, or from and to other places than a node's, that
// some rows made; through all if none is named.
func (f *Frame) tasks(rows ...string) iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for _, st := range f.Steps {
			if t := st.Task(); t != nil && (len(rows) == 0 || slices.Contains(rows, t.By)) && !yield(t) {
				return
			}
		}
	}
}

// newTask gives a step a task that covers it.
func (f *Frame) newTask(at *Step, reads, writes []*values.Tensor) *Task {
	f.changed = true
	at.task = &Task{By: f.row, At: at, Covers: []*Step{at}, Reads: placed(reads), Writes: placed(writes)}
	return at.task
}

// covers adds a step's node to a task, unless another task has it. Its output then exists only
// within kernels.
func (t *Task) covers(st *Step) {
	if st.task == nil {
		t.Covers = append(t.Covers, st)
		st.task, st.Out[0].Inside = t, true
	}
}

// call is the operation that the kernel computes.
func (t *Task) call() *kernel.Invocation {
	if t.joined != nil {
		return &t.joined.call
	}
	return t.At.Call()
}

// computes is the operation that the kernel at a step computes: its node's, or that which a task
// has in its place.
func (st *Step) computes() *kernel.Invocation {
	if t := st.Task(); t != nil {
		return t.call()
	}
	return st.Call()
}

// operator is the node that the kernel at a step computes: its own, or that which a task has in
// its place.
func (st *Step) operator() *graph.Node {
	if t := st.Task(); t != nil && t.joined != nil {
		return t.joined.call.Node
	}
	return st.Node()
}

// writesBytes reports whether the kernel at a step writes one tensor, of bytes.
func (st *Step) writesBytes() bool {
	if t := st.Task(); t != nil {
		return len(t.Writes) == 1 && (t.Writes[0].Bytes || t.Writes[0].Of.Byte())
	}
	return len(st.Out) == 1 && st.Out[0] != nil && st.Out[0].Byte()
}

// inputs goes through what the kernel at a step takes, by the inputs of its operation, with those
// that it has packed. It goes through nothing if another step's kernel does the work, and no
// output exists beside it.
func (st *Step) inputs(found func(i int, t *kernel.Tensor, packed []*kernel.Tensor)) {
	if st.absorbed() {
		return
	}
	for i, t := range st.In {
		found(i, t.Kernels(), st.packed())
	}
	if t := st.Task(); t != nil && t.joined != nil {
		for i, in := range t.joined.call.In {
			found(i, in, t.joined.call.Packed)
		}
	}
}

// prepareTask prepares the kernel of a step's task. It reports false if the kernel is that of the
// step's node.
func (st *Step) prepareTask() (done bool, err error) {
	t := st.task
	if t == nil || t.At == st && t.run == nil && t.joined == nil {
		return false, nil
	}
	st.Kernel = kernel.Lookup(st.Node().Domain, st.Node().Op)
	switch {
	case t.At != st:
		return true, nil
	case t.run != nil:
		st.Run = t.run
	default:
		st.Run, err = t.joined.prepare(t)
	}
	if st.Way == "" {
		st.describe(t.call().Way)
	}
	return true, err
}

// hold holds a tensor in a layout. Tasks that write or read it take it so.
func (f *Frame) hold(id graph.TensorID, as form.Layout) {
	t, of := f.Tensors[id], f.Graph.Tensors[id]
	t.Layout, f.changed = as, true
	for _, n := range append([]graph.NodeID{of.Maker}, of.Readers...) {
		task := f.Steps[n].task
		if task == nil {
			continue
		}
		for _, list := range [][]Place{task.Reads, task.Writes} {
			for i := range list {
				if list[i].Of == t {
					list[i].Layout = as
				}
			}
		}
	}
}

// Place is a place of the plan as a task reads or writes it.
type Place struct {
	Of     *values.Tensor
	Layout form.Layout // in which the task's kernel takes the image there
	Bytes  bool        // for which the kernel takes it, instead of reals
}

// String names the tensor, and the form in which a task takes it: "x in NHWC as bytes".
func (p Place) String() string {
	text := p.Of.Name
	if p.Layout != form.Plain {
		text += " in " + p.Layout.String()
	}
	if p.Bytes {
		text += " as bytes"
	}
	return text
}

// placeOf is a tensor's place as the session holds it now.
func placeOf(t *values.Tensor) Place { return Place{t, t.Layout, t.Quantized != nil} }

// bytes is the size of what is there.
func (p Place) bytes() int {
	if p.Bytes {
		return p.Of.Len()
	}
	return p.Of.Bytes()
}

// placed lists the places of some tensors, but for those that are left out.
func placed(list []*values.Tensor) []Place {
	return appendPlaced(make([]Place, 0, len(list)), list)
}

func appendPlaced(places []Place, list []*values.Tensor) []Place {
	for _, t := range list {
		if t != nil {
			places = append(places, placeOf(t))
		}
	}
	return places
}

// Tensors lists the tensors at some places.
func Tensors(places []Place) []*values.Tensor {
	list := make([]*values.Tensor, len(places))
	for i, p := range places {
		list[i] = p.Of
	}
	return list
}

// takes gives a step work for several nodes, after what it has already. A covered step whose
// work is done here does nothing by itself, unless it takes work later.
func (st *Step) takes(run kernel.Run, covers []*Step, reads, writes []*values.Tensor) {
	st.Frame.changed = true
	t := st.Task()
	if t == nil {
		if of := st.task; of != nil {
			of.Covers = slices.DeleteFunc(of.Covers, func(c *Step) bool { return c == st })
			covers = append(covers, st)
		}
		t = &Task{By: st.Frame.row, At: st}
		st.task = t
	}
	t.Covers, t.Reads, t.Writes = append(t.Covers, covers...), append(t.Reads, placed(reads)...), append(t.Writes, placed(writes)...)
	for _, c := range covers {
		c.Out[0].Inside, c.task = true, t
	}
	for _, w := range writes {
		w.Inside = false
	}
	if run == nil {
		return
	}
	if before := t.run; before != nil {
		after := run
		run = func(w *work.Pool) error {
			if err := before(w); err != nil {
				return err
			}
			return after(w)
		}
	}
	t.run = run
}

// extends lets the kernel of a step compute another node from its result, and from other tensors,
// and write the output of that node alone.
func (st *Step) extends(next *Step, reads ...*values.Tensor) {
	if next.task != nil && next.task.At == st {
		return // it was prepared before
	}
	st.Frame.changed = true
	t := st.task
	if t == nil {
		t = st.Frame.newTask(st, st.In, st.Out)
	}
	for _, w := range t.Writes {
		w.Of.Inside = true
	}
	t.Covers, t.Reads, t.Writes = append(t.Covers, next), append(t.Reads, placed(reads)...), placed(next.Out)
	next.task, next.Run = t, nil
}

// Task returns what the kernel at the step does for several nodes, or from and to other places
// than its node's; nil if nothing.
func (st *Step) Task() *Task {
	if st.Elsewhere() {
		return nil
	}
	return st.task
}

// Joined is how the kernel at the step computes its node from and to bytes; nil if it does not.
func (st *Step) Joined() *joined {
	if t := st.Task(); t != nil {
		return t.joined
	}
	return nil
}

// Elsewhere reports whether a kernel at another step does the work of this one's node.
func (st *Step) Elsewhere() bool { return st.task != nil && st.task.At != st }

// DoneAt returns the step whose kernel does the work of this one's node.
func (st *Step) DoneAt() *Step {
	if st.task == nil {
		return st
	}
	return st.task.At
}

// result returns the step whose output the kernel at a step writes last.
func (st *Step) result() *Step {
	if t := st.Task(); t != nil {
		return t.Covers[len(t.Covers)-1]
	}
	return st
}

// Once reports whether the step computed a constant when the session was built.
func (st *Step) Once() bool { return len(st.Out) == 1 && st.Out[0] != nil && st.Out[0].Made != nil }

// absorbed reports whether another step's kernel does the work of the node, and its output
// exists only there.
func (st *Step) absorbed() bool {
	return st.Elsewhere() && !slices.ContainsFunc(st.Out, func(t *values.Tensor) bool { return t != nil && !t.Inside })
}

// Views reports whether the output of a node on the device is its first input, in place
// and unchanged: its elements are where those of the input are.
func (st *Step) Views() bool {
	return st.Task() == nil && len(st.Node().Semantics.Views) > 0 && len(st.Out) == 1 && st.Out[0] != nil && st.In[0] != nil && st.Out[0].At == st.In[0].At && !st.In[0].Const
}

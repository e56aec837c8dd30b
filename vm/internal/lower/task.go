package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Task is what the kernel at a step does, if that is not to read the inputs of the step's node
// and to write its outputs. A node is in one task, or is one by itself.
type Task struct {
	At     *Step   // the step at which it runs, which has the name of its algorithm (Way)
	Covers []*Step // whose work it does
	Reads  []Place
	Writes []Place // what else the nodes make exists only within the kernel (tensor.inside)

	// The kernel: one that is ready, or one from bytes to bytes that is still to be prepared; if
	// there is neither, that of the step's node, which does it all.
	run    kernel.Run
	joined *joined
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
		t = &Task{At: st}
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
	if st.task == nil {
		st.task = &Task{At: st, Covers: []*Step{st}, Reads: placed(st.In), Writes: placed(st.Out)}
	}
	t := st.task
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

// single reports whether the step's kernel computes its node and nothing else, when the step runs.
func (st *Step) single() bool {
	return st.task == nil && !st.Once()
}

// Once reports whether the step computed a constant when the session was built.
func (st *Step) Once() bool { return len(st.Out) == 1 && st.Out[0] != nil && st.Out[0].Made != nil }

// copiesBytes reports whether a QuantizeLinear or DequantizeLinear copies bytes, since its
// neighbour computes from or to bytes.
func (st *Step) copiesBytes() bool {
	quantizes, dequantizes := ops.Converts(st.Node())
	return quantizes && st.In[0] != nil && st.In[0].Quantized != nil || dequantizes && st.Out[0] != nil && st.Out[0].Quantized != nil
}

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

package lower

import (
	"slices"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Task is what the kernel at a step does, if that is not to read the inputs of the step's node
// and to write its outputs. A node is in one task, or is one by itself.
type Task struct {
	At     *Step            // the step at which it runs
	Covers []*Step          // whose work it does
	Reads  []*values.Tensor // from the places of the plan
	Writes []*values.Tensor // to these: what else the nodes make exists only within the kernel (tensor.inside)
	run    kernel.Run
	// run is nil if the kernel of the step's node does it all, and is still to be prepared.
}

// takes gives a step work for several nodes, after what it has already. A covered step whose
// work is done here does nothing by itself, unless it takes work later.
func (st *Step) takes(run kernel.Run, covers []*Step, reads, writes []*values.Tensor) {
	t := st.Task()
	if t == nil {
		if of := st.task; of != nil {
			of.Covers = slices.DeleteFunc(of.Covers, func(c *Step) bool { return c == st })
			covers = append(covers, st)
		}
		t = &Task{At: st}
		st.task = t
	}
	t.Covers, t.Reads, t.Writes = append(t.Covers, covers...), append(t.Reads, reads...), append(t.Writes, writes...)
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
	if st.task == nil {
		st.task = &Task{At: st, Covers: []*Step{st}, Reads: slices.Clone(st.In), Writes: st.Out}
	}
	t := st.task
	for _, w := range t.Writes {
		w.Inside = true
	}
	t.Covers, t.Reads, t.Writes = append(t.Covers, next), append(t.Reads, reads...), next.Out
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

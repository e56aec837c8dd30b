package exec

import (
	"slices"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// task is what the kernel at a step does, if that is not to read the inputs of the step's node
// and to write its outputs.
type task struct {
	covers []*step          // whose work it does, in the order in which they run; not those of other tasks
	reads  []*values.Tensor // from the places of the plan
	writes []*values.Tensor // to these: what else the nodes make exists only within the kernel (tensor.inside)
	run    kernel.Run
	// run is nil if the kernel of the step's node does it all, and is still to be prepared.
}

// takes gives a step work for several nodes, after what it has already. A covered step whose
// work is done here does nothing by itself, unless it takes work later.
func (st *step) takes(run kernel.Run, covers []*step, reads, writes []*values.Tensor) {
	if by := st.fusedInto; by != nil {
		by.more.task.covers = slices.DeleteFunc(by.more.task.covers, func(c *step) bool { return c == st })
		covers = append(covers, st)
	}
	own := st.own()
	if own.task == nil {
		own.task = &task{}
	}
	t := own.task
	t.covers, t.reads, t.writes = append(t.covers, covers...), append(t.reads, reads...), append(t.writes, writes...)
	for _, c := range covers {
		if c.out[0].Inside = true; c != st {
			c.fusedInto = st
		}
	}
	st.fusedInto = nil
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
func (st *step) extends(next *step, reads ...*values.Tensor) {
	if next.fusedInto == st {
		return // it was prepared before
	}
	own := st.own()
	if own.task == nil {
		own.task = &task{covers: []*step{st}, reads: slices.Clone(st.in), writes: st.out}
	}
	t := own.task
	for _, w := range t.writes {
		w.Inside = true
	}
	t.covers, t.reads, t.writes = append(t.covers, next), append(t.reads, reads...), next.out
	next.fusedInto, next.run = st, nil
}

// task returns what the kernel at the step does for several nodes; nil if nothing.
func (st *step) task() *task { return st.has().task }

// single reports whether the step's kernel computes its node and nothing else, when the step runs.
func (st *step) single() bool {
	return st.fusedInto == nil && st.task() == nil && st.has().joined == nil && !st.once()
}

// once reports whether the step computed a constant when the session was built.
func (st *step) once() bool { return len(st.out) == 1 && st.out[0] != nil && st.out[0].Made != nil }

// copiesBytes reports whether a QuantizeLinear or DequantizeLinear copies bytes, since its
// neighbour computes from or to bytes.
func (st *step) copiesBytes() bool {
	quantizes, dequantizes := ops.Converts(st.n())
	return quantizes && st.in[0] != nil && st.in[0].Quantized != nil || dequantizes && st.out[0] != nil && st.out[0].Quantized != nil
}

// absorbed reports whether another step's kernel does the work of the node, and its output
// exists only there.
func (st *step) absorbed() bool {
	return st.fusedInto != nil && !slices.ContainsFunc(st.out, func(t *values.Tensor) bool { return t != nil && !t.Inside })
}

package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// ReferenceCheck is the result of CheckReference. A node of a body counts once,
// however often it runs; a node of a local function counts once per call in the
// graph.
type ReferenceCheck struct {
	Runs       int
	Compared   int               // nodes whose results were compared, with the evaluator's or as copies
	Uncompared map[string]int    // nodes whose results were not compared, by operator
	Reasons    map[string]string // why the first node of each such operator was not
	Idle       int               // nodes that never ran: in branches not taken, in loops without an iteration
	Wrong      int               // nodes with at least one wrong element
	// First describes the first wrong node in the order of execution: a *graph.Error
	// with the tensor, the element, and the expected and the found value. It is nil
	// if no node is wrong.
	First error
	// Worst is the largest error of a right element, as a fraction of its tolerance,
	// from 0 to 1. WorstAt is the element's node.
	Worst   float64
	WorstAt string
}

// CheckReference runs the program as planned and recomputes every node with a plain
// float64 evaluator, from the same inputs. runs and opt are as for CheckRun. Nodes of
// bodies and local functions are compared each time they run. A convolution or
// product is compared together with the activation that is fused into it. Tensors
// that If, Loop, Scan and calls copy must arrive bit for bit.
//
// An element's tolerance is some roundings of its dtype and of its summands. The
// check takes some 32 bytes for each element of the inputs and outputs of one node at
// a time, in addition to the session's memory; a node for which Options.MemoryLimit
// leaves too little is not compared. The check is slow: about a nanosecond for each
// multiplication of a product, and tens of nanoseconds for each element of other
// operators. With a plan for ranges of dimensions, all runs have the same lengths.
func CheckReference(ctx context.Context, p *program.Program, runs []map[string]values.Value, opt lower.Options) (*ReferenceCheck, error) {
	p, err := p.AtRuns(runs)
	if err != nil {
		return nil, err
	}
	w := newComparer(p)
	s, err := newSession(p, opt, w)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, inputs := range runs {
		if _, err := s.Run(ctx, inputs); err != nil {
			return nil, err
		}
		w.found.Runs++
	}
	return w.count(), nil
}

// verdict is the state of the comparison of a step. A larger one is worse.
type verdict int

const (
	idle verdict = iota // the step has not run
	right
	uncompared
	wrong
)

// comparer compares the steps of a session with the evaluator.
type comparer struct {
	file      string
	main      *lower.Frame // of the session
	control   *control     // of the session
	found     *ReferenceCheck
	steps     []*lower.Step // all steps of the session
	state     map[*lower.Step]verdict
	in        []*reference.Tensor            // inputs of the step that is about to run
	fault     error                          // why its inputs are unknown; else nil
	held      int64                          // bytes counted for the evaluation of that step
	makers    map[*values.Tensor]*lower.Step // steps that compute constants when the session is built
	handovers []*handover                    // of the If, Loop, Scan and calls that run, the innermost last
	pending   map[*values.Tensor]*incoming   // what SwapIn brings in the background
}

func newComparer(p *program.Program) *comparer {
	return &comparer{
		file: program.FileOf(p.Model), found: &ReferenceCheck{Uncompared: map[string]int{}, Reasons: map[string]string{}},
		state: map[*lower.Step]verdict{}, makers: map[*values.Tensor]*lower.Step{}, pending: map[*values.Tensor]*incoming{},
	}
}

// incoming is the expected result of a SwapIn that copies in the background.
type incoming struct {
	st    *lower.Step
	bytes []byte
}

// AddSteps registers the steps of a frame.
func (w *comparer) AddSteps(f *lower.Frame) {
	if w != nil {
		w.steps = append(w.steps, f.Steps...)
	}
}

// LeaveOut registers a step whose output nobody reads.
func (w *comparer) LeaveOut(st *lower.Step) {
	if w != nil {
		w.makers[st.Out[0]] = st
	}
}

// enter and leave check a body's inputs and outputs right before and after it runs.
func (w *comparer) enter(f *lower.Frame) {
	if w != nil {
		w.handovers[len(w.handovers)-1].enter(f)
	}
}

func (w *comparer) leave(f *lower.Frame) {
	if w != nil {
		w.handovers[len(w.handovers)-1].leave(f)
	}
}

// count totals the verdicts.
func (w *comparer) count() *ReferenceCheck {
	r := w.found
	for _, st := range w.steps {
		switch w.state[st] {
		case idle:
			r.Idle++
		case right:
			r.Compared++
		case uncompared:
			r.Uncompared[st.Node().OpName()]++
		case wrong:
			r.Compared++
			r.Wrong++
		}
	}
	return r
}

// before saves the inputs of a step that is about to run, because its outputs may
// overwrite them.
func (w *comparer) before(st *lower.Step) {
	if st.Frame == w.main {
		w.handovers = w.handovers[:0] // a run that failed leaves some
	}
	w.checkArrived(st)
	switch {
	case st.Once(), st.Elsewhere(), st.Boxes, makesNothing(st):
		return
	case copies(st):
		w.handovers = append(w.handovers, newHandover(st))
		return
	case st.Kernel == nil && w.state[st] != idle: // a constant of the file
		return
	}
	if w.held = elements(st) * heldBytes; st.Frame.Site.Mem.Take(w.held) != nil {
		w.held, w.in, w.fault = 0, nil, fmt.Errorf("too little memory")
		return
	}
	w.in, w.fault = w.inputs(st)
	if st.Node().IsSwapIn() && st.Run == nil {
		w.pending[st.Out[0]] = &incoming{st, bytes.Clone(values.BytesOf(st.In[0]))}
	}
}

// checkArrived checks the tensors that a background SwapIn copied, before their first
// reader runs.
func (w *comparer) checkArrived(st *lower.Step) {
	for _, t := range st.In {
		c := w.pending[t]
		if t == nil || c == nil {
			continue
		}
		delete(w.pending, t)
		w.record(c.st, right)
		if i := firstDifferent(values.BytesOf(t), c.bytes); i >= 0 {
			w.recordWrong(c.st, t.Name, fmt.Errorf("byte %d differs from the host's copy", i))
		}
	}
}

// inputs decodes the inputs of a step for the evaluator.
func (w *comparer) inputs(st *lower.Step) ([]*reference.Tensor, error) {
	in := make([]*reference.Tensor, len(st.In))
	for i, t := range st.In {
		if t == nil {
			continue
		}
		var err error
		if in[i], err = w.value(st, t); err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
	}
	return in, nil
}

// value decodes a tensor that a step reads or writes for the evaluator. A constant that a node computed when the
// session was built may have been freed after packing: it is recomputed.
func (w *comparer) value(st *lower.Step, t *values.Tensor) (*reference.Tensor, error) {
	if t.Quantized != nil {
		return t.AsSeen(t.Quantized.Reals(t.At))
	}
	if maker := w.makers[t]; maker != nil && (t.At == nil || maker.Elsewhere()) {
		in, err := w.inputs(maker)
		if err != nil {
			return nil, err
		}
		out, err := w.evaluate(maker, in)
		if err != nil {
			return nil, err
		}
		return out[0].Stored(), nil
	}
	v, err := reference.Decode(t.Type, t.Shape, values.BytesOf(t))
	if err == nil && t.Layout == form.NCHW {
		v = reference.Layout{Block: st.Call().ChannelBlock()}.Blocks(v)
	}
	return t.AsSeen(v, err)
}

// after compares the outputs of a step that has run.
func (w *comparer) after(st *lower.Step) {
	switch {
	case st.Once(), st.Elsewhere():
		return
	case st.Boxes:
		w.recordUncompared(st, errors.New("its values are no tensors"))
		return
	case makesNothing(st):
		w.record(st, right) // the gate has checked the shape
		return
	case copies(st):
		h := w.handovers[len(w.handovers)-1]
		w.handovers = w.handovers[:len(w.handovers)-1]
		name, err := h.end()
		w.record(st, right)
		if err != nil {
			w.recordWrong(st, name, err)
		}
		return
	case st.Kernel == nil && w.state[st] != idle:
		return
	case st.Node().IsSwapIn() && st.Run == nil: // checked before its first reader runs
	default:
		w.compare(st)
	}
	st.Frame.Site.Mem.Give(w.held)
	w.in, w.held = nil, 0
}

// heldBytes is the memory of the evaluator for each element of an input or output:
// two float64 for the element, and two for intermediate values.
const heldBytes = 32

// elements counts the elements of a step's inputs and outputs. Outputs whose shape is
// not known yet count as 0.
func elements(st *lower.Step) int64 {
	var n int64
	for _, list := range [][]*values.Tensor{st.In, st.Out} {
		for _, t := range list {
			if t != nil && t.Shape != nil {
				n = units.Add(n, int64(t.Len()))
			}
		}
	}
	return n
}

// makesNothing reports whether the step has a kernel, but no output element.
func makesNothing(st *lower.Step) bool { return st.Kernel != nil && st.Idle() }

// compare compares the outputs of a step, or of the activation that is fused into it,
// with the evaluator's.
func (w *comparer) compare(st *lower.Step) {
	last := st
	out, err := []reference.Output(nil), w.fault
	if err == nil {
		out, err = w.evaluate(st, w.in)
	}
	switch {
	case err != nil:
	case st.Joined() != nil:
		out, err = w.applyQuantize(st.Joined().To.Step, out[0])
	case st.Task() != nil && len(st.Task().Covers) > 1: // the activation that the kernel applies
		last = st.Task().Covers[1]
		out, err = w.applyFused(last, out[0])
	}
	if err != nil {
		w.recordUncompared(st, err)
		if last != st {
			w.recordUncompared(last, err)
		}
		return
	}
	for i, t := range last.Out {
		if t == nil {
			continue
		}
		var got *reference.Tensor
		var err error
		if st.Joined() != nil {
			got, err = t.AsSeen(t.Quantized.Decode(t.At))
		} else {
			got, err = w.value(st, t)
		}
		if err != nil {
			w.recordUncompared(st, fmt.Errorf("output %d: %w", i, err))
			continue
		}
		d, err := out[i].Compare(got)
		w.record(st, right)
		if last != st {
			w.record(last, right)
		}
		switch {
		case err != nil:
			w.recordWrong(last, t.Name, err)
		case d.Ratio > 1 || math.IsNaN(d.Ratio):
			w.recordWrong(last, t.Name, fmt.Errorf("element %d (at %v) is %v, expected %v within %.3g", d.Element, position(d.Element, t.Shape), d.Found, d.Expected, d.Tolerance))
		case d.Ratio > w.found.Worst:
			w.found.Worst, w.found.WorstAt = d.Ratio, w.label(last)
		}
	}
}

// applyFused evaluates an activation on the output of the step that it is fused into.
func (w *comparer) applyFused(st *lower.Step, made reference.Output) ([]reference.Output, error) {
	out, err := w.applied(st, made)
	if err != nil {
		return nil, err
	}
	return []reference.Output{out[0].After(made)}, nil
}

// applied evaluates a step on the output of another one.
func (w *comparer) applied(st *lower.Step, made reference.Output) ([]reference.Output, error) {
	in := []*reference.Tensor{made.Tensor}
	for _, t := range st.In[1:] {
		var x *reference.Tensor
		if t != nil {
			var err error
			if x, err = w.value(st, t); err != nil {
				return nil, err
			}
		}
		in = append(in, x)
	}
	return w.evaluate(st, in)
}

// applyQuantize evaluates a QuantizeLinear on the output of the convolution that is joined
// with it.
func (w *comparer) applyQuantize(st *lower.Step, made reference.Output) ([]reference.Output, error) {
	out, err := w.applied(st, made)
	if err != nil {
		return nil, err
	}
	scale := st.In[1].Tensor
	list, _ := scale.Reals()
	return []reference.Output{out[0].Rounded(made, list[0])}, nil
}

// evaluate computes a step with the evaluator. A run that is stopped does not wait
// for the result.
func (w *comparer) evaluate(st *lower.Step, in []*reference.Tensor) (out []reference.Output, err error) {
	done, n := make(chan struct{}), st.Node()
	if st.Device {
		n = gpu.AsComputed(n)
	}
	go func() {
		out, err = reference.Layout{Block: st.Call().ChannelBlock()}.Node(n, st.Call().Version, in)
		for i := range out {
			out[i] = out[i].Narrowed(st.Call().Rounding)
		}
		close(done)
	}()
	s := st.Frame.Site
	select {
	case <-done:
	case <-w.control.ctx.Done():
		s.Pool.Stop()
		s.Pool.Poll()
	}
	return out, err
}

// record sets the verdict of a step, unless the step has a worse one.
func (w *comparer) record(st *lower.Step, v verdict) { w.state[st] = max(w.state[st], v) }

// recordUncompared records that a step was not compared, and why.
func (w *comparer) recordUncompared(st *lower.Step, err error) {
	w.record(st, uncompared)
	if op := st.Node().OpName(); w.found.Reasons[op] == "" {
		w.found.Reasons[op] = err.Error()
	}
}

// recordWrong records that a tensor of a step's result is wrong.
func (w *comparer) recordWrong(st *lower.Step, name string, err error) {
	w.record(st, wrong)
	if w.found.First != nil {
		return
	}
	e := graph.Errorf("%w", st.DoneAt().By(err)).AtNode(w.label(st))
	e.File, e.Tensor = w.file, name
	w.found.First = e
}

// label names a step and the steps around it.
func (w *comparer) label(st *lower.Step) string {
	label := st.Frame.Graph.Label(st.ID)
	for _, h := range slices.Backward(w.handovers) {
		label += " within " + h.st.Frame.Graph.Label(h.st.ID)
	}
	return label
}

// CompareOnce compares a step that computes a constant when the session is built. It
// computes the constant again, in its own memory, because the first copy may already
// be freed.
func (w *comparer) CompareOnce(st *lower.Step, run kernel.Run) {
	if w == nil {
		return
	}
	s, out := st.Frame.Site, st.Out[0]
	w.makers[out] = st
	copied, err := store.NewBlock(int64(out.Bytes()), "constants that are compared")
	if err != nil {
		w.recordUncompared(st, err)
		return
	}
	defer copied.Free()
	defer func(place unsafe.Pointer) { out.At = place }(out.At)
	out.At = copied.Base
	_, err = s.ScratchFor(st)
	if err == nil {
		err = s.GrowScratch()
	}
	if err != nil {
		w.recordUncompared(st, err)
		return
	}
	if s.Mem.Guard != nil {
		st.UseScratch(s.Pool)
	}
	if err := run(s.Pool); err != nil {
		w.recordUncompared(st, err)
		return
	}
	w.in, w.fault = w.inputs(st)
	w.compare(st)
}

// firstDifferent returns the index of the first byte that differs, or -1.
func firstDifferent(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// position returns the coordinates of element i of a shape.
func position(i int, shape []int) []int {
	at := slices.Clone(shape)
	for k := len(shape) - 1; k >= 0; k-- {
		at[k] = i % max(shape[k], 1)
		i /= max(shape[k], 1)
	}
	return at
}

package vm

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// ReferenceCheck is what CheckReference found. A node of a body or of a local
// function counts once for each place at which it stands, however often it runs.
type ReferenceCheck struct {
	Runs       int
	Compared   int               // nodes whose results were held against the evaluator's, or are copies that were checked
	Uncompared map[string]int    // nodes that were not, by operator
	Reasons    map[string]string // why not: of the first of each operator
	Idle       int               // nodes that never ran: of branches that were not taken, of loops without an iteration
	Wrong      int               // nodes of which an element is off
	// First is the first of those in the order in which they ran, of type
	// *graph.Error, with the tensor, the element, and what was expected and found;
	// nil if there is none.
	First error
	// Worst is how far, of all elements that are right, one came to its tolerance:
	// from 0 to 1. WorstAt is its node.
	Worst   float64
	WorstAt string
}

// CheckReference runs the program as it is planned and computes every node a
// second time, by a plain evaluator in float64, from the very inputs that the node
// had. runs and opt are as for CheckRun. Nodes of bodies and local functions are
// compared whenever they run; an activation that a convolution or product does as
// well is compared with it as one. What If, Loop, Scan and calls hand from place to
// place must be the same bits.
//
// An element may be off by some roundings of its dtype, and of what was added up
// for it. Beyond the session's memory this takes some 32 bytes for each element of
// the inputs and outputs of one node at a time; a node for which Options.MemoryLimit
// does not leave them is not compared. It is slow: a nanosecond for each
// multiplication of a product, tens of them for each element of other operators.
func (p *Program) CheckReference(ctx context.Context, runs []map[string]Value, opt Options) (*ReferenceCheck, error) {
	w := newComparer(p)
	opt.judge = w
	s, err := p.NewSession(opt)
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

// verdict is what is known of a step so far.
type verdict int

const (
	idle verdict = iota // it has not run
	right
	uncompared
	wrong
)

// comparer holds the steps of a session against the evaluator.
type comparer struct {
	file     string
	found    *ReferenceCheck
	steps    []*step // all of the session
	state    map[*step]verdict
	in       []*reference.Tensor   // of the step that is about to run
	fault    error                 // why they are not known
	held     int64                 // bytes of what the evaluator takes for it
	makers   map[*tensor]*step     // of constants that nodes make once
	hands    []*hand               // of the If, Loop, Scan and calls that run, the innermost last
	underway map[*tensor]*crossing // what SwapIn brings in the background
}

func newComparer(p *Program) *comparer {
	return &comparer{
		file: fileOf(p.m), found: &ReferenceCheck{Uncompared: map[string]int{}, Reasons: map[string]string{}},
		state: map[*step]verdict{}, makers: map[*tensor]*step{}, underway: map[*tensor]*crossing{},
	}
}

// crossing is what a SwapIn that copies in the background is to bring.
type crossing struct {
	st    *step
	bytes []byte
}

// built notes the steps of a frame.
func (w *comparer) built(f *frame) {
	if w != nil {
		w.steps = append(w.steps, f.steps...)
	}
}

// enter and leave see a body right before and after it runs.
func (w *comparer) enter(f *frame) {
	if w != nil {
		w.hands[len(w.hands)-1].enter(f)
	}
}

func (w *comparer) leave(f *frame) {
	if w != nil {
		w.hands[len(w.hands)-1].leave(f)
	}
}

// count sums up the verdicts.
func (w *comparer) count() *ReferenceCheck {
	r := w.found
	for _, st := range w.steps {
		switch w.state[st] {
		case idle:
			r.Idle++
		case right:
			r.Compared++
		case uncompared:
			r.Uncompared[st.call.Node.OpName()]++
		case wrong:
			r.Compared++
			r.Wrong++
		}
	}
	return r
}

// before sees a step that is ready to run: results may overwrite its inputs.
func (w *comparer) before(st *step) {
	if st.f == st.f.s.main {
		w.hands = w.hands[:0] // a run that failed leaves some
	}
	w.arrived(st)
	switch {
	case st.once, st.within != nil, st.makesNothing():
		return
	case st.copies():
		w.hands = append(w.hands, newHand(st))
		return
	case st.kernel == nil && w.state[st] != idle: // a constant of the file
		return
	}
	if w.held = st.elements() * heldBytes; st.f.s.mem.take(w.held) != nil {
		w.held, w.in, w.fault = 0, nil, fmt.Errorf("too little memory")
		return
	}
	w.in, w.fault = w.inputs(st)
	if st.call.Node.IsSwapIn() && st.run == nil {
		w.underway[st.out[0]] = &crossing{st, bytes.Clone(bytesOf(st.in[0]))}
	}
}

// arrived looks, before a step reads what SwapIn brings in the background, at what
// came.
func (w *comparer) arrived(st *step) {
	for _, t := range st.in {
		c := w.underway[t]
		if t == nil || c == nil {
			continue
		}
		delete(w.underway, t)
		w.settle(c.st, right)
		if i := firstDifferent(bytesOf(t), c.bytes); i >= 0 {
			w.off(c.st, t.name, fmt.Errorf("byte %d is not what lay on the host", i))
		}
	}
}

// inputs are the inputs of a step as the evaluator holds them.
func (w *comparer) inputs(st *step) ([]*reference.Tensor, error) {
	in := make([]*reference.Tensor, len(st.in))
	for i, t := range st.in {
		if t == nil {
			continue
		}
		var err error
		if in[i], err = w.value(t); err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
	}
	return in, nil
}

// value is a tensor as the evaluator holds it. A constant that a node makes once
// and that is packed where it is read has no elements any more: it is made
// again.
func (w *comparer) value(t *tensor) (*reference.Tensor, error) {
	if maker := w.makers[t]; t.At == nil && maker != nil {
		in, err := w.inputs(maker)
		if err != nil {
			return nil, err
		}
		out, err := maker.evaluate(in)
		if err != nil {
			return nil, err
		}
		return out[0].Stored(), nil
	}
	return reference.Decode(t.Type, t.Shape, bytesOf(t))
}

// after compares what a step has made.
func (w *comparer) after(st *step) {
	switch {
	case st.once, st.within != nil:
		return
	case st.makesNothing():
		w.settle(st, right) // but a shape, which the gate has seen
		return
	case st.copies():
		h := w.hands[len(w.hands)-1]
		w.hands = w.hands[:len(w.hands)-1]
		name, err := h.end()
		w.settle(st, right)
		if err != nil {
			w.off(st, name, err)
		}
		return
	case st.kernel == nil && w.state[st] != idle:
		return
	case st.call.Node.IsSwapIn() && st.run == nil: // its first reader shows what came
	default:
		w.compare(st)
	}
	st.f.s.mem.give(w.held)
	w.in, w.held = nil, 0
}

// heldBytes is what the evaluator takes for an element of an input or output: as
// a float64 twice, and two of what it works with.
const heldBytes = 32

// elements is how many elements the inputs and outputs of a step have, and those of
// the activation that it does. Outputs whose shape only the kernel finds count as
// none.
func (st *step) elements() int64 {
	var n int64
	for _, list := range [][]*tensor{st.in, st.out} {
		for _, t := range list {
			if t != nil && t.Shape != nil {
				n = plus(n, int64(t.Len()))
			}
		}
	}
	return n
}

// makesNothing reports whether no output of a step that a kernel runs has an
// element.
func (st *step) makesNothing() bool { return st.kernel != nil && st.idle() }

// compare holds the outputs of a step, with the activation that it has done as
// well, against the evaluator's.
func (w *comparer) compare(st *step) {
	last := st
	out, err := []reference.Output(nil), w.fault
	if err == nil {
		out, err = st.evaluate(w.in)
	}
	if err == nil && st.then != nil {
		last = st.then
		out, err = w.then(last, out[0])
	}
	if err != nil {
		w.skip(st, err)
		if last != st {
			w.skip(last, err)
		}
		return
	}
	for i, t := range last.out {
		if t == nil {
			continue
		}
		got, err := reference.Decode(t.Type, t.Shape, bytesOf(t))
		if err != nil {
			w.skip(st, fmt.Errorf("output %d: %w", i, err))
			continue
		}
		d, err := out[i].Compare(got)
		w.settle(st, right)
		if last != st {
			w.settle(last, right)
		}
		switch {
		case err != nil:
			w.off(last, t.name, err)
		case d.Ratio > 1 || math.IsNaN(d.Ratio):
			w.off(last, t.name, fmt.Errorf("element %d (at %v) is %v, expected %v within %.3g", d.Element, position(d.Element, t.Shape), d.Found, d.Expected, d.Tolerance))
		case d.Ratio > w.found.Worst:
			w.found.Worst, w.found.WorstAt = d.Ratio, w.label(last)
		}
	}
}

// then is an activation of what the step that does its work would have made.
func (w *comparer) then(st *step, made reference.Output) ([]reference.Output, error) {
	in := []*reference.Tensor{made.Tensor}
	for _, t := range st.in[1:] {
		var x *reference.Tensor
		if t != nil {
			var err error
			if x, err = w.value(t); err != nil {
				return nil, err
			}
		}
		in = append(in, x)
	}
	out, err := st.evaluate(in)
	if err != nil {
		return nil, err
	}
	return []reference.Output{out[0].After(made)}, nil
}

// evaluate has the evaluator compute a step. A run that is stopped does not wait
// for it.
func (st *step) evaluate(in []*reference.Tensor) (out []reference.Output, err error) {
	done := make(chan struct{})
	go func() {
		out, err = reference.Node(st.call.Node, st.call.Version, in)
		close(done)
	}()
	s := st.f.s
	select {
	case <-done:
	case <-s.ctx.Done():
		s.pool.Stop()
		s.pool.Poll()
	}
	return out, err
}

// settle gives a step a verdict unless it has a worse one.
func (w *comparer) settle(st *step, v verdict) { w.state[st] = max(w.state[st], v) }

// skip says that a step was not compared.
func (w *comparer) skip(st *step, err error) {
	w.settle(st, uncompared)
	if op := st.call.Node.OpName(); w.found.Reasons[op] == "" {
		w.found.Reasons[op] = err.Error()
	}
}

// off says that an element of a step's result is wrong.
func (w *comparer) off(st *step, name string, err error) {
	w.settle(st, wrong)
	if w.found.First != nil {
		return
	}
	e := graph.Errorf("%w", err).AtNode(w.label(st))
	e.File, e.Tensor = w.file, name
	w.found.First = e
}

// label names a step, and those within which it runs.
func (w *comparer) label(st *step) string {
	label := st.f.g.Label(st.node)
	for _, h := range slices.Backward(w.hands) {
		label += " within " + h.st.f.g.Label(h.st.node)
	}
	return label
}

// once compares what a step makes of constants when the session is built, into
// memory of its own: the elements may be gone already.
func (w *comparer) once(st *step, run kernel.Run) {
	if w == nil {
		return
	}
	s, out := st.f.s, st.out[0]
	w.makers[out] = st
	aside, err := newBlock(int64(out.Bytes()), "constants that are compared")
	if err != nil {
		w.skip(st, err)
		return
	}
	defer aside.free()
	defer func(place unsafe.Pointer) { out.At = place }(out.At)
	out.At = aside.base
	_, err = s.scratchFor(st)
	if err == nil {
		err = s.growScratch()
	}
	if err != nil {
		w.skip(st, err)
		return
	}
	if s.guard != nil {
		st.useScratch(s.pool)
	}
	if err := run(s.pool); err != nil {
		w.skip(st, err)
		return
	}
	w.in, w.fault = w.inputs(st)
	w.compare(st)
}

// firstDifferent is the first byte that differs, -1 if there is none.
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

// position is where element i of a shape lies.
func position(i int, shape []int) []int {
	at := slices.Clone(shape)
	for k := len(shape) - 1; k >= 0; k-- {
		at[k] = i % max(shape[k], 1)
		i /= max(shape[k], 1)
	}
	return at
}

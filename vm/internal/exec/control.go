package exec

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// control prepares a node that has bodies or calls a local function. special is false
// for all other nodes.
func (b *builder) control(st *step, opsets []graph.Opset, a *area) (special bool, err error) {
	n := st.n()
	if call := n.Semantics.Call; call != nil {
		f, err := b.function(st, call, a.work[st.node])
		if err != nil {
			return true, err
		}
		st.run = f.called(st)
		return true, nil
	}
	attrs := n.Bodies()
	if len(attrs) == 0 {
		return false, nil
	}
	defer func(outside bool) { b.inBranch = outside }(b.inBranch)
	b.inBranch = b.inBranch || ops.Branches(n)
	bodies := map[string]*frame{}
	if st.f.g == b.s.pr.Model.Graph {
		b.s.scratch.keeps = 0
	}
	for _, at := range attrs {
		for _, g := range at.All() {
			b.inLoop = isLoop(n)
			f, err := b.body(st, g, opsets, a.work[st.node])
			if err != nil {
				return true, err
			}
			bodies[at.Name] = f
		}
	}
	if n.Domain != "" {
		return false, nil
	}
	switch n.Op {
	case "If":
		st.run = st.branch(bodies["then_branch"], bodies["else_branch"])
	case "Loop":
		st.run, err = newLoop(st, bodies["body"])
	case "SequenceMap":
		st.run, err = newSequenceMap(st, bodies["body"])
	case "Scan":
		st.run, err = newScan(st, bodies["body"])
	default:
		return false, nil
	}
	return true, err
}

// body builds the frame of a node's body. Bodies within local functions have no entry
// in the plan.
func (b *builder) body(st *step, g *graph.Graph, opsets []graph.Opset, work spot) (*frame, error) {
	var a *area
	var err error
	switch {
	case b.s.opt.Separate:
		a, err = b.separate(g)
	case b.inFunction:
		a, err = b.laidOut(g, true, work)
	default:
		if b.s.Mem.Guard != nil {
			a, err = b.guarded(g, b.bodies[b.next].Buffers)
		} else {
			a = b.planned(g, b.bodies[b.next].Buffers, work)
		}
	}
	if !b.inFunction {
		b.next++
	}
	if err != nil {
		return nil, err
	}
	return b.frame(g, opsets, st.f, nil, a, nil)
}

// function builds the frame of one call of a local function. Its inputs are the
// node's inputs.
func (b *builder) function(st *step, call *graph.Call, work spot) (*frame, error) {
	within := b.inFunction
	b.inFunction = true
	defer func() { b.inFunction = within }()
	var a *area
	var err error
	if b.s.opt.Separate {
		a, err = b.separate(call.Body)
	} else {
		a, err = b.laidOut(call.Body, false, work)
	}
	if err != nil {
		return nil, err
	}
	args := make(map[graph.TensorID]*values.Tensor, len(call.Body.Inputs))
	for i, id := range call.Body.Inputs {
		args[id] = nil
		if i < len(st.in) {
			args[id] = st.in[i]
		}
	}
	return b.frame(call.Body, call.Function.Opsets, nil, args, a, nil)
}

// called runs a local function and copies its outputs.
func (f *frame) called(st *step) kernel.Run {
	return func(*work.Pool) error {
		if err := f.runAll(); err != nil {
			return err
		}
		return f.handOut(st, 0)
	}
}

// handOut copies the outputs of a body, beginning with output first, to the outputs
// of its node.
func (f *frame) handOut(st *step, first int) error {
	for i, out := range st.out {
		if out == nil {
			continue
		}
		from := f.output(first + i)
		if from == nil {
			return fmt.Errorf("output %d of its body is left out", first+i)
		}
		if err := f.s.Assign(out, from); err != nil {
			return err
		}
	}
	f.release()
	return nil
}

// output is output i of a frame.
func (f *frame) output(i int) *values.Tensor { return f.tensors[f.g.Outputs[i]] }

// input is input i of a frame.
func (f *frame) input(i int) *values.Tensor { return f.tensors[f.g.Inputs[i]] }

// makesAll fails if an output of a frame is an omitted input of a function.
func (f *frame) makesAll() error {
	for i := range f.g.Outputs {
		if f.output(i) == nil {
			return fmt.Errorf("output %d of its body is left out", i)
		}
	}
	return nil
}

// branch runs the body that the condition of an If selects.
func (st *step) branch(then, otherwise *frame) kernel.Run {
	return func(*work.Pool) error {
		taken := otherwise
		st.f.s.ToHost(st.in[0])
		yes, err := st.in[0].Truth()
		if err != nil {
			return err
		}
		if yes {
			taken = then
		}
		if why := taken.g.NeverRuns; why != "" {
			return fmt.Errorf("takes %s, which is planned as never taken: %s", map[bool]string{true: "then_branch", false: "else_branch"}[yes], why)
		}
		if err := taken.runAll(); err != nil {
			return err
		}
		return taken.handOut(st, 0)
	}
}

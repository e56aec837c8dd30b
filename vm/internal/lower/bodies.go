package lower

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// control prepares a node that has bodies or calls a local function. special is false
// for all other nodes.
func (b *builder) control(st *Step, opsets []graph.Opset, a *area) (special bool, err error) {
	n := st.Node()
	if call := n.Semantics.Call; call != nil {
		f, err := b.function(st, call, a.work[st.ID])
		if err != nil {
			return true, err
		}
		st.Run = b.s.Flow.Called(f, st)
		return true, nil
	}
	attrs := n.Bodies()
	if len(attrs) == 0 {
		return false, nil
	}
	defer func(outside bool) { b.inBranch = outside }(b.inBranch)
	b.inBranch = b.inBranch || ops.Branches(n)
	bodies := map[string]*Frame{}
	if st.Frame.Graph == b.s.Program.Model.Graph {
		b.s.Scratch.keeps = 0
	}
	for _, at := range attrs {
		for _, g := range at.All() {
			b.inLoop = isLoop(n)
			f, err := b.body(st, g, opsets, a.work[st.ID])
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
		st.Run = b.s.Flow.Branch(st, bodies["then_branch"], bodies["else_branch"])
	case "Loop":
		st.Run, err = b.s.Flow.Loop(st, bodies["body"])
	case "SequenceMap":
		st.Run, err = b.s.Flow.SequenceMap(st, bodies["body"])
	case "Scan":
		st.Run, err = b.s.Flow.Scan(st, bodies["body"])
	default:
		return false, nil
	}
	return true, err
}

// body builds the frame of a node's body. Bodies within local functions have no entry
// in the plan.
func (b *builder) body(st *Step, g *graph.Graph, opsets []graph.Opset, work spot) (*Frame, error) {
	var a *area
	var err error
	switch {
	case b.s.Options.Separate:
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
	return b.Frame(g, opsets, st.Frame, nil, a, nil)
}

// function builds the frame of one call of a local function. Its inputs are the
// node's inputs.
func (b *builder) function(st *Step, call *graph.Call, work spot) (*Frame, error) {
	within := b.inFunction
	b.inFunction = true
	defer func() { b.inFunction = within }()
	var a *area
	var err error
	if b.s.Options.Separate {
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
		if i < len(st.In) {
			args[id] = st.In[i]
		}
	}
	return b.Frame(call.Body, call.Function.Opsets, nil, args, a, nil)
}

// Output is output i of a frame.
func (f *Frame) Output(i int) *values.Tensor { return f.Tensors[f.Graph.Outputs[i]] }

// Input is input i of a frame.
func (f *Frame) Input(i int) *values.Tensor { return f.Tensors[f.Graph.Inputs[i]] }

// MakesAll fails if an output of a frame is an omitted input of a function.
func (f *Frame) MakesAll() error {
	for i := range f.Graph.Outputs {
		if f.Output(i) == nil {
			return fmt.Errorf("output %d of its body is left out", i)
		}
	}
	return nil
}

// isLoop reports whether a node runs a body several times.
func isLoop(n *graph.Node) bool { return ops.Repeats(n) }

package passes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// State is a model on its way to a plan. Each pass adds to it; what a method
// gives is nil, or zero, before the pass that fills it in:
//
//	Model       given; replaced by train and inline, reordered by order, annotated by annotate
//	Training    train
//	Inference   infer
//	Storages    share
//	Problem     share; the workspace of its nodes by bodies
//	Evaluation  order: of the nodes as they stand from then on
//	Buffers     place
//	Plan        annotate
//
// A pass may change the graph until order has run: nodes, tensors, attributes,
// outputs. It then calls [graph.Graph.Link] and [State.Invalidate].
type State struct {
	opt       Options
	model     *graph.Model
	given     *graph.Model   // as it was read
	step      *autodiff.Step // nil: no training graph was asked for
	inference *ops.Inference
	main      *region
	calls     map[*graph.Call]*region // local functions, by instance
	plan      *plan.Plan
	budget    *budgeting // nil: no limit was asked for
	frontier  []plan.FrontierPoint
	keepOrder bool // the main graph's nodes stand in the order that they run in
	stale     bool // a pass has changed the graph

	deadline time.Time // of Options.TimeLimit; zero: none
	late     bool      // a search was ended by it
	notes    []string  // warnings
}

// newState begins the way of a model; the options and the model are checked.
func newState(m *graph.Model, opt Options) (*State, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	if opt.Align == 0 {
		opt.Align = DefaultAlign
	}
	s := &State{opt: opt, given: m, model: m, calls: map[*graph.Call]*region{}}
	if opt.TimeLimit > 0 {
		s.deadline = time.Now().Add(opt.TimeLimit)
	}
	if err := graph.Check(m); err != nil {
		return nil, s.named(err)
	}
	return s, nil
}

// Options are the options that the model is planned with.
func (s *State) Options() Options { return s.opt }

// Model is the model as it is now.
func (s *State) Model() *graph.Model { return s.model }

// Replace puts another model in the place of the present one, as a pass does
// that makes a new graph instead of changing the one it finds.
func (s *State) Replace(m *graph.Model) {
	if s.model = m; s.step != nil {
		s.step.Model = m
	}
	s.Invalidate()
}

// Training tells of the training step that train made; nil where none was asked
// for.
func (s *State) Training() *autodiff.Step { return s.step }

// Inference is what infer found beside the types, which stand in the tensors of
// the model, and the meanings of nodes, which stand in these.
func (s *State) Inference() *ops.Inference { return s.inference }

// Storage is what one tensor of the main graph, or several that are views of
// each other, take.
type Storage struct {
	Tensors  []graph.TensorID // each after the tensor that it views
	Maker    graph.NodeID     // the node that makes the first of them; [graph.None]: none
	Bytes    int64            // rounded up to the alignment
	Resident bool             // a constant, parameter or state: in no load
	Host     bool             // it lies in the memory of the host: in no load
	Output   bool             // it holds a graph output: live to the last step
	Bounded  bool             // the true size is known only at run time, and not larger
}

// Storages are the storages of the main graph.
func (s *State) Storages() []Storage {
	if s.main == nil {
		return nil
	}
	list := make([]Storage, len(s.main.storages))
	for i := range list {
		st := &s.main.storages[i]
		list[i] = Storage{slices.Clone(st.tensors), st.maker, st.bytes, st.resident, st.host, st.output, st.bounded}
	}
	return list
}

// Problem is the bare scheduling problem of the main graph, its nodes in the order
// in which the model has them now. Tensor i is storage i; the tensors of 0 bytes
// behind those carry precedence alone. It is made for each call, in O(E).
func (s *State) Problem() *schedule.Problem {
	if s.main == nil {
		return nil
	}
	return s.problem(s.main)
}

// Evaluation gives the loads of the main graph's nodes in the order found.
func (s *State) Evaluation() schedule.Evaluation {
	if s.main == nil {
		return schedule.Evaluation{}
	}
	return s.main.loads
}

// Buffers are the buffers of the main graph as the plan will have them.
func (s *State) Buffers() []plan.Buffer {
	if s.main == nil || s.main.buffers == nil {
		return nil
	}
	if s.plan != nil {
		return slices.Clone(s.plan.Buffers)
	}
	resident := int64(0)
	return s.planBuffers(s.main, plan.Arena, &resident)
}

// Plan is the plan, for passes behind annotate to add to.
func (s *State) Plan() *plan.Plan { return s.plan }

// Warn adds to the result's warnings.
func (s *State) Warn(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// Invalidate says that the pass has changed the graph. What earlier passes found
// out about it is forgotten, and those that can run again do so before the next
// pass: infer, share and bodies, of those of [Default]. The nodes' order is the
// program's order from then on; once order has run it is too late for a change.
func (s *State) Invalidate() { s.stale = true }

// ordered reports whether the nodes of the main graph stand in the planned order.
func (s *State) ordered() bool { return s.main != nil && s.main.solved != nil }

// forget drops what follows from the graph.
func (s *State) forget() {
	s.stale, s.inference, s.main, s.calls = false, nil, nil, map[*graph.Call]*region{}
}

// searching gives the context of searches, which also ends at the deadline.
func (s *State) searching(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, s.deadline)
}

// out reports whether the time limit is over.
func (s *State) out() bool { return !s.deadline.IsZero() && !time.Now().Before(s.deadline) }

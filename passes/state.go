package passes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/costs"
	"github.com/onnxmem/onnxmem/passes/internal/folding"
	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/pools"
	"github.com/onnxmem/onnxmem/passes/internal/precision"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// State is a model on its way to a plan. Each pass adds to it. A method returns
// nil, or zero, before the pass that sets its result:
//
//	Model       given; replaced by precision, train, inline and fold, reordered by order, annotated by annotate
//	Training    train
//	Inference   infer
//	Storages    share
//	Problem     share; bodies adds the workspace of the nodes
//	Evaluation  order: of the nodes in their order at that time
//	Buffers     place
//	Plan        annotate
//
// A pass may change the nodes, tensors, attributes and outputs of the graph until
// order has run. It then calls [graph.Graph.Link] and [State.Invalidate].
type State struct {
	asked Options // as they were given
	opt   Options // in one form, with a host among the pools

	given  *graph.Model   // the model that was read
	origin origin         // what the plan is verified against
	now    planner.Trial  // the model that is planned, as far as it is
	how    planner.Search // what the options say of the search for the plan, and its log
	costs  costs.Model

	adapters    *lora.Record      // of the pass adapt; nil without Options.LoRA
	attended    []string          // results of nodes Attention that Options.Attention added; nil: none
	cast        *precision.Report // nil without Options.Precision
	step        *autodiff.Step    // nil without Options.Train
	kvStates    []string          // INPUT=OUTPUT of the caches of the pass kv
	inferred    inferred          // the graph when it was inferred first
	unpermitted []string          // warnings about element types
	folded      folding.Choice
	less        less
	plan        *plan.Plan

	graphChanged bool              // a pass has changed the graph
	lastPrinted  [sha256.Size]byte // the digest of the graph that was printed last, with Options.Check
}

// less is what the searches for less memory have found.
type less struct {
	limits.Choice
	known    *limits.Base         // has searches that were made, and need not be made again; nil: there are none
	slices   *limits.Sliced       // nil if nothing runs in slices
	fixed    bool                 // the nodes of the main graph stay in the order in which the pass slice wrote them
	kept     *limits.Search       // found how the limit is kept; nil without a limit
	unshared *planner.Region      // a main graph of which is known that aliases make no plan of it better
	moved    *pools.Moved         // the main graph before buffers were moved between pools; nil: none were
	frontier []plan.FrontierPoint // the costs of other limits
}

// Options returns the options of the planning.
func (s *State) Options() Options { return s.opt }

// Model returns the model in its present form.
func (s *State) Model() *graph.Model { return s.now.Model }

// Replace replaces the model, for a pass that makes a new graph instead of
// changing the present one.
func (s *State) Replace(m *graph.Model) {
	if s.now.Model = m; s.step != nil {
		s.step.Model = m
	}
	s.Invalidate()
}

// Training describes the training step that the pass train made; nil without
// Options.Train.
func (s *State) Training() *autodiff.Step { return s.step }

// Inference returns what the pass infer found in addition to the types of tensors
// and the meanings of nodes, which it stores in the model.
func (s *State) Inference() *ops.Inference { return s.now.Inference }

// Storage is the memory of one tensor of the main graph, or of several that are
// views of each other.
type Storage struct {
	Tensors  []graph.TensorID // each one after the tensor of which it is a view
	Maker    graph.NodeID     // the node that makes the first of them; [graph.None]: no node does
	Bytes    int64            // rounded up to the alignment
	Resident bool             // a constant, parameter or state: counts in no load
	Host     bool             // in the memory of the host: counts in no load
	Output   bool             // it holds a graph output: live until the last step
	Bounded  bool             // the true size is known only at run time and is not larger
}

// Storages returns the storages of the main graph.
func (s *State) Storages() []Storage {
	if s.now.Main == nil {
		return nil
	}
	list := make([]Storage, len(s.now.Main.Storages))
	for i := range list {
		st := &s.now.Main.Storages[i]
		list[i] = Storage{slices.Clone(st.Tensors), st.Maker, st.Bytes, st.Resident, st.Host, st.Output, st.Bounded}
	}
	return list
}

// Problem returns the bare scheduling problem of the main graph, with its nodes
// in their present order. Tensor i is storage i; the tensors of 0 bytes after
// these carry precedence alone. Each call makes a new problem, in O(E) time.
func (s *State) Problem() *schedule.Problem {
	if s.now.Main == nil {
		return nil
	}
	return s.now.Main.Problem()
}

// Evaluation returns the loads of the main graph in the order found.
func (s *State) Evaluation() schedule.Evaluation {
	if s.now.Main == nil {
		return schedule.Evaluation{}
	}
	return s.now.Main.Loads
}

// Plan returns the plan, for passes that run after annotate.
func (s *State) Plan() *plan.Plan { return s.plan }

// Warn adds a warning to the result.
func (s *State) Warn(format string, args ...any) {
	s.how.Log.Notes = append(s.how.Log.Notes, fmt.Sprintf(format, args...))
}

// Invalidate reports that the pass has changed the graph. The results of earlier
// passes are dropped, and those passes that have Rerun set (infer, share and
// bodies in [Default]) run again before the next one. The present order of the
// nodes becomes the program order. A pass must not call Invalidate after order.
func (s *State) Invalidate() { s.graphChanged = true }

// ordered reports whether the nodes of the main graph are in the planned order.
func (s *State) ordered() bool { return s.now.Main != nil && s.now.Main.Solved != nil }

// forget drops all results that follow from the graph.
func (s *State) forget() {
	s.graphChanged, s.now.Inference, s.now.Main = false, nil, nil
}

// Pass is one step on the way from a model to its plan. To add one, insert it
// into a copy of [Default] and set [Options].Passes.
type Pass struct {
	Name string // unique within the list
	Doc  string // what it does, in one line
	Run  func(context.Context, *State) error

	// Optional passes can be disabled by name ([Options].Disable): the plan is
	// then worse, but valid. If the pass is disabled, Instead runs in its place;
	// nil: nothing runs.
	Optional bool
	Instead  func(context.Context, *State) error

	// Rerun says that the results of the pass depend on the graph alone. The pass
	// then runs again whenever a later pass has changed the graph
	// ([State.Invalidate]).
	Rerun bool
}

// origin is the graph that a plan is verified against.
type origin struct {
	untouched *graph.Model // a copy of the model that was read; nil: the plan is not verified
	source    *graph.Model // the graph before the first pass that plans; nil: none has run
	changed   bool         // a pass has changed the graph
	unlike    bool         // a pass of the caller has, since source was kept
}

// dims returns the symbolic dimensions of the graph inputs.
func (s *State) dims() map[string]plan.Dim {
	bound := s.now.Inference.Dims
	if s.step != nil {
		bound = slices.Concat(s.step.Dims, bound)
	}
	dims := map[string]plan.Dim{}
	for _, d := range bound {
		dims[d.Name] = plan.Dim{Value: d.Value, Assumed: d.Assumed}
	}
	return dims
}

package passes

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Explained explains the peak of a plan. It speaks of the bare problem of the
// main graph, in which node i is step i of the plan and each tensor stands for a
// tensor and all its views.
type Explained struct {
	*schedule.Explanation
	Problem *schedule.Problem
}

// Explain explains the peak of a planned model: m, whose nodes are in the planned
// order, and its plan, which must be valid for m (package plan/verify checks
// that). The bound and its certificates are taken from the plan. Afterwards the
// types in m are those for the plan's dimensions.
func Explain(ctx context.Context, m *graph.Model, p *plan.Plan, opt schedule.ExplainOptions) (_ *Explained, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	m = p.InRunOrder(m)
	s, err := newState(m, Options{
		Align: p.Alignment, NoViews: !p.Sharing.Views, NoInplace: !p.Sharing.Inplace, Runtime: p.Sharing.Runtime, Values: p.Values,
		Fold: FoldOff, // the plan has the nodes as they are
	})
	if err != nil {
		return nil, err
	}
	// Of a training graph's dimensions, those without a range were bound when it was made.
	s.opt.Dims, s.opt.SpareDims = map[string]int64{}, p.Mode == modeTraining
	for name, d := range p.Dims {
		if !d.Assumed {
			s.opt.Dims[name] = d.Value
		}
	}
	list, err := upTo(Default(), "bodies") // the plan has the workspace of the bodies
	if err != nil {
		return nil, err
	}
	if p.Ranges != nil || p.IsPoint() {
		taken := Pass{Name: "taken", Doc: "keep the sharing of the plan", Run: func(context.Context, *State) error {
			keepTaken(s.model, p)
			return nil
		}}
		list = slices.Insert(list, find(list, "share"), taken)
	}
	if _, err := s.run(ctx, list); err != nil {
		return nil, err
	}
	for _, b := range p.Buffers {
		if b.Kind == plan.KindWorkspace && b.Node != nil && *b.Node < len(s.main.workspace) {
			s.main.workspace[*b.Node] += b.Bytes
		}
	}
	if p.Sharing.Aliases {
		// The bound and its certificates are those of the relaxed layout.
		if err := s.relaxAliases(); err != nil {
			return nil, err
		}
	}
	problem := s.problem(s.main)
	for i := range problem.Tensors {
		if t := &problem.Tensors[i]; t.Kind == "" && i < len(s.main.storages) {
			t.Kind = s.main.bufferKind(&buffer{storages: []int32{int32(i)}, node: graph.None})
		}
	}
	var certificates []schedule.Certificate
	for _, c := range p.Certificates {
		steps := make([]int32, len(c.Steps))
		for i, step := range c.Steps {
			steps[i] = int32(step)
		}
		certificates = append(certificates, schedule.Certificate{Kind: c.Kind, Nodes: steps, Value: c.ValueBytes})
	}
	opt.Align = p.Alignment
	if p.KeepsRandomOrder {
		opt.Precedence = effectsInOrder(s.main.g, identity(len(problem.Nodes)))
	}
	x, err := schedule.Explain(ctx, problem, identity(len(problem.Nodes)), certificates, opt)
	if err != nil {
		return nil, fmt.Errorf("internal error: the planned order: %w", err)
	}
	if x.Peak < p.Summary.PeakBytes && p.Sharing.Aliases {
		return nil, fmt.Errorf("the peak of %d bytes would be %d if all bytes that nodes only move could be shared: expected a plan whose aliases reach that, or one without (--no-aliases)", p.Summary.PeakBytes, x.Peak)
	}
	if x.Peak != p.Summary.PeakBytes {
		return nil, fmt.Errorf("the plan's peak is %d bytes, expected %d, the peak of its order with every in-place result", p.Summary.PeakBytes, x.Peak)
	}
	x.Bound = p.Summary.LowerBoundBytes
	return &Explained{x, problem}, nil
}

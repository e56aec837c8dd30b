package passes

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Explained explains the peak of a plan. It speaks of the bare problem of the
// main graph, in which node i is step i of the plan and each tensor stands for a
// tensor and all its views. With aliases whose bound is not met, the proofs speak of
// tensors of their own, which come last and have no bytes in Problem.
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
	s.now.Bind.Given.Dims, s.now.Bind.Given.SpareDims = map[string]int64{}, p.Mode == planner.ModeTraining
	for name, d := range p.Dims {
		if !d.Assumed {
			s.now.Bind.Given.Dims[name] = d.Value
		}
	}
	list, err := upTo(Default(), "bodies") // the plan has the workspace of the bodies
	if err != nil {
		return nil, err
	}
	if p.Ranges != nil || p.IsPoint() {
		taken := Pass{Name: "taken", Doc: "keep the sharing of the plan", Run: func(context.Context, *State) error {
			keepTaken(s.now.Model, p)
			return nil
		}}
		list = slices.Insert(list, find(list, "share"), taken)
	}
	if _, err := s.run(ctx, list); err != nil {
		return nil, err
	}
	for _, b := range p.Buffers {
		if b.Kind == plan.KindWorkspace && b.Node != nil && *b.Node < len(s.now.Main.Workspace) {
			s.now.Main.Workspace[*b.Node] += b.Bytes
		}
	}
	main := s.now.Main
	if p.Sharing.Aliases {
		// The bound and its certificates are those of the relaxed layout.
		if main, err = main.Relaxed(); err != nil {
			return nil, err
		}
	}
	problem := explained(main)
	order := planner.Identity(len(problem.Nodes))
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
		opt.Precedence = planner.EffectsInOrder(s.now.Main.G, order)
	}
	reached, err := problem.Evaluate(order)
	if err != nil {
		return nil, fmt.Errorf("internal error: the planned order: %w", err)
	}
	var proofs []schedule.Proof
	if p.Sharing.Aliases && reached.Peak < p.Summary.PeakBytes {
		// Not all bytes that nodes only move can be shared at once: the peak is that of
		// the bytes that the plan shares, and the proofs speak of the relaxed layout.
		few := opt
		few.Most = 0
		x, err := schedule.Explain(ctx, problem, order, certificates, few)
		if err != nil {
			return nil, fmt.Errorf("internal error: the planned order: %w", err)
		}
		shared := explained(sharedBy(s.now.Main, p))
		proofs = movedProofs(x.Proofs, len(shared.Tensors))
		for _, t := range problem.Tensors {
			shared.Tensors = append(shared.Tensors, schedule.Tensor{Name: t.Name, Kind: t.Kind, Producer: t.Producer})
		}
		problem, certificates = shared, nil
	}
	x, err := schedule.Explain(ctx, problem, order, certificates, opt)
	if err != nil {
		return nil, fmt.Errorf("internal error: the planned order: %w", err)
	}
	if proofs != nil {
		x.Proofs = proofs
	}
	if x.Peak != p.Summary.PeakBytes {
		return nil, fmt.Errorf("the plan's peak is %d bytes, expected %d, the peak of its order with every in-place result", p.Summary.PeakBytes, x.Peak)
	}
	x.Bound = p.Summary.LowerBoundBytes
	return &Explained{x, problem}, nil
}

// explained is the bare problem of a region, whose tensors have the kinds of their buffers.
func explained(r *planner.Region) *schedule.Problem {
	problem := r.Problem()
	for i := range problem.Tensors {
		if t := &problem.Tensors[i]; t.Kind == "" && i < len(r.Storages) {
			t.Kind = r.BufferKind(&planner.Buffer{Storages: []int32{int32(i)}, Node: graph.None})
		}
	}
	return problem
}

// sharedBy returns a main graph, whose nodes are in the order of a plan, with the bytes
// shared that are in one place there.
func sharedBy(r *planner.Region, p *plan.Plan) *planner.Region {
	at := map[string]int64{}
	add := func(b plan.Buffer) {
		for _, name := range b.Tensors {
			at[name] = b.Offset
		}
	}
	for i := range p.Buffers {
		if p.Buffers[i].Pool == plan.Arena {
			add(p.Buffers[i])
		}
	}
	for i := range p.Spans {
		add(p.Whole(i))
	}
	offset := func(storage int32) int64 { return at[r.G.Tensors[r.Storages[storage].Tensors[0]].Name] }
	g := r.AliasGraph()
	for _, n := range g.Nodes {
		for i := range n.Ranges {
			x := &n.Ranges[i]
			x.Copied = offset(x.Out)+x.At != offset(x.In)+x.From
		}
	}
	l := g.Choose(nil)
	q, _ := r.Aliased(l, l.Pieces(nil), r.AliasPairs())
	return q
}

// movedProofs returns proofs whose tensors have indices that are larger by a number.
func movedProofs(list []schedule.Proof, by int) []schedule.Proof {
	list = slices.Clone(list)
	for i := range list {
		list[i].Live = slices.Clone(list[i].Live)
		for k := range list[i].Live {
			h := &list[i].Live[k]
			h.Tensors = slices.Clone(h.Tensors)
			for j := range h.Tensors {
				h.Tensors[j] += int32(by)
			}
		}
	}
	return list
}

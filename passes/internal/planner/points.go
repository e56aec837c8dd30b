package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// What a search carries out, it carries out for all points of a box of lengths: the methods of a
// [Trial] do. Without a box there is one point, and nothing is proven at others.

// PlanBodies plans the bodies of the main graph's nodes. Those of a box are planned with it.
func (t *Trial) PlanBodies(ctx context.Context, x *Search) error {
	if t.Ranged != nil {
		return nil
	}
	return t.Main.PlanBodies(ctx, x)
}

// Order puts the nodes of the main graph, which are as in the file, into the best order that is
// found, for all points. The main graph keeps a limit at the corner if some order does; nil: there
// is none.
func (t *Trial) Order(ctx context.Context, x *Search, keep *box.Ceiling) error {
	if err := t.Solve(ctx, x, keep); err != nil {
		return err
	}
	return t.Main.Order(ctx, x)
}

// Solve chooses what the points of a box have in common, and proves it at all of them: the order of
// the main graph, whose nodes stay as in the file, and the stacking of its buffers.
func (t *Trial) Solve(ctx context.Context, x *Search, keep *box.Ceiling) error {
	if t.Ranged == nil {
		return nil
	}
	how := *t.Main.Rules
	// States are those of the corner. They stay, so they have the same types everywhere.
	how.States, how.FindStates = t.Main.States, false
	m := *t.Model // which the planner reorders
	m.Graph = t.Model.Graph.Clone()
	found := box.NewSolution(t.Ranged.Box, t.Ranged.All)
	found.Progress = t.Ranged.Progress
	b := &RangeSolver{
		Ranged: t.Ranged.Again(found), Rules: &how, Search: x, Bind: t.Bind, Keep: WithPools(keep, how.Pools),
		Model: &m, Given: t.Inference, Copies: []*graph.Model{&m},
	}
	if err := b.Solve(ctx); err != nil {
		return err
	}
	if err := b.Divide(ctx); err != nil {
		return err
	}
	return t.take(ctx, b)
}

// take makes what was found for all points that of the trial, whose nodes are as in the file.
func (t *Trial) take(ctx context.Context, b *RangeSolver) error {
	t.Ranged = b.Ranged
	t.Ranged.By = b
	found, err := b.Bind.Infer(t.Model)
	if err != nil {
		return err
	}
	t.Inference = found
	own, err := b.Problem(t.Model)
	if err != nil {
		return err
	}
	b.Share(t.Model)
	r, err := b.Shared(t.Model, found.Given, nil)
	if err != nil {
		return err
	}
	r.Boxes = b.BoxesOf(t.Model)
	if err := r.PlanBodies(ctx, b.Search); err != nil {
		return err
	}
	for n, bytes := range r.Workspace {
		own.Nodes[n].Workspace = bytes
	}
	// The bound of the corner holds for all sharing that is possible there.
	solved, err := b.Within(ctx, own, schedule.Options{Effort: b.Effort})
	if err != nil {
		return err
	}
	if solved.Ended != nil {
		atLeastProven(b, solved, own)
	}
	p := r.Problem()
	solved.ProgramOrder = schedule.Program(p)
	if solved.ProgramEvaluation, err = p.Evaluate(solved.ProgramOrder); err != nil {
		return err
	}
	solved.ProgramPeak = solved.ProgramEvaluation.Peak
	solved.Solver = b.Boxes.Main().Solver
	t.Main, r.Solved = r, solved
	if b.Aliases != nil {
		t.Main = b.Joined(r, own)
	}
	return nil
}

// atLeastProven gives a search that the deadline ended the bound that was proven for the corner.
// own is the problem of it.
func atLeastProven(b *RangeSolver, solved *schedule.Result, own *schedule.Problem) {
	has := b.Found.Corner().Bounds
	c := b.Boxes.Main().Proof(&has[len(has)-1])
	if c.Value = box.ProvedBy(own, c); c.Value >= solved.Bound {
		solved.Bound, solved.Certificates = c.Value, []schedule.Certificate{c}
	}
}

// PlaceWithin places the main graph, and returns its arena. If that exceeds the limit, the buffers
// are divided among several pools once more, so that all of these together keep it if they can.
func (t *Trial) PlaceWithin(ctx context.Context, limit int64, x *Search) (int64, error) {
	r := t.Main
	if t.Ranged == nil {
		return r.PlaceWithin(ctx, limit, x)
	}
	if err := r.Place(ctx, x); err != nil || r.Arena <= limit || len(r.Pools) == 0 {
		return r.Arena, err
	}
	b := t.Ranged.By
	b.Keep = &box.Ceiling{Bytes: limit, Arena: true}
	if err := b.Divide(ctx); err != nil {
		return 0, err
	}
	err := r.Place(ctx, x)
	return r.Arena, err
}

// WithAliases returns the trial, whose main graph is placed, with aliases, where that is better and
// the peak at the corner is at most most; else nil. No point then needs more. If the result is not
// nil, the main graph refers to its nodes by their indices in the file. note hears why bytes that
// some points could share are not shared.
func (t *Trial) WithAliases(ctx context.Context, most int64, x *Search, note func(format string, args ...any)) (*Trial, error) {
	made := *t
	if t.Ranged == nil {
		var err error
		if made.Main, err = t.Main.WithAliases(ctx, x); err != nil || made.Main == nil {
			return nil, err
		}
		return &made, nil
	}
	c, err := t.Ranged.By.WithAliases(ctx, note)
	if err != nil || c == nil || c.Found.Corner().Peak > most { // the arena is smaller, the peak need not be
		return nil, err
	}
	if err := t.Main.Restore(); err != nil {
		return nil, err
	}
	if err := made.take(ctx, c); err != nil {
		return nil, err
	}
	if err := made.Main.Order(ctx, c.Search); err != nil {
		return nil, err
	}
	return &made, made.Main.Place(ctx, c.Search)
}

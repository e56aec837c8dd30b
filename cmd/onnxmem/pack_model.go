package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/enforce"
	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/trace"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// plannedRun is a recorded run of a planned model, whose tensors lie where the plan has
// them.
type plannedRun struct {
	*enforce.Table
	lists   []*enforce.List // by enforce.Rules
	planned int64           // the plan's arena
	tiny    int             // recorded blocks that were left out of the comparison
}

// readModel reads the planned model of --model and verifies its plan.
func (k *packing) readModel(e *env) error {
	began := time.Now()
	path := optimize.PlanPath(k.cmd.Model)
	e.files.Reads("the plan of the model", path)
	if err := e.files.Err(); err != nil {
		return err
	}
	p, f, err := openPlanned(path, k.cmd.Model, onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return err
	}
	defer f.Close()
	e.readsExternal("the model", f.Model)
	if err := e.files.Err(); err != nil {
		return err
	}
	// Of a plan for ranges, only the largest lengths and those of the run are checked.
	if err := k.checkPlan(path, f.Model, p, verify.Options{SkipBounds: p.Ranges != nil}); err != nil {
		return err
	}
	if p.Ranges != nil || len(k.cmd.At) > 0 {
		if p, err = planAt(k.cmd.At, k.cmd.Model, p, f.Model); err != nil {
			return err
		}
	}
	t := &plannedRun{planned: p.Summary.ArenaBytes}
	for _, own := range enforce.Rules {
		list, err := enforce.Blocks(f.Model, p, own)
		if err != nil {
			return refusedf(path, "%w", err)
		}
		t.lists = append(t.lists, list)
	}
	k.trace.model = t
	k.read += time.Since(began)
	return nil
}

// checkPlan refuses a plan that is not that of the model.
func (k *packing) checkPlan(path string, m *graph.Model, p *plan.Plan, opt verify.Options) error {
	r, err := verify.Plan(m, p, opt)
	if err != nil {
		return err
	}
	if !r.Valid {
		return &failure{exitFailed, fmt.Sprintf("%s: not the plan of %s: %s (see onnxmem verify)", path, k.cmd.Model, r.Violations[0].Message)}
	}
	return nil
}

// solveModel finds the tensors of the plan in the recorded run, and places the rest.
func (k *packing) solveModel() error {
	t, m := k.trace, k.trace.model
	var run []enforce.Recorded
	for _, b := range t.First() {
		if b.Stream != 0 {
			return &failure{exitFailed, fmt.Sprintf("%s: stream %d: expected a recording of one stream, 0", k.name, b.Stream)}
		}
		run = append(run, enforce.Recorded{Bytes: b.Size, Begin: b.Alloc, End: b.Free})
	}
	list, match, err := m.match(run)
	if err != nil {
		return &failure{exitFailed, fmt.Sprintf("%s: not a run of %s as it is planned: %v", k.name, units.Name(k.cmd.Model), err)}
	}
	err = k.search(func(ctx context.Context, opt alloc.Options) (err error) {
		m.Table, err = enforce.Place(ctx, list, run, match, enforce.Options{Alignment: t.Alignment, Results: k.cmd.Results, Alloc: opt})
		return err
	})
	if err != nil {
		return err
	}
	t.Packed = &trace.Packed{
		Iteration: t.Iteration, Alignment: t.Alignment,
		Offsets: m.Offsets, Arena: m.Result.Arena, LowerBound: m.Result.LowerBound, Load: m.Problem.MaxLoad(),
		Parts: []trace.Part{{Buffers: len(m.Problem.Buffers), Result: m.Result}},
	}
	t.reserved = t.Reserved(alloc.Simulators)
	k.given, k.problem, k.found = m.Problem, m.Problem, m.Result
	return nil
}

// match finds the tensors of the plan in a run, all of them if that is possible, else those that
// are not tiny. The error is the first.
func (m *plannedRun) match(run []enforce.Recorded) (*enforce.List, []int, error) {
	var first error
	for _, l := range m.lists {
		found, err := enforce.Match(l, run)
		if err == nil {
			return l, found, nil
		}
		first = cmp.Or(first, err)
	}
	for _, l := range m.lists {
		found, err := enforce.MatchLarge(l, run)
		if err != nil {
			continue
		}
		for _, r := range run {
			if r.Bytes <= enforce.Tiny {
				m.tiny++
			}
		}
		return l, found, nil
	}
	return nil, nil, first
}

// text prints what was found of the plan.
func (m *plannedRun) text(w io.Writer) {
	fmt.Fprintf(w, "planned       %s of %s blocks, %s over an operand; the plan has %s\n",
		units.Group(int64(m.Tensors)), units.Group(int64(len(m.Run))), units.Group(int64(m.InPlace)), units.Bytes(m.planned))
	where := "in the holes"
	switch {
	case m.Moved:
		where = "and all blocks are placed anew, in less than at the places of the plan"
	case m.Result.Arena > m.planned:
		where = fmt.Sprintf("of which the holes have no room for %s", units.Bytes(m.Result.Arena-m.planned))
	}
	fmt.Fprintf(w, "scratch       %s at most, %s\n", units.Bytes(m.Scratch), where)
	if m.tiny > 0 {
		fmt.Fprintf(w, "tiny          %s blocks of at most %s are not compared with the plan: its run does not have the same\n", units.Group(int64(m.tiny)), units.Bytes(enforce.Tiny))
	}
}

// modelJSON is the part of the JSON object that --model adds.
type modelJSON struct {
	Tensors int   `json:"planned_blocks"`
	InPlace int   `json:"inplace_blocks"`
	Scratch int64 `json:"scratch_bytes"`
	Planned int64 `json:"plan_arena_bytes"`
	Moved   bool  `json:"placed_anew"`
	Tiny    int   `json:"tiny_blocks_left_out"`
	Random  bool  `json:"draws_random_numbers"`
}

// json is nil without --model.
func (m *plannedRun) json() *modelJSON {
	if m == nil {
		return nil
	}
	return &modelJSON{m.Tensors, m.InPlace, m.Scratch, m.planned, m.Moved, m.tiny, m.lists[0].Random}
}

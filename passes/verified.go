package passes

import (
	"context"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// Every plan that Optimize hands out has passed package plan/verify, which shares no code
// with the planner, against the graph from which it was made. That graph is a copy, taken
// before the first pass that plans. It has the nodes of the file, of the training step, of
// the inlined functions, of the decoder with caches of a fixed capacity, or what passes of
// the caller made until then. Elements are not copied: both graphs refer to the same mapped
// files.

// verifying is the row of the verification, which is no pass: it judges what all of them
// have made, those of the caller among them.
var verifying = Pass{Name: "verify", Doc: "verify the plan against the graph from which it was made"}

// plansFrom lists the passes that plan. The graph before the first of them is the one that
// the plan is verified against.
var plansFrom = []string{"fold", "slice", "share"}

// copyOf copies a model, so that passes on the copy do not change it. Data are shared.
func copyOf(m *graph.Model) *graph.Model {
	c := *m
	c.Graph = m.Graph.Clone()
	c.Opsets, c.Props = slices.Clone(m.Opsets), slices.Clone(m.Props)
	c.Functions = make([]*graph.Function, len(m.Functions))
	for i, f := range m.Functions {
		g := *f
		g.Body = f.Body.Clone()
		c.Functions[i] = &g
	}
	return &c
}

// keepSource keeps the graph that stands before the first pass that plans.
func (s *State) keepSource(next Pass) {
	o := &s.origin
	if o.untouched == nil || o.source != nil || !slices.Contains(plansFrom, next.Name) {
		return
	}
	if o.source = o.untouched; o.changed {
		o.source = copyOf(s.now.Model)
	}
}

// noteChange notes that a pass has changed the graph. What a pass of the caller does to it
// after the graph was kept, nobody else knows: the plan is then verified by itself.
func (s *State) noteChange(p Pass) {
	o := &s.origin
	o.changed = true
	o.unlike = o.unlike || o.source != nil && find(Default(), p.Name) < 0
}

// verify verifies the plan; the report is nil if there is none. An error is one of the files,
// or the cause of the end of ctx. What is wrong with the plan is in the report; so is a model
// that cannot be inferred, or a panic of the verifier.
func (s *State) verify(ctx context.Context, times map[string]time.Duration) (*verify.Report, error) {
	if s.origin.untouched == nil || s.plan == nil {
		return nil, nil
	}
	began := time.Now()
	s.less.known = nil // searches that only planning needs
	m, p := *s.now.Model, *s.plan
	m.Graph = s.now.Model.Graph.Clone() // inference writes the types there
	p.Source = plan.File{}              // of the file: it was read, or the graph was made of it
	opt := verify.Options{Unwritten: true, Source: s.origin.source, Context: ctx}
	if s.origin.unlike {
		opt.Source = nil
	}
	r, err := judge(&m, &p, opt)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if changed := m.Source.Unchanged(); changed != nil {
			return nil, changed
		}
		r = &verify.Report{Violations: []verify.Violation{{Code: verify.CodeFormat, Message: err.Error()}}}
	}
	took := time.Since(began)
	times[verifying.Name] += took
	if s.opt.Trace != nil {
		s.opt.Trace(verifying, took)
	}
	return r, nil
}

// judge calls the verifier. Its panic is an error.
func judge(m *graph.Model, p *plan.Plan, opt verify.Options) (_ *verify.Report, err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = mapped.ErrorOf(r); err == nil {
				err = bug.Recovered(verifying.Name, r)
			}
		}
	}()
	return verify.Plan(m, p, opt)
}

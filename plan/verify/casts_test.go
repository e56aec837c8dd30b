package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// castTwice is a graph with a cast that is read before and behind the peak.
const castTwice = `
	in x float16[4,64]
	init w float32[64,64] = ...
	c = Cast(w) to=10
	a = MatMul(x, c)
	b = Expand(a, many)
	init many int64[3] = [40, 4, 64]
	d = ReduceMax(b) axes=[0] keepdims=0
	e = MatMul(d, c)
	out e
`

// TestCastsRunAgain: a plan in which a cast runs again is valid, and refused once what it says of that
// is more than its certificates prove.
func TestCastsRunAgain(t *testing.T) {
	r, err := passes.Optimize(t.Context(), text{main: castTwice, opset: 17}.build(t), passes.Options{Fold: passes.FoldOff})
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Plan.Summary.Limited; l == nil || !l.Recast || l.RecomputedNodes != 1 || r.Plan.Summary.PeakBytes != r.Plan.Summary.LowerBoundBytes {
		t.Fatalf("%+v, %+v: expected one cast that runs again, and a proven peak", r.Plan.Summary, l)
	}
	cast := slices.IndexFunc(r.Plan.Steps, func(s plan.Step) bool { return s.Again != nil })
	for _, c := range []struct {
		name, code string
		change     func(p *plan.Plan)
	}{
		{"as it is", "", func(*plan.Plan) {}},
		{"a higher bound", verify.CodeCertificate, func(p *plan.Plan) {
			p.Summary.LowerBoundBytes++
			p.Certificates[0].ValueBytes++
		}},
		{"a bound of another choice", verify.CodeCertificate, func(p *plan.Plan) {
			p.Certificates[0].ValueBytes = p.Summary.PlainPeakBytes
		}},
		{"no run is marked", verify.CodeProgram, func(p *plan.Plan) { p.Steps[cast].Again = nil }},
		{"another node runs again", verify.CodeRepetition, func(p *plan.Plan) {
			first := 1
			p.Steps[cast+1].Again = &first
		}},
		{"fewer runs", verify.CodeLimit, func(p *plan.Plan) { p.Summary.RecomputedNodes = 0 }},
		{"no extra time", verify.CodeLimit, func(p *plan.Plan) { p.Summary.ExtraCostPercent = 0 }},
	} {
		p := *r.Plan
		limited := *p.Summary.Limited
		p.Summary.Limited = &limited
		p.Steps, p.Certificates = slices.Clone(p.Steps), slices.Clone(p.Certificates)
		c.change(&p)
		found, err := verify.Plan(r.Model, &p, verify.Options{SkipAnnotations: true})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(found.Violations) > 0 {
			got = found.Violations[0].Code
		}
		if got != c.code {
			t.Errorf("%s: got %v, expected code %q", c.name, found.Violations, c.code)
		}
	}
}

// TestOnlyCastsRunAgain: a plan whose bound holds for any choice of casts repeats nothing else, nor
// a cast of what does not stay.
func TestOnlyCastsRunAgain(t *testing.T) {
	r, err := passes.Optimize(t.Context(), text{main: `
		in x float32[4,64]
		in w float16[64,64]
		c = Cast(w) to=1
		a = MatMul(x, c)
		b = Expand(a, many)
		init many int64[3] = [40, 4, 64]
		d = ReduceMax(b) axes=[0] keepdims=0
		e = MatMul(d, c)
		out e
	`, opset: 17}.build(t), passes.Options{ExtraPercent: 90})
	if err != nil {
		t.Fatal(err)
	}
	l := r.Plan.Summary.Limited
	if l == nil || l.RecomputedNodes == 0 {
		t.Fatal("no node runs again: expected one")
	}
	l.Recast = true
	found, err := verify.Plan(r.Model, r.Plan, verify.Options{SkipAnnotations: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Violations) == 0 || found.Violations[0].Code != verify.CodeLimit {
		t.Errorf("got %v, expected code %q", found.Violations, verify.CodeLimit)
	}
}

package verify

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// Listed is the number of tensors that Plan goes through to find those that the plan
// names.
func Listed(m *graph.Model, p *plan.Plan, opt Options) (int, *Report, error) {
	v := newVerifier(m, p, opt)
	r, err := v.run()
	return v.Listed(), r, err
}

// SliceFaults compares slices with the source, and nothing else.
func SliceFaults(m *graph.Model, p *plan.Plan, source *graph.Model) (faults []string, err error) {
	v := newVerifier(m, p, Options{Source: source})
	if ok, err := v.infer(); err != nil || !ok {
		return nil, cmp.Or(err, errors.New("the dims do not fit"))
	}
	s := v.newScope(v.Model.Graph, mainGraph, "")
	v.main = s
	if s.share(); len(v.Plan.Steps) == len(m.Graph.Nodes) && s.sorted() {
		v.again = s.repetitions()
		v.added = v.addedNodes(s, v.again)
	}
	v.regions()
	for _, f := range v.Violations {
		faults = append(faults, f.Message)
	}
	if slices.Contains(v.Claimed, "slices") {
		faults = append(faults, "claimed")
	}
	return faults, nil
}

// ForgetRows takes the verifier's account of the rows of an operator away, until the test ends.
func ForgetRows(t testing.TB, op string) {
	old := knowsRows
	knowsRows = func(domain, name string) bool { return name != op && old(domain, name) }
	t.Cleanup(func() { knowsRows = old })
}

// Prover is a row of the table of provers.
type Prover struct {
	Name, Assumes, Reduces, Within string
	Fields, Files                  []string
}

// Provers is the table of provers.
func Provers() (list []Prover) {
	for i := range provers {
		p := &provers[i]
		within := p.within
		if p.run != nil && within != "" || p.run == nil && within == "" {
			panic(p.name + ": a prover runs by itself, or another calls it")
		}
		list = append(list, Prover{p.name, p.assumes, p.reduces, within, p.fields, p.files})
	}
	return list
}

// Modelled is the model of which the proof of a plan's bound speaks, the order of the plan, and
// the loads of its steps.
func Modelled(t testing.TB, m *graph.Model, p *plan.Plan) (*model.Problem, []int32, []int64) {
	v := newVerifier(m, p, Options{SkipAnnotations: true})
	r, err := v.run()
	if err != nil || !r.Valid {
		t.Fatalf("expected a valid plan, found %v, %v", r, err)
	}
	s := v.bounded
	loads, _ := s.simulate(s.Identity())
	return s.model(s.bounds(core.MaxWork)), s.Identity(), loads
}

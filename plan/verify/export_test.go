package verify

import (
	"cmp"
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Listed is the number of tensors that Plan goes through to find those that the plan
// names.
func Listed(m *graph.Model, p *plan.Plan, opt Options) (int, *Report, error) {
	v := newVerifier(m, p, opt)
	r, err := v.run()
	return v.names.listed, r, err
}

// SliceFaults compares slices with the source, and nothing else.
func SliceFaults(m *graph.Model, p *plan.Plan, source *graph.Model) (faults []string, err error) {
	v := newVerifier(m, p, Options{Source: source})
	if ok, err := v.infer(); err != nil || !ok {
		return nil, cmp.Or(err, errors.New("the dims do not fit"))
	}
	s := v.newScope(v.m.Graph, mainGraph, "")
	if s.share(); len(v.p.Steps) == len(m.Graph.Nodes) && s.sorted() {
		again := s.repetitions()
		if v.added = v.addedNodes(s, again); v.added != nil {
			v.plain, _ = s.without(v.added, again)
		}
	}
	v.slicedRegions()
	for _, f := range v.r.Violations {
		faults = append(faults, f.Message)
	}
	if slices.Contains(v.r.Claimed, "slices") {
		faults = append(faults, "claimed")
	}
	return faults, nil
}

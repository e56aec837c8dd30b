package main

import (
	"io"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// buckets writes a C header with a table for each of some lengths. m is the planned model,
// or nil.
func (c *exportCmd) buckets(e *env, w io.Writer, s *source, m *graph.Model) error {
	at := func(dims map[string]int64) (*plan.Plan, error) {
		if s.model != nil {
			return passes.PlanAt(s.model, s.plan, dims)
		}
		return s.plan.At(dims, nil)
	}
	if s.plan.Ranges == nil {
		return usagef("--buckets and --max-waste are for a plan for ranges of dimensions")
	}
	if c.MaxWaste != nil {
		list, worst, err := s.plan.FewestBuckets(float64(*c.MaxWaste), at)
		if err != nil {
			return err
		}
		e.say("%d buckets; the largest arena / lower bound is %.3f", len(list), worst)
		for _, b := range list {
			names, _ := s.plan.Box()
			e.say("  %s up to %d: %s", units.Name(names[0]), b.Dims[names[0]].Value, units.Bytes(b.Summary.ArenaBytes))
		}
		return report.CHeaderOf(w, s.plan, m, list)
	}
	lengths := map[string][]int64{}
	for name, text := range c.Buckets {
		l, err := dimrange.Parse(text)
		if err != nil {
			return err
		}
		for i := range min(l.Count, 1<<16) {
			lengths[name] = append(lengths[name], l.At(i))
		}
	}
	list, err := s.plan.Buckets(lengths, at)
	if err != nil {
		return err
	}
	return report.CHeaderOf(w, s.plan, m, list)
}

package passes

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// PlanAt returns the plan of one point of a plan for ranges of dimensions, with the sizes
// that inference finds there; see [plan.Plan.At]. m is the planned model. It does not
// change m.
func PlanAt(m *graph.Model, p *plan.Plan, dims map[string]int64) (_ *plan.Plan, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	if p.Ranges == nil {
		return p.At(dims, nil)
	}
	if err := p.CheckPoint(dims); err != nil {
		return nil, err
	}
	all := map[string]int64{}
	names, _ := p.Box()
	for name, d := range p.Dims {
		if !d.Assumed && !d.Follows {
			all[name] = d.Value
		}
	}
	for _, name := range names {
		all[name] = dims[name]
	}
	c := *m
	c.Graph = m.Graph.Clone()
	inf, err := ops.Infer(&c, ops.Options{Dims: all, Values: p.Values})
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64, len(c.Graph.Tensors))
	for _, t := range c.Graph.Tensors {
		if t.Dynamic == "" {
			sizes[t.Name] = t.Bytes
		}
	}
	at, err := p.At(dims, sizes)
	if err != nil {
		return nil, err
	}
	for _, d := range inf.Dims {
		if p.Dims[d.Name].Follows {
			at.Dims[d.Name] = plan.Dim{Value: d.Value, Assumed: d.Assumed}
		}
	}
	return at, nil
}

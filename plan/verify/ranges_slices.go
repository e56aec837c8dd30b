package verify

import (
	"maps"
	"runtime"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/regions"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// regions compares the slices of a plan for ranges with the source at each point that was
// inferred, as the prover of slices does at the corner: the rows of a slice are the same at all
// points, the lengths of other axes are not.
func (c *pointChecker) regions(planned regions.Planned) {
	faults := make([]string, len(c.points))
	var next atomic.Int64
	var workers bug.Group
	for range min(runtime.GOMAXPROCS(0), len(c.points)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(c.points) && !c.v.Over(); i = int(next.Add(1)) - 1 {
				if c.points[i] != c.r.Points-1 { // the corner has been compared
					faults[i] = c.regionsAt(i, planned)
				}
			}
		})
	}
	workers.Wait()
	c.v.Poll()
	if c.r.Proof == plan.ProofBounded {
		c.v.Claim("slices") // at the other points
	}
	for i, fault := range faults {
		if fault != "" {
			c.v.Fault(CodeSlices, "ranges: at %s: %s", graph.AtLengths(c.at(c.points[i])), fault)
		}
	}
}

// regionsAt says what is wrong with the slices at a point that was inferred; "" if nothing is.
func (c *pointChecker) regionsAt(i int, planned regions.Planned) string {
	v, point := c.v, c.at(c.points[i])
	all := maps.Clone(point)
	maps.Copy(all, c.fixed)
	opt := ops.Options{Dims: all, Values: v.Plan.Values, SpareDims: true}
	if c.results[i].refused {
		source := *v.Source
		source.Graph = v.Source.Graph.Clone()
		if _, err := ops.Infer(&source, opt); err == nil {
			return "the source has shapes, and the graph with slices has none"
		}
		return ""
	}
	m, p := *v.Model, *v.Plan
	m.Graph = v.Model.Graph.Clone()
	if _, err := ops.Infer(&m, opt); err != nil {
		return err.Error()
	}
	if planned.Graph == v.Model.Graph {
		planned.Graph = m.Graph
	} else { // without nodes that run again; its tensors have the numbers of the model's
		planned.Graph = planned.Graph.Clone()
		for id, t := range planned.Graph.Tensors {
			at := m.Graph.Tensors[id]
			t.Type, t.Bytes, t.Dynamic = at.Type, at.Bytes, at.Dynamic
		}
	}
	p.Dims = map[string]plan.Dim{}
	for name, d := range v.Plan.Dims {
		if n, several := point[name]; several {
			d = plan.Dim{Value: n}
		}
		if !d.Follows {
			p.Dims[name] = d
		}
	}
	s := &subject.Subject{Model: &m, Plan: &p, Source: v.Source, Context: v.Context, Claimed: []string{}}
	regions.Prove(s, planned)
	if len(s.Violations) > 0 {
		return s.Violations[0].Message
	}
	return ""
}

package plan_test

import (
	"math"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/plan"
)

// Check accepts the plans that optimize writes, and names what it refuses.
func TestCheck(t *testing.T) {
	for _, c := range planned {
		if err := c.plan(t).Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, c := range []struct {
		name   string
		want   string
		change func(p *plan.Plan)
	}{
		{"a step too many", "summary: nodes is 5, expected 6", func(p *plan.Plan) { p.Steps = append(p.Steps, plan.Step{}) }},
		{"a buffer of no pool", `no pool "shelf"`, func(p *plan.Plan) { p.Buffers[0].Pool = "shelf" }},
		{"a pool twice", `"arena" is listed twice`, func(p *plan.Plan) { p.Pools = append(p.Pools, p.Pools[0]) }},
		{"a negative pool", "expected a size >= 0", func(p *plan.Plan) { p.Pools[0].Bytes = -1 }},
		{"a thousand pools", "expected at most 64", func(p *plan.Plan) {
			for i := range 1000 {
				p.Pools = append(p.Pools, plan.Pool{Name: strings.Repeat("p", i)})
			}
		}},
		{"an end that overflows", "to lie within pool", func(p *plan.Plan) { p.Buffers[0].Offset = math.MaxInt64 }},
		{"a negative size", "to lie within pool", func(p *plan.Plan) { p.Buffers[0].Bytes = -64 }},
		{"a life after the last step", "expected a lifetime within steps 0-4, found 0-5", func(p *plan.Plan) { p.Buffers[0].Last = 5 }},
		{"a life that ends before it begins", "expected a lifetime", func(p *plan.Plan) { p.Buffers[0].First, p.Buffers[0].Last = 3, 2 }},
		{"a kind that is none", `no kind "<script>"`, func(p *plan.Plan) { p.Buffers[0].Kind = "<script>" }},
		{"a node that is none", "expected the step of a node below 5, found 9", func(p *plan.Plan) { n := 9; p.Buffers[0].Node = &n }},
		{"a load that is wrong", "the sum of the live buffers", func(p *plan.Plan) { p.Steps[1].LoadBytes++ }},
		{"a step twice", "expected steps below 5, each once", func(p *plan.Plan) { p.ProgramOrder.Steps[1] = p.ProgramOrder.Steps[0] }},
		{"loads are missing", "program_order: expected", func(p *plan.Plan) { p.ProgramOrder.LoadBytes = nil }},
		{"a negative load", "expected a load >= 0", func(p *plan.Plan) { p.ProgramOrder.LoadBytes[0] = -1 }},
		{"a certificate of no step", "certificate 0: expected steps below 5", func(p *plan.Plan) { p.Certificates = []plan.Certificate{{Steps: []int{77}}} }},
		{"a certificate below 0", "certificate 0: expected a value >= 0", func(p *plan.Plan) { p.Certificates = []plan.Certificate{{ValueBytes: -1}} }},
		{"a bound above the peak", "summary: lower_bound_bytes is", func(p *plan.Plan) { p.Summary.LowerBoundBytes = p.Summary.PeakBytes + 1 }},
		{"another peak", "summary: peak_bytes is 0", func(p *plan.Plan) { p.Summary.PeakBytes = 0 }},
		{"another arena", "summary: arena_bytes is 1", func(p *plan.Plan) { p.Summary.ArenaBytes = 1 }},
		{"sums beyond 63 bits", "exceeds 2^63 - 1 bytes", func(p *plan.Plan) {
			p.Pools[0].Bytes = math.MaxInt64
			for i := range p.Buffers {
				p.Buffers[i].Offset, p.Buffers[i].Bytes = 0, math.MaxInt64
				p.Buffers[i].Pool = plan.Arena
			}
		}},
	} {
		p := named(t, "nothing-is-shared").plan(t)
		c.change(p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected %q, found %v", c.name, c.want, err)
		}
	}
}

package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// pooled is a chain with a skip over it, a view and an in-place result.
var pooled = text{main: `
	in x float32 4 64
	weight w float32 64 64
	a = MatMul(x, w)
	b = Relu(a)
	v = Flatten(b)
	c = MatMul(v, w)
	d = Concat(c, a) axis=1
	s = Transpose(d)
	y = Relu(s)
	out y
`}

// pools are those of the plans of pooled.
var pools = passes.Options{Pools: []passes.Pool{
	{Name: "small", Capacity: 1024, BytesPerSecond: 4e9}, {Name: "middle", Capacity: 2048}, {Name: "large", Capacity: 1 << 20, BytesPerSecond: 1e8},
}}

func TestTiers(t *testing.T) {
	_, b, good := planReal(t, pooled, pools)
	used := map[string]bool{}
	for i := range good.Buffers {
		used[good.Buffers[i].Pool] = true
	}
	if len(used) != 4 || good.Summary.SlowTrafficBytes == 0 || good.Summary.SlowTrafficBoundBytes == 0 {
		t.Fatalf("pools %v, traffic %+v: expected buffers in all of them", used, good.Summary.Tiered)
	}
	s := good.Summary
	if s.SlowTrafficBoundBytes > s.SlowTrafficBytes {
		t.Errorf("traffic %d is below the bound %d", s.SlowTrafficBytes, s.SlowTrafficBoundBytes)
	}
	in := func(p *plan.Plan, pool string) *plan.Buffer {
		k := slices.IndexFunc(p.Buffers, func(b plan.Buffer) bool { return b.Pool == pool })
		return &p.Buffers[k]
	}
	for _, c := range []struct {
		name, code string
		change     func(p *plan.Plan)
	}{
		{"nothing", "", func(*plan.Plan) {}},
		{"a buffer is in another pool", "traffic", func(p *plan.Plan) { in(p, "small").Pool = "large" }},
		{"a buffer is in no pool", "pool", func(p *plan.Plan) { in(p, "small").Pool = "arena" }},
		{"a buffer is resident", "pool", func(p *plan.Plan) { in(p, "small").Pool = "resident" }},
		{"a pool is larger than it may be", "pool", func(p *plan.Plan) { p.Pools[0].Capacity = p.Pools[0].Bytes - 64 }},
		{"a pool ends behind its buffers", "pool", func(p *plan.Plan) { p.Pools[1].Bytes += 64 }},
		{"a pool has a name that is taken", "pool", func(p *plan.Plan) { p.Pools[0].Name = "host" }},
		{"the pools are in another order", "summary", func(p *plan.Plan) { p.Pools[0], p.Pools[1] = p.Pools[1], p.Pools[0] }},
		{"a later pool is faster", "pool", func(p *plan.Plan) { p.Pools[2].BytesPerSecond = 5e9 }},
		{"one pool has no capacity", "pool", func(p *plan.Plan) { p.Pools[2].Tier = nil }},
		{"less is read", "traffic", func(p *plan.Plan) { p.Pools[2].ReadBytes-- }},
		{"more is written", "traffic", func(p *plan.Plan) { p.Pools[0].WrittenBytes++ }},
		{"the traffic is smaller", "summary", func(p *plan.Plan) { p.Summary.SlowTrafficBytes -= 4 }},
		{"the bound is larger", "summary", func(p *plan.Plan) { p.Summary.SlowTrafficBoundBytes++ }},
		{"the bound is smaller", "summary", func(p *plan.Plan) { p.Summary.SlowTrafficBoundBytes-- }},
		{"other constants are read", "summary", func(p *plan.Plan) { p.Summary.ResidentReadBytes++ }},
		{"no traffic is said", "summary", func(p *plan.Plan) { p.Summary.Tiered = nil }},
		{"prices are missing", "summary", func(p *plan.Plan) { p.TrafficPrices = nil }},
		{"a price is negative", "traffic", func(p *plan.Plan) { p.TrafficPrices[0].Price = -1 }},
		{"a price is huge", "summary", func(p *plan.Plan) { p.TrafficPrices[0].Price = 1 << 62 }},
		{"a price is of no step", "traffic", func(p *plan.Plan) { p.TrafficPrices[len(p.TrafficPrices)-1].Step = 1 << 40 }},
		{"two buffers overlap", "overlap", func(p *plan.Plan) {
			for i := range p.Buffers {
				if b := &p.Buffers[i]; b.Pool != "resident" {
					b.Pool, b.Offset = "large", 0
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := clone(t, good)
			c.change(p)
			r, err := verify.Plan(parse(t, b), p, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid != (c.code == "") || c.code != "" && !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == c.code }) {
				t.Errorf("expected code %q, found %v", c.code, r)
			}
		})
	}
}

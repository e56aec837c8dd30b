package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// pooled is a chain with a skip over it, a view and an in-place result.
var pooled = text{main: `
	in x float32[4,64]
	init w float32[64,64] = ...
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

// moving has a tensor that is read early and late, and no room for it in between.
var moving = text{main: `
	in x float32[16,64]
	init w float32[64,64] = ...
	init u float32[64,256] = ...
	init v float32[256,64] = ...
	a = MatMul(x, w)
	b = MatMul(a, w)
	c = Mul(b, a)
	d = Add(c, a)
	g = MatMul(d, u)
	h = Relu(g)
	i = MatMul(h, v)
	k = Mul(i, d)
	j = Add(k, a)
	y = Relu(j)
	out y
`}

// twoPools are those of the plans of moving.
var twoPools = passes.Options{Pools: []passes.Pool{{Name: "small", Capacity: 20 << 10, BytesPerSecond: 4e9}, {Name: "large", Capacity: 1 << 20, BytesPerSecond: 1e8}}}

// A buffer that leaves the first pool is copied by SwapOut, and the bound is that of the
// nodes that were there before.
func TestMoves(t *testing.T) {
	_, b, good := planReal(t, moving, twoPools)
	s := good.Summary
	if s.MovedBuffers != 2 || s.MovedBytes != 8192 || s.SlowTrafficBytes != 20480 || s.SlowTrafficBoundBytes > s.SlowTrafficBytes {
		for _, b := range good.Buffers {
			t.Log(b)
		}
		t.Fatalf("%+v: expected a to leave the first pool and to come back, and 20480 bytes", s.Tiered)
	}
	at := slices.IndexFunc(good.Steps, func(s plan.Step) bool { return strings.HasSuffix(s.Op, "SwapOut") })
	for _, c := range []struct {
		name, code string
		change     func(m *graph.Model, p *plan.Plan)
	}{
		{"nothing", "", func(*graph.Model, *plan.Plan) {}},
		{"none is said to be moved", "summary", func(_ *graph.Model, p *plan.Plan) { p.Summary.MovedBuffers = 0 }},
		{"fewer bytes are said to be moved", "summary", func(_ *graph.Model, p *plan.Plan) { p.Summary.MovedBytes-- }},
		{"the bound is larger", "summary", func(_ *graph.Model, p *plan.Plan) { p.Summary.SlowTrafficBoundBytes += 64 }},
		{"another tensor is copied", "lifetime", func(m *graph.Model, _ *plan.Plan) { m.Graph.Nodes[at].Inputs[0] = m.Graph.Nodes[at-1].Outputs[0] }},
		{"a later node reads what was copied", "lifetime", func(m *graph.Model, _ *plan.Plan) {
			out := m.Graph.Nodes[at]
			n := m.Graph.Nodes[m.Graph.Tensors[out.Outputs[0]].Readers[0]]
			n.Inputs[slices.Index(n.Inputs, out.Outputs[0])] = out.Inputs[0]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, p := parse(t, b), clone(t, good)
			c.change(m, p)
			m.Graph.Link()
			r, err := verify.Plan(m, p, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Valid != (c.code == "") || c.code != "" && !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == c.code }) {
				t.Errorf("expected code %q, found %v", c.code, r)
			}
		})
	}
}

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

// A graph without nodes, whose output is an input, has pools as any other.
func TestPoolsWithoutNodes(t *testing.T) {
	_, b, p := planReal(t, text{main: `
		in x float32[16,64]
		out x
	`}, twoPools)
	r, err := verify.Plan(parse(t, b), p, verify.Options{})
	if err != nil || !r.Valid {
		t.Fatalf("%v, %v", r, err)
	}
	p.TrafficPrices = []plan.TrafficPrice{{Step: 1, Price: 1}} // there is no such step
	r, err = verify.Plan(parse(t, b), p, verify.Options{})
	if err != nil || !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeTraffic }) {
		t.Fatalf("%v, %v: expected a fault of the prices", r, err)
	}
}

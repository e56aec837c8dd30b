package bare_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/plan/verify/bare"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// TestPlacesAgreeWithPairs: placements of random buffers, most of them spoilt, are valid exactly
// if the comparison of all pairs in package alloc accepts them.
func TestPlacesAgreeWithPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	valid := 0
	for range 2000 {
		p := alloc.Problem{Alignment: r.Int64N(3)}
		for range 1 + r.IntN(7) {
			first := r.IntN(6)
			b := alloc.Buffer{Size: r.Int64N(5), First: first, Last: first + r.IntN(4), Align: []int64{0, 0, 1, 4}[r.IntN(4)]}
			if r.IntN(3) == 0 && b.First < b.Last {
				b.Gaps = []alloc.Gap{{First: b.First, Last: b.First, From: 0, To: r.Int64N(b.Size + 1)}}
			}
			p.Buffers = append(p.Buffers, b)
		}
		found, err := alloc.Solve(context.Background(), p, alloc.Options{Strategy: "best-fit"})
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) > 0 {
			i := r.IntN(len(p.Buffers))
			found.Offsets[i] = max(0, found.Offsets[i]+r.Int64N(7)-3)
		}
		found.Arena = 0
		list := make([]bare.Buffer, len(p.Buffers))
		for i, b := range p.Buffers {
			list[i] = bare.Buffer{Bytes: b.Size, First: b.First, Last: b.Last, Align: b.Align, Fixed: -1}
			if b.Align == 0 {
				a := max(1, p.Alignment)
				list[i].Align, list[i].Bytes = a, (b.Size+a-1)/a*a
			}
			for _, g := range b.Gaps {
				list[i].Gaps = append(list[i].Gaps, bare.Gap(g))
			}
			if list[i].Bytes == 0 {
				found.Offsets[i] = 0
			}
			found.Arena = max(found.Arena, found.Offsets[i]+list[i].Bytes)
		}
		v, err := bare.Places(list, found.Offsets, -1)
		if want := p.Check(found.Placement); (err == nil) != (want == nil) {
			t.Fatalf("%+v at %v: %v, expected %v", p, found.Offsets, err, want)
		}
		if err != nil {
			continue
		}
		if valid++; v.Bytes != found.Arena || v.Bound != p.MaxLoad() {
			t.Fatalf("%+v: %+v, expected an arena of %d and a bound of %d", p, v, found.Arena, p.MaxLoad())
		}
	}
	if valid < 500 {
		t.Errorf("%d valid placements", valid)
	}
}

// random is a small random problem with pairs, inputs, outputs and workspaces.
func random(r *rand.Rand) *schedule.Problem {
	p := &schedule.Problem{}
	n := 3 + r.IntN(7)
	for range n {
		p.Nodes = append(p.Nodes, schedule.Node{Workspace: r.Int64N(3), Cost: 1 + r.Int64N(9), Once: r.IntN(9) == 0})
	}
	for range 2 + r.IntN(9) {
		maker := r.IntN(n+1) - 1
		t := schedule.Tensor{Bytes: 1 + r.Int64N(4), Producer: int32(maker), Output: r.IntN(9) == 0, Resident: r.IntN(12) == 0}
		for range r.IntN(4) {
			if reader := maker + 1 + r.IntN(n); reader < n {
				t.Consumers = append(t.Consumers, int32(reader))
			}
		}
		for k := range p.Tensors {
			if maker >= 0 && slices.Contains(p.Tensors[k].Consumers, int32(maker)) {
				t.Reuses = append(t.Reuses, int32(k))
			}
		}
		p.Tensors = append(p.Tensors, t)
	}
	return p
}

func problem(p *schedule.Problem) *bare.Problem {
	b := &bare.Problem{}
	for _, n := range p.Nodes {
		b.Nodes = append(b.Nodes, bare.Node{Workspace: n.Workspace, Once: n.Once, Writes: n.Writes})
	}
	for _, t := range p.Tensors {
		b.Tensors = append(b.Tensors, bare.Tensor{Bytes: t.Bytes, Producer: t.Producer, Consumers: t.Consumers, Resident: t.Resident, Output: t.Output, Over: t.Reuses})
	}
	return b
}

// TestOrdersAndSteps: the peaks of random orders, of the best one and of steps below limits are
// those that the searches compute; certificates are proven again, larger ones are not.
func TestOrdersAndSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	proven, repeated, forged := 0, 0, 0
	for range 600 {
		p := random(r)
		b := problem(p)
		found, err := schedule.Solve(t.Context(), p, schedule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var certificates []bare.Certificate
		for _, c := range found.Certificates {
			certificates = append(certificates, bare.Certificate{Kind: c.Kind, Nodes: c.Nodes, Bytes: c.Value})
		}
		for _, order := range append(found.Orders, found.ProgramOrder) {
			x, err := p.Evaluate(order)
			if err != nil {
				t.Fatal(err)
			}
			v, err := b.Order(t.Context(), order, certificates, true)
			if err != nil || v.Bytes != x.Peak {
				t.Fatalf("%+v: order %v: %+v, %v: expected a peak of %d", p, order, v, err, x.Peak)
			}
			if v.Proven() {
				proven++
			}
		}
		for i := range certificates {
			certificates[i].Bytes += p.Tensors[0].Bytes
		}
		if v, err := b.Order(t.Context(), found.Order, certificates, true); err != nil {
			forged++
		} else if v.Bound > v.Bytes {
			t.Fatalf("%+v: a forged certificate proves %d", p, v.Bound)
		}
		limit := found.Evaluation.Peak - 1
		plan, err := budget.Solve(t.Context(), p, found.Orders, limit, budget.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Feasible != budget.Found {
			continue
		}
		repeated++
		steps := make([]int32, len(plan.Steps))
		for i, n := range plan.Steps {
			steps[i] = int32(n)
		}
		v, err := b.Steps(t.Context(), steps, nil)
		if err != nil || v.Bytes != plan.PeakBytes || v.Bound > v.Bytes {
			t.Fatalf("%+v: steps %v: %+v, %v: expected a peak of %d", p, steps, v, err, plan.PeakBytes)
		}
	}
	if proven < 1000 || repeated < 10 || forged < 500 {
		t.Errorf("%d proven orders, %d plans with repetitions, %d forged certificates", proven, repeated, forged)
	}
}

// TestFaults: each fault is named.
func TestFaults(t *testing.T) {
	p := &bare.Problem{
		Nodes:   []bare.Node{{}, {Once: true}, {}},
		Tensors: []bare.Tensor{{Bytes: 4, Producer: 0, Consumers: []int32{1}}, {Bytes: 2, Producer: 1, Consumers: []int32{2}, Output: true}},
	}
	steps := func(swaps []bare.Swap, steps ...int32) func() error {
		return func() error { _, err := p.Steps(context.Background(), steps, swaps); return err }
	}
	order := func(c []bare.Certificate, order ...int32) func() error {
		return func() error { _, err := p.Order(context.Background(), order, c, false); return err }
	}
	for want, f := range map[string]func() error{
		"order: expected 3 nodes":                order(nil, 0, 1),
		"order: step 2: node 1":                  order(nil, 0, 1, 1),
		"node 1 reads tensor 0 at step 0":        order(nil, 1, 0, 2),
		"certificate 0: node 3":                  order([]bare.Certificate{{Kind: "cut", Nodes: []int32{3}}}, 0, 1, 2),
		"certificate 0: it proves 6 bytes":       order([]bare.Certificate{{Kind: "cut", Nodes: []int32{1}, Bytes: 7}}, 0, 1, 2),
		`kind "guess"`:                           order([]bare.Certificate{{Kind: "guess", Nodes: []int32{1}}}, 0, 1, 2),
		"node 2 does not run":                    steps(nil, 0, 1),
		"step 0: node 1 reads tensor 0":          steps(nil, 1, 0, 2),
		"step 3: node 1 runs again":              steps(nil, 0, 1, 2, 1),
		"step 0: node 9":                         steps(nil, 9),
		"step 1: swap 0 of tensor 0":             steps([]bare.Swap{{0}}, 0, 4, 3, 1, 2),
		"swap 0 of tensor 0: expected it out":    steps([]bare.Swap{{0}}, 0, 3, 1, 2),
		"swap 0 of tensor 5: expected one below": steps([]bare.Swap{{5}}, 0, 3, 4, 1, 2),
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if err := steps([]bare.Swap{{1}}, 0, 1, 3, 4, 2)(); err != nil {
		t.Error(err)
	}
}

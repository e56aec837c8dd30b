package budget

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/schedule"
)

func solver(t *testing.T, p *schedule.Problem, opt Options) (*Solver, int64) {
	t.Helper()
	found, err := schedule.Solve(context.Background(), p, schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(p, found.Orders, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s, found.Evaluation.Peak
}

// The larger of two limits never costs more, whatever limits were planned before, and a
// limit that is planned again gets the same plan.
func TestFrontierIsMonotone(t *testing.T) {
	for k := range 30 {
		r := rand.New(rand.NewPCG(uint64(k), 20))
		p := layers(r, 4+r.IntN(10))
		s, peak := solver(t, p, Options{})
		var limits []int64
		for l := peak + 1; l > 0; l -= max(1, peak/97) {
			limits = append(limits, l)
		}
		plans := s.Frontier(context.Background(), limits)
		for i, x := range plans {
			checkPlan(t, p, x)
			if i == 0 {
				if x.Feasible != Found || x.ExtraCost != 0 {
					t.Errorf("graph %d: a limit above the peak: %v, extra cost %d", k, x.Feasible, x.ExtraCost)
				}
				continue
			}
			last := plans[i-1]
			switch {
			case x.Feasible == Found && last.Feasible != Found:
				t.Errorf("graph %d: a plan within %d, none within %d", k, x.Limit, last.Limit)
			case x.Feasible == Found && x.ExtraCost < last.ExtraCost:
				t.Errorf("graph %d: %d within %d, %d within %d", k, x.ExtraCost, x.Limit, last.ExtraCost, last.Limit)
			case x.Feasible != Impossible && x.LowerBound < last.LowerBound:
				t.Errorf("graph %d: bound %d within %d, %d within %d", k, x.LowerBound, x.Limit, last.LowerBound, last.Limit)
			case last.Feasible == Impossible && x.Feasible != Impossible:
				t.Errorf("graph %d: impossible within %d, not within %d", k, last.Limit, x.Limit)
			}
		}
		again, _ := solver(t, p, Options{})
		at := 2 + r.IntN(len(limits)-2)
		if diff := cmp.Diff(plans[at], again.Solve(context.Background(), limits[at])); diff != "" {
			t.Errorf("graph %d, limit %d: planned alone and again:\n%s", k, limits[at], diff)
		}
	}
}

// layers returns a training step with activations in place, some of which also make a
// mask. A repeated run must find each buffer in the version that the first run read.
func layers(r *rand.Rand, depth int) *schedule.Problem {
	p := &schedule.Problem{}
	tensor := func(bytes int64, maker int32) int32 {
		p.Tensors = append(p.Tensors, schedule.Tensor{Bytes: bytes, Producer: maker})
		return int32(len(p.Tensors) - 1)
	}
	node := func(cost int64, writes []int32, reads ...int32) int32 {
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, schedule.Node{Cost: cost, Writes: append([]int32{}, writes...)})
		for _, t := range reads {
			// Control tensors order a reader of a later version after its writer, and a
			// writer after the readers of the earlier version.
			for u := range p.Nodes[:v] {
				if slices.Contains(p.Tensors[t].Consumers, int32(u)) && (slices.Contains(p.Nodes[u].Writes, t) || slices.Contains(writes, t)) {
					c := tensor(0, int32(u))
					p.Tensors[c].Consumers = []int32{v}
				}
			}
			p.Tensors[t].Consumers = append(p.Tensors[t].Consumers, v)
		}
		return v
	}
	weight := tensor(8, -1)
	p.Tensors[weight].Resident = true
	type layer struct{ in, pre, out, mask int32 }
	var all []layer
	x := tensor(int64(4+r.IntN(6)), -1)
	for range depth {
		l := layer{in: x, mask: -1}
		size := int64(4 + r.IntN(6))
		l.pre = tensor(size, node(int64(10+r.IntN(20)), nil, x, weight))
		l.out = l.pre
		switch r.IntN(4) {
		case 0: // in place
			node(int64(1+r.IntN(3)), []int32{l.pre}, l.pre)
		case 1: // in place, with a mask
			l.mask = tensor(1+size/4, node(int64(1+r.IntN(3)), []int32{l.pre}, l.pre))
		case 2: // twice in place
			node(2, []int32{l.pre}, l.pre)
			node(2, []int32{l.pre}, l.pre)
		default:
			l.out = tensor(size, node(int64(1+r.IntN(3)), nil, l.pre))
			if r.IntN(2) == 0 {
				p.Tensors[l.out].Reuses = schedule.Reuses{l.pre}
			}
		}
		all = append(all, l)
		x = l.out
	}
	g := tensor(p.Tensors[x].Bytes, node(3, nil, x))
	for _, l := range slices.Backward(all) {
		reads := []int32{g, l.out}
		if l.mask >= 0 {
			reads = append(reads, l.mask)
		}
		back := tensor(p.Tensors[l.pre].Bytes, node(2, nil, reads...))
		p.Tensors[back].Reuses = schedule.Reuses{g}
		update := tensor(3, node(9, nil, back, l.in))
		g = tensor(p.Tensors[l.in].Bytes, node(12, nil, back, weight))
		if r.IntN(2) == 0 {
			node(1, nil, update) // an update that tells nobody what it writes
		} else {
			node(1, []int32{weight}, update, weight)
		}
	}
	p.Tensors[g].Output = true
	return p
}

// When the context ends, the search ends with the best plan so far.
func TestContextEndsTheSearch(t *testing.T) {
	p := layers(rand.New(rand.NewPCG(1, 1)), 12)
	s, peak := solver(t, p, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x := s.Solve(ctx, peak/2)
	if x.Feasible == Found || x.Ended != context.Canceled {
		t.Errorf("%v, ended by %v", x.Feasible, x.Ended)
	}
}

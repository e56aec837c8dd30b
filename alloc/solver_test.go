package alloc

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/ilptest"
)

// fake is a solver of programs that a test gives; fakePacker also has the constraint for
// rectangles.
type fake func(*ilp.Program) ilp.Answer

func (fake) Identity() (name, version string) { return "fake", "1.0" }

func (f fake) Solve(_ context.Context, p *ilp.Program, _ ilp.Options) (ilp.Answer, error) {
	return f(p), nil
}

type fakePacker struct {
	fake
	pack func(*ilp.Packing) ilp.Answer
}

func (f fakePacker) SolvePacking(_ context.Context, p *ilp.Packing, _ ilp.Options) (ilp.Answer, error) {
	return f.pack(p), nil
}

// honest solves a program by brute force.
func honest(p *ilp.Program) ilp.Answer {
	value, x, done := ilptest.Minimum(p, 1<<20)
	if !done || x == nil {
		return ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1), Ended: true}
	}
	a := ilp.Answer{Status: ilp.Optimal, Value: float64(value), Bound: float64(value)}
	for _, v := range x {
		a.Values = append(a.Values, float64(v))
	}
	return a
}

// honestly tries all offsets of a packing: one of the first is 0 or the end of another.
func honestly(p *ilp.Packing) ilp.Answer {
	n := len(p.Rectangles)
	best, offsets, now := p.Most+1, make([]int64, n), make([]int64, n)
	var place func(placed []bool, end int64)
	place = func(placed []bool, end int64) {
		if end >= best {
			return
		}
		if !slices.Contains(placed, false) {
			best = end
			copy(offsets, now)
			return
		}
		for i, r := range p.Rectangles {
			if placed[i] {
				continue
			}
			var low int64 // above all placed ones that it meets: some sequence gives every normal packing
			for j, q := range p.Rectangles {
				if placed[j] && r.First <= q.Last && q.First <= r.Last {
					low = max(low, now[j]+q.Size)
				}
			}
			low = max((low+r.Align-1)/r.Align*r.Align, r.Lower)
			if low > r.Upper {
				continue
			}
			now[i], placed[i] = low, true
			place(placed, max(end, low+r.Size))
			placed[i] = false
		}
	}
	place(make([]bool, n), p.Least)
	a := ilp.Answer{Status: ilp.Optimal, Value: float64(best), Bound: float64(best)}
	for _, off := range offsets {
		a.Values = append(a.Values, float64(off))
	}
	return a
}

// TestSolverFindsTheOptimum: both ways to ask find what the exact search finds, from the
// placement of one strategy, and say on whom the bound rests.
func TestSolverFindsTheOptimum(t *testing.T) {
	claimed := 0
	for i := range 300 {
		r := rand.New(rand.NewPCG(uint64(i), 5))
		var p Problem
		for range 3 + r.IntN(5) {
			first := r.IntN(7)
			p.Buffers = append(p.Buffers, Buffer{Size: int64(r.IntN(6)), First: first, Last: first + r.IntN(5), Align: int64(r.IntN(3))})
		}
		best, err := Solve(t.Context(), p, Options{})
		if err != nil || !best.Optimal {
			t.Fatal(best, err)
		}
		for _, s := range []ilp.Solver{fake(honest), fakePacker{pack: honestly}} {
			confirmed, err := Solve(t.Context(), p, Options{Solver: s})
			if err != nil || confirmed.Arena != best.Arena || confirmed.ClaimedBy != "" || best.Arena > 0 && (confirmed.Solver.Status != ilp.Optimal || !confirmed.Solver.Whole) {
				t.Fatalf("problem %d, %T: arena %d, %+v, %v; expected %d", i, s, confirmed.Arena, confirmed.Solver, err, best.Arena)
			}
			found, err := Solve(t.Context(), p, Options{Solver: s, Strategy: "greedy-in-order"})
			if err != nil || found.Arena != best.Arena || !found.Optimal {
				t.Fatalf("problem %d, %T: arena %d, %+v, %v; expected %d", i, s, found.Arena, found.Solver, err, best.Arena)
			}
			if found.LowerBound > p.MaxLoad() {
				if claimed++; found.ClaimedBy != "fake 1.0" {
					t.Errorf("problem %d, %T: the bound %d is above the load, and claimed by %q", i, s, found.LowerBound, found.ClaimedBy)
				}
			}
		}
	}
	if claimed == 0 {
		t.Error("expected a bound above the load")
	}
}

// TestSolverLies: a placement or a bound that is wrong is an error.
func TestSolverLies(t *testing.T) {
	p := Problem{Buffers: []Buffer{{Size: 4, First: 0, Last: 2}, {Size: 3, First: 1, Last: 3}, {Size: 5, First: 2, Last: 4}}}
	change := func(do func(*ilp.Answer)) [2]ilp.Solver {
		return [2]ilp.Solver{
			fake(func(m *ilp.Program) ilp.Answer {
				a := honest(m)
				do(&a)
				return a
			}),
			fakePacker{pack: func(k *ilp.Packing) ilp.Answer {
				a := honestly(k)
				do(&a)
				return a
			}},
		}
	}
	for name, solvers := range map[string][2]ilp.Solver{
		"overlap":   change(func(a *ilp.Answer) { clear(a.Values) }),
		"too small": change(func(a *ilp.Answer) { a.Value--; a.Bound-- }),
		"bound":     change(func(a *ilp.Answer) { a.Bound++ }),
	} {
		for _, s := range solvers {
			_, err := Solve(t.Context(), p, Options{Solver: s})
			if wrong := (*ilp.WrongError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "fake 1.0: wrong answer: ") {
				t.Errorf("%s, %T: expected a wrong answer, found %v", name, s, err)
			}
		}
	}
}

// TestSolverWindows: a window that has all buffers finds the optimum, and one that has some
// leaves the others where they are; the bound stays.
func TestSolverWindows(t *testing.T) {
	lower := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		p := Problem{}
		for range 5 {
			first := r.IntN(6)
			p.Buffers = append(p.Buffers, Buffer{Size: 1 + r.Int64N(9), First: first, Last: first + r.IntN(4)})
		}
		best, err := Solve(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		v := &solver{ctx: t.Context(), all: t.Context(), p: p, best: Result{LowerBound: p.MaxLoad(), Strategy: "apart", Solver: &SolverReport{Name: "fake"}}}
		for _, b := range p.Buffers {
			v.best.Offsets = append(v.best.Offsets, v.best.Arena)
			v.best.Arena += b.Size
		}
		w := v.window(2)
		for k, i := range w.ids {
			if off := w.p.Buffers[k].Fixed; (off != nil) != (k >= 2) || off != nil && *off != v.best.Offsets[i] {
				t.Fatalf("seed %d: buffer %d of the window is fixed at %v", seed, k, off)
			}
		}
		if err := v.packWindows(fakePacker{pack: honestly}, ilp.Options{}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := p.Check(v.best.Placement); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if v.best.Arena != best.Arena || v.best.LowerBound != p.MaxLoad() {
			t.Fatalf("seed %d: arena %d, bound %d: expected %d and %d", seed, v.best.Arena, v.best.LowerBound, best.Arena, p.MaxLoad())
		}
		if v.best.Strategy == "fake" {
			lower++
		}
	}
	if lower < 100 {
		t.Errorf("%d lowered, expected 100 or more", lower)
	}
}

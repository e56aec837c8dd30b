package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// With further precedence: the best order of those that keep it, the bound of all.
func TestPrecedenceIsKeptAndNotInTheBound(t *testing.T) {
	worse := 0
	for i := range randomGraphs(t, 1000) {
		r := rand.New(rand.NewPCG(uint64(i), 21))
		p := randomProblem(r, 10)
		var keep [][2]int32
		last := int32(-1)
		for _, v := range Program(p) {
			if r.IntN(3) == 0 {
				if last >= 0 {
					keep = append(keep, [2]int32{last, v})
				}
				last = v
			}
		}
		got, err := Solve(p, Options{Precedence: keep})
		if err != nil {
			t.Fatal(err)
		}
		q := *p
		q.Tensors = slices.Clone(p.Tensors)
		for _, e := range keep {
			q.Tensors = append(q.Tensors, Tensor{Producer: e[0], Consumers: []int32{e[1]}})
		}
		best, kept := newBrute(p, true).optimum(), newBrute(&q, true).optimum()
		if got.Evaluation.Peak != kept || got.Bound != best || got.Optimal != (kept == best) {
			t.Errorf("graph %d: peak %d, bound %d, optimal %v; the best that keeps %v is %d, of all %d", i, got.Evaluation.Peak, got.Bound, got.Optimal, keep, kept, best)
		}
		for _, order := range got.Orders {
			if e, err := q.Evaluate(order); err != nil || e.Peak != kept {
				t.Errorf("graph %d: an order of peak %d, %v; want %d", i, e.Peak, err, kept)
			}
		}
		checkCertificate(t, p, got.Certificates[0])
		if kept > best {
			worse++
		}
	}
	if worse == 0 {
		t.Error("the precedence costs nothing anywhere: nothing is tested")
	}
}

func TestPrecedenceAgainstTheTensorsIsRefused(t *testing.T) {
	p := &Problem{Nodes: make([]Node, 2), Tensors: []Tensor{{Bytes: 1, Producer: 0, Consumers: []int32{1}}}}
	for _, keep := range [][][2]int32{{{1, 0}}, {{0, 2}}} {
		if r, err := Solve(p, Options{Precedence: keep}); err == nil {
			t.Errorf("%v: got %v", keep, r.Order)
		}
	}
}

// The area asked for is not larger, and the peak is the same.
func TestGoalArea(t *testing.T) {
	less := 0
	for i := range 300 {
		p := randomProblem(rand.New(rand.NewPCG(uint64(i), 22)), 30)
		plain, err := Solve(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		flat, err := Solve(p, Options{Goal: GoalArea})
		if err != nil {
			t.Fatal(err)
		}
		if flat.Evaluation.Peak != plain.Evaluation.Peak || flat.Bound != plain.Bound || len(flat.Orders) > 5 {
			t.Errorf("graph %d: peak %d, bound %d, %d orders; want %d, %d", i, flat.Evaluation.Peak, flat.Bound, len(flat.Orders), plain.Evaluation.Peak, plain.Bound)
		}
		area := flat.Evaluation.Area()
		for _, order := range append(plain.Orders, flat.Orders...) {
			if e, err := p.Evaluate(order); err != nil || e.Area() < area || e.Peak > flat.Evaluation.Peak {
				t.Errorf("graph %d: an order of peak %d and area %d, %v; the first has %d and %d", i, e.Peak, e.Area(), err, flat.Evaluation.Peak, area)
			}
		}
		if area < plain.Evaluation.Area() {
			less++
		}
	}
	if less < 30 {
		t.Errorf("the goal lowers the area of %d graphs of 300", less)
	}
}

func TestAreaStaysInRange(t *testing.T) {
	if a := (Evaluation{Loads: []int64{math.MaxInt64, 1}}).Area(); a != math.MaxInt64 {
		t.Errorf("got %d", a)
	}
}

// To measure where the time goes changes nothing.
func TestBoundTime(t *testing.T) {
	p := transformer(300)
	want, err := Solve(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var spent time.Duration
	got, err := Solve(p, Options{BoundTime: &spent})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" || spent <= 0 {
		t.Errorf("bounds took %v\n%s", spent, d)
	}
}

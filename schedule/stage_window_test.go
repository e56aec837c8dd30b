package schedule

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
)

// Windows update what they cover: after each the loads, places and live bytes are those of
// the order.
func TestWindowsKeepTheLoads(t *testing.T) {
	p := newSolver(t.Context(), EffortDefault.budgets()).open(indexed.NewProblem(index(tangled(3000))), 0)
	p.forward(p.g.Listing(), infinite, listsched.ByPlace)
	l := newLeveller(p)
	l.states = 100
	for k := range 10 {
		before := l.peak
		if !l.lower() {
			t.Fatalf("the highest step of %d bytes was not lowered", before)
		}
		l.peak, l.step = indexed.Peak(l.loads)
		if want := p.g.Loads(l.order, nil); !slices.Equal(l.loads, want) || l.peak > before {
			t.Fatalf("window %d: the loads are not those of the order, or the peak rose from %d to %d", k, before, l.peak)
		}
		fresh := &leveller{live: make([]int64, len(l.order))}
		fresh.relive(p.g, l.order, 0)
		if !slices.Equal(l.live, fresh.live) {
			t.Fatalf("window %d: the live bytes are not those of the order", k)
		}
		for i, v := range l.order {
			if l.place[v] != int32(i) {
				t.Fatalf("window %d: node %d is at step %d, its place is %d", k, v, i, l.place[v])
			}
		}
	}
}

// The high steps of a large graph without structure lie in hundreds of places. The stage
// reaches them all, whatever the budget for the whole graph.
func TestLevelReachesAllHighSteps(t *testing.T) {
	r, err := Solve(t.Context(), tangled(10_000), Options{})
	if err != nil {
		t.Fatal(err)
	}
	without, err := Solve(t.Context(), tangled(10_000), Options{without: []string{"level"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, was := r.Evaluation.Peak, without.Evaluation.Peak; 4*got > 3*was {
		t.Errorf("peak %d, without the stage %d: want less than three quarters", got, was)
	}
}

package budget

import (
	"context"
	"math"
	"slices"
	"testing"

	sweeps "github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget/internal/copies"
)

// findCopies makes a solver plan copies alike, however small its problem is.
func (s *Solver) findCopies() bool {
	s.copies = copies.Find(s.p)
	for _, l := range s.lines {
		l.alike = newAlike(l, s.copies)
	}
	return s.copies != nil
}

// Plans of a network with fewer layers, done in all layers, cost about as much as those of a search that plans each
// layer by itself with ten times the work, and a larger limit never costs more.
func TestFewerLayers(t *testing.T) {
	const name = "vit_b_16-train-bs32"
	p := readData(t, name)
	s, peak := solver(t, p, Options{Part: 4})
	if !s.findCopies() || s.newFewer() == nil {
		t.Fatal("no copies found")
	}
	last := int64(0)
	for k, best := range known[name].extra {
		x := s.Solve(context.Background(), peak/100*percent(k))
		checkPlan(t, p, x)
		if x.Feasible != Found || x.ExtraPercent > 1.05*best {
			t.Errorf("at %d %%: %v, %.2f %% more time; %.2f are known", percent(k), x.Feasible, x.ExtraPercent, best)
		}
		if x.ExtraCost < last {
			t.Errorf("at %d %%: extra cost %d, at a larger limit %d", percent(k), x.ExtraCost, last)
		}
		last = x.ExtraCost
	}
}

// Where layers repeat, a deep limit between two steps of 5 % has a plan of its own.
func TestDeepLimitsOfLayersAlike(t *testing.T) {
	s, peak := solver(t, readData(t, "vit_b_16-train-bs32"), Options{Part: 4})
	if !s.findCopies() {
		t.Fatal("no copies found")
	}
	found := s.Frontier(context.Background(), []int64{peak / 1000 * 125, peak / 100 * 10})
	x, lower := found[0], found[1]
	if x.Feasible != Found || lower.Feasible != Found || x.PeakBytes < peak/100*11 || x.ExtraPercent > 0.8*lower.ExtraPercent {
		t.Errorf("at 12.5 %%: %v, peak %d of %d, %.2f %% more time; at 10 %%: %v, %.2f %%", x.Feasible, x.PeakBytes, peak, x.ExtraPercent, lower.Feasible, lower.ExtraPercent)
	}
}

// Where layers repeat, a limit by itself never costs more than at fast effort from the same orders, however far it is
// from the limits that the archive is filled for; asked for again, it has the same plan.
func TestAskedIsNeverAboveFast(t *testing.T) {
	p, lowered := readData(t, "vit_b_16-train-bs32"), 0
	s, peak := solver(t, p, Options{Part: 4})
	fast, _ := solver(t, p, Options{Part: 4, Effort: schedule.EffortFast})
	if !s.findCopies() || !fast.findCopies() {
		t.Fatal("no copies found")
	}
	s.fillOnce(context.Background())
	for _, thousandths := range []int64{731, 433, 287, 125} {
		limit := peak / 1000 * thousandths
		was := int64(math.MaxInt64) // cost
		if e := s.archive.cheapest(limit); e != nil {
			was = e.cost
		}
		x, y := s.Solve(context.Background(), limit), fast.Solve(context.Background(), limit)
		checkPlan(t, p, x)
		if x.Feasible != Found || y.Feasible == Found && x.ExtraCost > y.ExtraCost {
			t.Errorf("at %.1f %%: %v, %.2f %% more time; at fast effort %v, %.2f %%", float64(thousandths)/10, x.Feasible, x.ExtraPercent, y.Feasible, y.ExtraPercent)
		}
		if again := s.Solve(context.Background(), limit); !slices.Equal(again.Steps, x.Steps) {
			t.Errorf("at %.1f %%: asked for again, the plan is another", float64(thousandths)/10)
		}
		if x.ExtraCost < was {
			lowered++
		}
	}
	if lowered == 0 {
		t.Error("no limit costs less than the archive's plan: expected one at least")
	}
}

// Where layers repeat, no point of a frontier costs more than that limit by itself at fast effort, and a larger limit
// never costs more.
func TestFrontierIsNeverAboveFast(t *testing.T) {
	p := readData(t, "vit_b_16-train-bs32")
	s, peak := solver(t, p, Options{Part: 4})
	if !s.findCopies() {
		t.Fatal("no copies found")
	}
	limits := []int64{peak / 100 * 90, peak / 1000 * 731, peak / 100 * 50, peak / 1000 * 287, peak / 100 * 20, peak / 1000 * 125}
	s.fillOnce(context.Background())
	lowered, last := 0, int64(0)
	var archived []entry
	for _, limit := range limits {
		archived = append(archived, *s.archive.cheapest(limit))
	}
	for i, x := range s.Frontier(context.Background(), limits) {
		checkPlan(t, p, x)
		fast, _ := solver(t, p, Options{Part: 4, Effort: schedule.EffortFast})
		fast.findCopies()
		y := fast.Solve(context.Background(), limits[i])
		if x.Feasible != Found || y.Feasible == Found && x.ExtraCost > y.ExtraCost || x.ExtraCost < last {
			t.Errorf("limit %d: %v, extra cost %d; at fast effort %d, at a larger limit %d", limits[i], x.Feasible, x.ExtraCost, y.ExtraCost, last)
		}
		if last = x.ExtraCost; x.ExtraCost < archived[i].cost {
			lowered++
		}
	}
	if lowered == 0 {
		t.Error("no limit costs less than the archive's plan: expected one at least")
	}
}

// A solver of few limits plans each near itself: about as well as the archive of all, never above fast effort from the
// same orders, and asked again it has the same plan. What it does not plan itself, the archive has.
func TestSingleLimits(t *testing.T) {
	sweeps.Only(t)
	p := readData(t, "vit_b_16-train-bs32")
	s, peak := solver(t, p, Options{Part: 4, Single: true})
	fast, _ := solver(t, p, Options{Part: 4, Effort: schedule.EffortFast})
	all, _ := solver(t, p, Options{Part: 4})
	if !s.findCopies() || !fast.findCopies() || !all.findCopies() {
		t.Fatal("no copies found")
	}
	limits := []int64{peak / 10 * 7, peak / 1000 * 433, peak / 100 * 20, peak / 100 * 35}
	archived := all.Frontier(context.Background(), limits)
	for i, limit := range limits {
		if was := s.Single(); was != (i < mostSingle) {
			t.Errorf("limit %d: single is %v", i, was)
		}
		x, y := s.Solve(context.Background(), limit), fast.Solve(context.Background(), limit)
		checkPlan(t, p, x)
		if x.Feasible != Found || y.Feasible == Found && x.ExtraCost > y.ExtraCost {
			t.Errorf("limit %d: %v, %.2f %% more time; at fast effort %v, %.2f %%", i, x.Feasible, x.ExtraPercent, y.Feasible, y.ExtraPercent)
		}
		if x.ExtraPercent > 1.02*archived[i].ExtraPercent {
			t.Errorf("limit %d: %.2f %% more time; in the archive of all limits %.2f", i, x.ExtraPercent, archived[i].ExtraPercent)
		}
		if again := s.Solve(context.Background(), limit); !slices.Equal(again.Steps, x.Steps) {
			t.Errorf("limit %d: asked for again, the plan is another", i)
		}
	}
	none, _ := solver(t, p, Options{Part: 4, Single: true})
	none.findCopies()
	if x := none.Solve(context.Background(), peak/100); x.Feasible != Impossible || x.Lowest > 2*x.LeastBytes {
		t.Errorf("%v, the lowest plan has %d; no plan needs less than %d", x.Feasible, x.Lowest, x.LeastBytes)
	}
}

// A solver of few limits fills the archive where copies are found, but none can be left out: fast effort alone does not
// serve a limit.
func TestSingleWithoutFewer(t *testing.T) {
	s, peak := solver(t, readData(t, "vit_b_16-train-bs32"), Options{Part: 1000, Single: true})
	if !s.findCopies() {
		t.Fatal("no copies found")
	}
	for i := range s.copies.TensorRole {
		s.copies.TensorRole[i] = -1 // nothing stands for what the next copy reads
	}
	if !s.Single() || s.newFewer() != nil {
		t.Fatal("expected enough copies, but none to leave out")
	}
	if x := s.Solve(context.Background(), peak/2); x.Feasible != Found || !s.filled {
		t.Errorf("%v, the archive is filled: %v; expected both", x.Feasible, s.filled)
	}
}

// An impossible limit is answered with the lowest plan near the bound, not with the peak without a limit.
func TestLowestOfLayersAlike(t *testing.T) {
	p := readData(t, "vit_b_16-train-bs32")
	s, peak := solver(t, p, Options{Effort: schedule.EffortFast})
	if !s.findCopies() {
		t.Fatal("no copies found")
	}
	x := s.Solve(context.Background(), peak/100)
	if x.Feasible != Impossible || x.Lowest < x.LeastBytes || x.Lowest > 2*x.LeastBytes {
		t.Errorf("%v, the lowest plan has %d; no plan needs less than %d", x.Feasible, x.Lowest, x.LeastBytes)
	}
	if y := s.Solve(context.Background(), x.Lowest); y.Feasible != Found {
		t.Errorf("the lowest limit with a plan, %d: %v", x.Lowest, y.Feasible)
	}
}

// After an impossible limit, the lowest one that Least reaches has a plan, as it has by itself.
func TestLeastAfterImpossible(t *testing.T) {
	p := readData(t, "vit_b_16-train-bs32")
	opt := Options{Effort: schedule.EffortFast}
	fresh, peak := solver(t, p, opt)
	s, _ := solver(t, p, opt)
	if !fresh.findCopies() || !s.findCopies() {
		t.Fatal("no copies found")
	}
	x := s.Solve(context.Background(), peak/100)
	least := fresh.Least(context.Background()).PeakBytes
	if x.Feasible != Impossible || least >= x.Lowest {
		t.Fatalf("%v, the lowest plan has %d; expected that Least finds a lower one, found %d", x.Feasible, x.Lowest, least)
	}
	if y := s.Solve(context.Background(), least); y.Feasible != Found {
		t.Errorf("limit %d: %v, the lowest plan has %d", least, y.Feasible, y.Lowest)
	}
}

// Where no limit is below the peak with fewer layers, that network is not planned.
func TestNoLimitOfFewerLayers(t *testing.T) {
	s, peak := solver(t, readData(t, "vit_b_16-train-bs32"), Options{Effort: schedule.EffortFast})
	if !s.findCopies() {
		t.Fatal("no copies found")
	}
	f, w := s.newFewer(), &work{ctx: context.Background(), most: math.MaxInt64}
	before := len(f.small.archive)
	if s.fillFewer(w, f, s.chainers(w), []int64{2 * peak}); len(f.small.archive) > before {
		t.Errorf("%d more plans for a limit above the peak: expected none", len(f.small.archive)-before)
	}
}

// Where too few copies are left, each is planned by itself, as if none had been found.
func TestTooFewCopies(t *testing.T) {
	p := readData(t, "llama_8l-train-bs32")
	alike, peak := solver(t, p, Options{Part: 100})
	apart, _ := solver(t, p, Options{Part: 100})
	if !alike.findCopies() || alike.newFewer() != nil {
		t.Fatal("expected copies, but too few to leave some out")
	}
	for _, percent := range []int64{70, 40} {
		x, y := alike.Solve(context.Background(), peak/100*percent), apart.Solve(context.Background(), peak/100*percent)
		if x.ExtraCost != y.ExtraCost || x.PeakBytes != y.PeakBytes {
			t.Errorf("at %d %%: peak %d for %d, without copies %d for %d", percent, x.PeakBytes, x.ExtraCost, y.PeakBytes, y.ExtraCost)
		}
	}
}

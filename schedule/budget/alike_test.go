package budget

import (
	"context"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget/internal/copies"
)

// Copies are planned alike in large problems alone; here they are in small ones, whose layers are
// few, and the plans must not cost much more than those that plan each layer by itself.
func TestCopiesAreAlike(t *testing.T) {
	for _, name := range []string{"llama_8l-train-bs32", "vit_b_16-train-bs32"} {
		p := readData(t, name)
		s, peak := solver(t, p, Options{Effort: schedule.EffortFast, Part: 8})
		if s.copies = copies.Find(p); s.copies == nil {
			t.Errorf("%s: no copies found", name)
			continue
		}
		for _, l := range s.lines {
			l.alike = newAlike(l, s.copies)
		}
		for _, k := range []int{2, 4} {
			x := s.Solve(context.Background(), peak/100*percent(k))
			checkPlan(t, p, x)
			if best := known[name].extra[k]; x.Feasible != Found || x.ExtraPercent > 1.15*best {
				t.Errorf("%s at %d %%: %v, %.2f %% more time; %.2f are known", name, percent(k), x.Feasible, x.ExtraPercent, best)
			}
		}
	}
}

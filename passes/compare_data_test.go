package passes

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestTrainingArenaIsPeak places the best order of every traced training step and
// inference graph without fragmentation. It logs the median time of a placement.
func TestTrainingArenaIsPeak(t *testing.T) {
	files := datafolder.Glob(t, "training", "*.json*")
	var took []time.Duration
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		p, err := schedule.ReadProblem(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if testing.Short() && len(p.Nodes) > 500 {
			continue
		}
		solved, err := schedule.Solve(context.Background(), p, schedule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		o, err := newComparer(t.Context(), CompareOptions{}).choose(p, solved)
		took = append(took, time.Since(began))
		if err != nil {
			t.Fatal(err)
		}
		if o.found.Arena != solved.Evaluation.Peak {
			t.Errorf("%s: arena %d, peak %d: expected no fragmentation", filepath.Base(path), o.found.Arena, solved.Evaluation.Peak)
		}
	}
	slices.Sort(took)
	t.Logf("%d graphs; placing takes %v at the median, %v at most", len(took), took[len(took)/2], took[len(took)-1])
}

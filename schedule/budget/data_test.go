package budget

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// readData reads a problem below the folder that ONNXMEM_DATA names.
func readData(tb testing.TB, name string) *schedule.Problem {
	tb.Helper()
	dir := os.Getenv("ONNXMEM_DATA")
	if dir == "" {
		tb.Skip("ONNXMEM_DATA is not set: it names the folder with the test data")
	}
	f, err := os.Open(filepath.Join(dir, "budget", name+".json.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	p, err := schedule.ReadProblem(f)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return p
}

// checkPlan replays a plan that is claimed to be one.
func checkPlan(tb testing.TB, p *schedule.Problem, x *Plan) {
	tb.Helper()
	if x.Feasible != Found {
		return
	}
	// The steps say in which order the nodes ran first, and so which one it was.
	var order []int32
	ran := make([]bool, len(p.Nodes))
	for _, v := range x.Steps {
		if !ran[v] {
			ran[v] = true
			order = append(order, int32(v))
		}
	}
	peak, extra, err := replay(p, order, x.Steps)
	switch {
	case err != nil:
		tb.Errorf("limit %d: %v", x.Limit, err)
	case peak != x.PeakBytes || extra != x.ExtraCost:
		tb.Errorf("limit %d: peak %d, extra cost %d; a replay has %d and %d", x.Limit, x.PeakBytes, x.ExtraCost, peak, extra)
	case peak > x.Limit:
		tb.Errorf("limit %d: peak %d", x.Limit, peak)
	case x.LowerBound > extra:
		tb.Errorf("limit %d: extra cost %d below its bound %d", x.Limit, extra, x.LowerBound)
	}
}

func TestPlansReplay(t *testing.T) {
	for _, name := range []string{"resnet50-train-bs32", "mobilenet_v2-train-bs32"} {
		p := readData(t, name)
		r, err := schedule.Solve(p, schedule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var limits []int64
		for percent := int64(100); percent >= 40; percent -= 20 {
			limits = append(limits, r.Evaluation.Peak/100*percent)
		}
		plans, err := Frontier(context.Background(), p, r.Orders, limits, Options{Effort: schedule.EffortFast})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range plans {
			if x.Feasible != Found {
				t.Errorf("%s, limit %d: %v", name, x.Limit, x.Feasible)
			}
			checkPlan(t, p, x)
			t.Logf("%s, limit %d: %.2f %% (%.2f)", name, x.Limit, x.ExtraPercent, x.LowerBoundPercent)
		}
	}
}

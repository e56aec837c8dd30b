package budget

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/ablation"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/schedule"
)

// ablationPercents are the limits of the ablation, of the smallest peak.
var ablationPercents = []int64{80, 60, 40}

// ablationSets plan the training steps of the data with the parts that each effort has.
var ablationSets = []struct {
	name, doc string
	values    string
	value     func(*Plan) int64
	parts     []string
	plan      func(b *testing.B, p *schedule.Problem, orders [][]int32, limits []int64, without []string) ([]*Plan, int64)
}{
	{
		"recompute", "training steps at 80, 60 and 40 % of their peaks, with a tenth of the default work",
		"times", extraCost,
		[]string{"second order", "guided", "guided seed", "previous limit", "batch 0.5", "batch 0.1", "batch 0", "prune lower", "adapt", "neighbours", "far neighbours"},
		func(b *testing.B, p *schedule.Problem, orders [][]int32, limits []int64, without []string) ([]*Plan, int64) {
			s, err := New(p, orders, Options{without: without})
			if err != nil {
				b.Fatal(err)
			}
			s.sharedBy = 10
			return s.Frontier(b.Context(), limits), s.spent
		},
	},
	{
		"recompute, lowest", "training steps at the lowest peak that is found, with a tenth of the default work",
		"peaks", func(p *Plan) int64 { return p.PeakBytes },
		[]string{"rescue", "reach"},
		func(b *testing.B, p *schedule.Problem, orders [][]int32, _ []int64, without []string) ([]*Plan, int64) {
			s, err := New(p, orders, Options{without: without})
			if err != nil {
				b.Fatal(err)
			}
			s.sharedBy = 10
			lowest := s.Within(b.Context(), func(float64) bool { return true })
			return s.Frontier(b.Context(), []int64{lowest}), s.spent
		},
	},
	{
		"recompute, fast", "training steps at 80, 60 and 40 % of their peaks, at fast effort",
		"times", extraCost,
		[]string{"guided", "guided seed", "batch 0.25", "batch 0.1", "batch 0"},
		func(b *testing.B, p *schedule.Problem, orders [][]int32, limits []int64, without []string) ([]*Plan, int64) {
			s, err := New(p, orders, Options{Effort: schedule.EffortFast, without: without})
			if err != nil {
				b.Fatal(err)
			}
			return s.Frontier(b.Context(), limits), s.spent
		},
	},
	{
		"swap, fast", "training steps at 80, 60 and 40 % of their peaks, with a link of 16 GB/s, at fast effort",
		"times", extraCost,
		[]string{"swap alone", "recompute alone", "swap and recompute", "score 1", "score 2", "score 3", "score 4", "weights", "exchanges"},
		func(b *testing.B, p *schedule.Problem, orders [][]int32, limits []int64, without []string) (plans []*Plan, spent int64) {
			s, err := NewSwapper(p, orders, SwapOptions{Link: 16e9, Effort: schedule.EffortFast, without: without})
			if err != nil {
				b.Fatal(err)
			}
			for _, x := range s.Frontier(b.Context(), limits) {
				plans = append(plans, &x.Plan)
			}
			for _, x := range s.combined {
				spent += x.solver.spent
			}
			return plans, spent
		},
	},
}

// extraCost is the extra time of a plan in nanoseconds.
func extraCost(p *Plan) int64 { return p.ExtraCost }

// BenchmarkAblation plans each training step without each part in turn. Its value is
// the sum of the extra times within all limits, in nanoseconds, or the lowest peak in bytes.
func BenchmarkAblation(b *testing.B) {
	list := datafolder.Glob(b, "budget", "*.json.gz")
	problems := make([]*schedule.Problem, len(list))
	orders := make([][][]int32, len(list))
	peaks := make([]int64, len(list))
	for i, path := range list {
		problems[i] = readData(b, strings.TrimSuffix(filepath.Base(path), ".json.gz"))
		found, err := schedule.Solve(b.Context(), problems[i], schedule.Options{})
		if err != nil {
			b.Fatal(err)
		}
		orders[i], peaks[i] = found.Orders, found.Evaluation.Peak
	}
	for _, x := range ablationSets {
		b.Run(fmt.Sprintf("set=%s", strings.ReplaceAll(x.name, ", ", "-")), func(b *testing.B) {
			set := ablation.Set{Title: "Limits: " + x.name, Doc: x.doc, Proofs: "planned", Values: x.values, Cases: len(problems)}
			ablation.Run(b, set, x.parts, func(b *testing.B, i int, without []string) (found ablation.Outcome) {
				var limits []int64
				for _, percent := range ablationPercents {
					limits = append(limits, peaks[i]/100*percent)
				}
				var plans []*Plan
				plans, found.Work = x.plan(b, problems[i], orders[i], limits, without)
				found.Found = true
				for _, p := range plans {
					found.Found = found.Found && p.Feasible == Found
					found.Value += x.value(p)
					found.Bound += p.LowerBound
				}
				found.Proven = found.Found
				return found
			})
		})
	}
}

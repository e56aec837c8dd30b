package budget

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// links are those of the swapping table in docs/results/limits.md, in GB/s.
var links = []int64{12, 25, 36}

// BenchmarkSwap measures the swapping table: the lowest limit that a link serves without
// waiting, and the extra time at 60 and 40 % of the peak by swapping, by recomputation
// and by both. The metrics of a limit without a plan are -1.
func BenchmarkSwap(b *testing.B) {
	for _, name := range []string{"resnet50", "mobilenet_v2", "densenet121", "efficientnet_b0", "vit_b_16", "gpt2", "llama_8l"} {
		p := readData(b, name+"-train-bs32")
		r, err := schedule.Solve(context.Background(), p, schedule.Options{})
		if err != nil {
			b.Fatal(err)
		}
		var limits []int64
		for _, percent := range []int64{60, 40} {
			limits = append(limits, r.Evaluation.Peak/100*percent)
		}
		for _, link := range links {
			b.Run(fmt.Sprintf("graph=%s/link=%dGBps/free", name, link), func(b *testing.B) {
				for range b.N {
					benchFree(b, p, r.Orders, link*1e9)
				}
			})
			for _, how := range []string{"swap", "both"} {
				b.Run(fmt.Sprintf("graph=%s/link=%dGBps/%s", name, link, how), func(b *testing.B) {
					for range b.N {
						s, err := NewSwapper(p, r.Orders, SwapOptions{Link: link * 1e9, NoRecompute: how == "swap"})
						if err != nil {
							b.Fatal(err)
						}
						for i, x := range s.Frontier(context.Background(), limits) {
							checkSwaps(b, p, x)
							b.ReportMetric(extraMetric(&x.Plan), []string{"extra%@60", "extra%@40"}[i])
						}
					}
				})
			}
		}
		b.Run(fmt.Sprintf("graph=%s/recompute", name), func(b *testing.B) {
			for range b.N {
				plans, err := Frontier(context.Background(), p, r.Orders, limits, Options{})
				if err != nil {
					b.Fatal(err)
				}
				for i, x := range plans {
					b.ReportMetric(extraMetric(x), []string{"extra%@60", "extra%@40"}[i])
				}
			}
		})
	}
}

func extraMetric(x *Plan) float64 {
	if x.Feasible != Found {
		return -1
	}
	return x.ExtraPercent
}

// benchFree reports the lowest limit, in per cent of the peak, that swapping keeps with
// less than 0.1 % extra time: by the scores alone, by searched weights, and after
// exchanges. As in the table, it lowers the limit until searched weights cost 5 %.
func benchFree(b *testing.B, p *schedule.Problem, orders [][]int32, link int64) {
	s, err := NewSwapper(p, orders, SwapOptions{Link: link})
	if err != nil {
		b.Fatal(err)
	}
	h := s.lines[0]
	lowest := [scores + 2]float64{-1, -1, -1, -1, -1, -1}
	plain := h.begin[len(h.order)]
	for percent := int64(99); percent >= 30; percent-- {
		alone, searched, exchanged := h.autoSwap(&work{}, h.peak/100*percent, draws/5, exchanges/5, rand.New(rand.NewPCG(uint64(percent), 3)))
		for k, end := range append(alone[:], searched.end, exchanged.end) {
			if end < plain+plain/1000 {
				lowest[k] = float64(percent)
			}
		}
		if searched.end != math.MaxInt64 && searched.end > plain+plain/20 {
			break
		}
	}
	for k, name := range []string{"DOA", "AOA", "WDOA", "SWDOA", "searched", "exchange"} {
		b.ReportMetric(lowest[k], name+"%")
	}
}

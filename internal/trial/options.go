package trial

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// flags are those of the command optimize that a trial may have.
type flags struct {
	optimize.TrainFlags
	optimize.LimitFlags
	optimize.PlanFlags
	InlineFunctions bool
	Workspaces      string
}

// errUsage is wrapped by the error of options that may not stand together.
var errUsage = errors.New("usage")

// parse reads options as the command does.
func parse(list []string) (*flags, passes.Options, error) {
	f := &flags{}
	parser, err := kong.New(f, kong.Vars(optimize.Vars()), kong.Exit(func(int) {}))
	if err != nil {
		return nil, passes.Options{}, err
	}
	if _, err := parser.Parse(list); err != nil {
		return nil, passes.Options{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	t := &optimize.Task{Job: optimize.Job{TrainFlags: f.TrainFlags, LimitFlags: f.LimitFlags, PlanFlags: f.PlanFlags, InlineFunctions: f.InlineFunctions, Workspaces: f.Workspaces}}
	opt, err := t.Options()
	if err != nil {
		return nil, opt, fmt.Errorf("%w: %w", errUsage, err)
	}
	if err := opt.Validate(); err != nil {
		return nil, opt, fmt.Errorf("%w: %w", errUsage, err)
	}
	return f, opt, nil
}

// share is a size as a part of the peak of the plan without options.
var share = regexp.MustCompile(`\{(\d+)%\}`)

// settle replaces the sizes that are parts of a peak.
func settle(list []string, peak int64) []string {
	settled := make([]string, len(list))
	for i, text := range list {
		settled[i] = share.ReplaceAllStringFunc(text, func(part string) string {
			n, _ := strconv.ParseInt(share.FindStringSubmatch(part)[1], 10, 64)
			return strconv.FormatInt(max(peak*n/100, 1), 10)
		})
	}
	return settled
}

// besideRanges draws options that stand beside ranges. Their numbers are their own, so that the
// others of a seed stay what they were before these were drawn.
func besideRanges(seed uint64, limited bool) (list []string) {
	r := rand.New(rand.NewPCG(seed, 4))
	if kind := r.IntN(4); kind < 2 {
		list = append(list, "--slices", []string{"exact", "any"}[r.IntN(2)])
		switch {
		case limited:
		case kind == 0:
			list = append(list, "--limit", fmt.Sprintf("%d%%", 50+10*r.IntN(5)))
		default:
			list = append(list, "--extra", "100%")
		}
	}
	if r.IntN(3) == 0 {
		list = append(list, "--pool", fmt.Sprintf("fast={%d%%}", 20+20*r.IntN(6)), "--pool", fmt.Sprintf("slow={%d%%}@1GB/s", 100+100*r.IntN(3)))
	}
	return list
}

// draw draws options for a network; some cannot stand together.
func draw(seed uint64, n *randmodel.Network) []string {
	r := rand.New(rand.NewPCG(seed, 3))
	one := func(n int) bool { return r.IntN(n) == 0 }
	choose := func(list ...string) string { return list[r.IntN(len(list))] }
	var list []string
	add := func(words ...string) { list = append(list, words...) }
	ranged := false
	for _, name := range []string{"batch", "length"} {
		length, ok := n.Dims[name]
		switch {
		case !ok:
		case one(4):
			ranged = true
			add("--dim", fmt.Sprintf("%s=%s", name, choose(fmt.Sprintf("1..%d", length+1), fmt.Sprintf("1,%d", length+2), fmt.Sprintf("%d..%d", length, length+3))))
		default:
			add("--dim", fmt.Sprintf("%s=%d", name, length))
		}
	}
	training := one(4)
	if training {
		add("--train", "--loss", choose("mse", "mse", "l1", "cross-entropy", "bce"))
		if g := n.Model.Graph; one(2) {
			add("--loss-output", g.Tensors[g.Outputs[r.IntN(len(g.Outputs))]].Name)
		}
		if one(2) {
			add("--optimizer", choose(autodiff.Optimizers()...))
		}
		if one(3) {
			add("--keep-gradients")
		}
		if one(5) {
			add("--updates", "last")
		}
		if one(6) {
			add("--clip-norm", "1")
		}
		if one(6) {
			add("--freeze-statistics")
		}
		if one(6) {
			add("--fused-gradients", choose("on", "off", "all"))
		}
		if one(8) {
			add("--accumulate", "2")
		}
	}
	limited := func() {
		if one(2) {
			add("--limit", choose("95%", "90%", "80%", "75%", "70%", "60%", "50%", "40%"))
			if one(6) {
				add("--limit-arena")
			}
		} else {
			add("--extra", choose("5%", "10%", "20%", "50%", "100%", "1000%"))
		}
	}
	switch kind := r.IntN(10); {
	case ranged && !one(10):
		if one(3) {
			limited()
			if one(3) {
				add("--host-link", choose("100MB/s", "12GB/s", "200GB/s"))
			}
		}
		add(besideRanges(seed, slices.Contains(list, "--limit") || slices.Contains(list, "--extra"))...)
	case kind < 3:
		add("--slices", choose("exact", "exact", "any"))
		limited()
		if one(4) {
			add("--compact")
		}
		if one(4) {
			add("--no-recompute")
		}
	case kind < 5:
		rate := choose("100MB/s", "1GB/s")
		if one(2) {
			add("--pool", "fast={"+choose("30", "50", "60", "75", "90", "100")+"%}", "--pool", "slow={"+choose("100", "150", "200")+"%}@"+rate)
		} else {
			add("--pool", "fast={"+choose("20", "40", "60")+"%}", "--pool", "slow={"+choose("40", "60")+"%}@"+rate, "--pool", "last={150%}")
		}
		if one(2) {
			add("--slices", choose("exact", "any"))
			if one(3) {
				add("--extra", choose("10%", "50%", "100%"))
			}
		}
	case kind < 7:
		limited()
		if one(2) {
			add("--host-link", choose("100MB/s", "12GB/s", "200GB/s"))
			if one(4) {
				add("--no-recompute")
			}
			if one(4) {
				add("--slices", choose("exact", "any"))
			}
		}
	}
	if one(4) {
		add("--fold", choose("off", "any", "exact"))
	}
	if one(8) {
		add("--no-aliases")
	} else if one(8) {
		add("--aliases")
	}
	if one(8) {
		add("--no-views")
	}
	if one(8) {
		add("--no-inplace")
	}
	if one(5) {
		add("--align", choose("1", "4", "16", "256"))
	}
	if one(6) {
		add("--schedule", schedule.Strategies[r.IntN(len(schedule.Strategies))].Name)
	}
	if one(6) {
		add("--placement", alloc.Strategies[r.IntN(len(alloc.Strategies))].Name)
	}
	if one(8) {
		add("--runtime", choose("onnxruntime", "onnxruntime-arena"))
		if one(3) {
			add("--order", "default")
		}
	}
	if one(6) {
		add("--effort", choose("fast", "max"))
	}
	if one(12) {
		add("--schedule-goal", "area")
	}
	if one(12) {
		add("--device", choose("cpu", "roofline"))
	}
	if one(12) {
		add("--keep-random-order")
	}
	return list
}

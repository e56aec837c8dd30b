package optimize

import (
	"sort"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// Notes says which dimensions were assumed, and what contradicts itself but does no harm.
func Notes(say func(format string, args ...any), dims map[string]plan.Dim, warnings []string) {
	var assumed []string
	for name, d := range dims {
		if d.Assumed {
			assumed = append(assumed, name)
		}
	}
	sort.Strings(assumed)
	const most = 10
	for i, name := range assumed {
		if i == most {
			say("… and %d more, listed in the plan", len(assumed)-most)
			break
		}
		say("dimension %q is unbound: taken as %d (say --dim %s=N)", graph.Short(name), dims[name].Value, units.Name(name))
	}
	for _, w := range warnings {
		say("%s", w)
	}
}

// TrainingNotes says which tensors are not trained, and what is odd.
func TrainingNotes(say func(format string, args ...any), r *passes.Result) {
	if r.Step == nil {
		return
	}
	const most = 10
	for i, t := range r.Step.LeftOut {
		if i == most {
			say("… and %d more that are not trained (--trainable, -v)", len(r.Step.LeftOut)-most)
			break
		}
		say("not trained: %s", units.Name(t))
	}
	for i, t := range r.Step.Tied {
		if i == most {
			say("… and %d more parameters that several nodes read (--json)", len(r.Step.Tied)-most)
			break
		}
		say("%s", t)
	}
	for i, w := range r.Step.Warnings {
		if i == most {
			say("… and %d more of this kind", len(r.Step.Warnings)-most)
			break
		}
		say("%s", w)
	}
}

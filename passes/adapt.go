package passes

import (
	"context"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/autodiff/lora"
	"github.com/onnxmem/onnxmem/graph"
)

// adapt gives the model low-rank adapters.
func adapt(_ context.Context, s *State) error {
	if s.opt.LoRA == nil {
		return nil
	}
	m, record, err := lora.Adapt(s.now.Model, *s.opt.LoRA)
	if err != nil {
		return err
	}
	s.adapters = record
	s.Replace(m)
	return nil
}

// checkAdapters checks Options.LoRA by itself.
func (o *Options) checkAdapters() error {
	if o.LoRA == nil {
		return nil
	}
	return o.LoRA.Validate()
}

// keepTrained leaves out of the record of a step's adapters those that it does not train, and
// says which: the loss does not depend on them.
func (s *State) keepTrained(step *autodiff.Step) error {
	if s.adapters == nil {
		return nil
	}
	kept := *s.adapters
	kept.Adapters = nil
	var out []string
	for _, a := range s.adapters.Adapters {
		if slices.Contains(step.Parameters, a.A) || slices.Contains(step.Parameters, a.B) {
			kept.Adapters = append(kept.Adapters, a)
		} else {
			out = append(out, graph.Short(a.Module))
		}
	}
	if len(out) > 0 {
		s.Warn("%s", leftOut(out))
	}
	s.adapters = &kept
	return kept.Write(step.Model)
}

// leftOut says which modules have no adapter.
func leftOut(modules []string) string {
	const most = 5
	list := strings.Join(modules[:min(most, len(modules))], ", ")
	if len(modules) > most {
		list += ", …"
	}
	if len(modules) == 1 {
		return "no adapter beside " + list + ": the loss does not depend on it"
	}
	return "no adapters beside " + list + ": the loss does not depend on them"
}

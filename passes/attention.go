package passes

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/attend"
	"github.com/onnxmem/onnxmem/plan"
)

// replaceAttention replaces attention that is spelled out by the operator Attention, with
// Options.Attention. Local functions are replaced by their bodies: attention stands in these, too. The
// opset is 23 at least.
func replaceAttention(_ context.Context, s *State) error {
	if !s.opt.Attention {
		return nil
	}
	m := s.now.Model
	if _, has := m.Prop("onnxmem.mode"); has {
		return graph.Errorf("is a training step (its metadata say onnxmem.mode = training): expected an inference model")
	}
	m, err := graph.Inline(m)
	if err != nil {
		return err
	}
	found, err := s.now.Bind.Infer(m)
	if err != nil {
		return s.atCorner(err)
	}
	report := attend.Find(m, found.Values)
	for _, why := range report.Reasons() {
		n := report.Kept[why]
		s.Warn("--attention: %d of %d attentions keep their scores: %s", n, n+len(report.Tensors), why)
	}
	if len(report.Tensors) == 0 {
		s.Warn("--attention: found no attention that is spelled out as products and a Softmax")
		return nil
	}
	if from := m.Opset(""); from < attend.Opset {
		if m, err = autodiff.Upgrade(m, found.Values, attend.Opset); err != nil {
			return err
		}
		if found, err = s.now.Bind.Infer(m); err != nil {
			return err
		}
		s.Warn("opset %d instead of %d: the first that has Attention", m.Opset(""), from)
	}
	m, report, err = attend.Rewrite(m, found.Values)
	if err != nil {
		return err
	}
	s.attended = report.Tensors
	s.Replace(m)
	return nil
}

// planAttention lists in the plan the attention that one node computes.
func (s *State) planAttention(p *plan.Plan) {
	if s.attended == nil {
		return
	}
	there := map[string]bool{}
	for _, t := range s.now.Model.Graph.Tensors {
		there[t.Name] = true
	}
	p.Attention = []string{}
	for _, name := range s.attended {
		if there[name] {
			p.Attention = append(p.Attention, name)
		}
	}
	slices.Sort(p.Attention)
}

package passes

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/precision"
	"github.com/onnxmem/onnxmem/plan"
)

// Precision says how a graph is put into 16 bits: products compute in the 16-bit type, sums
// and normalizations in float32, the rest in the widest type of its inputs, as under
// torch.amp.autocast (docs/formats/precision.md). Inputs, outputs and initializers keep their types,
// so that a training graph has float32 parameters and states. A loss scale is dynamic for
// Float16 unless the options of the training say otherwise.
type Precision struct {
	Type graph.DType    // graph.Float16 or graph.BFloat16
	Keep *regexp.Regexp // names of nodes and tensors that stay in float32; nil: none
}

// checkPrecision refuses a type that has not 16 bits.
func (o *Options) checkPrecision() error {
	if p := o.Precision; p != nil && p.Type != graph.Float16 && p.Type != graph.BFloat16 {
		return fmt.Errorf("precision %v: expected float16 or bfloat16", p.Type)
	}
	return nil
}

// putInto16Bits adds the casts of Options.Precision. Local functions are replaced by their
// bodies: what a call computes in depends on its inputs. The opset is the least one from the
// model's own on that permits the 16-bit type wherever later ones do.
func putInto16Bits(_ context.Context, s *State) error {
	if s.opt.Precision == nil {
		return nil
	}
	m := s.now.Model
	if _, has := m.Prop("onnxmem.mode"); has {
		return graph.Errorf("is a training step already (its metadata say onnxmem.mode = training): expected an inference model")
	}
	m, err := graph.Inline(m)
	if err != nil {
		return err
	}
	found, err := s.now.Bind.Infer(m)
	if err != nil {
		return s.atCorner(err)
	}
	if from, to := m.Opset(""), precision.Opset(m, s.opt.Precision.Type); to > from {
		if m, err = autodiff.Upgrade(m, found.Values, to); err != nil {
			return err
		}
		if found, err = s.now.Bind.Infer(m); err != nil {
			return err
		}
		s.Warn("opset %d instead of %d: the first that permits %v for all operators that compute in it", m.Opset(""), from, s.opt.Precision.Type)
	}
	m, s.cast, err = precision.Apply(m, found.Values, precision.Options{Type: s.opt.Precision.Type, Keep: s.opt.Precision.Keep, Trains: s.opt.Train != nil})
	if err != nil {
		return err
	}
	s.Replace(m)
	return nil
}

// planPrecision describes in the plan what was put into 16 bits. Casts and tensors that folding or
// differentiation has removed are in no list.
func (s *State) planPrecision(p *plan.Plan) {
	if s.cast == nil {
		return
	}
	g := s.now.Model.Graph
	there := map[string]*graph.Tensor{}
	for _, t := range g.Tensors {
		there[t.Name] = t
	}
	p.Precision = &plan.Precision{
		Type: s.cast.Type.String(), Operators: plan.PrecisionCounts(g, s.cast.Type),
		Casts: []plan.PrecisionCast{}, Kept: []plan.PrecisionKept{},
	}
	for _, c := range s.cast.Casts {
		if there[c.Tensor] != nil {
			p.Precision.Casts = append(p.Precision.Casts, plan.PrecisionCast(c))
		}
	}
	for _, k := range s.cast.Kept {
		if t := there[k.Tensor]; t != nil && t.Maker >= 0 && t.Type.Elem == graph.Float32 {
			p.Precision.Kept = append(p.Precision.Kept, plan.PrecisionKept(k))
		}
	}
	slices.SortFunc(p.Precision.Casts, func(a, b plan.PrecisionCast) int { return cmp.Compare(a.Tensor, b.Tensor) })
	slices.SortFunc(p.Precision.Kept, func(a, b plan.PrecisionKept) int { return cmp.Compare(a.Tensor, b.Tensor) })
}

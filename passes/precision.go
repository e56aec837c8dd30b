package passes

import (
	"context"
	"fmt"
	"regexp"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/precision"
)

// Precision says how a graph is put into 16 bits: products compute in the 16-bit type, sums
// and normalizations in float32, the rest in the widest type of its inputs, as under
// torch.amp.autocast (docs/precision.md). Inputs, outputs and initializers keep their types,
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
	m, s.cast, err = precision.Apply(m, found.Values, precision.Options{Type: s.opt.Precision.Type, Keep: s.opt.Precision.Keep})
	if err != nil {
		return err
	}
	s.Replace(m)
	return nil
}

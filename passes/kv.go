package passes

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/kv"
	"github.com/onnxmem/onnxmem/plan"
)

// keepCaches rewrites a decoder whose caches grow into one whose caches have room for
// Options.KVCapacity tokens and stay from one run to the next.
func keepCaches(_ context.Context, s *State) error {
	if s.opt.KVCapacity == 0 {
		return nil
	}
	if s.opt.Train != nil || s.mode() == modeTraining {
		return &OptionError{fmt.Errorf("a capacity of caches for a training graph: expected a decoder for inference")}
	}
	if _, has := s.model.Prop(plan.KeyKV); has {
		return graph.Errorf("its caches have a fixed capacity already: expected the decoder from which it was made")
	}
	m, d, err := kv.Rewrite(s.model, kv.Options{Capacity: s.opt.KVCapacity, Infer: ops.Options{
		Dims: s.opt.Dims, Values: s.opt.Values, StrictDims: s.opt.StrictDims, SpareDims: s.opt.SpareDims, Strict: s.opt.Strict,
	}})
	if err != nil {
		return err
	}
	k := &plan.KV{Capacity: s.opt.KVCapacity, New: d.New, Dimension: d.Dimension, Index: d.Index, Masks: d.Masks, Caches: []plan.KVCache{}}
	for _, c := range d.Caches {
		s.opt.States = append(s.opt.States[:len(s.opt.States):len(s.opt.States)], c.Past+"="+c.Present)
		k.Caches = append(k.Caches, plan.KVCache{Past: c.Past, Present: c.Present, Axis: c.Axis})
	}
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	m.SetProp(plan.KeyKV, string(text))
	s.Replace(m)
	return nil
}

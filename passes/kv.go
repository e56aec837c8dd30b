package passes

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/kv"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
)

// keepCaches rewrites a decoder whose caches grow into one whose caches have room for
// Options.KVCapacity tokens and stay from one run to the next.
func keepCaches(_ context.Context, s *State) error {
	if s.opt.KVCapacity == 0 {
		return nil
	}
	if planner.ModeOf(s.now.Model) == planner.ModeTraining {
		return graph.Errorf("a training graph has no caches of keys and values: expected a decoder for inference")
	}
	if _, has := s.now.Model.Prop(plan.KeyKV); has {
		return graph.Errorf("its caches have a fixed capacity already: expected the decoder from which it was made")
	}
	m, d, err := s.rewriteCaches()
	if err != nil {
		return err
	}
	k := &plan.KV{Capacity: s.opt.KVCapacity, New: d.New, Dimension: d.Dimension, Index: d.Index, Masks: d.Masks, Caches: []plan.KVCache{}}
	for _, c := range d.Caches {
		s.kvStates = append(s.kvStates, c.Past+"="+c.Present)
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

// rewriteCaches returns the rewritten decoder. With ranges of dimensions it is rewritten at
// each point, and must be the same model at all of them: what shows that it computes the
// same as the given one, holds at one point.
func (s *State) rewriteCaches() (m *graph.Model, d *kv.Decoder, err error) {
	opt := kv.Options{Capacity: s.opt.KVCapacity}
	at := func(dims map[string]int64) (*graph.Model, *kv.Decoder, error) {
		opt.Infer = s.now.Bind.At(dims).Given
		return kv.Rewrite(s.now.Model, opt)
	}
	if m, d, err = at(s.now.Bind.Given.Dims); err != nil || s.now.Ranged == nil {
		return m, d, err
	}
	box := s.now.Ranged.Box
	if !s.opt.enumerates(box) {
		return nil, nil, graph.Errorf("ranges of dimensions: %d points are too many to rewrite the decoder at each: expected fewer, or a larger --points", box.Points)
	}
	count := make([]int64, box.Points) // of new tokens
	for point := range count {
		_, e, err := at(s.now.Ranged.Dims(point))
		if err != nil {
			return nil, nil, fmt.Errorf("ranges of dimensions: at %s: %w", graph.AtLengths(box.At(point)), err)
		}
		count[point] = e.New
	}
	if slices.Min(count) < slices.Max(count) {
		for _, name := range box.Names {
			same := 0
			for point, n := range count {
				if box.At(point)[name] == n {
					same++
				}
			}
			if same == box.Points {
				opt.New = name
			}
		}
	}
	if opt.New != "" {
		if m, d, err = at(s.now.Bind.Given.Dims); err != nil {
			return nil, nil, err
		}
	}
	for point := range count {
		n, e, err := at(s.now.Ranged.Dims(point))
		if err != nil {
			return nil, nil, fmt.Errorf("ranges of dimensions: at %s: %w", graph.AtLengths(box.At(point)), err)
		}
		if where := otherDecoder(m, n, d, e); where != "" {
			return nil, nil, graph.Errorf("ranges of dimensions: the decoder with caches of fixed capacity is another one at %s than for the largest lengths: %s: expected lengths for which it is the same", graph.AtLengths(box.At(point)), where)
		}
	}
	return m, d, nil
}

// otherDecoder says where two rewritten decoders differ, "" if they do nowhere.
func otherDecoder(a, b *graph.Model, d, e *kv.Decoder) string {
	g, h := a.Graph, b.Graph
	same := *e
	same.New = d.New
	switch {
	case !reflect.DeepEqual(*d, same):
		return "it has other caches or masks"
	case len(g.Nodes) != len(h.Nodes) || len(g.Tensors) != len(h.Tensors):
		return fmt.Sprintf("it has %d nodes and %d tensors instead of %d and %d", len(h.Nodes), len(h.Tensors), len(g.Nodes), len(g.Tensors))
	case !slices.Equal(g.Inputs, h.Inputs) || !slices.Equal(g.Outputs, h.Outputs) || !reflect.DeepEqual(a.Opsets, b.Opsets):
		return "it has other inputs, outputs or opsets"
	}
	for i, n := range g.Nodes {
		if !reflect.DeepEqual(n, h.Nodes[i]) {
			return h.Label(graph.NodeID(i))
		}
	}
	for i, t := range g.Tensors {
		if u := h.Tensors[i]; t.Name != u.Name || !reflect.DeepEqual(t.Data, u.Data) || !reflect.DeepEqual(t.Declared, u.Declared) {
			return fmt.Sprintf("tensor %q", graph.Short(u.Name))
		}
	}
	return ""
}

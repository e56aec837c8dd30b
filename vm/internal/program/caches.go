package program

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Caches returns the graph inputs whose values are caches: a run writes over them, and
// the next one reads what it wrote. A session begins with zeros. They are States, too.
func (p *Program) Caches() []graph.Tensor {
	cache := map[string]bool{}
	for i := range p.Plan.Buffers {
		if b := &p.Plan.Buffers[i]; b.Kind == plan.KindCache {
			cache[b.Tensors[0]] = true
		}
	}
	return slices.DeleteFunc(p.States(), func(t graph.Tensor) bool { return !cache[t.Name] })
}

// KV describes the caches of a decoder that was rewritten to a fixed capacity; nil if the
// model is none. The number of new tokens is that of the program's point; with ranges, the
// largest.
func (p *Program) KV() *plan.KV {
	if p.of == nil || p.Plan.KV == nil || len(p.Plan.KV.Caches) == 0 {
		return p.Plan.KV
	}
	k, g := *p.Plan.KV, p.Model.Graph
	c := k.Caches[0]
	present := g.Tensors[ByName(g)[c.Present]]
	if present.Maker < 0 || len(g.Nodes[present.Maker].Inputs) < 2 { // the verifier has seen a TensorScatter
		return &k
	}
	if fresh := g.Tensor(g.Nodes[present.Maker].Inputs[1]); fresh != nil && c.Axis < len(fresh.Type.Shape) {
		k.New = int64(fresh.Type.Shape[c.Axis])
	}
	return &k
}

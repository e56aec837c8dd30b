package training

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/plan/verify/internal/numbers"
)

// adapters are the low-rank adapters that the metadata list. Beside a node of the source that
// makes y of x, a step has y + s B A x, and trains A and B.
type adapters struct {
	Rank           int64
	Alpha, Dropout float64
	RankStabilized bool `json:"rslora"`
	Adapters       []*adapter

	byOutput map[string]*adapter
	trained  map[string]bool // names of all A and B
}

type adapter struct {
	Kind, A, B string
	Outputs    []string
}

// readAdapters reads the list of adapters.
func (p *prover) readAdapters() string {
	p.adapters = &adapters{byOutput: map[string]*adapter{}, trained: map[string]bool{}}
	text, there := p.Model.Prop("onnxmem.lora")
	if !there {
		return ""
	}
	if json.Unmarshal([]byte(text), p.adapters) != nil || p.adapters.Rank < 1 {
		return fmt.Sprintf("onnxmem.lora: expected a rank and a list of adapters, found %q", graph.Short(text))
	}
	for _, a := range p.adapters.Adapters {
		if a == nil {
			return "onnxmem.lora: expected adapters, found null"
		}
		p.adapters.trained[a.A], p.adapters.trained[a.B] = true, true
		for _, name := range a.Outputs {
			p.adapters.byOutput[name] = a
		}
		if p.sourceOf(a.A) != nil || p.sourceOf(a.B) != nil {
			return fmt.Sprintf("onnxmem.lora: expected names that the source does not have, found %q and %q", graph.Short(a.A), graph.Short(a.B))
		}
	}
	return ""
}

func (a *adapters) scale() float64 {
	if a.RankStabilized {
		return a.Alpha / math.Sqrt(float64(a.Rank))
	}
	return a.Alpha / float64(a.Rank)
}

// adapterOf returns the adapter that adds to a tensor; nil if there is none, as in bodies and in a
// model for inference.
func (p *prover) adapterOf(t graph.TensorID) *adapter {
	if p.adapters == nil {
		return nil
	}
	for _, name := range slices.Concat([]string{p.g.Tensors[t].Name}, p.names[t]) {
		if a := p.adapters.byOutput[name]; a != nil {
			return a
		}
	}
	return nil
}

// adapted compares a tensor to which an adapter adds with the source's, which has no adapter.
func (p *prover) adapted(a *adapter, t, of graph.TensorID) string {
	sum := p.node(t, "Add", 2)
	if sum == nil {
		return fmt.Sprintf("%s: expected the sum with its adapter, found %s", label(p.g, t), p.maker(t))
	}
	at := p.maker(t)
	p.meet(sum.Inputs[0], of)
	old := p.of.Graph.Nodes[p.of.Graph.Tensors[of].Maker]
	up, down, k := "MatMul", "MatMul", 0
	switch a.Kind {
	case "conv":
		up, down = "Conv", "Conv"
	case "embedding":
		down, k = "Gather", 1
	}
	second := p.node(p.cast(sum.Inputs[1]), up, 2) // in 16 bits, casts lie between
	if second == nil || !p.isPart(second.Inputs[1], a.B) || up == "Conv" && len(second.Attrs) > 0 {
		return fmt.Sprintf("%s: expected %s by %q, found %s", at, up, graph.Short(a.B), p.maker(sum.Inputs[1]))
	}
	h := p.cast(second.Inputs[0])
	if s := p.adapters.scale(); s != 1 {
		product := p.node(h, "Mul", 2)
		if product == nil || !p.rounded(product.Inputs[1], s) {
			return fmt.Sprintf("%s: expected a product with %g, found %s", at, s, p.maker(h))
		}
		h = p.cast(product.Inputs[0])
	}
	first := p.node(h, down, 2)
	if first == nil || !p.isPart(first.Inputs[1-k], a.A) {
		return fmt.Sprintf("%s: expected %s by %q, found %s", at, down, graph.Short(a.A), p.maker(h))
	}
	if down == "Conv" {
		if name, _ := p.attribute(first, old.Attrs); name != "" && name != "kernel_shape" {
			return fmt.Sprintf("%s: attribute %q: expected that of the convolution that it adapts", at, graph.Short(name))
		}
	}
	x := first.Inputs[k]
	if p.adapters.Dropout > 0 && k == 0 {
		drop := p.node(p.cast(x), "Dropout", 3)
		if drop == nil || !p.rounded(drop.Inputs[1], p.adapters.Dropout) || !p.holds(drop.Inputs[2], &numbers.List{Ints: []int64{1}}) {
			return fmt.Sprintf("%s: expected a Dropout of %g, found %s", at, p.adapters.Dropout, p.maker(x))
		}
		x = drop.Inputs[0]
	}
	if trans := old.Attr("transA"); trans != nil && trans.Int != 0 {
		if x = p.operand(x, "Transpose"); x < 0 {
			return fmt.Sprintf("%s: expected a Transpose, as its product reads", at)
		}
	}
	p.compared++
	p.meet(x, old.Inputs[k])
	return ""
}

// isPart reports whether a tensor is A or B of an adapter, or a Cast of it.
func (p *prover) isPart(t graph.TensorID, name string) bool {
	t = p.cast(t)
	if p.g.Tensors[t].Name != name {
		return false
	}
	p.pairs[t] = t // nothing in the source
	return true
}

// rounded reports whether a tensor is an initializer with one number, as its type has it.
func (p *prover) rounded(t graph.TensorID, v float64) bool {
	d := p.g.Tensors[t].Data
	if d == nil || d.Elements() != 1 {
		return false
	}
	x, err := p.files[0].Read(d)
	if err != nil {
		return false
	}
	want, ok := constant.AppendReal(nil, d.Type, v)
	return ok && slices.Equal(x.Raw, want)
}

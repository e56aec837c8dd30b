package verify

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/unchanged"
)

// precision checks what the plan says of the graph in 16 bits: the counts, that each listed cast is
// one, and that the tensors that were kept are float32.
func (v *verifier) precision() bool {
	p := v.Plan.Precision
	if p == nil {
		return true
	}
	half := graph.Undefined
	for _, d := range []graph.DType{graph.Float16, graph.BFloat16} {
		if p.Type == d.String() {
			half = d
		}
	}
	if half == graph.Undefined {
		v.Fault(CodePrecision, "precision: type: expected \"float16\" or \"bfloat16\", found %q", graph.Short(p.Type))
		return true
	}
	if want := plan.PrecisionCounts(v.Model.Graph, half); !slices.Equal(want, p.Operators) {
		v.Fault(CodePrecision, "precision: operators: expected %v, found %v", want, p.Operators)
	}
	tensors := v.Tensors(v.Model.Graph)
	for i, c := range p.Casts {
		t := tensors[c.Tensor]
		switch {
		case t == nil || t.Type.Kind != graph.KindTensor || t.Type.Elem != half && t.Type.Elem != graph.Float32:
			v.Fault(CodePrecision, "precision: cast %q: expected a tensor of the main graph, of float32 or %v", graph.Short(c.Tensor), half)
		case i > 0 && p.Casts[i-1].Tensor >= c.Tensor:
			v.Fault(CodePrecision, "precision: cast %q: expected each once, sorted by name", graph.Short(c.Tensor))
		case !v.casts(t, c.Of, half):
			v.Fault(CodePrecision, "precision: cast %q: expected a Cast of %q between float32 and %v", graph.Short(c.Tensor), graph.Short(c.Of), half)
		}
	}
	for i, k := range p.Kept {
		t := tensors[k.Tensor]
		switch {
		case t == nil || t.Maker < 0 || t.Type.Elem != graph.Float32:
			v.Fault(CodePrecision, "precision: kept %q: expected a float32 that a node of the main graph makes", graph.Short(k.Tensor))
		case i > 0 && p.Kept[i-1].Tensor >= k.Tensor:
			v.Fault(CodePrecision, "precision: kept %q: expected each once, sorted by name", graph.Short(k.Tensor))
		}
	}
	v.Claim("precision.kept")
	if v.Source == nil || v.opt.Unwritten {
		v.Claim("precision.casts")
	}
	return true
}

// casts reports whether a tensor is that of a listed cast: a Cast node makes it of the named tensor, in
// the other of the two types, or it is a folded constant, whose prover has it. One in slices is claimed.
func (v *verifier) casts(t *graph.Tensor, of string, half graph.DType) bool {
	g := v.Model.Graph
	if main, _ := unchanged.ReplacedBy(v.Plan.Folded); main.Constants[t.Name] {
		return true
	}
	if t.Maker < 0 {
		return false
	}
	n := g.Nodes[t.Maker]
	if _, sliced := n.Prop("onnxmem.slice"); sliced && v.Plan.Slices != nil {
		v.Claim("precision.casts")
		return true
	}
	if !ops.Casts(n) || n.Inputs[0] < 0 {
		return false
	}
	from := g.Tensors[n.Inputs[0]]
	if from.Type.Elem == t.Type.Elem || from.Type.Elem != half && from.Type.Elem != graph.Float32 {
		return false
	}
	if from.Name == of {
		return true
	}
	first := v.withoutAdded().originals
	for id, x := range g.Tensors {
		if x.Name == of && first != nil {
			return first[id] == first[n.Inputs[0]]
		}
	}
	return false
}

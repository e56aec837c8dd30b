package verify

import (
	"github.com/onnxmem/onnxmem/graph"
)

// attention checks that one node Attention makes each listed tensor. What it stands for in the source is
// compared there.
func (v *verifier) attention() bool {
	if v.Plan.Attention == nil {
		return true
	}
	if v.Source == nil || v.opt.Unwritten || v.Plan.KV != nil {
		v.Claim("attention")
	}
	if v.Plan.Ranges != nil {
		v.Fault(CodeAttention, "attention: expected none in a plan for ranges: what it stands for is compared for one length")
		return true
	}
	g := v.Model.Graph
	tensors := v.Tensors(g)
	for i, name := range v.Plan.Attention {
		switch t := tensors[name]; {
		case i > 0 && v.Plan.Attention[i-1] >= name:
			v.Fault(CodeAttention, "attention: %q: expected each once, sorted by name", graph.Short(name))
		case t == nil || t.Maker < 0:
			v.Fault(CodeAttention, "attention: %q: expected a tensor that a node of the main graph makes", graph.Short(name))
		case !v.attends(t):
			v.Fault(CodeAttention, "attention: %q: expected the result of a node Attention, perhaps behind a Reshape or a Transpose", graph.Short(name))
		}
	}
	return true
}

// attends reports whether an Attention makes a tensor, or a Reshape, Transpose or Cast of the result of one. A node
// in slices is claimed.
func (v *verifier) attends(t *graph.Tensor) bool {
	g := v.Model.Graph
	for range 4 {
		if t.Maker < 0 {
			return false
		}
		n := g.Nodes[t.Maker]
		if _, sliced := n.Prop("onnxmem.slice"); sliced && v.Plan.Slices != nil {
			v.Claim("attention")
			return true
		}
		if n.Domain != "" || len(n.Inputs) == 0 || n.Inputs[0] < 0 {
			return false
		}
		switch n.Op {
		case "Attention":
			return t.Out == 0
		case "Reshape", "Transpose", "Cast":
		default:
			return false
		}
		t = g.Tensors[n.Inputs[0]]
	}
	return false
}

package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// explainWide says which of the bytes at the peak of a plan in 16 bits are float32 nevertheless,
// and why.
type explainWide struct {
	Bytes   int64        `json:"bytes"`
	Reasons []wideReason `json:"reasons"` // the most bytes first
}

// wideReason is why some buffers are float32.
type wideReason struct {
	Why     string `json:"why"`
	Bytes   int64  `json:"bytes"`
	Buffers int    `json:"buffers"`
}

// explainWideOf explains the buffers at the peak of a plan in 16 bits; nil for another plan.
func explainWideOf(g *graph.Graph, p *plan.Plan, x *schedule.Explanation, problem *schedule.Problem) *explainWide {
	if p.Precision == nil {
		return nil
	}
	kept := map[string]string{}
	for _, k := range p.Precision.Kept {
		kept[k.Tensor] = k.Why
	}
	cast := map[string]bool{}
	for _, c := range p.Precision.Casts {
		cast[c.Tensor] = true
	}
	tensors := map[string]*graph.Tensor{}
	for _, t := range g.Tensors {
		tensors[t.Name] = t
	}
	why := func(t *graph.Tensor) string {
		reason, isKept := kept[t.Name]
		switch {
		case isKept && strings.HasPrefix(reason, "input "):
			return "an operand is float32"
		case isKept:
			return reason
		case cast[t.Name]:
			return "widened for a node that computes in float32"
		case t.Maker == graph.None:
			return "inputs are as in the model"
		}
		if phase, _ := g.Nodes[t.Maker].Prop("onnxmem.phase"); phase == "update" {
			return "updates compute in float32"
		}
		return "made for gradients that compute in float32"
	}
	found := map[string]*wideReason{}
	total := &explainWide{Reasons: []wideReason{}}
	for _, h := range x.Live {
		for _, i := range slices.Backward(h.Tensors) {
			t := tensors[problem.Tensors[i].Name]
			if t == nil || t.Type.Elem != graph.Float32 {
				continue
			}
			r := found[why(t)]
			if r == nil {
				r = &wideReason{Why: why(t)}
				found[r.Why] = r
			}
			r.Bytes += h.Bytes
			r.Buffers++
			total.Bytes += h.Bytes
			break
		}
	}
	for _, r := range found {
		total.Reasons = append(total.Reasons, *r)
	}
	slices.SortFunc(total.Reasons, func(a, b wideReason) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Why, b.Why)) })
	return total
}

// print prints the explanation.
func (x *explainWide) print(out io.Writer) {
	fmt.Fprintf(out, "\nof these, %s are float32:\n", units.Bytes(x.Bytes))
	for _, r := range x.Reasons {
		fmt.Fprintf(out, "  %15s  in %d: %s\n", units.Group(r.Bytes), r.Buffers, units.Name(r.Why))
	}
}

package plan

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Precision describes a graph that was put into 16 bits. Without the nodes that make Casts, it
// is the source's graph or, of a training step, its forward pass is.
type Precision struct {
	Type string `json:"type"` // "float16" or "bfloat16"
	// Operators counts the nodes of the main graph whose first floating result is of that type or
	// float32, by operator, sorted by name. Those of gradients and updates count, too.
	Operators []PrecisionCount `json:"operators"`
	Casts     []PrecisionCast  `json:"casts"` // tensors of the main graph that were added, sorted by name
	// Kept lists the results of the source's nodes that are float32 nevertheless, sorted by name.
	// Package plan/verify reports it as claimed.
	Kept []PrecisionKept `json:"kept"`
}

// PrecisionCount counts nodes of one operator.
type PrecisionCount struct {
	Op   string `json:"op"` // with its domain before it: com.microsoft.FusedMatMul
	Half int    `json:"half"`
	Full int    `json:"full"`
}

// PrecisionCast is a tensor with the elements of another in another type, made by a Cast or
// computed when the model was planned.
type PrecisionCast struct {
	Tensor string `json:"tensor"`
	Of     string `json:"of"`
}

// PrecisionKept is a tensor that is float32, and why.
type PrecisionKept struct {
	Tensor string `json:"tensor"`
	Why    string `json:"why"`
}

// PrecisionCounts counts the nodes of a graph by operator and by the type of their first floating
// result, float32 or half.
func PrecisionCounts(g *graph.Graph, half graph.DType) []PrecisionCount {
	counts := map[string]*PrecisionCount{}
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t < 0 || g.Tensors[t].Type.Elem != graph.Float32 && g.Tensors[t].Type.Elem != half {
				continue
			}
			name := OpName(n)
			c := counts[name]
			if c == nil {
				c = &PrecisionCount{Op: name}
				counts[name] = c
			}
			if g.Tensors[t].Type.Elem == half {
				c.Half++
			} else {
				c.Full++
			}
			break
		}
	}
	list := []PrecisionCount{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, *counts[name])
	}
	return list
}

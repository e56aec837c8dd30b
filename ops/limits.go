package ops

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Limits on the work of one Infer. A sound model stays far below each; a hostile
// one of a few kilobytes could ask for all memory or run for years. A loop infers
// its body several times, and is itself inferred several times by an outer loop;
// a function is inferred again for each set of types.
const (
	maxAxes     = 1 << 24
	maxVisits   = 4_000_000
	maxUnrolled = 400_000
	maxCloned   = 1_000_000
	maxFolded   = 1 << 22
	maxItems    = MostItems
)

// MostItems is the largest number of items of a sequence that are known individually.
const MostItems = 1024

// visit counts a body, its nodes and its tensors, before it is inferred.
func (inf *inferrer) visit(g *graph.Graph) error {
	if inf.visits += 1 + len(g.Nodes) + len(g.Tensors); inf.visits > maxVisits {
		return graph.Errorf("bodies and functions within each other: more than %d nodes and tensors to infer", maxVisits)
	}
	return nil
}

// keep returns the value of an output if it fits its type and the limit on stored
// elements.
func (inf *inferrer) keep(a Arg) *Value {
	const small = 8 // number of elements that are always stored
	v := a.Value
	if v == nil {
		return nil
	}
	size := len(v.Items)
	if v.Items == nil {
		n, ok := a.Elements()
		if !ok || n != int64(len(v.Elems)) || len(a.Shape) != len(v.Shape) {
			return nil
		}
		for k, d := range a.Shape {
			if int64(d) != v.Shape[k] {
				return nil
			}
		}
		size = len(v.Elems)
	} else if a.Kind != graph.KindSequence && a.Kind != graph.KindOptional {
		return nil
	}
	if size > small {
		if inf.folded+size > maxFolded {
			return nil
		}
		inf.folded += size
	}
	return v
}

// addFLOPs and mulFLOPs saturate at the largest integer, which a few nested loops
// or functions can exceed.
func addFLOPs(a, b int64) int64 {
	if s := a + b; s >= 0 {
		return s
	}
	return math.MaxInt64
}

func mulFLOPs(a, b int64) int64 {
	if p, ok := mulChecked(a, b); ok {
		return p
	}
	return math.MaxInt64
}

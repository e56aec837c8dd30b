package schedule

import (
	"context"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Bound returns the largest bound that minimum cuts of single nodes and of sets
// of nodes prove within a little work, with its certificate; see [CutBound],
// [FirstBound] and [LastBound]. The search of [Solve] may prove more. The
// problem must be valid.
func Bound(p *Problem) Certificate {
	f := flatten(p)
	g := indexed.NewProblem(f)
	if f.Nodes == 0 || g.TooLarge() {
		value, node := LowerBound(p)
		if node < 0 {
			return Certificate{Kind: KindSearch, Value: value}
		}
		return Certificate{KindCut, []int32{node}, value}
	}
	s := newSearch(context.Background(), EffortDefault.limits())
	value, proof := s.boundOf(g, s.settle(g, g.Listing(), indexed.Infinite, byDelta))
	proof.Value = value
	return proof
}

package schedule

import "context"

// Bound returns the largest bound that minimum cuts of single nodes and of sets
// of nodes prove within a little work, with its certificate; see [CutBound],
// [FirstBound] and [LastBound]. The search of [Solve] may prove more. The
// problem must be valid.
func Bound(p *Problem) Certificate {
	f := flatten(p)
	g := newNet(f)
	if f.nodes == 0 || g.tooLarge() {
		value, node := LowerBound(p)
		if node < 0 {
			return Certificate{Kind: KindSearch, Value: value}
		}
		return Certificate{KindCut, []int32{node}, value}
	}
	s := newSearch(context.Background(), EffortDefault.limits())
	value, proof := s.boundOf(g, s.settle(g, g.listing(), infinite, byDelta))
	proof.Value = value
	return proof
}

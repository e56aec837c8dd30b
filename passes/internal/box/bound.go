package box

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// PointBound is a lower bound of a graph at a point, in bytes, for any order there.
type PointBound struct {
	Bytes int64

	known int                  // the certificate that proves it: an index into Graph.Known, or -1 for
	proof schedule.Certificate // this one
}

// Proof returns the certificate that proves a bound of the graph.
func (g *Graph) Proof(b *PointBound) schedule.Certificate {
	if b.known >= 0 {
		return g.Known[b.known]
	}
	return b.proof
}

// boundAt bounds the graph at a point, up to its arena. own is the problem with the sharing that
// is possible there.
func (g *Graph) boundAt(ctx context.Context, x *Search, own *schedule.Problem, arena int64) (p PointBound, err error) {
	for k, c := range g.Known {
		if n := ProvedBy(own, c); n > p.Bytes || k == 0 {
			p.Bytes, p.known = n, k
		}
		if p.Bytes >= arena {
			return p, nil
		}
	}
	better := func(bytes int64, proof schedule.Certificate) {
		if bytes > p.Bytes {
			p = PointBound{bytes, -1, proof}
		}
	}
	// A flow takes milliseconds, a search that does not end with a proof seconds.
	if c := schedule.Bound(own); c.Kind != schedule.KindSearch {
		better(c.Value, c)
	}
	if worst := g.Chosen.Worst(); Ratio(arena, p.Bytes) <= worst && worst > 1 || x.TimeIsUp() {
		return p, nil
	}
	found, err := x.Bound(ctx, own)
	if err == nil {
		better(found.Bytes, found.Proof)
	}
	return p, err
}

// proofs lists the certificates of bounds of the graph, each once, those that prove most bounds
// first.
func (g *Graph) proofs(bounds []*PointBound) []schedule.Certificate {
	var list []schedule.Certificate
	var uses []int
	for _, b := range bounds {
		c := g.Proof(b)
		i := slices.IndexFunc(list, func(x schedule.Certificate) bool { return Same(x, c) })
		if i < 0 {
			i = len(list)
			list, uses = append(list, c), append(uses, 0)
		}
		uses[i]++
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return uses[b] - uses[a] })
	sorted := make([]schedule.Certificate, len(list))
	for i, k := range order {
		sorted[i] = list[k]
	}
	return sorted
}

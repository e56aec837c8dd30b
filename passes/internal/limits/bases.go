package limits

import (
	"context"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/schedule"
)

// baseCosts are the shares of the time that the slices of the bases may take. The last
// Base is that of the smallest peak: it may meet limits that no other does.
var baseCosts = []float64{0.01, 0.05, 0.25, math.Inf(1)}

// mostBaseNodes is the largest number of nodes of a base with slices: the search for
// recomputation is slow in larger graphs.
const mostBaseNodes = 6000

// large reports whether the graph has so many nodes that less is tried.
func (w *weigher) large() bool { return len(w.plain.Main.G.Nodes) >= slicing.LargeNodes }

// part returns the number of parts of the work of which the search for recomputation in a base with
// slices does one. Where the smallest peak within some extra time is asked for, slices have brought
// it down already; so a large base is searched less.
func (w *weigher) part(nodes int) int64 {
	if w.most == 0 || w.s.How.Effort == schedule.EffortFast || nodes < slicing.LargeNodes {
		return basePart
	}
	return basePart * int64(nodes) / basePartNodes
}

// slicedBases returns the bases with slices: that of the loss, then others, the cheapest first.
func (w *weigher) slicedBases(ctx context.Context) ([]*Base, error) {
	if w.bases != nil {
		return w.bases, nil
	}
	w.bases = []*Base{}
	if err := w.addLossBase(ctx); err != nil {
		return nil, err
	}
	costs := baseCosts
	if w.s.How.Effort == schedule.EffortFast {
		costs = []float64{costs[0], costs[len(costs)-1]}
	}
	if w.most > 0 && w.large() {
		costs = []float64{w.most / overestimate} // as a rule, the smallest peak is in the base that may cost most; the rest is for what runs again in it
	}
	for _, cost := range costs {
		var best *slicedModel
		for _, l := range w.ladders {
			rung := l.last(ctx, w.useful(cost), func(r *cover) bool { return l.x.size(r.choices) <= mostBaseNodes })
			if rung < 0 {
				continue
			}
			m, err := l.x.model(ctx, l.at(ctx, rung))
			if err != nil {
				return nil, err
			}
			if best == nil || m.peak < best.peak {
				best = m
			}
		}
		if best == nil || best.peak >= w.peak() || slices.ContainsFunc(w.bases, func(b *Base) bool { return b.sliced == best }) {
			continue
		}
		w.bases = append(w.bases, &Base{s: &w.s, sliced: best, part: w.part(best.size)})
	}
	return w.bases, nil
}

// all returns the graph without slices and the bases with slices.
func (w *weigher) all(ctx context.Context) ([]*Base, error) {
	sliced, err := w.slicedBases(ctx)
	return append([]*Base{w.plain}, sliced...), err
}

// addLossBase adds the graph with the loss of a training step in slices to the bases, if that has
// a smaller peak. Unlike others, it may be large: it has few nodes more than the graph without.
func (w *weigher) addLossBase(ctx context.Context) error {
	at, _, found := lossStart(w.s.Model.Graph)
	if !found || float64(at.bytes) < lossLeast*float64(w.peak()) || len(w.plain.Main.G.Nodes) < mostBaseNodes && !at.widened {
		return nil
	}
	x, at, err := w.s.newLossSlicer(ctx)
	if err != nil || x == nil || x.size(nil) < mostBaseNodes && !at.widened {
		return err
	}
	b, err := x.lossBase(ctx, at)
	if err == nil && b != nil && b.unlimited() <= w.unlimited() {
		w.bases = append(w.bases, b)
	}
	return err
}

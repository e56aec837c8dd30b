package reduce

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Coarse returns the problem as if its smallest tensors had no bytes: as many sizes as
// together take at most some bytes. It returns nil if there are none. Nodes and precedence
// stay. The rest may contract to a fraction: the computation of shapes, some hundred
// scalars, keeps whole networks from contracting.
//
// Lemma. No order has a larger peak on the coarse problem, so a bound of it is a bound of
// the problem.
//
// Proof. A small tensor adds its bytes to each load of its lifetime, the step that makes it
// included. A pair of small tensors subtracts at most the result, which is counted there.
// The two tensors of a pair have one size, so both are small or neither, and the largest
// matching is the sum of that of the small pairs and that of the others.
//
// The problem must have no credits, as the original one. O(E).
func Coarse(g *indexed.Problem, total int64) *indexed.Problem {
	least := Threshold(g, total)
	if least == 0 {
		return nil
	}
	h := &indexed.Problem{Nodes: g.Nodes, Base: g.Base, Idle: g.Idle, Transient: slices.Clone(g.Transient), Preds: g.Preds, Succs: g.Succs, AlwaysGiven: g.AlwaysGiven}
	place := make([]int32, len(g.Size))
	for i, size := range g.Size {
		t := int32(i)
		if size >= least {
			place[t] = h.AddTensor(size, g.Maker[t], g.Output[t], g.Readers.Of(t))
		} else if m := g.Maker[t]; m >= 0 {
			h.Transient[m] -= size
		}
	}
	h.FinishTensors()
	for v, at := range g.SavingsAt {
		if at == 0 {
			continue
		}
		var pairs []indexed.InPlacePair
		for _, pair := range g.Savings[at-1].Pairs {
			if pair.Size >= least {
				pair.Over = place[pair.Over]
				pairs = append(pairs, pair)
			}
		}
		if len(pairs) > 0 {
			h.SetSavings(int32(v), h.NewSavings(pairs, nil))
		}
	}
	return h
}

// Threshold returns the least size such that all smaller tensors take together at most
// some bytes, or 0 if there are no smaller ones.
func Threshold(g *indexed.Problem, total int64) int64 {
	sizes := slices.Sorted(slices.Values(g.Size))
	for _, size := range sizes {
		if total -= size; total < 0 && size > sizes[0] {
			return size
		} else if total < 0 {
			break
		}
	}
	return 0
}

// OfSmallest returns the bytes of all tensors of the smallest size.
func OfSmallest(g *indexed.Problem) (total int64) {
	if len(g.Size) == 0 {
		return 0
	}
	least := slices.Min(g.Size)
	for _, size := range g.Size {
		if size == least {
			total += size
		}
	}
	return total
}

package schedule

import "slices"

// coarse returns the net as if its smallest tensors had no bytes, as many sizes
// of them as together stay below some bytes, or nil if there are none. Nodes and
// precedence are the same. What is left may contract to a fraction: the
// computation of shapes, some hundred scalars, keeps whole networks from it.
//
// The peak of no order is larger on the coarse net, so that a bound of it holds
// for the net.
//
// Proof. A small tensor adds its bytes to each load of its lifetime, the step
// that makes it included. A pair of small tensors takes off at most the result,
// which is counted there; the two of a pair have one size, so that none is half
// left, and the largest matching is that of the small ones and that of the
// others.
//
// It takes a net without credits, as the original one is. O(E).
func (g *net) coarse(total int64) *net {
	least := g.smallest(total)
	if least == 0 {
		return nil
	}
	h := &net{nodes: g.nodes, base: g.base, idle: g.idle, trans: slices.Clone(g.trans), preds: g.preds, succs: g.succs, given: g.given}
	place := make([]int32, len(g.size))
	for i, size := range g.size {
		t := int32(i)
		if size >= least {
			place[t] = h.addTensor(size, g.maker[t], g.output[t], g.readers.of(t))
		} else if m := g.maker[t]; m >= 0 {
			h.trans[m] -= size
		}
	}
	h.finishTensors()
	for v, at := range g.saver {
		if at == 0 {
			continue
		}
		var pairs []pairing
		for _, pair := range g.savers[at-1].pairs {
			if pair.size >= least {
				pair.over = place[pair.over]
				pairs = append(pairs, pair)
			}
		}
		if len(pairs) > 0 {
			h.setSaver(int32(v), h.newSaver(pairs, nil))
		}
	}
	return h
}

// smallest returns the least size such that all tensors of smaller ones have
// together at most so many bytes, or 0 if there are none.
func (g *net) smallest(total int64) int64 {
	sizes := slices.Sorted(slices.Values(g.size))
	for _, size := range sizes {
		if total -= size; total < 0 && size > sizes[0] {
			return size
		} else if total < 0 {
			break
		}
	}
	return 0
}

// ofSmallest returns the bytes of all tensors of the smallest size.
func (g *net) ofSmallest() (total int64) {
	if len(g.size) == 0 {
		return 0
	}
	least := slices.Min(g.size)
	for _, size := range g.size {
		if size == least {
			total += size
		}
	}
	return total
}

package verify

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// maxAsked is how many nodes are asked for their least load.
const maxAsked = 64

// negligible gives the size below which storages may be left out of account when a
// limit is to be refuted: all those together have less than half of what lies
// between the limit and the greatest least load of a node, or 0 if there are none.
// The computation of shapes, hundreds of scalars, takes most of the states of some
// networks.
func (r *replay) negligible(limit int64) int64 {
	s := r.b.s
	if r.b.idle > 0 {
		return 0
	}
	order := s.identity()
	loads, _ := s.simulate(order)
	slices.SortStableFunc(order, func(a, b graph.NodeID) int { return cmp.Compare(loads[b], loads[a]) })
	all, bound := r.held(), int64(0)
	var sizes []int64
	for _, i := range all {
		sizes = append(sizes, s.storages[i].bytes)
	}
	for _, v := range order[:min(maxAsked, len(order))] {
		r.around(v)
		least, _ := r.leastLoad(v, all)
		bound = max(bound, least)
	}
	slices.Sort(sizes)
	room := (limit - bound) / 2
	for _, size := range sizes {
		if room -= size; room < 0 {
			if size > sizes[0] {
				return size
			}
			break
		}
	}
	return 0
}

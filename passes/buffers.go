package passes

import (
	"slices"
	"sort"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule"
)

// putResident puts a buffer behind the others of the resident pool. It returns false for one that
// does not stay there.
func (r *region) putResident(b *buffer) bool {
	if b.resident {
		b.offset = r.resident
		r.resident += b.bytes
	}
	return b.resident
}

// chains returns the buffers: one for each storage, or for each chain of storages
// that overwrite each other, and one for each workspace, sorted by first step.
func (r *region) chains(taken []schedule.Pair) ([]buffer, error) {
	kinds := map[int32]string{}
	var updates []schedule.Pair
	for _, c := range r.updateChains {
		kinds[c.storages[0]] = c.kind
		for k, over := range c.storages[:len(c.storages)-1] {
			updates = append(updates, schedule.Pair{Over: over, Result: c.storages[k+1]})
		}
	}
	taken = append(updates, taken...)
	chains, err := match.Chains(len(r.storages), taken)
	if err != nil {
		return nil, err
	}
	var buffers []buffer
	for i, chain := range chains {
		st := &r.storages[i]
		if st.outside || st.pieces != nil || chain == nil {
			continue
		}
		b := buffer{storages: chain, node: graph.None, bytes: st.bytes, resident: st.resident, host: st.host, kind: kinds[int32(i)]}
		b.first, _ = r.lifetime(int32(i))
		_, b.last = r.lifetime(chain[len(chain)-1])
		buffers = append(buffers, b)
	}
	for n, bytes := range r.workspace {
		if bytes > 0 {
			buffers = append(buffers, buffer{node: graph.NodeID(n), bytes: bytes, first: n, last: n})
		}
	}
	sort.SliceStable(buffers, func(i, j int) bool {
		a, b := &buffers[i], &buffers[j]
		if a.resident != b.resident {
			return b.resident
		}
		return a.first < b.first
	})
	return buffers, nil
}

// tensorsOf lists the tensors of a buffer in the order in which they are made:
// inputs first, then by step and output.
func (r *region) tensorsOf(b *buffer) []graph.TensorID {
	var list []graph.TensorID
	for _, i := range b.storages {
		list = append(list, r.storages[i].tensors...)
	}
	r.sortMade(list)
	return list
}

// sortMade sorts tensors by when they are made: inputs first, then by step and output.
func (r *region) sortMade(list []graph.TensorID) {
	slices.SortStableFunc(list, func(x, y graph.TensorID) int {
		a, b := r.g.Tensors[x], r.g.Tensors[y]
		if a.Maker != b.Maker {
			return int(a.Maker) - int(b.Maker)
		}
		return a.Out - b.Out
	})
}

package planner

import (
	"slices"
	"sort"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule"
)

// putResident puts a buffer behind the others of the resident pool. It returns false for one that
// does not stay there.
func (r *Region) putResident(b *Buffer) bool {
	if b.Resident {
		b.Offset = r.resident
		r.resident += b.Bytes
	}
	return b.Resident
}

// Chains returns the buffers: one for each storage, or for each chain of storages
// that overwrite each other, and one for each workspace, sorted by first step.
func (r *Region) Chains(taken []schedule.Pair) ([]Buffer, error) {
	kinds := map[int32]string{}
	var updates []schedule.Pair
	for _, c := range r.UpdateChains {
		kinds[c.Storages[0]] = c.kind
		for k, over := range c.Storages[:len(c.Storages)-1] {
			updates = append(updates, schedule.Pair{Over: over, Result: c.Storages[k+1]})
		}
	}
	taken = append(updates, taken...)
	chains, err := match.Chains(len(r.Storages), taken)
	if err != nil {
		return nil, err
	}
	var buffers []Buffer
	for i, chain := range chains {
		st := &r.Storages[i]
		if st.outside || st.pieces != nil || chain == nil {
			continue
		}
		b := Buffer{Storages: chain, Node: graph.None, Bytes: st.Bytes, Resident: st.Resident, Host: st.Host, kind: kinds[int32(i)]}
		b.First, _ = r.Lifetime(int32(i))
		_, b.Last = r.Lifetime(chain[len(chain)-1])
		buffers = append(buffers, b)
	}
	for n, bytes := range r.Workspace {
		if bytes > 0 {
			buffers = append(buffers, Buffer{Node: graph.NodeID(n), Bytes: bytes, First: n, Last: n})
		}
	}
	sort.SliceStable(buffers, func(i, j int) bool {
		a, b := &buffers[i], &buffers[j]
		if a.Resident != b.Resident {
			return b.Resident
		}
		return a.First < b.First
	})
	return buffers, nil
}

// TensorsOf lists the tensors of a buffer in the order in which they are made:
// inputs first, then by step and output.
func (r *Region) TensorsOf(b *Buffer) []graph.TensorID {
	var list []graph.TensorID
	for _, i := range b.Storages {
		list = append(list, r.Storages[i].Tensors...)
	}
	r.sortMade(list)
	return list
}

// sortMade sorts tensors by when they are made: inputs first, then by step and output.
func (r *Region) sortMade(list []graph.TensorID) {
	slices.SortStableFunc(list, func(x, y graph.TensorID) int {
		a, b := r.G.Tensors[x], r.G.Tensors[y]
		if a.Maker != b.Maker {
			return int(a.Maker) - int(b.Maker)
		}
		return a.Out - b.Out
	})
}

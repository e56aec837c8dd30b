package planner

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Shared returns the region of the main graph of a model whose types have been inferred, with
// its storages. given has the values of inputs; calls are regions of local functions that are
// planned already.
func (x *Rules) Shared(m *graph.Model, given map[string]graph.Literal, calls map[*graph.Call]*Region) (*Region, error) {
	r := newRegion(x, m.Graph, mainGraph, calls)
	if err := r.share(); err != nil {
		return nil, err
	}
	return r, r.updates(m, given)
}

// share merges the views of a region into storages. It takes O(nodes + tensors)
// time.
func (r *Region) share() error {
	g := r.G
	r.Storages = slices.Grow(r.Storages, len(g.Tensors))
	for id, t := range g.Tensors {
		id := graph.TensorID(id)
		switch {
		case t.Maker >= 0:
		case t.Data != nil:
			r.add(id, Storage{Bytes: r.Round(t.Data.Bytes), Maker: graph.None, Resident: !r.inFunction})
		case t.Dynamic != "":
		case !t.Input && !t.Capture: // it is in the list of tensors alone: nothing makes or reads it
		default:
			outside := t.Capture || r.kind == functionBody
			r.add(id, Storage{Bytes: r.Round(t.Bytes), Maker: graph.None, outside: outside, Input: t.Input, Bounded: t.Bounded})
		}
	}
	order, err := g.Topological()
	if err != nil {
		return err
	}
	for _, n := range order {
		node := g.Nodes[n]
		for k, id := range node.Outputs {
			if id < 0 || g.Tensors[id].Dynamic != "" {
				continue
			}
			if from := r.viewedStorage(node, k); from != NoStorage {
				r.StorageOf[id] = from
				r.Storages[from].Tensors = append(r.Storages[from].Tensors, id)
				continue
			}
			t := g.Tensors[id]
			r.add(id, Storage{
				Bytes: r.Round(t.Bytes), Maker: n, Bounded: t.Bounded,
				Resident: ops.IsConstant(node) && !r.inFunction,
				Host:     node.IsSwapOut() && r.kind == mainGraph && len(r.Pools) == 0,
			})
		}
	}
	for _, id := range g.Outputs {
		if i := r.StorageOf[id]; i != NoStorage {
			r.Storages[i].Output = true
		}
	}
	return nil
}

// add makes a storage for one tensor.
func (r *Region) add(t graph.TensorID, st Storage) {
	st.Tensors = []graph.TensorID{t}
	r.StorageOf[t] = int32(len(r.Storages))
	r.Storages = append(r.Storages, st)
}

// viewedStorage returns the storage of which output k of a node is a view.
func (r *Region) viewedStorage(n *graph.Node, k int) int32 {
	if r.NoViews {
		return NoStorage
	}
	for _, v := range n.Semantics.Views {
		if v.Out == k {
			return r.StorageOf[n.Inputs[v.In]]
		}
	}
	return NoStorage
}

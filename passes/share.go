package passes

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// shared returns the region of the main graph of a model whose types have been inferred, with
// its storages. given has the values of inputs; calls are regions of local functions that are
// planned already.
func (x *rules) shared(m *graph.Model, given map[string]graph.Literal, calls map[*graph.Call]*region) (*region, error) {
	r := newRegion(x, m.Graph, mainGraph, calls)
	if err := r.share(); err != nil {
		return nil, err
	}
	return r, r.updates(m, given)
}

// share merges the views of a region into storages. It takes O(nodes + tensors)
// time.
func (r *region) share() error {
	g := r.g
	for id, t := range g.Tensors {
		id := graph.TensorID(id)
		switch {
		case t.Maker >= 0:
		case t.Data != nil:
			r.add(id, storage{bytes: r.round(t.Data.Bytes), maker: graph.None, resident: !r.inFunction})
		case t.Dynamic != "":
		case !t.Input && !t.Capture: // it is in the list of tensors alone: nothing makes or reads it
		default:
			outside := t.Capture || r.kind == functionBody
			r.add(id, storage{bytes: r.round(t.Bytes), maker: graph.None, outside: outside, input: t.Input, bounded: t.Bounded})
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
			if from := r.viewedStorage(node, k); from != noStorage {
				r.storageOf[id] = from
				r.storages[from].tensors = append(r.storages[from].tensors, id)
				continue
			}
			t := g.Tensors[id]
			r.add(id, storage{
				bytes: r.round(t.Bytes), maker: n, bounded: t.Bounded,
				resident: ops.IsConstant(node) && !r.inFunction,
				host:     node.IsSwapOut() && r.kind == mainGraph && len(r.pools) == 0,
			})
		}
	}
	for _, id := range g.Outputs {
		if i := r.storageOf[id]; i != noStorage {
			r.storages[i].output = true
		}
	}
	return nil
}

// add makes a storage for one tensor.
func (r *region) add(t graph.TensorID, st storage) {
	st.tensors = []graph.TensorID{t}
	r.storageOf[t] = int32(len(r.storages))
	r.storages = append(r.storages, st)
}

// viewedStorage returns the storage of which output k of a node is a view.
func (r *region) viewedStorage(n *graph.Node, k int) int32 {
	if r.noViews {
		return noStorage
	}
	for _, v := range n.Semantics.Views {
		if v.Out == k {
			return r.storageOf[n.Inputs[v.In]]
		}
	}
	return noStorage
}

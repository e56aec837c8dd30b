package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// share gives every tensor of the main graph a storage.
func share(_ context.Context, s *State) error {
	s.main = s.newRegion(s.model.Graph, mainGraph)
	if err := s.share(s.main); err != nil {
		return err
	}
	return s.updates(s.main)
}

// share merges the views of a region. It takes O(nodes + tensors) time.
func (s *State) share(r *region) error {
	g := r.g
	for id, t := range g.Tensors {
		id := graph.TensorID(id)
		switch {
		case t.Maker >= 0:
		case t.Data != nil:
			r.add(id, storage{bytes: s.round(t.Data.Bytes), maker: graph.None, resident: !r.inFunction})
		case t.Dynamic != "":
		default:
			outside := t.Capture || r.kind == functionBody
			r.add(id, storage{bytes: s.round(t.Bytes), maker: graph.None, outside: outside, input: t.Input, bounded: t.Bounded})
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
			if from := r.viewed(node, k, s.opt.NoViews); from != noStorage {
				r.of[id] = from
				r.storages[from].tensors = append(r.storages[from].tensors, id)
				continue
			}
			t := g.Tensors[id]
			r.add(id, storage{
				bytes: s.round(t.Bytes), maker: n, bounded: t.Bounded,
				resident: ops.IsConstant(node) && !r.inFunction,
				host:     node.IsSwapOut() && r.kind == mainGraph,
			})
		}
	}
	for _, id := range g.Outputs {
		if i := r.of[id]; i != noStorage {
			r.storages[i].output = true
		}
	}
	return nil
}

// add makes a storage for one tensor.
func (r *region) add(t graph.TensorID, st storage) {
	st.tensors = []graph.TensorID{t}
	r.of[t] = int32(len(r.storages))
	r.storages = append(r.storages, st)
}

// viewed gives the storage that output k of a node is a view of.
func (r *region) viewed(n *graph.Node, k int, noViews bool) int32 {
	if noViews {
		return noStorage
	}
	for _, v := range n.Semantics.Views {
		if v.Out == k {
			return r.of[n.Inputs[v.In]]
		}
	}
	return noStorage
}

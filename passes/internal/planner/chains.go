package planner

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// stay makes one resident buffer of a graph input and of the output that is written over
// it. key names the list that asks for it.
func (r *Region) stay(given map[string]graph.Literal, key, kind, from string, in graph.TensorID, to string, out graph.TensorID) error {
	if _, is := given[from]; is {
		e := graph.Errorf("has a value, but every step updates it: expected an input that stays as it is")
		e.Tensor = from
		return e
	}
	c := Chain{kind: kind}
	if !r.findChain(&c, r.StorageOf[in], r.StorageOf[out]) {
		e := graph.Errorf("%s: %q cannot be written over it: expected an operator that works in place, on the last use of %q", key, graph.Short(to), graph.Short(from))
		e.Tensor = from
		return e
	}
	for _, i := range c.Storages {
		r.Storages[i].Resident = true
	}
	r.UpdateChains = append(r.UpdateChains, c)
	return nil
}

// findChain searches for a way to write storage to over storage from, directly or
// through storages in between. It searches backwards from the maker of to.
func (r *Region) findChain(c *Chain, from, to int32) bool {
	if from == to {
		c.Storages = append(c.Storages, from)
		return true
	}
	st := &r.Storages[to]
	if st.Maker < 0 || st.Resident || st.Bytes != r.Storages[from].Bytes {
		return false
	}
	n := r.G.Nodes[st.Maker]
	var over []int32
	for _, a := range n.Semantics.Inplace {
		if i := r.StorageOf[n.Inputs[a.In]]; n.Outputs[a.Out] == st.Tensors[0] && i != NoStorage && !r.Storages[i].Output {
			over = append(over, i)
		}
	}
	// First from itself, then storages that only this node reads.
	slices.SortStableFunc(over, func(a, b int32) int {
		switch {
		case a == from && b != from:
			return -1
		case b == from && a != from:
			return 1
		}
		return 0
	})
	for _, i := range over {
		if i != from && len(r.readers(i)) > 1 || r.Storages[i].Input && i != from {
			continue
		}
		if r.findChain(c, from, i) {
			c.Storages = append(c.Storages, to)
			return true
		}
	}
	return false
}

// byName returns tensors of a graph by their names.
func byName(g *graph.Graph, list []graph.TensorID) map[string]graph.TensorID {
	names := make(map[string]graph.TensorID, len(list))
	for _, t := range list {
		names[g.Tensors[t].Name] = t
	}
	return names
}

// ModeOf returns ModeTraining if the model's metadata says so, else modeInference.
func ModeOf(m *graph.Model) string {
	if mode, _ := m.Prop(keyMode); mode == ModeTraining {
		return ModeTraining
	}
	return modeInference
}

// Metadata keys of a training graph (docs/formats/training.md).
const (
	keyMode      = "onnxmem.mode"
	keyUpdates   = "onnxmem.updates"
	keyTrainable = "onnxmem.trainable"
	keyGradients = "onnxmem.gradients"

	ModeTraining  = "training"
	modeInference = "inference"
)

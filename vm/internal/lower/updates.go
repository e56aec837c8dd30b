package lower

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// The update of a parameter is up to some twenty elementwise nodes, which plans spread over a
// step: what needs no gradient comes first, and what frees no memory last. One kernel computes
// all of them at one step, at which the gradient and the old values are still there, and
// nobody else reads the places of the new ones any more: each is read and written once. If
// there is no such step for the parameter, since a gradient is computed from it later, there
// often is one for its states.

// joinUpdates finds such nodes, from the last ones on.
func (l *lowering) joinUpdates() error {
	f, order := l.f, l.order
	all := &chain{f: f, order: order, place: placesOf(order)}
	made := map[*values.Tensor]int{} // the step after which a tensor is there in the plan
	for t, x := range f.Tensors {
		if x != nil {
			made[x] = all.made(graph.TensorID(t))
		}
	}
	for _, id := range slices.Backward(order) {
		if st := f.Steps[id]; !l.groupable(st) || !f.Graph.Tensors[st.Node().Outputs[0]].Output {
			continue
		}
		c := all.of(id)
		l.grow(c, f.Steps[id].Out[0].Shape, true)
		if !l.joinUpdate(c, made) && c.leave(id) {
			l.joinUpdate(c, made) // the other new values may have a step in common
		}
	}
	return nil
}

// leave takes a node out of the chain, and all that only it needs. It reports whether new
// values remain, and nobody outside reads anything else.
func (c *chain) leave(id graph.NodeID) bool {
	kept := map[graph.NodeID]bool{}
	var keep func(n graph.NodeID)
	keep = func(n graph.NodeID) {
		if !c.nodes[n] || kept[n] {
			return
		}
		kept[n] = true
		for _, t := range c.f.Graph.Nodes[n].Inputs {
			if t >= 0 && c.f.Graph.Tensors[t].Maker >= 0 {
				keep(c.f.Graph.Tensors[t].Maker)
			}
		}
	}
	for n := range c.nodes {
		if n != id && c.f.Graph.Tensors[c.f.Graph.Nodes[n].Outputs[0]].Output {
			keep(n)
		}
	}
	c.nodes = kept
	return len(kept) > 0 && c.encloses(c.results()...)
}

// results lists the new values that a chain makes.
func (c *chain) results() (list []graph.TensorID) {
	for n := range c.nodes {
		if t := c.f.Graph.Nodes[n].Outputs[0]; c.f.Graph.Tensors[t].Output {
			list = append(list, t)
		}
	}
	return list
}

// joinUpdate gives the work of a chain to one of its steps. It reports false if there is none
// at which one kernel can do it, or nothing to join.
func (l *lowering) joinUpdate(c *chain, made map[*values.Tensor]int) bool {
	if len(c.nodes) < 2 || len(c.nodes) > mostGrouped {
		return false
	}
	list := c.steps()
	ready := map[graph.TensorID]int{} // the first step at which what the chain reads is there
	for _, st := range list {
		for _, t := range st.Node().Inputs {
			if _, known := ready[t]; known || t < 0 || c.f.Graph.Tensors[t].Maker >= 0 && c.nodes[c.f.Graph.Tensors[t].Maker] {
				continue
			}
			if ready[t] = c.made(t) + 1; c.ofChained(t) { // it may be made later than its node stands
				ready[t] = c.place[st.ID]
			}
		}
	}
	written := c.results()
	for _, t := range slices.Concat(slices.Collect(maps.Keys(ready)), written) {
		if c.swapped(t) {
			return false
		}
	}
	if !oneKernel(list) {
		return false
	}
	for _, st := range list {
		if at := c.place[st.ID]; c.runsAt(at, ready, written) && !c.meets(at, ready, written, made) {
			return l.group(list, st)
		}
	}
	return false
}

// runsAt reports whether all that a chain reads is there at a step, the places of what it
// writes are its own from then on, and nobody has read that before.
func (c *chain) runsAt(step int, ready map[graph.TensorID]int, written []graph.TensorID) bool {
	for t, first := range ready {
		if first > step || !c.holds(t, step) {
			return false
		}
	}
	for _, t := range written {
		early := slices.ContainsFunc(c.f.Graph.Tensors[t].Readers, func(r graph.NodeID) bool { return !c.nodes[r] && c.place[r] < step })
		if early || !c.free(t, step) || !c.alone(t, step) {
			return false
		}
	}
	return true
}

// meets reports whether what the chain writes at a step is read then or later by another
// kernel that runs later than its nodes stand, or what it reads is overwritten before by one
// that runs earlier.
func (c *chain) meets(step int, ready map[graph.TensorID]int, written []graph.TensorID, made map[*values.Tensor]int) bool {
	for task := range c.f.tasks() {
		if c.place[task.At.ID] >= step {
			for _, t := range written {
				if slices.ContainsFunc(task.Reads, func(x Place) bool { return values.Overlap(x.Of, c.f.Tensors[t]) }) {
					return true
				}
			}
			continue
		}
		for t := range ready {
			x := c.f.Tensors[t]
			if !x.Const && slices.ContainsFunc(task.Writes, func(y Place) bool { return made[y.Of] > made[x] && values.Overlap(x, y.Of) }) {
				return true
			}
		}
	}
	return false
}

// ofChained reports whether a tensor, or the one that it gives another shape, is of a node
// whose work a kernel does together with that of others.
func (c *chain) ofChained(t graph.TensorID) bool {
	m := c.f.Graph.Tensors[t].Maker
	for m >= 0 && c.f.Steps[m].Views() && c.f.Graph.Tensors[c.f.Graph.Nodes[m].Inputs[0]].Maker >= 0 {
		m = c.f.Graph.Tensors[c.f.Graph.Nodes[m].Inputs[0]].Maker
	}
	return m >= 0 && c.f.Steps[m].task != nil
}

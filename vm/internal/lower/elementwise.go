package lower

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// joinElementwise computes elementwise nodes in groups. On the CPU, where a pass over memory is
// what they cost, a group is what makes one result, wherever its nodes stand; so it needs planned
// places. On a device, where a launch costs something too, it is neighbours.
func (l *lowering) joinElementwise() error {
	switch {
	case l.s.GPU != nil:
		for _, list := range l.neighbours() {
			l.at = list[0]
			l.group(list, list[len(list)-1])
		}
	case l.planned():
		l.joinChains()
	}
	return nil
}

// joinChains finds nodes that make one result, from the last one of the frame on. Their kernel
// runs at the step of the last one, and everything that it reads must still be there then.
func (l *lowering) joinChains() {
	all := &chain{f: l.f, order: l.order, place: placesOf(l.order)}
	moved := all.movedWrites()
	for _, id := range slices.Backward(l.order) {
		last := l.f.Steps[id]
		if !l.groupable(last) {
			continue
		}
		c := all.of(id)
		l.grow(c, last.Out[0].Shape, false)
		c.shrink(id, moved)
		if list := c.steps(); len(list) > 1 && oneKernel(list) {
			l.group(list, last)
		}
	}
}

// shrink removes the nodes that read what is no longer there when the last node runs. What
// they read of others in the chain must then be written.
func (c *chain) shrink(last graph.NodeID, moved []movedWrite) {
	for again := true; again; {
		again = false
		for n := range maps.Clone(c.nodes) {
			node := c.f.Graph.Nodes[n]
			gone := n != last && !c.inner(node.Outputs[0])
			for _, t := range node.Inputs {
				if t < 0 {
					continue
				}
				m := c.f.Graph.Tensors[t].Maker
				if m >= 0 && c.nodes[m] {
					continue
				}
				gone = gone || !c.holds(t, c.place[last]) && !c.stays(t, c.place[last]) || n != last && c.lost(t, c.place[last], moved)
			}
			if gone {
				delete(c.nodes, n)
				again = true
			}
		}
	}
}

// movedWrite is a tensor that a task writes at another step than its node stands at.
type movedWrite struct {
	t    *values.Tensor
	at   int // the step at which it is written
	made int // the step of its node
}

// movedWrites lists those of the frame's tasks.
func (c *chain) movedWrites() (list []movedWrite) {
	made := map[*values.Tensor]int{}
	for task := range c.f.tasks() {
		for _, y := range task.Writes {
			made[y.Of] = c.place[task.At.ID]
		}
	}
	if len(made) == 0 {
		return nil
	}
	for id, t := range c.f.Tensors {
		if at, is := made[t]; is && t != nil && at < c.made(graph.TensorID(id)) {
			list = append(list, movedWrite{t, at, c.made(graph.TensorID(id))})
		}
	}
	return list
}

// lost reports whether a task writes over a tensor before a step, although the node whose result
// that is stands behind.
func (c *chain) lost(t graph.TensorID, step int, moved []movedWrite) bool {
	x := c.f.Tensors[t]
	return x != nil && !x.Const && slices.ContainsFunc(moved, func(w movedWrite) bool { return w.at < step && w.made > c.made(t) && values.Overlap(w.t, x) })
}

// neighbours finds the elementwise nodes of a frame that follow one another and have outputs of
// one shape, or of one element that others of the group read. They become one kernel, in the
// place of the last of them.
func (l *lowering) neighbours() (groups [][]*Step) {
	if l.s.Compared != nil { // the comparer looks at every output
		return nil
	}
	var now []*Step
	end := func() {
		if len(now) > 1 {
			groups = append(groups, now)
		}
		now = nil
	}
	leaves := l.departures()
	for _, id := range l.order {
		st := l.f.Steps[id]
		if leaves[id] {
			end()
		}
		switch {
		case st.Elsewhere(): // nothing happens at its step
		case !l.groupable(st):
			end()
		case len(now) > 0 && (len(now) == mostGrouped || !oneKernel(append(slices.Clone(now), st))):
			end()
			now = []*Step{st}
		default:
			now = append(now, st)
		}
	}
	end()
	return groups
}

// departures returns the steps before which copies to the host pool begin. What they copy must
// have been made by then.
func (l *lowering) departures() map[graph.NodeID]bool {
	leaves := map[graph.NodeID]bool{}
	if l.s.Mem.Host == nil || l.f.Graph != l.s.Program.Model.Graph {
		return leaves
	}
	for i := range l.s.Program.Plan.Buffers {
		if b := &l.s.Program.Plan.Buffers[i]; b.Pool == plan.Host {
			leaves[graph.NodeID(b.First)] = true
		}
	}
	return leaves
}

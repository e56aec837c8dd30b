package lower

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Several elementwise nodes, one after the other, run as one. It goes through all of them
// with a few elements at a time, at the step of the last one, and writes only what others
// read. Everything that the nodes read must still be there at that step.

// leastChain is the least number of elements for which a chain is worth its preparation.
const leastChain = 2048

// joinElementwise computes elementwise nodes together: in chains, which need planned places, or
// on a device in groups.
func (l *lowering) joinElementwise() error {
	switch {
	case l.s.GPU != nil:
		for _, group := range l.groups(l.f.Steps, l.order) {
			l.at = group[0]
			l.prepareGroup(group, group[len(group)-1])
		}
	case l.planned():
		l.f.joinChains(l.order)
	}
	return nil
}

// joinChains finds such nodes among those of a frame, from the last one on.
func (f *Frame) joinChains(order []graph.NodeID) {
	place := placesOf(order)
	alone := &chain{f: f, order: order, place: place}
	for _, id := range slices.Backward(order) {
		if !alone.links(id) {
			continue
		}
		c := &chain{f: f, order: order, place: place, nodes: map[graph.NodeID]bool{id: true}}
		c.grow(id)
		c.shrink(id)
		if len(c.nodes) > 1 && c.apart(id) {
			c.join(id)
		}
	}
}

// links reports whether a node can be one of a chain.
func (c *chain) links(id graph.NodeID) bool {
	st := c.f.Steps[id]
	n := st.Node()
	if !st.single() || n.Semantics.Call != nil || !st.Exact() || len(st.Out) == 0 || st.Out[0] == nil {
		return false
	}
	out := st.Out[0]
	if out.Const || out.Room == 0 || out.Quantized != nil || out.Planes != 0 || out.Len() < leastChain || !kernel.Links(st.Call()) {
		return false
	}
	for _, t := range st.In {
		if t != nil && (t.Quantized != nil || t.Planes != 0 || t.Inside) {
			return false
		}
	}
	if open, err := st.check(); open || err != nil {
		return false // prepare reports it
	}
	return !c.fused(id)
}

// fused reports whether the kernel of another node can apply a node to its own result.
func (c *chain) fused(id graph.NodeID) bool {
	st := c.f.Steps[id]
	t := c.f.Graph.Tensors[st.Node().Inputs[0]]
	if t.Maker < 0 || len(t.Readers) != 1 || c.at(st.Node().Inputs[0]) != st.Out[0].At {
		return false
	}
	maker := c.f.Graph.Nodes[t.Maker]
	by, k := kernel.Lookup(maker.Domain, maker.Op), kernel.Lookup("", st.Node().Op)
	return by != nil && by.Fuses && k.Finish != nil
}

// grow adds the nodes that make what the chain alone reads.
func (c *chain) grow(id graph.NodeID) {
	shape := c.f.Steps[id].Out[0].Shape
	for again := true; again; {
		again = false
		for n := range maps.Clone(c.nodes) {
			for _, t := range c.f.Graph.Nodes[n].Inputs {
				if t < 0 {
					continue
				}
				m := c.f.Graph.Tensors[t].Maker
				if m >= 0 && !c.nodes[m] && slices.Equal(c.f.Tensors[t].Shape, shape) && c.links(m) && c.inner(t) {
					c.nodes[m] = true
					again = true
				}
			}
		}
	}
}

// shrink removes the nodes that read what is no longer there when the last node runs. What
// they read of others in the chain must then be written.
func (c *chain) shrink(last graph.NodeID) {
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
				gone = gone || !c.holds(t, c.place[last]) && !c.stays(t, c.place[last])
			}
			if gone {
				delete(c.nodes, n)
				again = true
			}
		}
	}
}

// apart reports whether the result lies in the place of no operand of another width, and
// beside all others.
func (c *chain) apart(last graph.NodeID) bool {
	out := c.f.Steps[last].Out[0]
	for n := range c.nodes {
		for _, t := range c.f.Steps[n].In {
			if t == nil {
				continue
			}
			from, to := uintptr(t.At), uintptr(t.At)+uintptr(t.Bytes())
			if from >= uintptr(out.At)+uintptr(out.Bytes()) || to <= uintptr(out.At) || c.madeWithin(t) {
				continue
			}
			if t.At != out.At || t.Bytes() != out.Bytes() {
				return false
			}
		}
	}
	return true
}

// madeWithin reports whether a node of the chain makes a tensor.
func (c *chain) madeWithin(t *values.Tensor) bool {
	for n := range c.nodes {
		if c.f.Steps[n].Out[0] == t {
			return true
		}
	}
	return false
}

// join gives the work of all nodes to the last one.
func (c *chain) join(last graph.NodeID) {
	list := slices.SortedFunc(maps.Keys(c.nodes), func(a, b graph.NodeID) int { return c.place[a] - c.place[b] })
	leader := c.f.Steps[last]
	var calls []*kernel.Invocation
	var steps []*Step
	for _, n := range list {
		st := c.f.Steps[n]
		steps = append(steps, st)
		for _, t := range st.In {
			if t != nil && !t.Const && !c.madeWithin(t) {
				t.ReadUntil = max(t.ReadUntil, int32(c.place[last]))
			}
		}
		calls = append(calls, st.Call())
	}
	leader.takes(kernel.NewChain(calls).Make(leader.Call()), steps, externalOf(steps), leader.Out)
	leader.Way = together(steps)
}

// placesOf returns the step of each node.
func placesOf(order []graph.NodeID) []int {
	place := make([]int, len(order))
	for i, n := range order {
		place[n] = i
	}
	return place
}

// chain is a set of nodes whose work one kernel does.
type chain struct {
	f     *Frame
	order []graph.NodeID
	place []int // the step of each node
	nodes map[graph.NodeID]bool
}

// inner reports whether only the chain reads a tensor.
func (c *chain) inner(t graph.TensorID) bool {
	made := c.f.Graph.Tensors[t]
	return !made.Output && !slices.ContainsFunc(made.Readers, func(r graph.NodeID) bool { return !c.nodes[r] })
}

// encloses reports whether nobody else reads what the chain makes, but for some tensors.
func (c *chain) encloses(but ...graph.TensorID) bool {
	for id := range c.nodes {
		if out := c.f.Graph.Nodes[id].Outputs[0]; !slices.Contains(but, out) && !c.inner(out) {
			return false
		}
	}
	return true
}

// last is the last step, of all nodes or of those outside of the chain, that reads a tensor.
func (c *chain) last(t graph.TensorID, outside bool) int {
	last := -1
	for _, r := range c.f.Graph.Tensors[t].Readers {
		if !outside || !c.nodes[r] {
			last = max(last, c.place[r])
		}
	}
	return last
}

// overwriter returns what a node of the chain makes in the place of a tensor, or None.
func (c *chain) overwriter(t graph.TensorID) graph.TensorID {
	for _, r := range c.f.Graph.Tensors[t].Readers {
		if c.nodes[r] && c.at(c.f.Graph.Nodes[r].Outputs[0]) == c.at(t) {
			return c.f.Graph.Nodes[r].Outputs[0]
		}
	}
	return graph.None
}

func (c *chain) at(t graph.TensorID) unsafe.Pointer { return c.f.Tensors[t].At }

// holds reports whether a tensor from outside still has its bytes at a step if no node of
// the chain writes any: it is read then or later, or what overwrites it in the chain is.
func (c *chain) holds(t graph.TensorID, step int) bool {
	if made := c.f.Graph.Tensors[t]; made.Output || c.f.Tensors[t].Const {
		return true
	}
	for ; t != graph.None; t = c.overwriter(t) {
		if c.last(t, false) >= step {
			return true
		}
	}
	return false
}

// stays reports whether a tensor of bytes from outside still has them at a step, although it
// may be dead by then: no node outside of the chain has its place for something else. Only
// the first and the last result of a chain that converts between bytes and reals are bytes,
// and what the nodes between them would have written there is not written.
func (c *chain) stays(t graph.TensorID, step int) bool {
	own := c.f.Tensors[t]
	if !own.Byte() || own.Room == 0 || c.f.normGradients {
		return false
	}
	end := uintptr(own.At) + uintptr(own.Room)
	for id, u := range c.f.Tensors {
		made := c.f.Graph.Tensors[id]
		if u == nil || u == own || u.Room == 0 || made.Maker >= 0 && c.nodes[made.Maker] || uintptr(u.At) >= end || uintptr(u.At)+uintptr(u.Room) <= uintptr(own.At) {
			continue
		}
		if from := c.made(graph.TensorID(id)); from > c.made(t) && from <= step {
			return false
		}
	}
	for _, id := range c.order[c.last(t, false):step] {
		if n := c.f.Graph.Nodes[id]; n.Semantics.Call != nil || len(n.Bodies()) > 0 { // its workspace may lie there
			return false
		}
	}
	return true
}

// free reports whether the place of a result of the chain is the chain's own from a step
// on: the result overwrites, node by node, a tensor that no other node reads from then on.
func (c *chain) free(result graph.TensorID, step int) bool {
	for t := result; ; {
		made := c.f.Graph.Tensors[t]
		if made.Maker < 0 || !c.nodes[made.Maker] {
			return !made.Output && c.f.Tensors[t].Room > 0 && !c.f.Tensors[t].Const && c.last(t, true) < step
		}
		if c.place[made.Maker] <= step {
			return true
		}
		var over graph.TensorID = graph.None
		for _, in := range c.f.Graph.Nodes[made.Maker].Inputs {
			if in >= 0 && c.f.Tensors[in] != nil && c.at(in) == c.at(t) && c.f.Tensors[in].Bytes() == c.f.Tensors[t].Bytes() {
				over = in
			}
		}
		if over == graph.None {
			return false
		}
		t = over
	}
}

// alone reports whether no node outside of the chain makes or reads a tensor, in the place of
// a result of the chain, from a step on until the result is made. Views of one tensor have
// one place.
func (c *chain) alone(result graph.TensorID, step int) bool {
	own := c.f.Tensors[result]
	end := uintptr(own.At) + uintptr(own.Bytes())
	for id, u := range c.f.Tensors {
		made := c.f.Graph.Tensors[id]
		if u == nil || u.Room == 0 || made.Maker >= 0 && c.nodes[made.Maker] || uintptr(u.At) >= end || uintptr(u.At)+uintptr(u.Room) <= uintptr(own.At) {
			continue
		}
		t := graph.TensorID(id)
		switch from := c.made(t); {
		case from > c.made(result): // it has the place later
		case from >= step, made.Output, c.last(t, true) >= step:
			return false
		}
	}
	return true
}

// made is the step after which a tensor is there.
func (c *chain) made(t graph.TensorID) int {
	if m := c.f.Graph.Tensors[t].Maker; m >= 0 {
		return c.place[m]
	}
	return -1
}

// number returns the element of a constant of float32.
func (c *chain) number(t graph.TensorID) (x float32, ok bool) {
	if t < 0 || c.f.Tensors[t] == nil {
		return 0, false
	}
	v := c.f.Tensors[t]
	if !v.Const || v.Type != graph.Float32 || v.Len() != 1 || v.At == nil {
		return 0, false
	}
	return *(*float32)(v.At), true
}

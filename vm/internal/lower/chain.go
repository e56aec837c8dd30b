package lower

import (
	"maps"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

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

// of returns a chain of one node.
func (c *chain) of(id graph.NodeID) *chain {
	return &chain{f: c.f, order: c.order, place: c.place, nodes: map[graph.NodeID]bool{id: true}}
}

// steps returns the steps of a chain's nodes, in the order in which they run.
func (c *chain) steps() (list []*Step) {
	for _, n := range slices.SortedFunc(maps.Keys(c.nodes), func(a, b graph.NodeID) int { return c.place[a] - c.place[b] }) {
		list = append(list, c.f.Steps[n])
	}
	return list
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

// stays reports whether a tensor from outside still has its bytes at a step, although it
// may be dead by then: no node outside of the chain has its place for something else. What the
// nodes of the chain would have written there is not written, but for the last one's result.
func (c *chain) stays(t graph.TensorID, step int) bool {
	own := c.f.Tensors[t]
	if own.Room == 0 {
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

// number returns the element of a constant of float32, or of 16 bits.
func (c *chain) number(t graph.TensorID) (x float32, ok bool) {
	if t < 0 || c.f.Tensors[t] == nil {
		return 0, false
	}
	v := c.f.Tensors[t]
	if !v.Const || v.Type != graph.Float32 && !form.IsHalf(&v.Tensor) || v.Len() != 1 || v.At == nil {
		return 0, false
	}
	read, _ := form.Reader(v.Type)
	return float32(read(v.At, 0)), true
}

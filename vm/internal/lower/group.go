package lower

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// A group is several elementwise nodes that one kernel computes, at the step of one of them. On
// the CPU it goes through all of them with a few elements at a time, and writes one result. On a
// GPU each thread has an element, and writes what somebody else reads. The rest is never written.

// leastChain is the least number of elements for which a group is worth its preparation on the CPU.
const leastChain = 2048

// mostGrouped bounds the nodes of a group on a GPU.
const mostGrouped = 64

// groupable reports whether a node can be in a group.
func (l *lowering) groupable(st *Step) bool {
	if l.f.untaken(st.ID) == nil || st.Node().Semantics.Call != nil || !st.Exact() || len(st.Out) != 1 || st.Out[0] == nil || st.Out[0].Const {
		return false
	}
	if takes := l.s.GPU == nil && st.links() || l.s.GPU != nil && l.expresses(st); !takes {
		return false
	}
	open, err := st.check() // prepare reports it
	return err == nil && !open
}

// links reports whether the CPU's kernel for groups can compute a node, and no other kernel
// applies it to its own result.
func (st *Step) links() bool {
	out := st.Out[0]
	return out.Room > 0 && out.Len() >= leastChain && kernel.Links(st.Call()) && !st.appliedByMaker()
}

// appliedByMaker reports whether the kernel of another node can apply a node to its own result.
func (st *Step) appliedByMaker() bool {
	g, x := st.Frame.Graph, st.Node().Inputs[0]
	if t := g.Tensors[x]; t.Maker < 0 || len(t.Readers) != 1 || st.In[0].At != st.Out[0].At {
		return false
	}
	maker := g.Nodes[g.Tensors[x].Maker]
	by, k := kernel.Lookup(maker.Domain, maker.Op), kernel.Lookup("", st.Node().Op)
	if by == nil || !by.Fuses || k.Finish == nil {
		return false
	}
	f := k.Finish(st.Call())
	return f == nil || st.Out[0].Type == graph.Float32 || f.Clamps // others read a rounded result
}

// expresses reports whether a node is an expression on the device, where its tensors are.
func (l *lowering) expresses(st *Step) bool {
	if !gpu.Elementwise(st.Node().Domain, st.Node().Op) || st.Idle() {
		return false
	}
	for _, t := range append(slices.Clone(st.In), st.Out...) {
		if t == nil {
			continue
		}
		if _, err := l.s.GPU.At(&t.Tensor); err != nil {
			return false
		}
	}
	return true
}

// grow adds the nodes that make what the chain alone reads, of the results' shape or of one
// element. With results, they may make values of that shape that the graph returns.
func (l *lowering) grow(c *chain, shape []int, results bool) {
	for again := true; again; {
		again = false
		for n := range maps.Clone(c.nodes) {
			for _, t := range c.f.Graph.Nodes[n].Inputs {
				if t < 0 || c.f.Tensors[t] == nil {
					continue
				}
				made := c.f.Graph.Tensors[t]
				if made.Maker < 0 || c.nodes[made.Maker] || slices.ContainsFunc(made.Readers, func(r graph.NodeID) bool { return !c.nodes[r] }) {
					continue
				}
				whole := slices.Equal(c.f.Tensors[t].Shape, shape)
				if !whole && c.f.Tensors[t].Len() != 1 || made.Output && !(whole && results) {
					continue
				}
				if l.groupable(c.f.Steps[made.Maker]) {
					c.nodes[made.Maker], again = true, true
				}
			}
		}
	}
}

// oneKernel reports whether the nodes of a group can be one kernel: their outputs have one
// shape, and what they write lies apart from what they read, or exactly on it.
func oneKernel(group []*Step) bool {
	stores := storesOf(group)
	for _, st := range group { // each thread computes the scalars that it needs
		if y := st.Out[0]; len(stores) == 0 || !slices.Equal(y.Shape, stores[0].Shape) && (y.Len() > 1 || slices.Contains(stores, y)) {
			return false
		}
	}
	for i, s := range stores {
		for _, t := range externalOf(group) {
			exact := t.At == s.At && t.Bytes() == s.Bytes() && slices.Equal(t.Shape, s.Shape)
			if !t.Const && !exact && values.Overlap(s, t) {
				return false
			}
		}
		for _, t := range stores[:i] {
			if values.Overlap(s, t) {
				return false
			}
		}
	}
	return true
}

// storesOf returns the outputs of a group that somebody else reads.
func storesOf(group []*Step) (stores []*values.Tensor) {
	in := map[graph.NodeID]bool{}
	for _, st := range group {
		in[st.ID] = true
	}
	for _, st := range group {
		t := st.Frame.Graph.Tensors[st.Node().Outputs[0]]
		if t.Output || slices.ContainsFunc(t.Readers, func(r graph.NodeID) bool { return !in[r] }) {
			stores = append(stores, st.Out[0])
		}
	}
	return stores
}

// externalOf returns the inputs of a group that its nodes do not make.
func externalOf(group []*Step) (list []*values.Tensor) {
	made := map[*values.Tensor]bool{}
	for _, st := range group {
		for _, t := range st.In {
			if t != nil && !made[t] && !slices.Contains(list, t) {
				list = append(list, t)
			}
		}
		made[st.Out[0]] = true
	}
	return list
}

// group makes one kernel of nodes, which runs at the step of one of them. It reports false if the
// nodes have to run by themselves.
func (l *lowering) group(list []*Step, leader *Step) bool {
	stores := storesOf(list)
	if len(stores) == 0 {
		return false
	}
	run, err := l.kernelOf(list, leader, stores)
	if err != nil {
		return false
	}
	leader.takes(run, list, externalOf(list), stores)
	leader.Way = together(list)
	return true
}

// kernelOf returns the kernel of a group, for the leader's step. On the CPU it writes one result,
// the last node's.
func (l *lowering) kernelOf(list []*Step, leader *Step, stores []*values.Tensor) (kernel.Run, error) {
	if l.s.GPU == nil {
		var calls []*kernel.Invocation
		for _, st := range list {
			calls = append(calls, st.Call())
		}
		return kernel.NewChain(calls).Make(leader.Call()), nil
	}
	var calls []*form.Call
	var places []*form.Tensor
	for _, st := range list {
		calls = append(calls, &st.Call().Call)
		st.Kernel = kernel.Lookup(st.Node().Domain, st.Node().Op)
	}
	for _, t := range stores {
		places = append(places, &t.Tensor)
	}
	run, err := l.s.GPU.Kernels.PrepareGroup(calls, places)
	leader.Device = err == nil
	return run, err
}

package exec

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gpu"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// groups finds the elementwise nodes of a frame that follow one another and have outputs of
// one shape, or of one element that others of the group read. They become one kernel, in the
// place of the last of them; what only they read is never written. listed holds the steps by
// node, order the nodes as they run.
func (g *device) groups(listed []*step, order []graph.NodeID) (groups [][]*step) {
	if g == nil || g.s.watch.comparer != nil { // the comparer looks at every output
		return nil
	}
	var now []*step
	end := func() {
		if len(now) > 1 {
			groups = append(groups, now)
		}
		now = nil
	}
	leaves := g.departures(listed)
	for _, id := range order {
		st := listed[id]
		if leaves[id] {
			end()
		}
		switch {
		case st.fusedInto != nil: // nothing happens at its step
		case !g.groupable(st):
			end()
		case len(now) > 0 && !joins(now, st):
			end()
			now = []*step{st}
		default:
			now = append(now, st)
		}
	}
	end()
	return groups
}

// departures returns the steps before which copies to the host pool begin. What they copy must
// have been made by then.
func (g *device) departures(listed []*step) map[graph.NodeID]bool {
	leaves := map[graph.NodeID]bool{}
	if g.s.Mem.Host == nil || len(listed) == 0 || listed[0].f.g != g.s.pr.Model.Graph {
		return leaves
	}
	for i := range g.s.pr.Plan.Buffers {
		if b := &g.s.pr.Plan.Buffers[i]; b.Pool == plan.Host {
			leaves[graph.NodeID(b.First)] = true
		}
	}
	return leaves
}

// mostGrouped bounds the nodes of a group.
const mostGrouped = 64

// groupable reports whether a node can be in a group.
func (g *device) groupable(st *step) bool {
	n := st.n()
	if !st.single() || n.Semantics.Call != nil || !gpu.Elementwise(n.Domain, n.Op) || !st.exact() || st.idle() || len(st.out) != 1 || st.out[0] == nil || st.out[0].Const {
		return false
	}
	for _, t := range append(slices.Clone(st.in), st.out...) {
		if t == nil {
			continue
		}
		if _, err := g.at(&t.Tensor); err != nil {
			return false
		}
	}
	open, err := st.check()
	return err == nil && !open
}

// joins reports whether a group stays one kernel if a node joins it.
func joins(group []*step, st *step) bool {
	if len(group) == mostGrouped {
		return false
	}
	return oneKernel(append(slices.Clone(group), st))
}

// oneKernel reports whether the nodes of a group can be one kernel: their outputs have one
// shape, and what they write lies apart from what they read, or exactly on it.
func oneKernel(group []*step) bool {
	stores := storesOf(group)
	for _, st := range group { // each thread computes the scalars that it needs
		if y := st.out[0]; len(stores) == 0 || !slices.Equal(y.Shape, stores[0].Shape) && (y.Len() > 1 || slices.Contains(stores, y)) {
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
func storesOf(group []*step) (stores []*values.Tensor) {
	in := map[graph.NodeID]bool{}
	for _, st := range group {
		in[st.node] = true
	}
	for _, st := range group {
		t := st.f.g.Tensors[st.n().Outputs[0]]
		if t.Output || st.f.captured[st.n().Outputs[0]] || slices.ContainsFunc(t.Readers, func(r graph.NodeID) bool { return !in[r] }) {
			stores = append(stores, st.out[0])
		}
	}
	return stores
}

// externalOf returns the inputs of a group that its nodes do not make.
func externalOf(group []*step) (list []*values.Tensor) {
	made := map[*values.Tensor]bool{}
	for _, st := range group {
		for _, t := range st.in {
			if t != nil && !made[t] && !slices.Contains(list, t) {
				list = append(list, t)
			}
		}
		made[st.out[0]] = true
	}
	return list
}

// prepareGroup makes one kernel of a group, which runs at the step of one of its nodes. It
// reports false if the nodes have to run by themselves.
func (g *device) prepareGroup(group []*step, leader *step) bool {
	stores := storesOf(group)
	if len(stores) == 0 {
		return false
	}
	var calls []*form.Call
	var places []*kernel.Tensor
	for _, st := range group {
		calls = append(calls, &st.call().Call)
	}
	for _, t := range stores {
		places = append(places, &t.Tensor)
	}
	run, err := g.kernels.PrepareGroup(calls, places)
	if err != nil {
		return false
	}
	for _, st := range group {
		st.kernel = kernel.Lookup(st.n().Domain, st.n().Op)
	}
	leader.takes(run, group, externalOf(group), stores)
	leader.device, leader.way = true, together(group)
	return true
}

// capturedBy returns the tensors of a graph that bodies of its nodes read.
func capturedBy(g *graph.Graph) map[graph.TensorID]bool {
	captured := map[graph.TensorID]bool{}
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, body := range a.All() {
				for _, c := range body.Captures {
					captured[c.Outer] = true
				}
			}
		}
	}
	return captured
}

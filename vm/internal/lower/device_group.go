package lower

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
func (l *lowering) groups(listed []*Step, order []graph.NodeID) (groups [][]*Step) {
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
	leaves := l.departures(listed)
	for _, id := range order {
		st := listed[id]
		if leaves[id] {
			end()
		}
		switch {
		case st.FusedInto != nil: // nothing happens at its step
		case !l.groupable(st):
			end()
		case len(now) > 0 && !joins(now, st):
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
func (l *lowering) departures(listed []*Step) map[graph.NodeID]bool {
	leaves := map[graph.NodeID]bool{}
	if l.s.Mem.Host == nil || len(listed) == 0 || listed[0].Frame.Graph != l.s.Program.Model.Graph {
		return leaves
	}
	for i := range l.s.Program.Plan.Buffers {
		if b := &l.s.Program.Plan.Buffers[i]; b.Pool == plan.Host {
			leaves[graph.NodeID(b.First)] = true
		}
	}
	return leaves
}

// mostGrouped bounds the nodes of a group.
const mostGrouped = 64

// groupable reports whether a node can be in a group.
func (l *lowering) groupable(st *Step) bool {
	n := st.Node()
	if !st.single() || n.Semantics.Call != nil || !gpu.Elementwise(n.Domain, n.Op) || !st.Exact() || st.Idle() || len(st.Out) != 1 || st.Out[0] == nil || st.Out[0].Const {
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
	open, err := st.check()
	return err == nil && !open
}

// joins reports whether a group stays one kernel if a node joins it.
func joins(group []*Step, st *Step) bool {
	if len(group) == mostGrouped {
		return false
	}
	return oneKernel(append(slices.Clone(group), st))
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
		if t.Output || st.Frame.captured[st.Node().Outputs[0]] || slices.ContainsFunc(t.Readers, func(r graph.NodeID) bool { return !in[r] }) {
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

// prepareGroup makes one kernel of a group, which runs at the step of one of its nodes. It
// reports false if the nodes have to run by themselves.
func (l *lowering) prepareGroup(group []*Step, leader *Step) bool {
	stores := storesOf(group)
	if len(stores) == 0 {
		return false
	}
	var calls []*form.Call
	var places []*kernel.Tensor
	for _, st := range group {
		calls = append(calls, &st.Call().Call)
	}
	for _, t := range stores {
		places = append(places, &t.Tensor)
	}
	run, err := l.s.GPU.Kernels.PrepareGroup(calls, places)
	if err != nil {
		return false
	}
	for _, st := range group {
		st.Kernel = kernel.Lookup(st.Node().Domain, st.Node().Op)
	}
	leader.takes(run, group, externalOf(group), stores)
	leader.Device, leader.Way = true, together(group)
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

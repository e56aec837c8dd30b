package limits

import (
	"cmp"
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// anySlices returns a lower bound on the peak of the model with any regions in any
// number of slices, in any order, whatever is recomputed or swapped: the largest of
//
//   - the bytes of all graph inputs, which live at the first step,
//   - the bytes of all graph outputs, which live at the last step,
//   - what a node that cannot belong to a region reads and makes.
func (x *slicer) anySlices() plan.SliceBound { return leastOf(x.base.Main, x.search.Divisible) }

// anySlicesShared is that of plans with aliases: no byte counts twice that nodes only move. What
// regions make is written by nodes of their own, so they share no byte that the graph does not
// share without them. It is 0 if bytes have too many parts.
func (x *slicer) anySlicesShared() plan.SliceBound {
	q, err := x.base.Main.Relaxed()
	if err != nil {
		return plan.SliceBound{Why: plan.BoundInputs, Nodes: []string{}, Tensors: []string{}}
	}
	return leastOf(q, x.search.Divisible)
}

// leastOf returns the largest of the bytes of all graph inputs, of all graph outputs, and of what a
// node reads and makes that is not divisible.
func leastOf(r *planner.Region, divisible func(int) bool) plan.SliceBound {
	sum := func(why string, counts func(*planner.Storage) bool) plan.SliceBound {
		b := plan.SliceBound{Why: why, Nodes: []string{}, Tensors: []string{}}
		var list []int32
		for i := range r.Storages {
			if st := &r.Storages[i]; r.Live(int32(i)) && counts(st) {
				b.Bytes += st.Bytes
				list = append(list, int32(i))
			}
		}
		b.Tensors = largestNames(r, list)
		return b
	}
	best := sum(plan.BoundInputs, func(st *planner.Storage) bool { return st.Input })
	if b := sum(plan.BoundOutputs, func(st *planner.Storage) bool { return st.Output }); b.Bytes > best.Bytes {
		best = b
	}
	p := leastProblem(r)
	for v := range r.G.Nodes {
		bytes := int64(0)
		if !divisible(v) {
			bytes = schedule.NodeBound(p, int32(v))
		}
		if bytes <= best.Bytes {
			continue
		}
		var list []int32
		add := func(t graph.TensorID) {
			if i := r.StorageOf[t]; i != planner.NoStorage {
				list = append(list, r.PiecesOf(i)...)
			}
		}
		r.G.Nodes[v].Reads(add)
		for _, t := range r.G.Nodes[v].Outputs {
			if t >= 0 {
				add(t)
			}
		}
		best = plan.SliceBound{Bytes: bytes, Why: plan.BoundNode, Nodes: []string{r.G.Label(graph.NodeID(v))}, Tensors: largestNames(r, list)}
	}
	return best
}

// leastProblem is the problem of a region in which nodes with bodies take no more than these
// need in any order: the plan with slices may order them otherwise than the one without.
func leastProblem(r *planner.Region) *schedule.Problem {
	p := r.Problem()
	least := make([]int64, len(p.Nodes))
	for _, b := range r.Bodies {
		least[b.Node] = max(least[b.Node], schedule.Bound(leastProblem(b.R)).Value)
	}
	for v, n := range r.G.Nodes {
		if inner := r.Calls[n.Semantics.Call]; n.Semantics.Call != nil && inner != nil {
			bytes := inner.Loads.Peak // a function keeps its order
			if len(inner.Bodies) > 0 || len(inner.G.Nodes) > 0 && slices.Max(inner.Workspace) > 0 {
				bytes = schedule.Bound(leastProblem(inner)).Value
			}
			least[v] = max(least[v], bytes)
		}
		if len(n.Bodies()) > 0 || n.Semantics.Call != nil {
			p.Nodes[v].Workspace = min(p.Nodes[v].Workspace, least[v])
		}
	}
	return p
}

// mostBoundTensors is the largest number of tensors that the plan names for a bound.
const mostBoundTensors = 8

// largestNames returns the names of the largest of some storages that count in loads, the
// largest first.
func largestNames(r *planner.Region, list []int32) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	list = slices.DeleteFunc(slices.Compact(list), func(i int32) bool { return i == planner.NoStorage || !r.Live(i) || r.Storages[i].Bytes == 0 })
	slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(r.Storages[b].Bytes, r.Storages[a].Bytes) })
	names := []string{}
	for _, i := range list[:min(len(list), mostBoundTensors)] {
		names = append(names, r.NameOf(i))
	}
	return names
}

// anyCount returns a lower bound on the peak of the model with these regions in any
// number of slices, in any order, without recomputation and swaps. It is at least that of
// [slicer.anySlices].
//
// It is a bound of the graph in which a region runs in one slice whose own tensors take no
// bytes. These are the rows that it cuts of inputs, what it makes, and the rows that it puts
// into outputs. Proof: take an order of the graph with slices, and one slice of each region.
// Run each node of the skeleton where its copy in that slice runs: that is an order of it,
// since the copies of one slice run in the order of the precedence. While a copy of a reader
// has not run, what it reads whole is there. While its rows have not been taken, what is cut
// is there. An output is there from the first rows that are put into it.
//
// An input that nothing reads lives at the first step alone, at which the graph with slices
// may run a node that the skeleton lacks: one that makes room for an output. So it counts
// nothing. The inputs that are read are still there when the first node of the skeleton runs.
//
// Regions inside of slices are slices' own, too: take one slice of each. They change what
// the slices around them read whole: of some of it, they take rows (cutInside).
func (m *slicedModel) anyCount(ctx context.Context, least plan.SliceBound) (plan.SliceBound, error) {
	root := m.outermost()
	p := root.from.skeleton(root.choices, m.cutInside())
	c := schedule.Bound(p)
	if c.Value <= least.Bytes {
		return least, nil
	}
	out := plan.SliceBound{Bytes: c.Value, Why: plan.BoundOrder, Nodes: []string{}, Tensors: []string{}}
	for _, v := range c.Nodes[:min(len(c.Nodes), mostBoundTensors)] {
		out.Nodes = append(out.Nodes, p.Nodes[v].Name)
	}
	why, err := schedule.Explain(ctx, p, schedule.Program(p), []schedule.Certificate{c}, schedule.ExplainOptions{})
	if err != nil {
		return out, err
	}
	for _, h := range why.Proofs[0].Live {
		if len(h.Tensors) > 0 && len(out.Tensors) < mostBoundTensors {
			out.Tensors = append(out.Tensors, p.Tensors[h.Tensors[0]].Name)
		}
	}
	return out, nil
}

// least returns in bytes what [slicedModel.anyCount] bounds for regions of the base, without
// regions inside.
func (x *slicer) least(choices []*slicing.Choice) int64 {
	return schedule.Bound(x.skeleton(choices, nil)).Value
}

// read is a tensor that a node reads, by the names of the node's first output and the tensor.
type read struct{ node, tensor string }

// cutInside lists what regions inside of slices take rows of, though the slices around them
// may read it whole.
func (m *slicedModel) cutInside() map[read]bool {
	if m.from.outer == nil {
		return nil
	}
	list, g := map[read]bool{}, m.from.base.Main.G
	for _, c := range m.choices {
		for _, v := range c.Nodes {
			tag, _ := slicing.TagOf(g.Nodes[v])
			for _, t := range g.Nodes[v].Inputs {
				if t >= 0 && !c.ReadsWhole(v, t) {
					list[read{tag.Tensor, g.Tensors[t].Name}] = true
				}
			}
		}
	}
	return list
}

// skeleton returns the problem of [slicedModel.anyCount]. Its first nodes and tensors are
// those of the base; behind them are the nodes that cut rows and put them together. inside
// has what is cut although the regions read it whole.
func (x *slicer) skeleton(choices []*slicing.Choice, inside map[read]bool) *schedule.Problem {
	r := x.base.Main
	p := leastProblem(r)
	for i := range p.Nodes {
		p.Nodes[i].Name = r.G.Label(graph.NodeID(i))
	}
	changed := make([]bool, len(p.Tensors))
	for _, c := range choices {
		output := map[int32]bool{}
		for _, t := range c.Outputs {
			output[r.StorageOf[t]] = true
		}
		for i := range r.Storages {
			st := &r.Storages[i]
			t := &p.Tensors[i]
			switch {
			case t.Resident || st.Bytes == 0:
			case st.Maker >= 0 && c.Has(int(st.Maker)):
				changed[i] = true
				if output[int32(i)] || st.Output {
					putTogether(p, int32(i), c)
				} else {
					t.Bytes = 0
				}
			default:
				cutRows(p, int32(i), r, c, inside)
			}
		}
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Producer < 0 && len(t.Consumers) == 0 && !t.Output {
			t.Bytes = 0
		}
		if i < len(changed) && changed[i] {
			t.Reuses = nil
		}
		t.Reuses = slices.DeleteFunc(t.Reuses, func(over int32) bool {
			return p.Tensors[over].Bytes != t.Bytes || !slices.Contains(p.Tensors[over].Consumers, t.Producer)
		})
	}
	return p
}

// putTogether makes tensor i the result of a node of its own. Its maker and its readers in
// the region make and read a tensor without bytes instead.
func putTogether(p *schedule.Problem, i int32, c *slicing.Choice) {
	t := &p.Tensors[i]
	put := int32(len(p.Nodes))
	p.Nodes = append(p.Nodes, schedule.Node{Name: p.Nodes[t.Producer].Name})
	part := schedule.Tensor{Name: t.Name, Producer: t.Producer, Consumers: []int32{put}}
	var rest []int32
	for _, v := range t.Consumers {
		if c.Has(int(v)) {
			part.Consumers = append(part.Consumers, v)
		} else {
			rest = append(rest, v)
		}
	}
	t.Producer, t.Consumers = put, rest
	p.Tensors = append(p.Tensors, part)
}

// cutRows lets each node of the region that reads rows of tensor i alone read a tensor
// without bytes instead, which a node of its own cuts.
func cutRows(p *schedule.Problem, i int32, r *planner.Region, c *slicing.Choice, inside map[read]bool) {
	var rest []int32
	for _, v := range p.Tensors[i].Consumers {
		whole := !c.Has(int(v))
		for _, t := range r.Storages[i].Tensors {
			whole = whole || c.ReadsWhole(int(v), t) && !inside[read{firstOf(r, v), r.G.Tensors[t].Name}]
		}
		if whole {
			rest = append(rest, v)
			continue
		}
		rows := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, schedule.Node{Name: p.Nodes[v].Name})
		p.Tensors = append(p.Tensors, schedule.Tensor{Name: p.Tensors[i].Name, Producer: rows, Consumers: []int32{v}})
		rest = append(rest, rows)
	}
	p.Tensors[i].Consumers = rest
}

// firstOf returns the name of the first output of a node that is there.
func firstOf(r *planner.Region, v int32) string {
	for _, t := range r.G.Nodes[v].Outputs {
		if t >= 0 {
			return r.G.Tensors[t].Name
		}
	}
	return ""
}

// Package regions proves of a plan with slices that each node of a slice makes rows of what a
// node of the source makes, of the rows that its operator needs for them, and that the rows of
// an output are all there, each once. So neither the search for regions nor the rewriting of the
// graph is trusted. What it assumes is package rowmap: which rows of its inputs an operator needs
// for which rows of its outputs.
//
//	regions.go   Prove: the plan's list against the metadata of nodes
//	calls.go     functions that slices call
//	before.go    the graph before the slices; parts.go, within.go: with parts of its nodes
//	nodes.go     the planned graph, node by node; contents.go: what a tensor holds of which rows
//	lengths.go   lengths that are computed
//	roles.go     rows that are taken, put, added up; copies.go: copies of nodes
//	attention.go the pieces of an attention
//	places.go    which rows a slice is likely to have
//	recorded.go  what the plan says of a region, compared with what was found
package regions

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// Code is that of the violations.
const Code = "slices"

// none is the index of no node and no tensor.
const none = subject.None

// keySlice is the metadata key of nodes that belong to a slice.
const keySlice = "onnxmem.slice"

// sliceNode is what the metadata of a node say: the region, the slice, the role, and a
// tensor of the source.
type sliceNode struct {
	region, slice int
	role, tensor  string
	node          *graph.Node
}

// Planned is the planned main graph as the prover of repetitions leaves it, and whose rows are
// known.
type Planned struct {
	Graph     *graph.Graph                 // without nodes that run again and transfers: they have been checked
	Originals []graph.TensorID             // by its tensor: the first tensor with its value; nil: none was made again
	Added     []bool                       // by node of the model: the plan added it; nil: none
	Knows     func(domain, op string) bool // whether rowmap has an account of an operator
	// Compared has what is known of pairs of initializers; several calls of Prove may have one at
	// the same time. nil: nothing.
	Compared *sync.Map
}

// prover is one run of Prove.
type prover struct {
	*subject.Subject
	planned Planned

	functions map[*graph.Function]bool // that slices call
	unknown   []string                 // operators whose rows only the planner knows
}

// Prove compares the plan's regions with the nodes whose metadata say that they belong to one,
// and these with the source. Without the source, it only checks that each slice has one copy of
// each node, and that the rows that slices write of an output are all of its rows, each once. The
// nodes of local functions that slices call are compared like others. It returns the operators
// whose copies were not compared, because only the planner knows which rows they read.
func Prove(s *subject.Subject, planned Planned) (operators []string) {
	v := &prover{Subject: s, planned: planned}
	v.prove()
	return v.unknown
}

func (v *prover) prove() {
	x, g := v.Plan.Slices, v.planned.Graph
	if (x == nil) != (v.Plan.Summary.Unsliced == nil) {
		v.Fault(Code, "slices: expected regions and the figures without slices together")
	}
	v.rowWriters(g)
	v.addedTags()
	g, called := v.expanded(g)
	if !called {
		return
	}
	tags := v.sliceTags(g)
	if x == nil {
		return
	}
	v.Claim("unsliced_peak_bytes")
	v.Claim("unsliced_lower_bound_bytes")
	v.Claim("any_count_lower_bound_bytes")
	v.Claim("any_slices_lower_bound_bytes")
	v.Claim("slices.any_count")
	v.Claim("slices.any_slices")
	v.Claim("slice_cost_percent")
	if x.Mode != "exact" && x.Mode != "any" && x.Mode != plan.SlicesOfLoss {
		v.Fault(Code, "slices: mode: expected \"exact\", \"any\" or %q, found %q", plan.SlicesOfLoss, graph.Short(x.Mode))
	}
	if len(x.Regions) == 0 {
		v.Fault(Code, "slices: expected a region, found none")
	}
	if !v.rightWithin() {
		return
	}
	byRegion := make([][]sliceNode, len(x.Regions))
	for _, t := range tags {
		if t != nil {
			byRegion[t.region] = append(byRegion[t.region], *t)
		}
	}
	b := v.beforeSlices()
	compared, partial := false, slices.Repeat([]bool{true}, len(x.Regions))
	if b != nil {
		compared, partial = v.compareSlices(b, g, tags)
	}
	for i := range x.Regions {
		r := &x.Regions[i]
		if x.Mode != "any" && !r.Exact {
			v.Fault(Code, "slices: region %d: expected an exact region with mode %q", i, x.Mode)
		}
		if x.Mode == plan.SlicesOfLoss && (len(x.Regions) > 1 || !slices.ContainsFunc(byRegion[i], ofLoss)) {
			v.Fault(Code, "slices: region %d: expected one region, with nodes of the loss, with mode %q", i, x.Mode)
		}
		puts, ok := v.slicedRegion(i, r, byRegion[i])
		for _, o := range r.Outputs {
			if ok && partial[i] && o.Axis != nil {
				v.rowsPutTogether(i, r, o.Tensor, *o.Axis, puts[o.Tensor])
			}
		}
	}
	if !compared {
		v.Claim("slices")
	}
}

// ofLoss reports whether a node of a slice is a copy of one of the loss of a training step.
func ofLoss(n sliceNode) bool {
	of, _ := n.node.Prop("onnxmem.of")
	return n.role == "node" && of == "loss"
}

// knowsRows reports whether copies of a node can be compared. If only the planner knows the
// rows that its operator reads, the report names the operator.
func (v *prover) knowsRows(n *graph.Node) bool {
	if v.planned.Knows(n.Domain, n.Op) {
		return true
	}
	if at, found := slices.BinarySearch(v.unknown, plan.OpName(n)); !found {
		v.unknown = slices.Insert(v.unknown, at, plan.OpName(n))
	}
	return false
}

// rowWriters checks that a runtime without support for PutRows computes the same: the
// model has a function of that name whose body is known.
func (v *prover) rowWriters(g *graph.Graph) {
	for i, n := range g.Nodes {
		if n.Domain != graph.SwapDomain || n.Op != graph.PutRows {
			continue
		}
		found := 0
		for _, f := range v.Model.Functions {
			if f.Domain == n.Domain && f.Name == n.Op && f.Overload == n.Overload && f.IsPutRows() && graph.FindOpset(f.Opsets, "") == v.Model.Opset("") {
				found++
			}
		}
		if found != 1 {
			v.Fault(Code, "slices: %s: expected a function %s of domain %s in the model that writes rows by Slice and Concat, found none", g.Label(graph.NodeID(i)), n.Op, n.Domain)
		}
		return // the others call the same function
	}
}

// addedTags checks that a node that runs again belongs to the slice of its first run, and
// that no transfer belongs to one.
func (v *prover) addedTags() {
	g := v.Model.Graph
	for i, added := range v.planned.Added {
		text, sliced := g.Nodes[i].Prop(keySlice)
		if !added || !sliced {
			continue
		}
		want := ""
		if i < len(v.Plan.Steps) && v.Plan.Steps[i].Again != nil && 0 <= *v.Plan.Steps[i].Again && *v.Plan.Steps[i].Again < i { // no other step is added
			want, _ = g.Nodes[*v.Plan.Steps[i].Again].Prop(keySlice)
		}
		if text != want {
			v.Fault(Code, "%s: expected %q as %s, as in its first run, found %q", g.Label(graph.NodeID(i)), graph.Short(want), keySlice, graph.Short(text))
		}
	}
}

// sliceTags reads the metadata of the nodes: nil for those of no slice.
func (v *prover) sliceTags(g *graph.Graph) []*sliceNode {
	x := v.Plan.Slices
	tags := make([]*sliceNode, len(g.Nodes))
	for i, n := range g.Nodes {
		text, sliced := n.Prop(keySlice)
		if !sliced {
			continue
		}
		if x == nil {
			v.Fault(Code, "%s: expected no %s in its metadata, since the plan has no slices", g.Label(graph.NodeID(i)), keySlice)
			return tags
		}
		words := strings.SplitN(text, " ", 4)
		if len(words) < 4 || subject.Entries(n.Props, keySlice) > 1 {
			v.Fault(Code, "%s: expected a region, a slice, a role and a tensor as %s, once, found %q", g.Label(graph.NodeID(i)), keySlice, graph.Short(text))
			continue
		}
		region, err1 := strconv.Atoi(words[0])
		slice, err2 := strconv.Atoi(words[1])
		if err1 != nil || err2 != nil || region < 0 || region >= len(x.Regions) || slice < 0 || slice >= x.Regions[region].Count {
			v.Fault(Code, "%s: expected a region and a slice of the plan, found %s and %s", g.Label(graph.NodeID(i)), graph.Short(words[0]), graph.Short(words[1]))
			continue
		}
		tags[i] = &sliceNode{region, slice, words[2], words[3], n}
	}
	return tags
}

// slicedRegion checks that each slice of a region has one copy of each node. It returns
// the nodes that write rows, by the output.
func (v *prover) slicedRegion(i int, r *plan.SlicedRegion, nodes []sliceNode) (puts map[string][]sliceNode, ok bool) {
	if r.Count < 2 || r.Count > len(v.Model.Graph.Nodes) {
		v.Fault(Code, "slices: region %d: expected 2 slices or more, and no more than nodes, found %d", i, r.Count)
		return nil, false
	}
	copies, puts := v.inside(i), map[string][]sliceNode{}
	for _, n := range nodes {
		switch n.role {
		case "node":
			copies[n.tensor] = append(copies[n.tensor], n.slice)
		case "put":
			puts[n.tensor] = append(puts[n.tensor], n)
		}
	}
	if len(copies) != len(r.Nodes) {
		v.Fault(Code, "slices: region %d: expected the %d nodes of which it has copies, found %d", i, len(copies), len(r.Nodes))
	}
	listed := make(map[string]bool, len(r.Nodes))
	for _, name := range r.Nodes {
		if listed[name] {
			v.Fault(Code, "slices: region %d: %q is listed twice", i, graph.Short(name))
			continue
		}
		listed[name] = true
		have := slices.Clone(copies[name])
		slices.Sort(have)
		if have = slices.Compact(have); len(have) != r.Count || len(copies[name]) != r.Count {
			v.Fault(Code, "slices: region %d: expected one copy of the node that makes %q in each of %d slices, found %d in %d slices", i, graph.Short(name), r.Count, len(copies[name]), len(have))
		}
	}
	for _, n := range nodes {
		if n.role == "node" && !listed[n.tensor] {
			v.Fault(Code, "slices: region %d, slice %d: node %q (%s): expected a copy of one of the region's nodes, found one of the node that makes %q", i, n.slice, graph.Short(n.node.Name), n.node.OpName(), graph.Short(n.tensor))
		}
	}
	return puts, true
}

// rowsPutTogether checks that the rows that slices write of an output follow one another
// from the first to the last.
func (v *prover) rowsPutTogether(i int, r *plan.SlicedRegion, tensor string, axis int, puts []sliceNode) {
	g := v.Model.Graph
	if len(puts) != r.Count {
		v.Fault(Code, "slices: region %d: expected %d nodes that write rows of %q, found %d", i, r.Count, graph.Short(tensor), len(puts))
		return
	}
	slices.SortStableFunc(puts, func(a, b sliceNode) int { return cmp.Compare(a.slice, b.slice) })
	next, length := int64(0), int64(-1)
	for k, p := range puts {
		n := p.node
		a := n.Attr("axis")
		if n.Domain != graph.SwapDomain || n.Op != graph.PutRows || len(n.Inputs) != 4 || len(n.Outputs) != 1 || n.Outputs[0] < 0 || n.Inputs[1] < 0 || n.Inputs[2] < 0 || a == nil || a.Int != int64(axis) {
			v.Fault(Code, "slices: region %d: %q: expected %s along axis %d, found %s", i, graph.Short(n.Name), graph.PutRows, axis, n.OpName())
			return
		}
		part, at := g.Tensors[n.Inputs[1]].Type, g.Tensors[n.Inputs[2]].Data
		whole := g.Tensors[n.Outputs[0]].Type
		if axis < 0 || axis >= len(part.Shape) || axis >= len(whole.Shape) || at == nil {
			v.Fault(Code, "slices: region %d: %q: expected rows of axis %d at a constant place", i, graph.Short(n.Name), axis)
			return
		}
		from, known := at.Integers(1)
		if !known || len(from) != 1 || from[0] != next || p.slice != k {
			v.Fault(Code, "slices: region %d: %q: expected slice %d to write rows of %q from %d on, found %v", i, graph.Short(n.Name), k, graph.Short(tensor), next, from)
			return
		}
		next += int64(part.Shape[axis])
		length = int64(whole.Shape[axis])
	}
	if next != length {
		v.Fault(Code, "slices: region %d: expected %d rows of %q, found %d", i, length, graph.Short(tensor), next)
	}
}

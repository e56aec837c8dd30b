package verify

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
)

// keySlice is the metadata key of nodes that belong to a slice.
const keySlice = "onnxmem.slice"

// sliceNode is what the metadata of a node say: the region, the slice, the role, and a
// tensor of the source.
type sliceNode struct {
	region, slice int
	role, tensor  string
	node          *graph.Node
}

// slicedRegions compares the plan's regions with the nodes whose metadata say that they
// belong to one, and these with the source, so that neither the search for regions nor
// the rewriting of the graph is trusted. Nodes that run again and transfers are left out:
// they have been checked to compute the same. Without the source, it only checks that
// each slice has one copy of each node, and that the rows that slices write of an output
// are all of its rows, each once. The nodes of local functions that slices call are compared
// like others.
func (v *verifier) slicedRegions() bool {
	x := v.p.Slices
	g := v.m.Graph
	if v.plain != nil {
		g = v.plain.g
	}
	if (x == nil) != (v.p.Summary.Unsliced == nil) {
		v.fault(CodeSlices, "slices: expected regions and the figures without slices together")
	}
	v.rowWriters(g)
	v.addedTags()
	g, called := v.expanded(g)
	if !called {
		return true
	}
	tags := v.sliceTags(g)
	if x == nil {
		return true
	}
	v.claim("unsliced_peak_bytes")
	v.claim("unsliced_lower_bound_bytes")
	v.claim("any_count_lower_bound_bytes")
	v.claim("any_slices_lower_bound_bytes")
	v.claim("slices.any_count")
	v.claim("slices.any_slices")
	v.claim("slice_cost_percent")
	if x.Mode != "exact" && x.Mode != "any" {
		v.fault(CodeSlices, "slices: mode: expected \"exact\" or \"any\", found %q", graph.Short(x.Mode))
	}
	if len(x.Regions) == 0 {
		v.fault(CodeSlices, "slices: expected a region, found none")
	}
	if !v.rightWithin() {
		return true
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
		if x.Mode == "exact" && !r.Exact {
			v.fault(CodeSlices, "slices: region %d: expected an exact region with mode \"exact\"", i)
		}
		puts, ok := v.slicedRegion(i, r, byRegion[i])
		for _, o := range r.Outputs {
			if ok && partial[i] && o.Axis != nil {
				v.rowsPutTogether(i, r, o.Tensor, *o.Axis, puts[o.Tensor])
			}
		}
	}
	if !compared {
		v.claim("slices")
	}
	return true
}

// rowsKnown reports whether the verifier has an account of its own of the rows that an operator
// reads. A test leaves one out.
var rowsKnown = rowmap.Known

// knowsRows reports whether copies of a node can be compared. If only the planner knows the
// rows that its operator reads, the report names the operator.
func (v *verifier) knowsRows(n *graph.Node) bool {
	if rowsKnown(n.Domain, n.Op) {
		return true
	}
	if at, found := slices.BinarySearch(v.r.ClaimedOperators, plan.OpName(n)); !found {
		v.r.ClaimedOperators = slices.Insert(v.r.ClaimedOperators, at, plan.OpName(n))
	}
	return false
}

// rowWriters checks that a runtime without support for PutRows computes the same: the
// model has a function of that name whose body is known.
func (v *verifier) rowWriters(g *graph.Graph) {
	for i, n := range g.Nodes {
		if n.Domain != graph.SwapDomain || n.Op != graph.PutRows {
			continue
		}
		found := 0
		for _, f := range v.m.Functions {
			if f.Domain == n.Domain && f.Name == n.Op && f.Overload == n.Overload && f.IsPutRows() && graph.FindOpset(f.Opsets, "") == v.m.Opset("") {
				found++
			}
		}
		if found != 1 {
			v.fault(CodeSlices, "slices: %s: expected a function %s of domain %s in the model that writes rows by Slice and Concat, found none", g.Label(graph.NodeID(i)), n.Op, n.Domain)
		}
		return // the others call the same function
	}
}

// addedTags checks that a node that runs again belongs to the slice of its first run, and
// that no transfer belongs to one.
func (v *verifier) addedTags() {
	g := v.m.Graph
	for i, added := range v.added {
		text, sliced := g.Nodes[i].Prop(keySlice)
		if !added || !sliced {
			continue
		}
		want := ""
		if i < len(v.p.Steps) && v.p.Steps[i].Again != nil && 0 <= *v.p.Steps[i].Again && *v.p.Steps[i].Again < i { // no other step is added
			want, _ = g.Nodes[*v.p.Steps[i].Again].Prop(keySlice)
		}
		if text != want {
			v.fault(CodeSlices, "%s: expected %q as %s, as in its first run, found %q", g.Label(graph.NodeID(i)), graph.Short(want), keySlice, graph.Short(text))
		}
	}
}

// sliceTags reads the metadata of the nodes: nil for those of no slice.
func (v *verifier) sliceTags(g *graph.Graph) []*sliceNode {
	x := v.p.Slices
	tags := make([]*sliceNode, len(g.Nodes))
	for i, n := range g.Nodes {
		text, sliced := n.Prop(keySlice)
		if !sliced {
			continue
		}
		if x == nil {
			v.fault(CodeSlices, "%s: expected no %s in its metadata, since the plan has no slices", g.Label(graph.NodeID(i)), keySlice)
			return tags
		}
		words := strings.SplitN(text, " ", 4)
		if len(words) < 4 || entries(n.Props, keySlice) > 1 {
			v.fault(CodeSlices, "%s: expected a region, a slice, a role and a tensor as %s, once, found %q", g.Label(graph.NodeID(i)), keySlice, graph.Short(text))
			continue
		}
		region, err1 := strconv.Atoi(words[0])
		slice, err2 := strconv.Atoi(words[1])
		if err1 != nil || err2 != nil || region < 0 || region >= len(x.Regions) || slice < 0 || slice >= x.Regions[region].Count {
			v.fault(CodeSlices, "%s: expected a region and a slice of the plan, found %s and %s", g.Label(graph.NodeID(i)), graph.Short(words[0]), graph.Short(words[1]))
			continue
		}
		tags[i] = &sliceNode{region, slice, words[2], words[3], n}
	}
	return tags
}

// slicedRegion checks that each slice of a region has one copy of each node. It returns
// the nodes that write rows, by the output.
func (v *verifier) slicedRegion(i int, r *plan.SlicedRegion, nodes []sliceNode) (puts map[string][]sliceNode, ok bool) {
	if r.Count < 2 || r.Count > len(v.m.Graph.Nodes) {
		v.fault(CodeSlices, "slices: region %d: expected 2 slices or more, and no more than nodes, found %d", i, r.Count)
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
		v.fault(CodeSlices, "slices: region %d: expected the %d nodes of which it has copies, found %d", i, len(copies), len(r.Nodes))
	}
	listed := make(map[string]bool, len(r.Nodes))
	for _, name := range r.Nodes {
		if listed[name] {
			v.fault(CodeSlices, "slices: region %d: %q is listed twice", i, graph.Short(name))
			continue
		}
		listed[name] = true
		have := slices.Clone(copies[name])
		slices.Sort(have)
		if have = slices.Compact(have); len(have) != r.Count || len(copies[name]) != r.Count {
			v.fault(CodeSlices, "slices: region %d: expected one copy of the node that makes %q in each of %d slices, found %d in %d slices", i, graph.Short(name), r.Count, len(copies[name]), len(have))
		}
	}
	for _, n := range nodes {
		if n.role == "node" && !listed[n.tensor] {
			v.fault(CodeSlices, "slices: region %d, slice %d: node %q (%s): expected a copy of one of the region's nodes, found one of the node that makes %q", i, n.slice, graph.Short(n.node.Name), n.node.OpName(), graph.Short(n.tensor))
		}
	}
	return puts, true
}

// rowsPutTogether checks that the rows that slices write of an output follow one another
// from the first to the last.
func (v *verifier) rowsPutTogether(i int, r *plan.SlicedRegion, tensor string, axis int, puts []sliceNode) {
	g := v.m.Graph
	if len(puts) != r.Count {
		v.fault(CodeSlices, "slices: region %d: expected %d nodes that write rows of %q, found %d", i, r.Count, graph.Short(tensor), len(puts))
		return
	}
	slices.SortStableFunc(puts, func(a, b sliceNode) int { return cmp.Compare(a.slice, b.slice) })
	next, length := int64(0), int64(-1)
	for k, p := range puts {
		n := p.node
		a := n.Attr("axis")
		if n.Domain != graph.SwapDomain || n.Op != graph.PutRows || len(n.Inputs) != 4 || len(n.Outputs) != 1 || n.Outputs[0] < 0 || n.Inputs[1] < 0 || n.Inputs[2] < 0 || a == nil || a.Int != int64(axis) {
			v.fault(CodeSlices, "slices: region %d: %q: expected %s along axis %d, found %s", i, graph.Short(n.Name), graph.PutRows, axis, n.OpName())
			return
		}
		part, at := g.Tensors[n.Inputs[1]].Type, g.Tensors[n.Inputs[2]].Data
		whole := g.Tensors[n.Outputs[0]].Type
		if axis < 0 || axis >= len(part.Shape) || axis >= len(whole.Shape) || at == nil {
			v.fault(CodeSlices, "slices: region %d: %q: expected rows of axis %d at a constant place", i, graph.Short(n.Name), axis)
			return
		}
		from, known := at.Integers(1)
		if !known || len(from) != 1 || from[0] != next || p.slice != k {
			v.fault(CodeSlices, "slices: region %d: %q: expected slice %d to write rows of %q from %d on, found %v", i, graph.Short(n.Name), k, graph.Short(tensor), next, from)
			return
		}
		next += int64(part.Shape[axis])
		length = int64(whole.Shape[axis])
	}
	if next != length {
		v.fault(CodeSlices, "slices: region %d: expected %d rows of %q, found %d", i, length, graph.Short(tensor), next)
	}
}

package regions

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// roleCall is the role of a call of a local function that has nodes of a slice.
const roleCall = "call"

// maxExpanded is the largest number of nodes and tensors of the functions that slices
// call.
const maxExpanded = 1_000_000

// expanded returns the graph in which the nodes of local functions stand in the place of
// the calls that belong to slices, with the metadata of nodes of slices; the graph itself
// if there are none. It notes these functions. ok is false if a call is none of those that
// slices may have.
func (v *prover) expanded(g *graph.Graph) (out *graph.Graph, ok bool) {
	v.functions = map[*graph.Function]bool{}
	if v.Plan.Slices == nil {
		return g, true
	}
	var nodes []*graph.Node
	added, used := 0, make([]map[string]bool, len(v.Plan.Slices.Regions))
	for i, n := range g.Nodes {
		text, _ := n.Prop(keySlice)
		words := strings.SplitN(text, " ", 4)
		if len(words) < 4 || words[2] != roleCall {
			if out != nil {
				nodes = append(nodes, out.Nodes[i])
			}
			continue
		}
		if out == nil {
			out = g.Clone()
			nodes = append(nodes, out.Nodes[:i]...)
		}
		wrong := v.wrongCall(n, words)
		if wrong == "" {
			if body := n.Semantics.Call.Body; added+len(body.Nodes)+len(body.Tensors) > maxExpanded {
				wrong = fmt.Sprintf("expected calls of at most %d nodes and tensors", maxExpanded)
			} else {
				added += len(body.Nodes) + len(body.Tensors)
			}
		}
		if wrong != "" {
			v.Fault(Code, "slices: %s: %s", g.Label(graph.NodeID(i)), wrong)
			return nil, false
		}
		v.functions[n.Semantics.Call.Function] = true
		expansion, wrong := v.expand(out, n, words)
		if wrong != "" {
			v.Fault(Code, "slices: %s: function %q: %s", g.Label(graph.NodeID(i)), graph.Short(n.Op), wrong)
			return nil, false
		}
		nodes = append(nodes, expansion...)
		for _, e := range expansion {
			text, _ := e.Prop(keySlice)
			region, _ := strconv.Atoi(words[0])
			if used[region] == nil {
				used[region] = map[string]bool{}
			}
			used[region][strings.SplitN(text, " ", 4)[3]] = true
		}
	}
	for i, r := range v.Plan.Slices.Regions {
		if len(r.Names) != len(used[i]) {
			v.Fault(Code, "slices: region %d: names: expected the %d to which functions refer, found %d", i, len(used[i]), len(r.Names))
		}
	}
	if out == nil {
		return g, true
	}
	out.Nodes = nodes
	out.Link()
	return out, true
}

// wrongCall says what is wrong with a call and its function; "" if it is right.
func (v *prover) wrongCall(n *graph.Node, words []string) string {
	call := n.Semantics.Call
	if call == nil || n.Domain != graph.SwapDomain || n.Op != words[3] || len(n.Attrs) > 0 {
		return fmt.Sprintf("expected a call of function %q of domain %s without attributes, found %s", graph.Short(words[3]), graph.SwapDomain, n.OpName())
	}
	f, body := call.Function, call.Body
	if len(f.Attrs) > 0 || len(f.Defaults) > 0 || len(body.Captures) > 0 || len(body.Inputs) != len(n.Inputs) || len(body.Outputs) != len(n.Outputs) {
		return fmt.Sprintf("expected a function of %s and %s without attributes", subject.Count(len(n.Inputs), "input"), subject.Count(len(n.Outputs), "output"))
	}
	for _, o := range f.Opsets {
		if want := v.Model.Opset(o.Domain); want != o.Version {
			return fmt.Sprintf("function %q: expected version %d of domain %q, as in the model, found %d", graph.Short(f.Name), want, graph.Short(o.Domain), o.Version)
		}
	}
	for _, list := range [][]graph.TensorID{n.Inputs, n.Outputs} {
		for _, t := range list {
			if t < 0 {
				return "expected a call that leaves out nothing"
			}
		}
	}
	return ""
}

// expand returns copies of the nodes of a function for a call of it, whose tensors it adds
// to the graph. wrong says what is wrong with the function.
func (v *prover) expand(g *graph.Graph, call *graph.Node, words []string) (nodes []*graph.Node, wrong string) {
	body := call.Semantics.Call.Body
	to := make([]graph.TensorID, len(body.Tensors))
	for t := range to {
		to[t] = none
	}
	for _, list := range []struct{ inner, outer []graph.TensorID }{{body.Inputs, call.Inputs}, {body.Outputs, call.Outputs}} {
		for i, t := range list.inner {
			if to[t] != none {
				return nil, fmt.Sprintf("expected inputs and outputs that are different tensors, found %q twice", graph.Short(body.Tensors[t].Name))
			}
			to[t] = list.outer[i]
		}
	}
	for t, x := range body.Tensors {
		if x.Data != nil {
			return nil, "expected a function without initializers"
		}
		if to[t] == none {
			id := g.NewTensor(call.Name + "/" + x.Name)
			g.Tensors[id].Type, g.Tensors[id].Bytes, g.Tensors[id].Dynamic = x.Type, x.Bytes, x.Dynamic
			to[t] = id
		}
	}
	var names []string
	region, err := strconv.Atoi(words[0])
	if err == nil && region >= 0 && region < len(v.Plan.Slices.Regions) {
		names = v.Plan.Slices.Regions[region].Names
	}
	moved := func(list []graph.TensorID) []graph.TensorID {
		out := make([]graph.TensorID, len(list))
		for i, t := range list {
			if out[i] = none; t >= 0 {
				out[i] = to[t]
			}
		}
		return out
	}
	for i, old := range body.Nodes {
		n := *old
		n.Name = call.Name + "/" + old.Name
		n.Inputs, n.Outputs, n.Props = moved(old.Inputs), moved(old.Outputs), nil
		text, _ := old.Prop(keySlice)
		role, number, _ := strings.Cut(text, " ")
		k, err := strconv.Atoi(number)
		if role != "node" && role != "rows" || err != nil || k < 0 || k >= len(names) || subject.Entries(old.Props, keySlice) > 1 || len(old.Captures) > 0 || len(old.Bodies()) > 0 {
			return nil, fmt.Sprintf("%s: expected role node or rows and the index of one of %s as %s, once, found %q", body.Label(graph.NodeID(i)), subject.Count(len(names), "name"), keySlice, graph.Short(text))
		}
		n.SetProp(keySlice, strings.Join([]string{words[0], words[1], role, names[k]}, " "))
		nodes = append(nodes, &n)
	}
	return nodes, ""
}

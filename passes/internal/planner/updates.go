package planner

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/pairs"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// updates makes the parameters and states of a training graph resident, together
// with their updated values. given has the values of inputs of the model.
func (r *Region) updates(m *graph.Model, given map[string]graph.Literal) error {
	if ModeOf(m) != ModeTraining {
		return r.caches(m, given)
	}
	text, _ := m.Prop(keyUpdates)
	var list, trained []string
	if json.Unmarshal([]byte(text), &list) != nil {
		list = strings.Fields(text)
	}
	text, _ = m.Prop(keyTrainable)
	_ = json.Unmarshal([]byte(text), &trained) // optional: without it, all are states
	inputs, outputs := byName(r.G, r.G.Inputs), byName(r.G, r.G.Outputs)
	if err := r.readGradients(m); err != nil {
		return err
	}
	isParameter := map[string]bool{}
	for _, name := range trained {
		isParameter[name] = true
	}
	fixed := func(names map[string]graph.TensorID) func(name string) bool {
		return func(name string) bool {
			t, is := names[name]
			return is && r.StorageOf[t] != NoStorage
		}
	}
	for _, text := range list {
		from, to, err := pairs.Split(text, fixed(inputs), fixed(outputs))
		if err != nil {
			return graph.Errorf("%s: %v: expected INPUT=OUTPUT with a graph input and a graph output of fixed sizes", keyUpdates, err)
		}
		kind := plan.KindState
		if isParameter[from] {
			kind = plan.KindParameter
		}
		if err := r.stay(given, keyUpdates, kind, from, inputs[from], to, outputs[to]); err != nil {
			return err
		}
	}
	return r.caches(m, given)
}

// readGradients reads the model's list of w=w.grad. It decides which buffers are
// of kind gradient, and nothing else; without it none is.
func (r *Region) readGradients(m *graph.Model) error {
	text, ok := m.Prop(keyGradients)
	if !ok {
		return nil
	}
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return graph.Errorf("%s: expected a JSON list of PARAMETER=TENSOR, found %q", keyGradients, graph.Short(text))
	}
	names := map[string]bool{}
	for i := range r.G.Tensors {
		names[r.G.Tensors[i].Name] = true
	}
	exists := func(name string) bool { return names[name] }
	r.Gradients = map[string]bool{}
	for _, text := range list {
		_, gradient, err := pairs.Split(text, exists, exists)
		if err != nil {
			return graph.Errorf("%s: %v: expected PARAMETER=TENSOR with tensors of the main graph", keyGradients, err)
		}
		r.Gradients[gradient] = true
	}
	return nil
}

// DropGradients takes out of the list of gradients those that m, a copy of from with folded
// constants, no longer has. A gradient that is the same in every step, as that of a parameter
// which no output needs, is part of a folded constant. Entries that are wrong stay, and
// readGradients names them.
func DropGradients(m, from *graph.Model) {
	text, ok := from.Prop(keyGradients)
	var list []string
	if !ok || json.Unmarshal([]byte(text), &list) != nil {
		return
	}
	has := func(m *graph.Model) func(string) bool {
		names := map[string]bool{}
		for i := range m.Graph.Tensors {
			names[m.Graph.Tensors[i].Name] = true
		}
		return func(name string) bool { return names[name] }
	}
	had, there := has(from), has(m)
	left := slices.DeleteFunc(slices.Clone(list), func(text string) bool {
		_, gradient, err := pairs.Split(text, had, had)
		return err == nil && !there(gradient)
	})
	if len(left) == len(list) {
		return
	}
	if out, err := json.Marshal(left); err == nil {
		m.Props = slices.Clone(m.Props) // those of from stay
		m.SetProp(keyGradients, string(out))
	}
}

// updateEdges adds the precedence that in-place updates need: all other readers
// of a storage of a chain run before the node that overwrites it.
func (r *Region) updateEdges(p *schedule.Problem) {
	for _, c := range r.UpdateChains {
		for k, over := range c.Storages[:len(c.Storages)-1] {
			writer := int32(r.Storages[c.Storages[k+1]].Maker)
			for _, n := range r.readers(over) {
				if int32(n) != writer {
					p.Tensors = append(p.Tensors, schedule.Tensor{
						Name: "update", Kind: "control", Producer: int32(n), Consumers: []int32{writer},
					})
				}
			}
		}
	}
}

// UpdateNodes marks the nodes of a training graph that belong to updates. What depends on an
// update cannot run before it, whatever it says of itself: it counts as one.
func UpdateNodes(g *graph.Graph) []bool {
	list := make([]bool, len(g.Nodes))
	order, err := g.Topological()
	if err != nil {
		return list // no region has such a graph
	}
	for _, i := range order {
		phase, _ := g.Nodes[i].Prop("onnxmem.phase")
		list[i] = phase == "update"
		g.Nodes[i].Reads(func(t graph.TensorID) {
			if m := g.Tensors[t].Maker; m >= 0 && list[m] {
				list[i] = true
			}
		})
	}
	return list
}

// UpdatesLast pairs the last nodes of a training graph that are not updates with
// the first that are.
func updatesLast(g *graph.Graph) (pairs [][2]int32) {
	isUpdate := UpdateNodes(g)
	inner := make([]bool, len(g.Nodes)) // another node of the same kind follows it, or precedes it
	for _, t := range g.Tensors {
		for _, r := range t.Readers {
			if t.Maker < 0 || isUpdate[t.Maker] != isUpdate[r] {
				continue
			}
			if isUpdate[r] {
				inner[r] = true
			} else {
				inner[t.Maker] = true
			}
		}
	}
	var last, first []int32 // of the other nodes, and of the updates
	for i := range g.Nodes {
		switch {
		case inner[i]:
		case isUpdate[i]:
			first = append(first, int32(i))
		default:
			last = append(last, int32(i))
		}
	}
	for _, i := range last {
		for _, k := range first {
			pairs = append(pairs, [2]int32{i, k})
		}
	}
	return pairs
}

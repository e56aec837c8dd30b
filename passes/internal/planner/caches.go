package planner

import (
	"encoding/json"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/pairs"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// KeyStates is the metadata key of a model whose sessions keep states from one run to
// the next: a JSON list of INPUT=OUTPUT.
const KeyStates = "onnxmem.states"

// caches makes states that stay resident: each is one buffer for a graph input and the
// graph output that is written over it (rules.states, rules.FindStates, and the
// model's metadata).
func (r *Region) caches(m *graph.Model, given map[string]graph.Literal) error {
	text, known := m.Prop(KeyStates)
	var list []string
	if known && json.Unmarshal([]byte(text), &list) != nil {
		return graph.Errorf("%s: expected a JSON list of INPUT=OUTPUT, found %q", KeyStates, graph.Short(text))
	}
	for _, entry := range r.Rules.States {
		if !slices.Contains(list, entry) {
			list = append(list, entry)
		}
	}
	if len(list) == 0 && !r.FindStates {
		return nil
	}
	if ModeOf(m) == ModeTraining {
		return graph.Errorf("a training graph keeps its parameters and states by itself: expected no other states")
	}
	inputs, outputs := byName(r.G, r.G.Inputs), byName(r.G, r.G.Outputs)
	is := func(names map[string]graph.TensorID) func(name string) bool {
		return func(name string) bool { _, is := names[name]; return is }
	}
	taken := map[string]bool{}
	keep := func(from, to string) error {
		if taken[from] || taken["="+to] {
			return graph.Errorf("state %q=%q: expected each input and each output in one state", graph.Short(from), graph.Short(to))
		}
		taken[from], taken["="+to] = true, true
		return r.stay(given, KeyStates, plan.KindCache, from, inputs[from], to, outputs[to])
	}
	for _, entry := range list {
		from, to, err := pairs.Split(entry, is(inputs), is(outputs))
		if err != nil {
			return graph.Errorf("state %v: expected INPUT=OUTPUT with a graph input and a graph output", err)
		}
		a, b := r.G.Tensors[inputs[from]], r.G.Tensors[outputs[to]]
		if r.StorageOf[inputs[from]] == NoStorage || r.StorageOf[outputs[to]] == NoStorage || a.Type.String() != b.Type.String() {
			e := graph.Errorf("is %v, and %q is %v: a state needs one fixed type", a.Type, graph.Short(to), b.Type)
			e.Tensor = from
			return e
		}
		if err := keep(from, to); err != nil {
			return err
		}
	}
	if r.FindStates {
		for _, out := range r.G.Outputs {
			to := r.G.Tensors[out].Name
			in := r.scattered(out)
			if in == graph.None || taken["="+to] || taken[r.G.Tensors[in].Name] {
				continue
			}
			from := r.G.Tensors[in].Name
			if _, is := given[from]; is {
				continue
			}
			if err := keep(from, to); err != nil {
				return err
			}
			list = append(list, from+"="+to)
		}
	}
	r.States = list
	return nil
}

// scattered returns the graph input from which operators that write parts of it, or a Loop
// that carries it, make a graph output, each as its last reader; none if there is no such
// input.
func (r *Region) scattered(out graph.TensorID) graph.TensorID {
	t := out
	for t >= 0 && r.G.Tensors[t].Maker >= 0 {
		n := r.G.Nodes[r.G.Tensors[t].Maker]
		in := ops.Updates(n, r.G.Tensors[t].Out)
		if in < 0 {
			return graph.None
		}
		t = n.Inputs[in]
		x := r.G.Tensors[t]
		if !x.Input && (x.Output || len(x.Readers) > 1) {
			return graph.None
		}
	}
	if t < 0 || t == out || !r.G.Tensors[t].Input || r.G.Tensors[t].Data != nil || r.StorageOf[t] == NoStorage || r.StorageOf[out] == NoStorage {
		return graph.None
	}
	return t
}

package verify

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/pairs"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// readUpdates reads the model's list of w=w.new, a JSON list or entries separated
// by spaces, and the list of parameters; the other entries are states.
func (v *verifier) readUpdates() {
	text, _ := v.Model.Prop(keyUpdates)
	var list []string
	if json.Unmarshal([]byte(text), &list) != nil {
		list = strings.Fields(text)
	}
	v.readPairs(keyUpdates, list)
	var trained []string
	text, _ = v.Model.Prop(keyTrainable)
	_ = json.Unmarshal([]byte(text), &trained) // without it all are states
	v.trained = map[string]bool{}
	for _, name := range trained {
		v.trained[name] = true
	}
	v.readGradients()
}

// readPairs reads a list of NAME=NAME.new, the value of a metadata key.
func (v *verifier) readPairs(key string, list []string) {
	v.updates, v.updatesKey = map[string]string{}, key
	g := v.Model.Graph
	isInput, isOutput := oneOf(g, g.Inputs), oneOf(g, g.Outputs)
	made := map[string]bool{}
	for _, text := range list {
		from, to, err := pairs.Split(text, isInput, isOutput)
		if err != nil {
			v.Fault(CodeUpdate, "%s: %v: expected NAME=NAME.new with a graph input and a graph output", key, err)
			continue
		}
		if _, twice := v.updates[from]; twice || made[to] {
			v.Fault(CodeUpdate, "%s: %q is listed twice", key, graph.Short(from))
		}
		v.updates[from], made[to] = to, true
	}
}

// readGradients reads the model's list of w=w.grad; without it no buffer is of kind
// gradient.
func (v *verifier) readGradients() {
	v.gradients = map[string]bool{}
	text, ok := v.Model.Prop(keyGradients)
	if !ok {
		return
	}
	var list []string
	if json.Unmarshal([]byte(text), &list) != nil {
		v.Fault(CodeUpdate, "%s: expected a JSON list of PARAMETER=TENSOR, found %q", keyGradients, graph.Short(text))
		return
	}
	names := map[string]bool{}
	for _, t := range v.Model.Graph.Tensors {
		names[t.Name] = true
	}
	exists := func(name string) bool { return names[name] }
	for _, text := range list {
		_, gradient, err := pairs.Split(text, exists, exists)
		if err != nil {
			v.Fault(CodeUpdate, "%s: %v: expected PARAMETER=TENSOR with tensors of the main graph", keyGradients, err)
			continue
		}
		v.gradients[gradient] = true
	}
}

// readStates reads the list INPUT=OUTPUT of the caches of an inference graph; without it
// there are none.
func (v *verifier) readStates() {
	text, ok := v.Model.Prop(keyStates)
	if !ok {
		return
	}
	var list []string
	if json.Unmarshal([]byte(text), &list) != nil {
		v.Fault(CodeUpdate, "%s: expected a JSON list of INPUT=OUTPUT, found %q", keyStates, graph.Short(text))
		return
	}
	v.readPairs(keyStates, list)
}

// trains reports whether the model is a training graph.
func (v *verifier) trains() bool {
	mode, _ := v.Model.Prop(keyMode)
	return mode == modeTraining
}

// oneOf returns a function that reports whether one of the tensors has a name.
func oneOf(g *graph.Graph, list []graph.TensorID) func(name string) bool {
	names := map[string]bool{}
	for _, t := range list {
		names[g.Tensors[t].Name] = true
	}
	return func(name string) bool { return names[name] }
}

// markUpdates makes the parameters and states of a training graph resident, with
// their new values.
func (s *scope) markUpdates() {
	if len(s.v.updates) == 0 {
		return
	}
	inputs, outputs := map[string]graph.TensorID{}, map[string]graph.TensorID{}
	for _, t := range s.g.Inputs {
		inputs[s.g.Tensors[t].Name] = t
	}
	for _, t := range s.g.Outputs {
		outputs[s.g.Tensors[t].Name] = t
	}
	for _, from := range sortedKeys(s.v.updates) {
		in, isInput := inputs[from]
		out, isOutput := outputs[s.v.updates[from]]
		if !isInput || !isOutput || s.storageOf[in] == none || s.storageOf[out] == none {
			s.fault(CodeUpdate, "%s: %q=%q: expected a graph input and a graph output of fixed sizes",
				s.v.updatesKey, graph.Short(from), graph.Short(s.v.updates[from]))
			continue
		}
		u := core.Update{Old: s.storageOf[in], New: s.storageOf[out]}
		s.Updated = append(s.Updated, u)
		for _, i := range []int32{u.Old, u.New} {
			s.Storages[i].Update, s.Storages[i].Resident = true, true
		}
	}
}

// checkUpdate reports whether a buffer belongs to a parameter or state, and
// checks that it ends with the updated value. Intermediate results in the buffer
// are resident, too. The core checks, as for every buffer, that the update is the last
// reader.
func (s *scope) checkUpdate(list []plan.Buffer, k int) bool {
	p := &s.buffers[k]
	if !slices.ContainsFunc(p.Storages, func(i int32) bool { return s.Storages[i].Update }) {
		return false
	}
	first, last := &s.origins[p.Storages[0]], &s.origins[p.Storages[len(p.Storages)-1]]
	if from := s.g.Tensors[first.tensors[0]].Name; !first.input || s.v.updates[from] == "" {
		s.fault(CodeUpdate, "%s: expected it to begin with the parameter or state that it updates, found %q", s.label(list, k), graph.Short(from))
	} else if to := s.v.updates[from]; !slices.ContainsFunc(last.tensors, func(t graph.TensorID) bool { return s.g.Tensors[t].Name == to }) {
		s.fault(CodeUpdate, "%s: expected it to end with %q, its updated value, found %q",
			s.label(list, k), graph.Short(to), graph.Short(s.g.Tensors[last.tensors[0]].Name))
	}
	for j, i := range p.Storages {
		if s.Storages[i].Resident = true; j > 0 {
			s.Chained = append(s.Chained, core.Update{Old: p.Storages[j-1], New: i})
		}
	}
	return true
}

// mode determines whether the file is a training graph, and checks that the plan
// agrees.
func (v *verifier) mode() bool {
	for _, key := range []string{keyMode, keyUpdates, keyTrainable, keyGradients, keyStates, plan.KeyKV} {
		if n := subject.Entries(v.Model.Props, key); n > 1 { // readers disagree on which one counts
			v.Fault(CodeAnnotation, "metadata of the model: %s is listed %d times, expected once", key, n)
		}
	}
	mode, _ := v.Model.Prop(keyMode)
	want := modeInference
	if mode == modeTraining {
		want = modeTraining
		v.readUpdates()
	} else {
		v.readStates()
	}
	if v.Plan.Mode != want {
		v.Fault(CodeMode, "mode: expected %q, found %q", want, graph.Short(v.Plan.Mode))
	}
	return true
}

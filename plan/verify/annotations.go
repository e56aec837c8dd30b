package verify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// annotations compares the file's metadata about its plan with the plan.
func (v *verifier) annotations() bool {
	if v.opt.SkipAnnotations {
		return true
	}
	dims := v.Plan.Dims
	if dims == nil {
		dims = map[string]plan.Dim{}
	}
	text, err := json.Marshal(dims)
	if err != nil {
		text = []byte(err.Error())
	}
	values := "" // no entry
	if len(v.Plan.Values) > 0 {
		text, err := json.Marshal(v.Plan.Values)
		if err != nil {
			text = []byte(err.Error())
		}
		values = string(text)
	}
	sum := &v.Plan.Summary
	folded := "" // none
	if v.Plan.Folded != nil {
		folded = v.Plan.Folded.Mode
	}
	for _, want := range []graph.Prop{
		{Key: keyVersion, Value: strconv.Itoa(v.version())},
		{Key: keyArena, Value: strconv.FormatInt(sum.ArenaBytes, 10)},
		{Key: keyPeak, Value: strconv.FormatInt(sum.PeakBytes, 10)},
		{Key: keyBound, Value: strconv.FormatInt(sum.LowerBoundBytes, 10)},
		{Key: keyDims, Value: string(text)},
		{Key: keyValues, Value: values},
		{Key: keyFolded, Value: folded},
	} {
		if fault := entry(v.Model.Props, want); fault != "" {
			v.Fault(CodeAnnotation, "metadata of the model: %s", fault)
		}
	}
	for _, s := range v.scopes {
		for i, n := range s.g.Nodes {
			want := graph.Prop{Key: keyOffset, Value: s.annotation(n)}
			if fault := entry(n.Props, want); fault != "" {
				s.fault(CodeAnnotation, "metadata of %s: %s", s.g.Label(graph.NodeID(i)), fault)
			}
		}
	}
	return true
}

// entry says how a list of metadata differs from exactly one entry of a key, or
// from none if the value is empty; "" if it does not.
func entry(props []graph.Prop, want graph.Prop) string {
	found, times := "", 0
	for _, p := range props {
		if p.Key == want.Key {
			found = p.Value
			times++
		}
	}
	switch {
	case times > 1:
		return fmt.Sprintf("%s is listed %d times, expected once", want.Key, times)
	case want.Value == "" && times == 1:
		return fmt.Sprintf("%s: expected none, found %q", want.Key, graph.Short(found))
	case want.Value != "" && times == 0:
		return fmt.Sprintf("%s is missing: expected %q", want.Key, graph.Short(want.Value))
	case want.Value != found:
		return fmt.Sprintf("%s: expected %q, found %q", want.Key, graph.Short(want.Value), graph.Short(found))
	}
	return ""
}

// annotation is the metadata entry of a node with the offsets of its outputs.
func (s *scope) annotation(n *graph.Node) string {
	var list []string
	for _, t := range n.Outputs {
		if t >= 0 && s.spanOf != nil && s.spanOf[t] >= 0 {
			list = append(list, s.annotationOfSpan(t))
			continue
		}
		if t < 0 || s.at == nil || s.at[t] < 0 {
			continue
		}
		b := &s.list[s.at[t]]
		list = append(list, fmt.Sprintf("%s=%s:%d:%d", s.g.Tensors[t].Name, b.Pool, b.Offset, b.Bytes))
	}
	return strings.Join(list, " ")
}

// annotationOfSpan is the entry of a tensor that lies in several buffers.
func (s *scope) annotationOfSpan(t graph.TensorID) string {
	offset, bytes := int64(0), int64(0)
	for i, k := range s.v.Plan.Spans[s.spanOf[t]].Buffers {
		if k < 0 || k >= len(s.list) {
			continue // reported by checkSpan
		}
		if i == 0 {
			offset = s.list[k].Offset
		}
		bytes = s.v.add(bytes, s.list[k].Bytes)
	}
	return fmt.Sprintf("%s=%s:%d:%d", s.g.Tensors[t].Name, plan.Arena, offset, bytes)
}

package mutate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// changeItems changes the items of a sequence, optional or map: fewer or more of them, one
// of another type or shape, a sequence within it, or another kind of value.
func changeItems(k *mutant) string {
	t := k.inputThat(func(v vm.Value) bool { return !v.IsTensor() })
	if t == nil {
		return ""
	}
	v := k.inputs[t.Name].Clone()
	what := ""
	switch k.IntN(7) {
	case 0:
		what, v.Items = "no items", nil
	case 1:
		what = "items twice"
		v.Items = append(v.Items, v.Clone().Items...)
	case 2:
		what = "an item of another type"
		v.Items = append(v.Items, vm.Int64s([]int64{int64(k.IntN(5)) - 2}))
	case 3:
		what = "an item of another shape"
		if len(v.Items) > 0 && v.Items[0].IsTensor() {
			if s, ok := shaped(v.Items[0], k.otherShape(v.Items[0].Shape)); ok {
				v.Items[0] = s
			}
		}
	case 4:
		what = "a sequence as an item"
		v.Items = append(v.Items, v.Clone())
	case 5:
		what = "another element type"
		v.Type = graph.DType(k.IntN(20))
	case 6:
		what = "another kind"
		v.Kind = graph.KindSparse + graph.Kind(k.IntN(5))
	}
	k.inputs[t.Name] = v
	return t.Name + " " + what
}

// texts are the values that a string may get.
var texts = []string{"", " ", "a", "A b", "\x00", "\xff\xfe", "é", "1e9", "-1", strings.Repeat("x ", 3000), strings.Repeat("a", 70000)}

// changeStrings changes some elements, or the shape, of an input that holds strings.
func changeStrings(k *mutant) string {
	t := k.inputThat(func(v vm.Value) bool { return v.IsTensor() && v.Type == graph.String })
	if t == nil {
		return ""
	}
	v := k.inputs[t.Name].Clone()
	what := ""
	if k.IntN(2) == 0 || len(v.Strings) == 0 {
		v.Shape = k.otherShape(v.Shape)
		n := elements(v.Shape)
		if n > 1000 {
			return ""
		}
		v.Strings = slices.Grow(v.Strings, n)
		for len(v.Strings) < n {
			v.Strings = append(v.Strings, texts[k.IntN(len(texts))])
		}
		v.Strings = v.Strings[:n]
		what = fmt.Sprintf("shape %v", v.Shape)
		if k.IntN(2) == 0 { // the model agrees
			typ := graph.Type{Kind: graph.KindTensor, Elem: graph.String}
			t.Declared = &graph.Declared{Type: typ}
		}
	}
	for range 1 + k.IntN(3) {
		if len(v.Strings) > 0 {
			v.Strings[k.IntN(len(v.Strings))] = texts[k.IntN(len(texts))]
		}
	}
	k.inputs[t.Name] = v
	return t.Name + " strings " + what
}

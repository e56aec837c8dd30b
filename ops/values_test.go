package ops_test

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
)

// TestNodeTestValues folds every operator test of ONNX with small inputs and compares
// the elements with the expected ones. A known element is equal (a floating-point one up
// to the last bits of its type), a bounded one is not smaller.
func TestNodeTestValues(t *testing.T) {
	folded := map[string]bool{}
	for _, k := range readNodeTests(t) {
		m, err := onnx.Parse(k.name+".onnx", k.model)
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		var open []graph.TensorID
		for i, id := range m.Graph.Inputs {
			x := m.Graph.Tensors[id]
			if i < len(k.inputs) && k.inputs[i] != nil && x.Declared != nil && x.Declared.Type.Kind == graph.KindTensor {
				if d, err := onnx.ParseTensor(k.name, k.inputs[i]); err == nil && d.Type != graph.String {
					x.Data, x.Input = d, false
					continue
				}
			}
			open = append(open, id)
		}
		m.Graph.Inputs = open
		values, err := ops.InferValues(m, ops.Options{IgnoreDeclared: true})
		if err != nil {
			continue // TestNodeTests reports it
		}
		for i, id := range m.Graph.Outputs {
			v := values[id]
			if v == nil || v.Items != nil || i >= len(k.outputs) || k.outputs[i] == nil || m.Graph.Tensors[id].Type.Kind != graph.KindTensor {
				continue
			}
			want, err := onnx.ParseTensor(k.name, k.outputs[i])
			if err != nil {
				t.Errorf("%s: %v", k.name, err)
				continue
			}
			if compareValue(t, k.name, v, want) {
				for _, op := range k.operators {
					folded[op] = true
				}
			}
		}
	}
	t.Logf("%d operators are part of a test that folds", len(folded))
	for _, op := range []string{
		"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Cast", "Equal", "Less", "Where", "And", "Not", "Shape",
		"Size", "Range", "ConstantOfShape", "Floor", "Ceil", "Round", "Pow", "BitShift", "Clip", "Neg", "Abs",
	} {
		if !folded[op] {
			t.Errorf("%s: no test folds it", op)
		}
	}
}

// compareValue reports whether some element is known, and reports wrong elements as
// errors.
func compareValue(t *testing.T, name string, v *ops.Value, want *graph.Data) bool {
	t.Helper()
	const most = ops.FoldLimit
	ints, isInt := want.Integers(most)
	reals, isReal := want.Reals(most)
	n := len(ints) + len(reals)
	if !isInt && !isReal {
		return false // a type of 16 bits or less
	}
	if n != len(v.Elems) {
		t.Errorf("%s: %d elements, want %d", name, len(v.Elems), n)
		return false
	}
	known := false
	for i, e := range v.Elems {
		known = known || e.State == ops.Known
		switch {
		case e.State == ops.Hidden:
		case isReal:
			x := reals[i]
			tolerance := 4e-7 * math.Abs(x)
			if e.State == ops.Bounded && (x < 0 || x > e.F) || e.State == ops.Known && !near(e.F, x, tolerance) {
				t.Errorf("%s: element %d is folded to %+v, want %v", name, i, e, x)
				return known
			}
		case e.State == ops.Bounded && (ints[i] < 0 || ints[i] > e.I) || e.State == ops.Known && e.I != ints[i]:
			t.Errorf("%s: element %d is folded to %+v, want %d", name, i, e, ints[i])
			return known
		}
	}
	return known
}

func near(got, want, tolerance float64) bool {
	return got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= tolerance
}

package ops

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestUnpermittedInputs: types that an operator takes only in other versions are listed,
// also in bodies and in local functions, and each node once.
func TestUnpermittedInputs(t *testing.T) {
	f32, i8, i64, flag := floats(2, 2), graph.TensorOf(graph.Int8, 2, 2), graph.TensorOf(graph.Int64, 2, 2), graph.TensorOf(graph.Bool)
	one := func(nodes string, x graph.Type) graphSpec {
		return graphSpec{in: "x", out: "y", nodes: nodes, types: map[string]graph.Type{"x": x}}
	}
	same := graphSpec{in: "a", out: "b", nodes: "b=Equal(a,a)"}
	old := function("Same", same)
	old.Opsets[0].Version = 10
	for _, k := range []struct {
		doc       string
		spec      graphSpec
		version   int64
		functions []*graph.Function
		want      []string
	}{
		{"since opset 11", one("y=Equal(x,x)", f32), 11, nil, nil},
		{"before it", one("y=Equal(x,x)", f32), 10, nil, []string{
			`node "y" (Equal): input 0 "x" has elements of type float32, which opset 10 does not permit: expected bool, int32, int64`,
			`node "y" (Equal): input 1 "x" has elements of type float32, which opset 10 does not permit: expected bool, int32, int64`,
		}},
		{"always", one("y=Equal(x,x)", i64), 7, nil, nil},
		{"never", one("y=MatMul(x,x)", i8), 21, nil, []string{
			`node "y" (MatMul): input 0 "x" has elements of type int8, which opset 21 does not permit: expected bfloat16, float16, float32, float64, int32, int64, uint32, uint64`,
			`node "y" (MatMul): input 1 "x" has elements of type int8, which opset 21 does not permit: expected bfloat16, float16, float32, float64, int32, int64, uint32, uint64`,
		}},
		{"for some versions", one("y=Erf(x)", i64), 12, nil, nil},
		{"no longer", one("y=Erf(x)", i64), 13, nil, []string{
			`node "y" (Erf): input 0 "x" has elements of type int64, which opset 13 does not permit: expected bfloat16, float16, float32, float64`,
		}},
		{"a version without this operator", one("y=Erf(x)", i64), 8, nil, nil},
		{"any value", one("y=Identity(x)", i8), 14, nil, nil},
		{"an unknown operator", graphSpec{in: "x", out: "x", types: map[string]graph.Type{"x": f32}}, 10, nil, nil},
		{"in a branch", graphSpec{
			in: "c x", out: "y", types: map[string]graph.Type{"c": flag, "x": f32}, nodes: "y=If(c)",
			bodies: nodeBodies{"y": {"then_branch": {out: "t", nodes: "t=Equal(x,x)"}, "else_branch": {out: "e", nodes: "e=Not(c)"}}},
		}, 10, nil, []string{
			`node "t" (Equal): input 0 "x" has elements of type float32, which opset 10 does not permit: expected bool, int32, int64`,
			`node "t" (Equal): input 1 "x" has elements of type float32, which opset 10 does not permit: expected bool, int32, int64`,
		}},
		{"the opset of a function", one("y=f::Same(x); z=f::Same(x)", f32), 21, []*graph.Function{old}, []string{
			`node "b" (Equal): input 0 "a" has elements of type float32, which opset 10 does not permit: expected bool, int32, int64`,
			`node "b" (Equal): input 1 "a" has elements of type float32, which opset 10 does not permit: expected bool, int32, int64`,
		}},
	} {
		m := &graph.Model{Opsets: []graph.Opset{{Version: k.version}, {Domain: "f", Version: 1}}, Graph: k.spec.build(), Functions: k.functions}
		if _, err := Infer(m, Options{}); err != nil {
			t.Errorf("%s: %v", k.doc, err)
			continue
		}
		list, all := UnpermittedInputs(m, 10)
		var got []string
		for _, u := range list {
			got = append(got, u.Node+": "+u.Text())
		}
		if !slices.Equal(got, k.want) || all != len(k.want) {
			t.Errorf("%s:\n got %d %q\nwant %q", k.doc, all, got, k.want)
		}
		if list, again := UnpermittedInputs(m, 1); len(list) > 1 || again != all {
			t.Errorf("%s: %d of %d are listed, expected at most 1 of %d", k.doc, len(list), again, all)
		}
	}
}

// TestSignatureVersions: the types of a symbol by version.
func TestSignatureVersions(t *testing.T) {
	list := lookUpSignature(key{"", "Erf"}).symbols["T"]
	for _, k := range []struct {
		elem    graph.DType
		version int64
		want    bool
	}{
		{graph.Float32, 9, true},
		{graph.Float32, 13, true},
		{graph.Int8, 9, true},
		{graph.Int8, 12, true},
		{graph.Int8, 13, false},
		{graph.BFloat16, 12, false},
		{graph.BFloat16, 13, true},
		{graph.Int8, 0, true},
		{graph.Bool, 0, false},
	} {
		if got := holds(list, k.elem, k.version); got != k.want {
			t.Errorf("Erf of %v in opset %d: got %v, expected %v", k.elem, k.version, got, k.want)
		}
	}
}

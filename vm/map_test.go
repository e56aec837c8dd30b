package vm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// mapOf is a map of the caller.
func mapOf(keys, values vm.Value) vm.Value {
	return vm.Value{Kind: graph.KindMap, Items: []vm.Value{keys, values}}
}

// Maps become rows. The expected rows are those of ONNX Runtime 1.31.
func TestMapsToRows(t *testing.T) {
	ints := func(name string, v ...int64) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	}
	say := func(name, v string) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrString, String: v}
	}
	words := &graph.Attr{Name: "string_vocabulary", Type: graph.AttrStrings, Strings: []string{"a", "b", "c"}}
	five := &graph.Attr{Name: "max_map", Type: graph.AttrInt, Int: 5}
	ab := mapOf(vm.Texts([]string{"b", "z"}, 2), vm.Float32s([]float32{2, 4}, 2))
	numbers := mapOf(vm.Int64s([]int64{3, 1}, 2), vm.Float32s([]float32{1.5, -2.25}, 2))
	texts := mapOf(vm.Int64s([]int64{3, 1}, 2), vm.Texts([]string{"15", "-7"}, 2))
	for _, k := range []struct {
		op    string
		attrs []*graph.Attr
		in    vm.Value
		want  vm.Value
		err   string
	}{
		{op: "DictVectorizer", attrs: []*graph.Attr{words}, in: ab, want: vm.Float32s([]float32{0, 2, 0}, 1, 3)},
		{op: "DictVectorizer", attrs: []*graph.Attr{ints("int64_vocabulary", 4, 3)}, in: numbers, want: vm.Float32s([]float32{0, 1.5}, 1, 2)},
		{op: "DictVectorizer", attrs: []*graph.Attr{ints("int64_vocabulary", 4, 3)}, in: texts, want: vm.Texts([]string{"", "15"}, 1, 2)},
		{op: "DictVectorizer", attrs: []*graph.Attr{words}, in: numbers, err: "expected those of keys of int64 alone"},
		{op: "CastMap", in: numbers, want: vm.Float32s([]float32{-2.25, 1.5}, 1, 2)},
		{op: "CastMap", attrs: []*graph.Attr{say("cast_to", "TO_STRING")}, in: numbers, want: vm.Texts([]string{"-2.250000", "1.500000"}, 1, 2)},
		{op: "CastMap", attrs: []*graph.Attr{say("cast_to", "TO_INT64")}, in: numbers, want: vm.Int64s([]int64{-2, 1}, 1, 2)},
		{op: "CastMap", attrs: []*graph.Attr{say("cast_to", "TO_INT64")}, in: texts, want: vm.Int64s([]int64{-7, 15}, 1, 2)},
		{op: "CastMap", attrs: []*graph.Attr{say("map_form", "SPARSE"), five}, in: numbers, want: vm.Float32s([]float32{0, -2.25, 0, 1.5, 0}, 1, 5)},
		{op: "CastMap", attrs: []*graph.Attr{say("map_form", "SPARSE"), five, say("cast_to", "TO_STRING")}, in: numbers, want: vm.Texts([]string{"0.f", "-2.250000", "0.f", "1.500000", "0.f"}, 1, 5)},
		{op: "CastMap", attrs: []*graph.Attr{say("map_form", "SPARSE")}, in: numbers, want: vm.Float32s([]float32{0}, 1, 1)},
		{op: "CastMap", attrs: []*graph.Attr{say("map_form", "SPARSE"), five}, in: mapOf(vm.Int64s([]int64{-3}, 1), vm.Float32s([]float32{1}, 1)), err: "key -3, expected none below 0"},
		{op: "CastMap", in: ab, err: "is a map of string to float32, expected int64"},
		{op: "CastMap", in: mapOf(vm.Int64s([]int64{3, 3}, 2), vm.Float32s([]float32{1, 2}, 2)), err: "has a key twice, at 1"},
	} {
		got, err := runMap(t, k.op, k.attrs, k.in)
		switch {
		case k.err != "":
			if err == nil || !strings.Contains(err.Error(), k.err) {
				t.Errorf("%s of %v: got error %v, want %q", k.op, k.in, err, k.err)
			}
		case err != nil:
			t.Errorf("%s of %v: %v", k.op, k.in, err)
		case got.String() != k.want.String() || !slices.Equal(got.Data, k.want.Data) || !slices.Equal(got.Strings, k.want.Strings):
			t.Errorf("%s of %v: got %v %q %v, want %v %q %v", k.op, k.in, got, got.Strings, got.Data, k.want, k.want.Strings, k.want.Data)
		}
	}
}

// TestVectorBeforeTrees: a model of trees that reads what DictVectorizer makes of a map runs. The
// elements are those of the map's values, which the model's input declares, or which the map has.
func TestVectorBeforeTrees(t *testing.T) {
	list := func(name string, v ...int64) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	}
	reals := func(name string, v ...float32) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrFloats, Floats: v}
	}
	for _, elem := range []graph.DType{graph.Float32, graph.Int64, graph.Undefined} {
		b := graph.NewBuilder("trees", 17)
		b.Import("ai.onnx.ml", 3)
		value := graph.Type{Kind: graph.KindTensor, Elem: elem}
		x := b.Input("x", graph.Type{Kind: graph.KindMap, Key: graph.String, Of: &value})
		row := b.Add(&graph.Node{Op: "DictVectorizer", Domain: "ai.onnx.ml", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{
			{Name: "string_vocabulary", Type: graph.AttrStrings, Strings: []string{"a", "b"}},
		}}, "row")
		b.Output(b.Add(&graph.Node{Op: "TreeEnsembleRegressor", Domain: "ai.onnx.ml", Inputs: row, Attrs: []*graph.Attr{
			list("nodes_treeids", 0, 0, 0), list("nodes_nodeids", 0, 1, 2), list("nodes_featureids", 1, 0, 0), reals("nodes_values", 1.5, 0, 0),
			{Name: "nodes_modes", Type: graph.AttrStrings, Strings: []string{"BRANCH_LEQ", "LEAF", "LEAF"}},
			list("nodes_truenodeids", 1, 0, 0), list("nodes_falsenodeids", 2, 0, 0),
			{Name: "n_targets", Type: graph.AttrInt, Int: 1},
			list("target_treeids", 0, 0), list("target_nodeids", 1, 2), list("target_ids", 0, 0), reals("target_weights", 0.25, 4),
		}}, "y")...)
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		r, err := passes.Optimize(t.Context(), m, passes.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := vm.New(r.Model, r.Plan)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		s, err := p.NewSession(vm.Options{})
		if err != nil {
			t.Fatalf("%v: %v", elem, err)
		}
		defer s.Close()
		for _, k := range []struct {
			b    int64
			want float64
		}{{1, 0.25}, {2, 4}} {
			values := vm.Float32s([]float32{float32(k.b)}, 1)
			if elem == graph.Int64 {
				values = vm.Int64s([]int64{k.b}, 1)
			}
			out, err := s.Run(t.Context(), map[string]vm.Value{"x": mapOf(vm.Texts([]string{"b"}, 1), values)})
			if err != nil {
				t.Fatalf("%v: %v", elem, err)
			}
			if got, _ := out["y"].Reals(); !slices.Equal(got, []float64{k.want}) {
				t.Errorf("%v: of b = %d: got %v, want %v", elem, k.b, got, k.want)
			}
		}
	}
}

// runMap runs a node that reads a map, twice in one session.
func runMap(t *testing.T, op string, attrs []*graph.Attr, in vm.Value) (vm.Value, error) {
	t.Helper()
	b := graph.NewBuilder("maps", 17)
	b.Import("ai.onnx.ml", 3)
	x := b.Input("x", graph.Type{Kind: graph.KindMap})
	ids := b.Add(&graph.Node{Op: op, Domain: "ai.onnx.ml", Inputs: []graph.TensorID{x}, Attrs: attrs}, "y")
	b.Output(ids...)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := vm.New(r.Model, r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.NewSession(vm.Options{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out map[string]vm.Value
	for range 2 {
		if out, err = s.Run(t.Context(), map[string]vm.Value{"x": in}); err != nil {
			return vm.Value{}, err
		}
	}
	return out["y"].Clone(), nil
}

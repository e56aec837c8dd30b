package vm_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

func TestSequences(t *testing.T) {
	x := vm.Float32s([]float32{1, 2, 3, 4, 5, 6}, 3, 2)
	at := func(n int64) map[string]vm.Value { return map[string]vm.Value{"x": x, "i": vm.Int64s([]int64{n})} }
	const parts = `
		in x float32[3,2]
		in i int64[]
	`
	runBodies(t, []bodyCase{
		{doc: "an item that the input selects", main: parts + `
			s = SplitToSequence(x)
			y = SequenceAt(s, i)
			out y
		`, values: at(-1), gives: []float64{5, 6}},
		{doc: "a position behind the end", want: "position is 3, expected one of [-3, 2] in a sequence of 3 items", main: parts + `
			s = SplitToSequence(x)
			y = SequenceAt(s, i)
			out y
		`, values: at(3)},
		{doc: "a position before the start", want: "position is -4, expected one of [-3, 3] in a sequence of 3 items", main: parts + `
			s = SplitToSequence(x)
			r = SequenceInsert(s, x, i)
			y = SequenceLength(r)
			out y
		`, values: at(-4)},
		{doc: "items that are erased and inserted", main: parts + `
			s = SplitToSequence(x)
			first = SequenceAt(s, i)
			rest = SequenceErase(s, i)
			all = SequenceInsert(rest, first)
			y = ConcatFromSequence(all) axis=0
			out y
		`, values: at(0), gives: []float64{3, 4, 5, 6, 1, 2}},
		{doc: "a new axis", main: parts + `
			s = SplitToSequence(x) axis=1 keepdims=0
			y = ConcatFromSequence(s) axis=0 new_axis=1
			out y
		`, values: at(0), gives: []float64{1, 3, 5, 2, 4, 6}},
		{doc: "two sequences that a loop exchanges", main: parts + `
			a = SequenceConstruct(x, x)
			b = SequenceConstruct(x)
			c, d = Loop(i, _, a, b)
			y = SequenceLength(c)
			out y
		`, bodies: map[string]string{"c.body": `
			in n int64[]
			in go bool[]
			in p
			in q
			more = Identity(go)
			out more
			out q
			out p
		`}, values: at(3), gives: []float64{1}},
		{doc: "nothing to join", want: "is an empty sequence", main: parts + `
			s = SplitToSequence(x)
			r = SequenceErase(s, i)
			q = SequenceErase(r, i)
			p = SequenceErase(q, i)
			y = ConcatFromSequence(p) axis=0
			out y
		`, values: at(0)},
	})
}

// The maps of a classifier keep their keys and their scores, in every run, poisoned and
// between guard pages.
func TestZipMap(t *testing.T) {
	b := graph.NewBuilder("classifier", 17)
	b.Import("ai.onnx.ml", 3)
	x := b.Input("x", graph.TensorOf(graph.Float32, 2, 3))
	ids := b.Add(&graph.Node{Op: "ZipMap", Domain: "ai.onnx.ml", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{
		{Name: "classlabels_strings", Type: graph.AttrStrings, Strings: []string{"no", "perhaps", "yes"}},
	}}, "z")
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
	for _, opt := range []vm.Options{{}, {Poison: true}, {Guard: vm.GuardEnd}, {Separate: true}} {
		s, err := p.NewSession(opt)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			in := vm.Float32s([]float32{float32(k), 1, 2, 3, 4, 5}, 2, 3)
			out, err := s.Run(t.Context(), map[string]vm.Value{"x": in})
			if err != nil {
				t.Fatal(err)
			}
			z := out["z"]
			if got := z.String(); got != "map(string[3]: float32[2,3])" || !slices.Equal(z.Items[0].Strings, []string{"no", "perhaps", "yes"}) || !slices.Equal(z.Items[1].Data, in.Data) {
				t.Fatalf("%+v, run %d: got %v", opt, k, z)
			}
		}
		s.Close()
	}
	s, err := p.NewSession(vm.Options{MemoryLimit: 600})
	if err == nil {
		_, err = s.Run(t.Context(), map[string]vm.Value{"x": vm.Float32s(make([]float32, 6), 2, 3)})
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "expected at most 600 B") {
		t.Errorf("with 600 bytes: got error %v", err)
	}
}

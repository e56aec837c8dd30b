package verify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestRowsOfLists: regions may read in parts a tensor of integers that follow from the dims,
// such as positions: the parts are its rows, and the file lacks the whole. Parts of other
// rows, or with other elements, are found.
func TestRowsOfLists(t *testing.T) {
	x := text{main: `
		in ids int64[32,16]
		init words float32[50,64] = ...
		init places float32[512,64] = ...
		init w float32[64,64] = ...
		init v float32[64,2] = ...
		zero = Constant() value_int=0
		end = Constant() value_int=512
		one = Constant() value_int=1
		r = Range(zero, end, one)
		s = Shape(ids)
		p = Reshape(r, s)
		a = Gather(words, ids)
		b = Gather(places, p)
		c = Add(a, b)
		d = MatMul(c, w)
		e = Relu(d)
		y = MatMul(e, v)
		out y
	`}
	source, file, p := planReal(t, x, passes.Options{Fold: passes.FoldOff, Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 20}})
	if p.Slices == nil || len(p.Slices.Weights) < 2 || p.Slices.Weights[1].Of != "p" || slices.Contains(p.Slices.Constants, "p") {
		t.Fatalf("expected rows of p in the place of p, found %+v", p.Slices)
	}
	first := &p.Slices.Weights[1]
	check := func(m *graph.Model, want string) {
		t.Helper()
		r, err := verify.Plan(m, p, verify.Options{Source: parse(t, source)})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if !r.Valid || slices.Contains(r.Claimed, "slices") {
				t.Errorf("expected a valid plan, all of its slices compared, found\n%v", r)
			}
			return
		}
		if !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return strings.Contains(v.Message, want) }) {
			t.Errorf("expected %q, found\n%v", want, r)
		}
	}
	check(parse(t, file), "")
	first.From++
	check(parse(t, file), `expected rows of axis 0 of "p", from row`)
	first.From--
	first.Axis = 1
	check(parse(t, file), `expected rows of axis 1 of "p"`)
	first.Axis = 0
	first.Of = "ids"
	check(parse(t, file), `expected "ids" to be an initializer of the source, or integers that follow from the dims`)
	first.Of = "p"
	m := parse(t, file)
	for _, tensor := range m.Graph.Tensors {
		if tensor.Name == first.Tensor {
			tensor.Data.Raw = slices.Clone(tensor.Data.Raw)
			tensor.Data.Raw[len(tensor.Data.Raw)-8]++
		}
	}
	check(m, `of "p", from row`)
}

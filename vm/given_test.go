package vm_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestGivenValues: a session takes the value that a plan was made for, uses it where it
// is left out, and refuses any other. It also refuses to take a branch that the plan
// holds for impossible.
func TestGivenValues(t *testing.T) {
	for _, c := range []struct {
		doc    string
		values map[string]graph.Literal
		rate   []int64 // the input; nil: left out
		want   string  // part of the error; "" for none
	}{
		{"the planned value", map[string]graph.Literal{"rate": {Data: []json.Number{"16000"}}}, []int64{16000}, ""},
		{"left out", map[string]graph.Literal{"rate": {Data: []json.Number{"16000"}}}, nil, ""},
		{"another value", map[string]graph.Literal{"rate": {Data: []json.Number{"16000"}}}, []int64{8000}, `tensor "rate": is 8000, but the plan was made for 16000`},
		{"no value planned, none given", nil, nil, `tensor "rate": no value given`},
		{"no value planned, the possible branch", nil, []int64{16000}, ""},
		{"no value planned, the impossible branch", nil, []int64{8000}, `node "If_1" (If): takes else_branch, which is planned as never taken: node "rate8k/Reshape"`},
	} {
		f, err := onnx.Open(filepath.Join("..", "testdata", "wild", "rates.onnx"), onnx.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := passes.Optimize(t.Context(), f.Model, passes.Options{Dims: map[string]int64{"length": 512}, Values: c.values})
		if err != nil {
			t.Fatal(err)
		}
		p, err := vm.New(r.Model, r.Plan)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if v, ok := p.Given("rate"); ok != (c.values != nil) || ok && v.Literal().String() != "16000" {
			t.Errorf("%s: given %v, %v", c.doc, v, ok)
		}
		s := newSession(t, p, vm.Options{Workers: 1})
		inputs := map[string]vm.Value{"samples": vm.Float32s(make([]float32, 512), 1, 512), "state": vm.Float32s(make([]float32, 8), 1, 8)}
		if c.rate != nil {
			inputs["rate"] = vm.Int64s(c.rate)
		}
		_, err = s.Run(t.Context(), inputs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.doc, err, c.want)
		}
	}
}

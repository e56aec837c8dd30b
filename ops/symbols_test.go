package ops

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestDimsThatAreRefused: a negative length is refused, because it would be read as a
// bound. StrictDims also applies to dimensions that are declared only for the output of
// an unknown operator.
func TestDimsThatAreRefused(t *testing.T) {
	declared := &graph.Declared{Type: graph.TensorOf(graph.Float32, graph.Unknown), Symbols: []string{"n"}}
	for _, c := range []struct {
		doc  string
		opt  Options
		want string // part of the error; "" for none
	}{
		{"below 0", Options{Dims: map[string]int64{"n": -5}}, `dimension "n" is -5: expected a length >= 0`},
		{"of an unknown operator, open", Options{StrictDims: true}, `dimension "n" is unbound: say --dim n=N`},
		{"of an unknown operator, bound", Options{StrictDims: true, Dims: map[string]int64{"n": 3}}, ""},
		{"of an unknown operator, taken as 1", Options{}, ""},
	} {
		g := graphSpec{in: "x", out: "y", nodes: "y=com.acme::Fuse(x)", types: tensors{"x": floats(2)}}.build()
		g.Tensors[g.Outputs[0]].Declared = declared
		_, err := Infer(&graph.Model{Graph: g, Opsets: []graph.Opset{{Domain: "com.acme", Version: 1}}}, c.opt)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.doc, err, c.want)
		}
	}
}

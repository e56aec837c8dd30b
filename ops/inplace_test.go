package ops

import (
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestInplaceSparesOtherInputs: a result does not overwrite an input that shares its
// storage with another input, unless the node reads both element by element.
func TestInplaceSparesOtherInputs(t *testing.T) {
	types := tensors{"x": floats(4, 4), "y": floats(4, 4), "i": graph.TensorOf(graph.Int64, 4, 4), "k": graph.TensorOf(graph.Int64, 4, 1)}
	shape := constants{"s": ints([]int64{2}, 4, 4)}
	for _, c := range []struct{ doc, nodes, want string }{
		{"updates of their own", "z=ScatterElements(x,i,y)", "[{0 0}]"},
		{"the data are the updates", "z=ScatterElements(x,i,x)", "[]"},
		{"the updates view the data", "v=Reshape(x,s); z=ScatterND(x,k,v)", "[]"},
		{"the data view the updates", "v=Identity(x); w=Identity(v); z=ScatterND(w,k,x)", "[]"},
		{"element by element", "z=Mul(x,x)", "[{0 0} {0 1}]"},
		{"element by element, through a view", "v=Identity(x); z=Mul(v,x)", "[{0 0} {0 1}]"},
	} {
		g := graphSpec{in: "x y i k", out: "z", nodes: c.nodes, types: types, data: shape}.build()
		m := &graph.Model{Graph: g, Opsets: []graph.Opset{{Version: 18}}}
		if _, err := Infer(m, Options{}); err != nil {
			t.Errorf("%s: %v", c.doc, err)
			continue
		}
		if got := fmt.Sprint(g.Nodes[len(g.Nodes)-1].Semantics.Inplace); got != c.want {
			t.Errorf("%s: %s: in place %s, want %s", c.doc, c.nodes, got, c.want)
		}
	}
}

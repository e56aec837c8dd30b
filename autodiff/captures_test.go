package autodiff

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestUnreadCaptures: a Loop with a known trip count becomes a Scan, and no body captures the count
// any longer.
func TestUnreadCaptures(t *testing.T) {
	m, err := graph.Parse("test", `
		opset 17
		in x float32[4,3]
		init w float32[3,3] = [1, 2, 3, 4, 5, 6, 7, 8, 9]
		init count int64[] = 2
		p = MatMul(x, w)
		y, z = Scan(x, p) num_scan_inputs=1 scan_output_axes=[1] body=graph {
			in state float32[4,3]
			in row float32[3]
			r = Loop(count, _, row) body=graph {
				in i int64[]
				in go bool[]
				in s float32[3]
				on = Identity(go)
				next = Tanh(s)
				out on
				out next
			}
			out state
			out r
		}
		out y

	`)
	if err != nil {
		t.Fatal(err)
	}
	step := train(t, m, Options{Loss: "mse", LossOutput: "y"})
	scans := 0
	var check func(g *graph.Graph)
	check = func(g *graph.Graph) {
		for _, n := range g.Nodes {
			if n.Op == "Scan" {
				scans++
			}
			for _, a := range n.Bodies() {
				for _, b := range a.All() {
					check(b)
				}
			}
		}
		for _, c := range g.Captures {
			read := slices.Contains(g.Outputs, c.Inner)
			for _, n := range g.Nodes {
				n.Reads(func(t graph.TensorID) { read = read || t == c.Inner })
			}
			if !read {
				t.Errorf("%s: captures %q and does not read it", g.Name, g.Tensors[c.Inner].Name)
			}
		}
	}
	check(step.Model.Graph)
	if scans == 0 {
		t.Error("no Scan")
	}
}

package vm_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// grower is a loop that appends a row to a tensor as often as an input says, and looks at
// all rows each time: a decoder whose cache grows by concatenation. No length is known.
func grower(t *testing.T) *vm.Program {
	t.Helper()
	body := newNet()
	typed := func(n *net, name string, d graph.DType, dims ...graph.Dim) graph.TensorID {
		id := n.tensor(name)
		n.g.Tensors[id].Declared = &graph.Declared{Type: graph.TensorOf(d, dims...), Symbols: make([]string, len(dims))}
		return id
	}
	unknown := func(n *net, name string) graph.TensorID {
		id := typed(n, name, graph.Float32, 0, 64)
		n.g.Tensors[id].Declared = &graph.Declared{Type: graph.Type{Kind: graph.KindTensor, Elem: graph.Float32}}
		return id
	}
	body.g.Inputs = []graph.TensorID{typed(body, "i", graph.Int64), typed(body, "on", graph.Bool), unknown(body, "past")}
	body.weight("row", 1, 64)
	body.weight("w", 64, 64)
	body.node("Concat", "present", "past", "row")
	body.g.Nodes[0].Attrs = []*graph.Attr{{Name: "axis", Type: graph.AttrInt}}
	body.node("MatMul", "mixed", "present", "w")
	body.node("Tanh", "next", "mixed")
	body.node("Identity", "again", "on")
	typed(body, "again", graph.Bool)
	unknown(body, "next")
	body.g.Outputs = []graph.TensorID{body.tensor("again"), body.tensor("next")}

	n := newNet()
	n.opset = 21
	n.g.Inputs = []graph.TensorID{typed(n, "count", graph.Int64), typed(n, "cond", graph.Bool), typed(n, "first", graph.Float32, 1, 64)}
	n.node("Loop", "all", "count", "cond", "first")
	n.g.Nodes[0].Attrs = []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: body.g}}
	n.node("Exp", "y", "all")
	unknown(n, "y")
	n.g.Outputs = []graph.TensorID{n.tensor("y")}
	p, err := planGraph(n.g, []graph.Opset{{Version: 21}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func grow(count int64) map[string]vm.Value {
	return map[string]vm.Value{"count": vm.Int64s([]int64{count}), "cond": octets(graph.Bool, []int{}, 1), "first": ramp([]graph.Dim{1, 64})}
}

// From the second run on, dynamic tensors lie in one arena as large as their load, which
// is less than the first run took. Outputs have the bits that a new session gives them,
// also if later runs are shorter or longer.
func TestDynamicTensorsArePacked(t *testing.T) {
	p := grower(t)
	s := newSession(t, p, vm.Options{Workers: 1})
	if _, err := s.Run(t.Context(), grow(100)); err != nil {
		t.Fatal(err)
	}
	first := s.Memory().DynamicBytes
	for range 2 {
		if _, err := s.Run(t.Context(), grow(100)); err != nil {
			t.Fatal(err)
		}
	}
	use, bytesNow := s.Dynamic(), s.Memory().DynamicBytes
	t.Logf("%d bytes in the first run, then %d: %+v", first, bytesNow, use)
	if use.Plans != 1 || use.Misses > 0 || use.Hits < 200 || use.ArenaBytes != use.LowerBound || use.ArenaBytes != bytesNow || bytesNow >= first {
		t.Errorf("%d bytes after %d: %+v", bytesNow, first, use)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		count := draw.Int64N(160)
		out, err := s.Run(t.Context(), grow(count))
		if err != nil {
			t.Fatal(err)
		}
		alone := newSession(t, p, vm.Options{Workers: 1})
		want, err := alone.Run(t.Context(), grow(count))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out["y"].Data, want["y"].Data) {
			t.Errorf("%d rows: other bits than in a new session", count)
		}
		alone.Close()
	}
	t.Logf("after runs of other lengths: %+v", s.Dynamic())
}

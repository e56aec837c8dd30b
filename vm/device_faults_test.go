package vm_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// TestDeviceWrongIndex: a step with an index outside of its axis fails on a device as on
// the host, with the node's name; the next step is not affected.
func TestDeviceWrongIndex(t *testing.T) {
	d, _ := onDevice(t)
	n := newNet()
	n.input("x", 4, 3)
	n.input("at", 2)
	n.g.Tensors[n.tensor("at")].Declared.Type = graph.TensorOf(graph.Int64, 2)
	n.output("y", 2, 3)
	n.node("Gather", "y", "x", "at")
	p, err := planGraph(n.g, []graph.Opset{{Version: 17}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s := newSession(t, p, vm.Options{Device: d})
	if use := s.DeviceUse(); use.FallbackNodes != 0 {
		t.Fatalf("%d nodes run on the host: %v", use.FallbackNodes, use.FallbackOps)
	}
	x := vm.Float32s([]float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 4, 3)
	for _, c := range []struct {
		at   []int64
		want []float64
		err  string
	}{
		{[]int64{3, -4}, []float64{10, 11, 12, 1, 2, 3}, ""},
		{[]int64{1, 4}, nil, `node "y" (Gather): element 1 of the indices, of shape [2]: expected one in [-4, 4)`},
		{[]int64{1 << 40, -5}, nil, `element 0 of the indices`},
		{[]int64{0, 1}, []float64{1, 2, 3, 4, 5, 6}, ""}, // the third good step would be replayed
		{[]int64{1, 1}, []float64{4, 5, 6, 4, 5, 6}, ""},
		{[]int64{0, 7}, nil, `element 1 of the indices`},
	} {
		out, err := s.Run(context.Background(), map[string]vm.Value{"x": x, "at": vm.Int64s(c.at, 2)})
		got, _ := out["y"].Reals()
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("indices %v: got error %v, want %s", c.at, err, c.err)
			}
		case err != nil:
			t.Errorf("indices %v: %v", c.at, err)
		case !slices.Equal(got, c.want):
			t.Errorf("indices %v: got %v, want %v", c.at, got, c.want)
		}
	}
}

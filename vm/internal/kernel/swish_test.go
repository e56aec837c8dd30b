package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// TestSwishOfNaN: a chain of a Sigmoid and the Mul that reads it has the bits of the two nodes, in both
// orders of the Mul's inputs, also where x is NaN of either sign, infinite or 0.
func TestSwishOfNaN(t *testing.T) {
	x := blank(graph.Float32, []int{40})
	for i := range data[float32](x) {
		data[float32](x)[i] = [8]float32{
			1.5, -2, math.Float32frombits(0x7fc00001), math.Float32frombits(0xffc00002), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)),
		}[i*5%8]
	}
	for _, first := range []bool{false, true} {
		gate, want := blank(graph.Float32, x.Shape), blank(graph.Float32, x.Shape)
		factors := []*Tensor{x, gate}
		if first {
			factors = []*Tensor{gate, x}
		}
		call := func(op string, out *Tensor, in ...*Tensor) *Invocation {
			return &Invocation{Call: form.Call{Node: &graph.Node{Op: op}, Version: 13, In: in, Out: []*Tensor{out}, Runtime: alone{}}}
		}
		for _, c := range []*Invocation{call("Sigmoid", gate, x), call("Mul", want, factors...)} {
			if err := prepareAndRun(c, Lookup("", c.Node.Op), 1); err != nil {
				t.Fatal(err)
			}
		}
		got := blank(graph.Float32, x.Shape)
		nodes := []*Invocation{call("Sigmoid", gate, x), call("Mul", got, factors...)}
		last := nodes[1]
		whole := &Kernel{Make: func(c *Invocation) (Run, error) { return NewChain(nodes).Make(c), nil }}
		if err := prepareAndRun(last, whole, 1); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(data[uint32](got), data[uint32](want)) {
			t.Errorf("the Sigmoid is the first factor: %v: %x, expected %x", first, data[uint32](got), data[uint32](want))
		}
	}
}

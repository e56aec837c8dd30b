package kernel

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// Scratch follows from the tensors, whatever the attributes say.
func TestScratchOfWindows(t *testing.T) {
	const huge = 1<<31 - 1
	for _, c := range []struct {
		op    string
		attrs []*graph.Attr
		in    []*reference.Tensor
		out   []int
	}{
		{"MaxPool", attrs(ints("kernel_shape", 2, 2), ints("strides", 1, huge)), args(noise(1, 1, 4, 4)), []int{1, 1, 3, 1}},
		{"MaxPool", attrs(ints("kernel_shape", huge), ints("pads", 1<<30, 1<<30)), args(noise(1, 1, 4)), []int{1, 1, 6}},
		{"AveragePool", attrs(ints("kernel_shape", 2, 2), ints("strides", 1, huge)), args(noise(1, 1, 4, 4)), []int{1, 1, 3, 1}},
		{"ConvTranspose", attrs(ints("pads", 50000, 49999)), args(noise(1, 1, 1000), noise(1, 1, 100000)), []int{1, 1, 1000}},
	} {
		k := nodeCase{op: c.op, attrs: c.attrs}
		n := &graph.Node{Op: c.op, Attrs: c.attrs}
		call := &Invocation{Call: form.Call{Node: n, Version: k.opset(), Runtime: alone{}, Out: []*Tensor{blank(graph.Float32, c.out)}}}
		most := call.Out[0].Bytes()
		for _, x := range c.in {
			call.In = append(call.In, store(x, graph.Float32))
			most += call.In[len(call.In)-1].Bytes()
		}
		if _, err := Lookup("", c.op).Prepare(call); err != nil {
			t.Errorf("%s: %v", c.op, err)
		}
		if call.EachBytes+call.SharedBytes > 16*most+1<<17 {
			t.Errorf("%s: %d bytes of scratch for %d of tensors", c.op, call.EachBytes+call.SharedBytes, most)
		}
	}
}

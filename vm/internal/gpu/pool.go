package gpu

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// pooling lists the operators that reduce windows of an image.
var pooling = []Row{
	{Name: "MaxPool", Make: makeMaxPool},
	{Name: "AveragePool", Make: func(n *Node) error {
		return makePool(n, "average_pool", int32(n.Int("count_include_pad", 0)))
	}},
	{Name: "LpPool", Make: func(n *Node) error { return makePool(n, "lp_pool", power(n)) }},
	{Name: "GlobalAveragePool", Make: func(n *Node) error { return makeGlobalPool(n, "sum", how{finish: finishMean}) }},
	{Name: "GlobalMaxPool", Make: func(n *Node) error { return makeGlobalPool(n, "extreme", how{}) }},
	{Name: "GlobalLpPool", Make: makeGlobalLpPool},
	{Name: "MaxUnpool", Make: makeMaxUnpool},
}

// power is the attribute p of a norm, which is a float in opset 1.
func power(n *Node) float64 {
	if a := n.Node.Attr("p"); a != nil && a.Type == graph.AttrFloat {
		return float64(a.Float)
	}
	return float64(n.Int("p", 2))
}

// window is Window of pool.cu. There are three spatial axes: those that an image does not
// have have length 1 and come first.
type window struct {
	in, out, kernel, stride, dilation, before, after [3]int32
}

// poolWindow reads the window of a pool from input 0 to output 0.
func poolWindow(n *Node) (s window, err error) {
	w, err := attr.ReadPool(n.Node)
	if err != nil {
		return s, err
	}
	if err := tooLarge(n.In[0], n.Out[0]); err != nil {
		return s, err
	}
	in, out := make([]int64, len(w.Kernel)), make([]int64, len(w.Kernel))
	for i := range in {
		in[i], out[i] = int64(n.In[0].Shape[2+i]), int64(n.Out[0].Shape[2+i])
	}
	w.Pad(in, out)
	return windowOf(w, in, out)
}

// windowOf is a window that moves over an image of lengths in to places of lengths out.
func windowOf(w *attr.Window, in, out []int64) (s window, err error) {
	spatial := len(w.Kernel)
	if spatial > 3 {
		return s, unsupportedf("%d spatial axes, more than 3", spatial)
	}
	s = window{in: ones, out: ones, kernel: ones, stride: ones, dilation: ones}
	for i := range spatial {
		for _, v := range []struct {
			to   *[3]int32
			from int64
		}{{&s.in, in[i]}, {&s.out, out[i]}, {&s.kernel, int64(w.Kernel[i])}, {&s.stride, w.Stride[i]}, {&s.dilation, w.Dilation[i]}, {&s.before, w.Before[i]}, {&s.after, w.After[i]}} {
			if v.from > 1<<29 { // their sums fit 32 bits
				return s, unsupportedf("a window with a length of %d", v.from)
			}
			v.to[3-spatial+i] = int32(v.from)
		}
	}
	return s, nil
}

var ones = [3]int32{1, 1, 1}

func makeMaxPool(n *Node) error {
	x := n.In[0]
	definitions := []string{"ELEMENT=" + cType[x.Type]}
	switch {
	case isFloat(x):
		definitions = append(definitions, "REAL")
	case x.Type != graph.Int8 && x.Type != graph.Uint8:
		return unsupportedf("dtype %v", x.Type)
	}
	s, err := poolWindow(n)
	if err != nil {
		return err
	}
	at, err := n.addresses(n.Out[0], n.output(1), x)
	if err != nil {
		return err
	}
	total := n.Out[0].Len()
	return n.launch(n.kernel("pool.cu", "max_pool", definitions...), blocksFor(total), threadsPerBlock,
		at[0], at[1], at[2], s, uint32(total), int32(n.Int("storage_order", 0)))
}

// makePool appends a pool of reals; more is its last parameter.
func makePool(n *Node, name string, more any) error {
	x := n.In[0]
	if !isFloat(x) {
		return unsupportedf("dtype %v", x.Type)
	}
	s, err := poolWindow(n)
	if err != nil {
		return err
	}
	at, err := n.addresses(n.Out[0], x)
	if err != nil {
		return err
	}
	total := n.Out[0].Len()
	return n.launch(n.kernel("pool.cu", name, "ELEMENT="+cType[x.Type], "REAL"), blocksFor(total), threadsPerBlock,
		at[0], at[1], s, uint32(total), more)
}

// makeGlobalPool reduces whole planes.
func makeGlobalPool(n *Node, kind string, h how) error {
	x := n.In[0]
	if !isFloat(x) {
		return unsupportedf("dtype %v", x.Type)
	}
	drop := make([]bool, len(x.Shape))
	for a := range drop {
		drop[a] = a >= 2
	}
	return n.reduce(n.Out[0], x, drop, kind, h)
}

func makeGlobalLpPool(n *Node) error {
	switch p := power(n); p {
	case 1:
		return makeGlobalPool(n, "sum", how{absolute: 1})
	case 2:
		return makeGlobalPool(n, "sum", how{square: 1, finish: finishRoot})
	default:
		return unsupportedf("the norm with p %v", p)
	}
}

// makeMaxUnpool puts elements where MaxPool took them from; of several at one place the last
// one stays, as on the host. The places count elements of the image that the window alone would
// give; the image that output_shape asks for may be larger.
func makeMaxUnpool(n *Node) error {
	x, places, y := n.In[0], n.In[1], n.Out[0]
	width, err := widthOf(x)
	if err != nil || width > 8 {
		return unsupportedf("dtype %v", x.Type)
	}
	if err := needTypes(graph.Int64, places); err != nil {
		return err
	}
	w, err := attr.ReadPool(n.Node)
	if err != nil {
		return err
	}
	if len(x.Shape) > mostAxes || places.Len() != x.Len() {
		return unsupportedf("%d places for %v", places.Len(), x.Shape)
	}
	image := slices.Clone(x.Shape)
	for i, k := range w.Kernel {
		image[2+i] = int(w.TransposedLen(i, int64(x.Shape[2+i])*w.Stride[i]+int64(k)))
	}
	if y.Len() == 0 {
		return nil
	}
	if slices.ContainsFunc(image, func(length int) bool { return length < 1 || length > most }) {
		return unsupportedf("places in an image of %v", image)
	}
	if err := tooLarge(x, y); err != nil {
		return err
	}
	at, err := n.addresses(y, x, places)
	if err != nil {
		return err
	}
	lengths := func(shape []int) any {
		numbers := make([]int, 2*mostAxes)
		copy(numbers, shape)
		copy(numbers[mostAxes:], stridesOf(y.Shape))
		return unsigned(numbers, 4)
	}
	report := n.checks(checked{wrong: func(i int) error {
		return fmt.Errorf("place %d: expected one of an image of %v", i, y.Shape)
	}})
	from := n.scratch(int64(4 * y.Len()))
	kernel := func(name string) cuda.Kernel { return n.kernel("unpool.cu", name, "ELEMENT="+unitOf[width]) }
	if err := n.launch(kernel("clear"), blocksFor(y.Len()), threadsPerBlock, from, uint32(y.Len())); err != nil {
		return err
	}
	if err := n.launch(kernel("choose"), blocksFor(x.Len()), threadsPerBlock, from, at[2], uint32(x.Len()), int32(len(x.Shape)), lengths(image), lengths(y.Shape), report); err != nil {
		return err
	}
	return n.launch(kernel("place"), blocksFor(y.Len()), threadsPerBlock, at[0], at[1], from, uint32(y.Len()))
}

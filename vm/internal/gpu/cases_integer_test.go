package gpu

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

func init() {
	cases = append(cases, integerCases...)
	// The host's rounding, to the bit: also of the numbers halfway between two.
	half := scalar(0.5)
	for _, c := range []struct {
		domain, op string
		attrs      []*graph.Attr
		in         []*reference.Tensor
		shape      []int
	}{
		{"", "QLinearConv", attrs(ints("pads", 1, 1, 1, 1)), args(bytes8(2, 3, 7, 9), half, point(graph.Uint8, 130), signed8(5, 3, 3, 3), half, point(graph.Int8, 4), scalar(64), point(graph.Uint8, 120), wholes(graph.Int32, -99, 99, 5)), []int{2, 5, 7, 9}},
		{"", "QLinearConv", attrs(whole("group", 4)), args(signed8(2, 4, 7, 9), half, point(graph.Int8, 13), signed8(4, 1, 3, 3), positive(4), wholes(graph.Int8, -4, 4, 4), scalar(99), point(graph.Int8, 20), wholes(graph.Int32, -99, 99, 4)), []int{2, 4, 5, 7}},
		{"", "QLinearMatMul", nil, args(bytes8(7, 33), half, point(graph.Uint8, 130), signed8(33, 6), half, point(graph.Int8, 3), scalar(32), point(graph.Uint8, 120)), []int{7, 6}},
		{"com.microsoft", "QGemm", nil, args(bytes8(7, 33), half, point(graph.Uint8, 130), signed8(33, 6), positive(6), wholes(graph.Int8, -4, 4, 6), wholes(graph.Int32, -99, 99, 7, 6), scalar(77), point(graph.Uint8, 120)), []int{7, 6}},
		{"com.microsoft", "DynamicQuantizeMatMul", nil, args(noise(7, 33), signed8(33, 6), positive(6), wholes(graph.Int8, -4, 4, 6), noise(6)), []int{7, 6}},
	} {
		h := hostCase{domain: c.domain, op: c.op, attrs: c.attrs, shape: c.shape, to: c.in[0].Type}
		for _, t := range c.in {
			h.in = append(h.in, hosted(t))
		}
		if c.in[0].F != nil {
			h.to = graph.Float32
		}
		hostCases = append(hostCases, h)
	}
	hostCases = append(hostCases, hostCase{op: "DynamicQuantizeLinear", in: tensors(hosted(noise(3, 999))), to: graph.Uint8})
}

// hosted is a tensor on the host; reals are float32.
func hosted(t *reference.Tensor) *form.Tensor {
	d := t.Type
	if t.F != nil {
		d = graph.Float32
	}
	x := blank(d, t.Shape...)
	if err := form.Store(x, t.F, t.I); err != nil {
		panic(err)
	}
	return x
}

// bytes8 and signed8 return integers of 8 bits.
func bytes8(shape ...int) *reference.Tensor  { return wholes(graph.Uint8, 0, 256, shape...) }
func signed8(shape ...int) *reference.Tensor { return wholes(graph.Int8, -128, 128, shape...) }

// point is a zero point.
func point(d graph.DType, v int64) *reference.Tensor { return wholes(d, v, v+1) }

// inSingle are the dtypes of cases whose reals must be float32.
var inSingle = []graph.DType{graph.Float32}

var integerCases = []nodeCase{
	{op: "MatMulInteger", in: args(bytes8(37, 45), signed8(45, 40), point(graph.Uint8, 100), signed8(40)), types: inSingle},
	{op: "MatMulInteger", in: args(bytes8(2, 1, 5, 9), signed8(3, 9, 4), bytes8(1)), types: inSingle},
	{op: "MatMulInteger", in: args(bytes8(2, 5, 9), signed8(9, 4), nil, point(graph.Int8, -3)), types: inSingle},
	{op: "QLinearMatMul", in: args(bytes8(7, 33), scalar(0.02), point(graph.Uint8, 113), signed8(33, 5), scalar(0.03), point(graph.Int8, 9), scalar(0.07), point(graph.Uint8, 118)), types: inSingle},
	{op: "QLinearMatMul", in: args(signed8(2, 7, 9), scalar(0.02), point(graph.Int8, 13), signed8(2, 9, 5), scalar(0.03), point(graph.Int8, -9), scalar(0.09), point(graph.Int8, 18)), types: inSingle},
	{op: "ConvInteger", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(bytes8(2, 5, 9, 11), bytes8(7, 5, 3, 3), point(graph.Uint8, 120), point(graph.Uint8, 7)), types: inSingle},
	{op: "ConvInteger", in: args(bytes8(1, 3, 9), bytes8(4, 3, 3)), types: inSingle},
	{op: "QLinearConv", attrs: attrs(ints("pads", 1, 1, 0, 1), ints("strides", 2, 1)), in: args(bytes8(2, 3, 9, 11), scalar(0.02), point(graph.Uint8, 120), signed8(7, 3, 3, 3), positive(7), wholes(graph.Int8, 0, 1, 7), scalar(90), point(graph.Uint8, 7), wholes(graph.Int32, -900, 900, 7)), types: inSingle},
	{op: "QLinearConv", attrs: attrs(whole("group", 4), ints("pads", 1, 1, 1, 1)), in: args(bytes8(2, 4, 9, 11), scalar(0.02), point(graph.Uint8, 120), signed8(4, 1, 3, 3), scalar(0.0113), point(graph.Int8, 11), scalar(0.537), point(graph.Uint8, 127)), types: inSingle},
	{op: "DynamicQuantizeLinear", in: args(noise(3, 2000)), outputs: 3, types: inSingle},
	{op: "DynamicQuantizeLinear", in: args(positive(31)), outputs: 3, types: inSingle},

	{op: "com.microsoft.QLinearConv", in: args(signed8(1, 3, 6, 6), scalar(0.02), point(graph.Int8, 12), signed8(4, 3, 3, 3), scalar(0.03), point(graph.Int8, 3), scalar(0.4), point(graph.Int8, -7)), types: inSingle},
	{op: "com.microsoft.MatMulIntegerToFloat", in: args(bytes8(2, 7, 9), signed8(9, 5), scalar(0.02), positive(5), point(graph.Uint8, 113), wholes(graph.Int8, -9, 9, 5), noise(5)), types: inSingle},
	{op: "com.microsoft.MatMulIntegerToFloat", in: args(bytes8(7, 9), signed8(9, 5), scalar(0.02), scalar(0.1)), types: inSingle},
	{op: "com.microsoft.DynamicQuantizeMatMul", in: args(noise(3, 7, 33), signed8(33, 5), scalar(0.02), point(graph.Int8, 3), noise(5)), types: inSingle},
	{op: "com.microsoft.QGemm", attrs: attrs(whole("transB", 1), real("alpha", 0.5)), in: args(bytes8(7, 9), scalar(0.02), point(graph.Uint8, 113), signed8(5, 9), positive(5), wholes(graph.Int8, 0, 1, 5), wholes(graph.Int32, -99, 99, 5), scalar(0.9), point(graph.Uint8, 100)), types: inSingle},
	{op: "com.microsoft.QGemm", attrs: attrs(whole("transA", 1)), in: args(bytes8(9, 7), scalar(0.02), point(graph.Uint8, 13), signed8(9, 5), scalar(0.1), point(graph.Int8, 0), wholes(graph.Int32, -99, 99, 7, 1)), types: inSingle},
}

// What the host's products ask of their session.

func (alone) Heap(int64) error { return nil }

func (alone) Keep(int, int) bool { return false }

func (alone) Table(bytes int64) (unsafe.Pointer, error) {
	return blank(graph.Uint8, int(bytes)+8).At, nil
}

func (alone) Release(unsafe.Pointer, int) {}
func (alone) Pack(form.PackKey, int, func(unsafe.Pointer)) (unsafe.Pointer, bool) {
	return nil, false
}
func (alone) Stopping() bool { return false }

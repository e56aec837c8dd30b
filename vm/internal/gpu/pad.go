package gpu

import (
	"strconv"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// padding lists the operators that pad a tensor or keep a triangle of it.
var padding = []Row{
	{Name: "Pad", Make: makePad},
	{Name: "Trilu", Make: makeTrilu},
	{Name: "CenterCropPad", Make: makeCenterCropPad},
}

// padders maps the attribute mode to what lies outside of an axis, in pad.cu.
var padders = map[string]string{"constant": "Constant", "edge": "Edge", "wrap": "Wrap", "reflect": "Reflect"}

// padded is an axis of a Pad.
type padded struct {
	out, before int // its length, and the elements that are added in front
	n, from     int // length and stride of what is left of the input
}

// paddedAxes returns the axes of a Pad that keeps some elements of each axis of its input,
// merged where they have no padding. If the padding is constant, an axis without padding
// also joins the one before it.
func paddedAxes(in, kept, out, before, s []int, constant bool) []padded {
	var list []padded
	for a := range in {
		plain := before[a] == 0 && in[a] == out[a] && kept[a] == in[a]
		if k := len(list) - 1; plain && k >= 0 && (constant || list[k].before == 0 && list[k].n == list[k].out) {
			list[k] = padded{out: list[k].out * out[a], before: list[k].before * out[a], n: list[k].n * out[a], from: s[a]}
			continue
		}
		list = append(list, padded{out[a], before[a], kept[a], s[a]})
	}
	return list
}

// makePad finds, for each position of the output, the position of the input that it
// copies, or none.
func makePad(n *Node) error {
	in, out := n.In[0], n.Out[0]
	if len(in.Shape) == 0 {
		return makeCopy(n)
	}
	width, err := widthOf(in)
	if err != nil || width > 8 {
		return unsupportedf("dtype %v", in.Type)
	}
	before, err := n.PadsBefore(len(in.Shape))
	if err != nil {
		return err
	}
	mode := padders[n.Str("mode", "constant")]
	if mode == "" {
		return unsupportedf("mode %q", n.Str("mode", "constant"))
	}
	if err := tooLarge(in, out); err != nil {
		return err
	}
	strides := stridesOf(in.Shape)
	kept, skip, err := form.Crop(in.Shape, out.Shape, before, strides, n.Str("mode", "constant"))
	if err != nil {
		return err
	}
	at, err := n.addresses(out, in, n.Input(2))
	if err != nil || at[0] == at[1] {
		return err
	}
	var bits uint64
	if a := n.Node.Attr("value"); a != nil {
		element := form.Tensor{Type: in.Type, Shape: []int{1}, At: unsafe.Pointer(&bits)}
		if err := element.Fill(float64(a.Float)); err != nil {
			return unsupportedf("dtype %v", in.Type)
		}
	}
	value := driver.Ptr(0)
	if n.Has(2) && n.In[2].Len() > 0 {
		value = at[2]
	}
	axes := paddedAxes(in.Shape, kept, out.Shape, before, strides, mode == "Constant")
	rank := max(2, len(axes))
	switch {
	case rank > mostAxes:
		return unsupportedf("%d axes, more than %d", rank, mostAxes)
	case rank > 4:
		rank = mostAxes
	case rank > 2:
		rank = 4
	}
	for len(axes) < rank {
		axes = append([]padded{{out: 1, n: 1}}, axes...)
	}
	var over, front, length, from []int
	for _, a := range axes {
		over, front, length, from = append(over, divider(a.out)...), append(front, a.before), append(length, a.n), append(from, a.from)
	}
	numbers := append(append(append(over, front...), length...), from...)
	f := n.kernel("pad.cu", "pad"+strconv.Itoa(rank), "ELEMENT="+unitOf[width], "MODE="+mode)
	return n.launch(f, blocksFor(out.Len()), threadsPerBlock, at[0], at[1]+driver.Ptr(skip*width), value, bits, uint32(out.Len()), unsigned(numbers, 4))
}

// makeTrilu keeps the elements on and above a diagonal, or on and below it.
func makeTrilu(n *Node) error {
	in, out := n.In[0], n.Out[0]
	width, err := widthOf(in)
	if err != nil || width > 8 {
		return unsupportedf("dtype %v", in.Type)
	}
	if n.Has(1) && n.In[1].Type != graph.Int64 {
		return unsupportedf("a diagonal of dtype %v", n.In[1].Type)
	}
	if err := tooLarge(out); err != nil {
		return err
	}
	at, err := n.addresses(out, in, n.Input(1))
	if err != nil {
		return err
	}
	rank := len(in.Shape)
	f := n.kernel("select.cu", "trilu", "ELEMENT="+unitOf[width], "INDEX=i64")
	return n.launch(f, blocksFor(out.Len()), threadsPerBlock, at[0], at[1], at[2], uint32(out.Len()),
		unsigned(divider(in.Shape[rank-2]), 4), unsigned(divider(in.Shape[rank-1]), 4), int32(n.Int("upper", 1)))
}

// makeCenterCropPad fills the output with zeros before it copies.
func makeCenterCropPad(n *Node) error {
	at, err := n.addresses(n.Out[0], n.In[0])
	if err != nil || at[0] == at[1] {
		return err
	}
	n.zero(at[0], int64(n.Out[0].Bytes()))
	return moving(form.CenterCropPadMoves)(n)
}

package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// deform is Deform of kernels/deform.cu.
type deform struct {
	Height, Width, Rows, Columns int32
	Kernel                       [2]int32
	Strides, Dilations, Pads     [2]int32
	Channels, Shifts             int32
}

// deformBytes bounds the matrices that a DeformConv makes of several images at once. Tests
// lower it.
var deformBytes = 64 << 20

// makeDeformConv writes the shifted elements of some images as matrices in scratch, which the
// weights then multiply.
func makeDeformConv(n *Node) error {
	x, weight, shift, y := n.In[0], n.In[1], n.In[2], n.Out[0]
	bias, factor := n.Input(3), n.Input(4)
	if len(x.Shape) != 4 || !isFloat(x) {
		return unsupportedf("%v with %d axes", x.Type, len(x.Shape))
	}
	for _, t := range n.In {
		if t != nil && t.Type != x.Type {
			return unsupportedf("dtypes %v and %v", x.Type, t.Type)
		}
	}
	w, err := attr.ReadWindow(n.Node, []graph.Dim{graph.Dim(weight.Shape[2]), graph.Dim(weight.Shape[3])})
	if err != nil {
		return err
	}
	w.Pad([]int64{int64(x.Shape[2]), int64(x.Shape[3])}, []int64{int64(y.Shape[2]), int64(y.Shape[3])})
	v, err := windowOf(w, []int64{int64(x.Shape[2]), int64(x.Shape[3])}, []int64{int64(y.Shape[2]), int64(y.Shape[3])})
	if err != nil {
		return err
	}
	images, channels, places, taps := x.Shape[0], x.Shape[1], count(y.Shape[2:]), count(weight.Shape[2:])
	groups, shifts := n.Int("group", 1), n.Int("offset_group", 1)
	if y.Len() == 0 {
		return nil
	}
	if groups < 1 || shifts < 1 || channels%groups != 0 || channels%shifts != 0 || weight.Shape[0]%groups != 0 || weight.Shape[1] != channels/groups || channels*taps == 0 {
		return unsupportedf("%d groups and %d of shifts of %d channels with weights of %v", groups, shifts, channels, weight.Shape)
	}
	if shift.Len() != 2*images*shifts*taps*places || factor != nil && 2*factor.Len() != shift.Len() || bias != nil && bias.Len() != y.Shape[1] {
		return unsupportedf("shifts of %v", shift.Shape)
	}
	for _, reach := range [][3]int32{{v.out[1], v.stride[1], v.kernel[1]}, {v.out[2], v.stride[2], v.kernel[2]}} {
		if int64(reach[0])*int64(reach[1])+int64(reach[2])*int64(max(v.dilation[1], v.dilation[2])) > 1<<30 {
			return unsupportedf("a window that reaches beyond %d elements", 1<<30)
		}
	}
	m, k, each := weight.Shape[0]/groups, channels/groups*taps, channels*taps*places // each: elements of an image's matrices
	width := x.Bytes() / x.Len()
	if max(m, k, places) > math.MaxInt32-128 || each > most {
		return unsupportedf("matrices of %d elements", each)
	}
	s := deform{
		Height: int32(x.Shape[2]), Width: int32(x.Shape[3]), Rows: v.out[1], Columns: v.out[2], Kernel: [2]int32(v.kernel[1:]),
		Strides: [2]int32(v.stride[1:]), Dilations: [2]int32(v.dilation[1:]), Pads: [2]int32(v.before[1:]), Channels: int32(channels), Shifts: int32(shifts),
	}
	some := max(1, min(images, deformBytes/width/each))
	room := n.scratch(int64(some * each * width))
	definitions, err := productDefinitions(y, x, weight)
	if err != nil {
		return err
	}
	at, err := n.addresses(x, weight, shift, factor, bias, y)
	if err != nil {
		return err
	}
	from := func(i, elements int) driver.Ptr { // of addresses
		if at[i] == 0 {
			return 0
		}
		return at[i] + driver.Ptr(elements*width)
	}
	f := noFinish()
	f.BiasRow = 1
	for first := 0; first < images; first += some {
		now := min(some, images-first)
		of := first * shifts * taps * places // the first factor
		if err := n.launch(n.kernel("deform.cu", "see", "ELEMENT="+cType[x.Type]), blocksFor(now*each), threadsPerBlock,
			room, from(0, first*channels*count(x.Shape[2:])), from(2, 2*of), from(3, of), s, uint32(now*each)); err != nil {
			return err
		}
		for g := range groups {
			p := &matrices{
				m: m, n: places, k: k, aRow: k, aDeep: 1, bColumn: 1, bDeep: places, yRow: places, yColumn: 1,
				batch: []int{now}, steps: [3][]int{{0}, {each}, {groups * m * places}},
			}
			part, skip := room, int64(g*k*places*width)
			part.Off, part.Bytes = part.Off+skip, part.Bytes-skip
			to := from(5, (first*groups+g)*m*places)
			if err := p.launchAt(n, y, definitions, to, driver.Ptr(0), from(1, g*m*k), part, from(4, g*m), y.Len(), to%16 == 0, f); err != nil {
				return err
			}
		}
	}
	return nil
}

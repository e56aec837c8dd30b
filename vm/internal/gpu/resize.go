package gpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// sampling lists the operators that resample an image.
var sampling = []Row{
	{Name: "Resize", Make: makeResize},
	{Name: "Upsample", Make: makeResize},
}

// resizedSide is the struct Side of kernels/resize.cu.
type resizedSide struct {
	over, each               [3]uint32 // dividers
	step, apart, taps, table int32
}

// resized is the struct Resize there.
type resized struct {
	total, planes uint32
	from          int32
	side          [3]resizedSide
}

// planesTogether is the number of planes of a thread.
const planesTogether = 4

// resizing is a Resize with its axes sorted into planes and sides.
type resizing struct {
	shape  resized
	sides  int
	from   []int32   // indices of all sides
	weight []float64 // as many; 1 for a copy
	copies bool      // there is one tap along each side, and nothing lies outside
	linear bool      // there are two
}

// makeResize adds up weighted elements along all axes at once. Neighbouring axes that are
// only copied are one.
func makeResize(n *Node) error {
	in, out := n.In[0], n.Out[0]
	if err := tooLarge(in, out); err != nil {
		return err
	}
	list, extra, err := n.Interpolations()
	if err != nil {
		return refused(err)
	}
	at, err := n.addresses(out, in)
	if err != nil || at[0] == at[1] {
		return err
	}
	r, err := newResizing(list)
	if err != nil {
		return err
	}
	if r.sides == 0 {
		return makeCopy(n)
	}
	across := driver.Dim3{X: uint32(blocksFor(int(r.shape.total))), Y: uint32(min(cuts(int(r.shape.planes), planesTogether), math.MaxUint16)), Z: 1}
	threads := driver.Dim3{X: threadsPerBlock, Y: 1, Z: 1}
	if r.copies {
		width, err := widthOf(in)
		if err != nil {
			return err
		}
		k := n.kernel("resize.cu", fmt.Sprint("copied", r.sides), "COPIES", "ELEMENT="+unitOf[width])
		return n.launch3(k, across, threads, 0, at[0], at[1], cuda.TableOf(r.from), r.shape)
	}
	element, err := typeOf(in)
	if err != nil {
		return err
	}
	if in.Type != out.Type || in.Type == graph.Bool {
		return unsupportedf("dtypes %v and %v", in.Type, out.Type)
	}
	weight, table := "double", cuda.TableOf(r.weight)
	if isFloat(in) && in.Type != graph.Float64 {
		weight, table = "float", cuda.TableOf(narrowed(r.weight))
	}
	name := "mixed"
	if r.linear {
		name = "linear"
	}
	k := n.kernel("resize.cu", fmt.Sprint(name, r.sides), "ELEMENT="+element, "WEIGHT="+weight)
	return n.launch3(k, across, threads, 0, at[0], at[1], cuda.TableOf(r.from), table, r.shape, extra)
}

// narrowed converts a list to float32.
func narrowed(list []float64) []float32 {
	out := make([]float32, len(list))
	for i, v := range list {
		out[i] = float32(v)
	}
	return out
}

// newResizing sorts axes: those in front that are copied count planes, and any others
// belong to the interpolated axis before them.
func newResizing(list []form.Interpolation) (*resizing, error) {
	r := &resizing{copies: true, linear: true}
	var sides []resizedSide
	step, total := 1, 1   // elements behind an axis, of the image and of the result
	copied, apart := 1, 1 // elements of the copied axes behind it, and their distance
	for a := len(list) - 1; a >= 0; a-- {
		v := &list[a]
		switch {
		case !unchanged(v):
			s := resizedSide{step: int32(step), apart: int32(apart), taps: int32(v.Taps), table: int32(len(r.from))}
			copy(s.over[:], dividerOf(v.Out))
			copy(s.each[:], dividerOf(copied))
			sides = append(sides, s)
			r.add(v)
			total *= v.Out * copied
			copied = 1
		case copied == 1:
			copied, apart = v.Out, step
		default:
			copied *= v.Out
		}
		step *= v.In
	}
	if len(sides) > len(r.shape.side) {
		return nil, unsupportedf("%d axes that are resized, more than %d", len(sides), len(r.shape.side))
	}
	slices.Reverse(sides)
	copy(r.shape.side[:], sides)
	r.sides = len(sides)
	r.shape.total, r.shape.planes, r.shape.from = uint32(total), uint32(copied), int32(step/copied)
	return r, nil
}

// unchanged reports whether an axis is only copied. A region can be all of an image.
func unchanged(v *form.Interpolation) bool {
	if v.In != v.Out || v.Outside != nil {
		return false
	}
	for i, at := range v.From {
		if at != i/v.Taps && (v.Weight == nil || v.Weight[i] != 0) {
			return false
		}
	}
	return true
}

// add adds the indices and weights of a side. The index of what lies outside is -1.
func (r *resizing) add(v *form.Interpolation) {
	for i, at := range v.From {
		if v.Outside != nil && v.Outside[i/v.Taps] != 0 {
			at, r.copies = -1, false
		}
		r.from = append(r.from, int32(at))
	}
	if v.Weight != nil {
		r.weight = append(r.weight, v.Weight...)
	} else {
		r.weight = append(r.weight, slices.Repeat([]float64{1}, len(v.From))...)
	}
	r.copies = r.copies && v.Taps == 1
	r.linear = r.linear && v.Taps == 2
}

// dividerOf is a divider in the width of the kernels.
func dividerOf(n int) []uint32 {
	var out []uint32
	for _, v := range divider(n) {
		out = append(out, uint32(v))
	}
	return out
}

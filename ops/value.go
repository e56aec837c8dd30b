package ops

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// FoldLimit is the largest number of elements that are folded. Shapes have a
// handful of elements; anything larger is data.
const FoldLimit = 4096

// State says how much is known of an element.
type State uint8

// The states of an element.
const (
	Known   State = iota // its value
	Bounded              // an integer in [0, I], a real in [0, F]
	Hidden               // nothing is known
)

// Scalar is one element of a folded tensor: I for integer and bool types, F
// for floating-point ones.
type Scalar struct {
	I     int64
	F     float64
	State State
	// Of is the identity of the bounded length (graph.Dim) that the element
	// equals; 0 if there is none. Results computed from the element have no
	// identity.
	Of int64
}

// Value holds the known elements of a small tensor, or the items of a sequence or
// optional of known length.
type Value struct {
	Shape []int64
	Elems []Scalar
	Items []Arg // not nil for a sequence, or for an optional (which has at most one)
}

// NewInts is a value of rank 1.
func NewInts(v ...int64) *Value {
	w := &Value{Shape: []int64{int64(len(v))}, Elems: make([]Scalar, len(v))}
	for i, x := range v {
		w.Elems[i].I = x
	}
	return w
}

// FromDim converts a length to an element.
func FromDim(d graph.Dim) Scalar {
	n, ok := d.Max()
	switch {
	case !ok:
		return Scalar{State: Hidden}
	case d.Exact():
		return Scalar{I: n}
	}
	return Scalar{I: n, State: Bounded, Of: d.Identity()}
}

// Dim converts an element to a length: unknown if it is hidden or negative.
func (s Scalar) Dim() graph.Dim {
	switch {
	case s.State == Hidden || s.I < 0:
		return graph.Unknown
	case s.State == Known:
		return graph.Dim(s.I)
	}
	return graph.AtMost(s.I).WithIdentity(s.Of)
}

// Ints returns the elements of an integer value if all are known. v may be nil.
func (v *Value) Ints() ([]int64, bool) {
	if v == nil || v.Items != nil {
		return nil, false
	}
	out := make([]int64, len(v.Elems))
	for i, e := range v.Elems {
		if e.State != Known {
			return nil, false
		}
		out[i] = e.I
	}
	return out, true
}

// Int returns the element of a value that has only one, if it is known.
func (v *Value) Int() (int64, bool) {
	if v == nil || len(v.Elems) != 1 || v.Elems[0].State != Known {
		return 0, false
	}
	return v.Elems[0].I, true
}

// Floats returns the elements of a floating-point value if all are known.
func (v *Value) Floats() ([]float64, bool) {
	if v == nil || v.Items != nil {
		return nil, false
	}
	out := make([]float64, len(v.Elems))
	for i, e := range v.Elems {
		if e.State != Known {
			return nil, false
		}
		out[i] = e.F
	}
	return out, true
}

// Reshaped is v with another shape and the same number of elements.
func (v *Value) Reshaped(shape []int64) *Value {
	if v == nil || count(shape) != int64(len(v.Elems)) {
		return nil
	}
	return &Value{Shape: shape, Elems: v.Elems}
}

// valueOf is the value of a constant; nil if it is large or not numeric.
func valueOf(d *graph.Data) *Value {
	if d == nil || len(d.Dims) > 8 || count(d.Dims) < 0 || count(d.Dims) > FoldLimit {
		return nil
	}
	v := &Value{Shape: d.Dims}
	if ints, ok := d.Integers(FoldLimit); ok {
		v.Elems = make([]Scalar, len(ints))
		for i, x := range ints {
			v.Elems[i].I = x
		}
		return v
	}
	reals, ok := d.Reals(FoldLimit)
	if !ok {
		reals, ok = halfReals(d)
	}
	if ok {
		v.Elems = make([]Scalar, len(reals))
		for i, x := range reals {
			v.Elems[i].F = x
		}
		return v
	}
	return nil
}

// halfReals returns the elements of a float16 or bfloat16 tensor stored in
// raw_data.
func halfReals(d *graph.Data) ([]float64, bool) {
	if d.Type != graph.Float16 && d.Type != graph.BFloat16 || int64(len(d.Raw)) != 2*count(d.Dims) || d.External != nil || d.Sparse != nil {
		return nil, false
	}
	v := make([]float64, len(d.Raw)/2)
	for i := range v {
		b := binary.LittleEndian.Uint16(d.Raw[2*i:])
		if d.Type == graph.BFloat16 {
			v[i] = float64(math.Float32frombits(uint32(b) << 16))
			continue
		}
		// Convert to float32: the exponent moves by 127-15; the highest one is
		// that of infinities, the lowest that of subnormals.
		sign, exp, fraction := uint32(b>>15)<<31, uint32(b>>10&31), uint32(b&1023)
		switch exp {
		case 0:
			v[i] = math.Copysign(float64(fraction)/(1<<24), float64(math.Float32frombits(sign|1)))
		case 31:
			v[i] = float64(math.Float32frombits(sign | 255<<23 | fraction<<13))
		default:
			v[i] = float64(math.Float32frombits(sign | (exp+112)<<23 | fraction<<13))
		}
	}
	return v, true
}

// outShape is the exact shape of output i if it is small enough to fold.
func (c *Call) outShape(i int) ([]int64, bool) {
	if i >= len(c.Out) || !c.Out[i].Present {
		return nil, false
	}
	n, ok := c.Out[i].Elements()
	if !ok || n > FoldLimit || len(c.Out[i].Shape) > 8 {
		return nil, false
	}
	shape := make([]int64, len(c.Out[i].Shape))
	for k, d := range c.Out[i].Shape {
		shape[k] = int64(d)
	}
	return shape, true
}

// foldBroadcast sets output 0 to f of the inputs' elements under numpy's rule. f
// also receives hidden elements; all elements of an input without a value are
// hidden. Nothing is set if no input has a value, or if no element of the output
// would be known.
func foldBroadcast(c *Call, f func(in []Scalar) Scalar) {
	shape, ok := c.outShape(0)
	if !ok {
		return
	}
	args := make([]*Value, 0, len(c.In))
	some := false
	for _, a := range c.In {
		if !a.Present {
			continue
		}
		if a.Value != nil && !broadcasts(a.Value, shape) {
			return
		}
		some = some || a.Value != nil
		args = append(args, a.Value)
	}
	if !some {
		return
	}
	some = false
	out := &Value{Shape: shape, Elems: make([]Scalar, count(shape))}
	in := make([]Scalar, len(args))
	for at := range out.Elems {
		for k, v := range args {
			in[k] = Scalar{State: Hidden}
			switch {
			case v == nil:
			case len(v.Elems) == 1:
				in[k] = v.Elems[0]
			case len(v.Elems) == len(out.Elems): // of the same shape, but for lengths of 1
				in[k] = v.Elems[at]
			default:
				in[k] = v.Elems[broadcastIndex(at, shape, v.Shape)]
			}
		}
		out.Elems[at] = f(in)
		some = some || out.Elems[at].State != Hidden
	}
	if some || len(out.Elems) == 0 {
		c.SetValue(0, out)
	}
}

// broadcasts reports whether v is a tensor that broadcasts to shape.
func broadcasts(v *Value, shape []int64) bool {
	from := len(shape) - len(v.Shape)
	if from < 0 || v.Items != nil || count(v.Shape) != int64(len(v.Elems)) {
		return false
	}
	for k, n := range v.Shape {
		if n != 1 && n != shape[from+k] {
			return false
		}
	}
	return true
}

// broadcastIndex is the index in a tensor of shape small of the element that is
// broadcast to index at of shape.
func broadcastIndex(at int, shape, small []int64) int {
	index, stride := 0, 1
	for k := len(shape) - 1; k >= 0; k-- {
		i := at % int(shape[k])
		at /= int(shape[k])
		j := k - len(shape) + len(small)
		if j < 0 {
			break
		}
		if small[j] != 1 {
			index += i * stride
		}
		stride *= int(small[j])
	}
	return index
}

// allKnown reports whether every element is known.
func allKnown(in []Scalar) bool {
	for _, s := range in {
		if s.State != Known {
			return false
		}
	}
	return true
}

// count is the number of elements of a shape; -1 if it is not small.
func count(shape []int64) int64 {
	if slices.Contains(shape, 0) {
		return 0
	}
	n := int64(1)
	for _, k := range shape {
		if k < 0 || n > math.MaxInt64/k {
			return -1
		}
		n *= k
	}
	return n
}

package mutate

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// integers are the values that an element or an attribute may get.
var integers = []int64{
	0, 1, -1, 2, -2, 3, 4, 5, 7, 8, 16, 64, 255, 1000, -1000, 65535, 65536, 1 << 20,
	math.MaxInt32, math.MinInt32, math.MaxInt32 + 1, 1 << 40, math.MaxInt64, math.MinInt64, math.MinInt64 + 1,
}

// reals are the values that a floating-point element or attribute may get.
var reals = []float64{
	0, math.Copysign(0, -1), 1, -1, 0.5, 2, 1e-30, 1e9, -1e9, 1e30, -1e30, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 9.3e18, -9.3e18,
}

// changeElements changes the values of some elements of an input.
func changeElements(k *mutant) string {
	t := k.input()
	if t == nil {
		return ""
	}
	v := k.inputs[t.Name]
	width := int(v.Type.Bits() / 8)
	n := elements(v.Shape)
	if n == 0 || width == 0 {
		return ""
	}
	v = v.Clone()
	what := ""
	for range 1 + k.IntN(min(n, 4)) {
		i := k.IntN(n)
		at := v.Data[i*width : (i+1)*width]
		if v.Type.Floating() && width >= 2 {
			x := reals[k.IntN(len(reals))]
			putReal(at, v.Type, x)
			what += fmt.Sprintf(" [%d]=%g", i, x)
			continue
		}
		x := integers[k.IntN(len(integers))]
		if v.Type == graph.Bool {
			x &= 0xff
		}
		putInteger(at, x)
		what += fmt.Sprintf(" [%d]=%d", i, x)
	}
	k.inputs[t.Name] = v
	return t.Name + what
}

func putInteger(at []byte, x int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(x))
	copy(at, b[:])
}

// putReal writes a number of 2, 4 or 8 bytes. For 2 bytes it writes the upper half
// of a float32: that is the bfloat16, and an arbitrary float16.
func putReal(at []byte, d graph.DType, x float64) {
	switch {
	case d == graph.Float64:
		binary.LittleEndian.PutUint64(at, math.Float64bits(x))
	case len(at) == 4:
		binary.LittleEndian.PutUint32(at, math.Float32bits(float32(x)))
	default:
		binary.LittleEndian.PutUint16(at, uint16(math.Float32bits(float32(x))>>16))
	}
}

// converted returns v with another element type, and the same numbers where the
// type can hold them.
func converted(v vm.Value, to graph.DType) vm.Value {
	n := elements(v.Shape)
	w := vm.Value{Type: to, Shape: slices.Clone(v.Shape), Data: make([]byte, (int64(n)*to.Bits()+7)/8)}
	numbers, ok := v.Reals()
	width := int(to.Bits() / 8)
	if !ok || width == 0 {
		for at := 0; at < len(w.Data) && len(v.Data) > 0; {
			at += copy(w.Data[at:], v.Data)
		}
		return w
	}
	for i, x := range numbers {
		at := w.Data[i*width : (i+1)*width]
		switch {
		case to == graph.Bool:
			at[0] = 0
			if x != 0 {
				at[0] = 1
			}
		case to.Floating() && width >= 2:
			putReal(at, to, x)
		default:
			putInteger(at, int64(max(min(x, 1<<62), -1<<62)))
		}
	}
	return w
}

// words are the values that a string attribute may get.
var words = []string{
	"", "x", "none", "linear", "nearest", "cubic", "constant", "edge", "reflect", "wrap", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET",
	"forward", "reverse", "bidirectional", "add", "mul", "max", "min", "mean", "sum", "avg", "DCR", "CRD", "half_pixel", "align_corners",
	"asymmetric", "tf_crop_and_resize", "pytorch_half_pixel", "floor", "ceil", "round_prefer_floor", "zeros", "border", "bilinear", "ij,jk->ik", "...i->i", "ii", "->", "tanh",
}

// changeAttribute changes the value of an attribute, or removes or adds one.
func changeAttribute(k *mutant) string {
	n := k.node()
	if n == nil {
		return ""
	}
	if len(n.Attrs) == 0 || k.IntN(4) == 0 {
		return addAttribute(k, n)
	}
	i := k.IntN(len(n.Attrs))
	a := *n.Attrs[i]
	a.Span = graph.Span{}
	if k.IntN(8) == 0 {
		n.Attrs = slices.Delete(n.Attrs, i, i+1)
		return fmt.Sprintf("%s without %s", n.Op, a.Name)
	}
	switch a.Type {
	case graph.AttrInt:
		a.Int = integers[k.IntN(len(integers))]
	case graph.AttrFloat:
		a.Float = float32(reals[k.IntN(len(reals))])
	case graph.AttrString:
		a.String = words[k.IntN(len(words))]
	case graph.AttrInts:
		a.Ints = otherList(k, a.Ints, func() int64 { return integers[k.IntN(len(integers))] })
	case graph.AttrFloats:
		a.Floats = otherList(k, a.Floats, func() float32 { return float32(reals[k.IntN(len(reals))]) })
	case graph.AttrStrings:
		a.Strings = otherList(k, a.Strings, func() string { return words[k.IntN(len(words))] })
	default:
		return ""
	}
	n.Attrs[i] = &a
	return fmt.Sprintf("%s %s=%v", n.Op, a.Name, value(&a))
}

// value returns the value of an attribute.
func value(a *graph.Attr) any {
	switch a.Type {
	case graph.AttrInt:
		return a.Int
	case graph.AttrFloat:
		return a.Float
	case graph.AttrString:
		return a.String
	case graph.AttrInts:
		return a.Ints
	case graph.AttrFloats:
		return a.Floats
	}
	return a.Strings
}

// otherList changes one element of a list, or its length by one.
func otherList[T any](k *mutant, list []T, fresh func() T) []T {
	list = slices.Clone(list)
	switch {
	case len(list) == 0 || k.IntN(4) == 0:
		return append(list, fresh())
	case k.IntN(4) == 0:
		return list[:len(list)-1]
	}
	list[k.IntN(len(list))] = fresh()
	return list
}

// attributes lists names of attributes that operators have, by type.
var attributes = []struct {
	typ   graph.AttrType
	names []string
}{
	{graph.AttrInt, []string{
		"axis", "keepdims", "group", "ceil_mode", "storage_order", "transA", "transB", "batch_dims", "num_heads", "kv_num_heads", "hidden_size",
		"offset_group", "output_height", "blocksize", "block_size", "k", "largest", "sorted", "exclusive", "reverse", "to", "select_last_index",
		"num_outputs", "start", "end", "fmod", "direction", "is_causal", "rotary_embedding_dim", "noop_with_empty_axes", "sampling_ratio", "stash_type",
		"align_corners", "antialias", "exclude_outside", "center_point_box", "ignore_index", "input_forget", "layout", "linear_before_reset", "onesided", "inverse",
		"count_include_pad", "p", "num_groups", "size", "training_mode", "upper", "output_dtype", "saturate", "broadcast", "allowzero", "channels_last",
	}},
	{graph.AttrInts, []string{"axes", "pads", "strides", "dilations", "kernel_shape", "output_shape", "output_padding", "perm", "starts", "ends", "split", "shape", "value_ints", "repeats", "scales"}},
	{graph.AttrFloat, []string{"alpha", "beta", "epsilon", "clip", "gamma", "lambd", "bias", "spatial_scale", "scale", "softcap", "max", "min", "momentum", "cubic_coeff_a", "extrapolation_value"}},
	{graph.AttrString, []string{"mode", "auto_pad", "direction", "reduction", "nearest_mode", "coordinate_transformation_mode", "padding_mode", "equation", "keep_aspect_ratio_policy", "approximate", "interpolation_mode"}},
}

// addAttribute adds an attribute that the node does not have.
func addAttribute(k *mutant, n *graph.Node) string {
	of := attributes[k.IntN(len(attributes))]
	a := &graph.Attr{Type: of.typ, Name: of.names[k.IntN(len(of.names))]}
	if n.Attr(a.Name) != nil {
		return ""
	}
	switch a.Type {
	case graph.AttrInt:
		a.Int = integers[k.IntN(len(integers))]
	case graph.AttrFloat:
		a.Float = float32(reals[k.IntN(len(reals))])
	case graph.AttrString:
		a.String = words[k.IntN(len(words))]
	default:
		for range k.IntN(5) {
			a.Ints = append(a.Ints, integers[k.IntN(len(integers))])
		}
	}
	n.Attrs = append(n.Attrs, a)
	return fmt.Sprintf("%s %s=%v", n.Op, a.Name, value(a))
}

package randmodel

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var images = []block{
	{weight: 4, add: (*scope).conv},
	{weight: 4, add: (*scope).conv},
	{weight: 4, add: (*scope).conv},
	{weight: 1, microsoft: true, add: (*scope).fusedConv},
	{weight: 2, add: (*scope).pool},
	{weight: 2, add: (*scope).pool},
	{weight: 1, add: (*scope).globalPool},
	{weight: 2, add: (*scope).convTranspose},
	{weight: 2, add: (*scope).batchNorm},
	{weight: 1, add: (*scope).instanceNorm},
	{weight: 1, add: (*scope).lrn},
	{weight: 2, add: (*scope).resize},
	{weight: 1, add: (*scope).depthToSpace},
}

// window is the window of a convolution or a pool: its attributes and the lengths of the
// result.
type window struct {
	kernel, strides, dilations, pads []int64
	auto                             string
	out                              []int64
	attrs                            []*graph.Attr
}

// window draws a window over the axes of v from 2 on. padded: pads may be as long as the
// kernel.
func (s *scope) window(v value, dilated, padded bool) (w window, ok bool) {
	for a := 2; a < v.rank(); a++ {
		if v.free(a) {
			return w, false
		}
	}
	rank := v.rank() - 2
	w.auto = choose(s.drawing, "", "", "", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
	ends := make([]int64, rank)
	for _, n := range v.shape[2:] {
		k := min(choose(s.drawing, int64(1), 2, 3, 3, 3, 4, 5), n)
		d := int64(1)
		if dilated && k > 1 && w.auto != "SAME_UPPER" && w.auto != "SAME_LOWER" && s.one(5) && 2*(k-1)+1 <= n {
			d = 2
		}
		stride := choose(s.drawing, int64(1), 1, 1, 2, 2, 3)
		w.kernel, w.dilations, w.strides = append(w.kernel, k), append(w.dilations, d), append(w.strides, stride)
	}
	if s.one(3) { // as most networks have them
		for i := range rank {
			w.strides[i] = w.strides[0]
		}
	}
	style := s.r.IntN(3)
	for i, n := range v.shape[2:] {
		reach := w.dilations[i]*(w.kernel[i]-1) + 1
		var before, after int64
		switch style {
		case 0:
		case 1:
			before, after = (reach-1)/2, (reach-1)/2
		default:
			before, after = s.r.Int64N(min(reach, 3)), s.r.Int64N(min(reach, 3))
		}
		if !padded {
			before, after = min(before, w.kernel[i]-1), min(after, w.kernel[i]-1)
		}
		w.pads, ends[i] = append(w.pads, before), after
		switch w.auto {
		case "SAME_UPPER", "SAME_LOWER":
			w.out = append(w.out, (n+w.strides[i]-1)/w.strides[i])
			if (w.out[i]-1)*w.strides[i]+reach < n { // a negative padding, which ONNX Runtime refuses
				return w, false
			}
		case "VALID":
			w.out = append(w.out, (n-reach)/w.strides[i]+1)
		default:
			w.out = append(w.out, (n+before+after-reach)/w.strides[i]+1)
		}
		if w.out[i] < 1 {
			return w, false
		}
	}
	w.pads = append(w.pads, ends...)
	w.attrs = attrs("kernel_shape", w.kernel)
	if w.auto != "" {
		w.attrs = append(w.attrs, attrs("auto_pad", w.auto)...)
	}
	if w.auto == "" || w.auto == "NOTSET" {
		w.attrs = append(w.attrs, attrs("pads", w.pads)...)
	}
	if slices.Max(w.strides) > 1 || s.one(2) {
		w.attrs = append(w.attrs, attrs("strides", w.strides)...)
	}
	if dilated && (slices.Max(w.dilations) > 1 || s.one(4)) {
		w.attrs = append(w.attrs, attrs("dilations", w.dilations)...)
	}
	return w, true
}

// result is what a window makes of v, with some channels; 0: those of v.
func (w *window) result(v value, channels int64) result {
	shape, symbols := slices.Clone(v.shape), slices.Clone(v.symbols)
	if channels > 0 {
		shape[1], symbols[1] = channels, ""
	}
	for i, n := range w.out {
		shape[2+i], symbols[2+i] = n, ""
	}
	return result{v.elem, shape, symbols}
}

// channels draws the number of groups and of channels of a convolution.
func (s *scope) channels(in int64) (groups, out int64) {
	switch s.r.IntN(6) {
	case 0:
		return in, in * choose(s.drawing, int64(1), 1, 2)
	case 1:
		for _, g := range []int64{2, 3} {
			if in%g == 0 {
				return g, g * s.between(1, 5)
			}
		}
	}
	return 1, choose(s.drawing, in, s.between(1, 12), 8, 16)
}

// convolved draws the window and the groups of a convolution of v, whose result is r.
func (s *scope) convolved(v value) (w window, groups int64, r result, ok bool) {
	if w, ok = s.window(v, true, true); !ok {
		return w, 0, r, false
	}
	groups, out := s.channels(v.shape[1])
	r = w.result(v, out)
	return w, groups, r, product(r.shape) <= most
}

// conv adds a convolution, and often an activation.
func (s *scope) conv() bool {
	v, ok := s.float(4, 4, 4, 3, 5)
	if !ok || v.free(1) {
		return false
	}
	w, groups, r, ok := s.convolved(v)
	if !ok {
		return false
	}
	out := r.shape[1]
	list := w.attrs
	if groups > 1 || s.one(4) {
		list = append(list, attrs("group", groups)...)
	}
	per := v.shape[1] / groups
	inputs := []value{v, s.weight(per*product(w.kernel), append([]int64{out, per}, w.kernel...)...)}
	if s.one(2) {
		inputs = append(inputs, s.weight(10, out))
	}
	y := s.node("", "Conv", list, inputs, r)[0]
	if s.one(3) {
		s.unary(choose(s.drawing, "Relu", "LeakyRelu", "Sigmoid", "Tanh"), nil, y)
	}
	return true
}

// fusedConv adds a convolution of ONNX Runtime with an activation, and perhaps a summand.
func (s *scope) fusedConv() bool {
	v, ok := s.float(4)
	if !ok || v.free(1) {
		return false
	}
	w, ok := s.window(v, true, true)
	if !ok {
		return false
	}
	out := s.between(1, 9)
	r := w.result(v, out)
	inputs := []value{v, s.weight(v.shape[1]*product(w.kernel), append([]int64{out, v.shape[1]}, w.kernel...)...), s.weight(10, out)}
	if z, ok := s.pick(func(z value) bool { return z.elem == r.elem && z.is(r.shape, r.symbols) }); ok {
		inputs = append(inputs, z)
	}
	s.node(microsoft, "FusedConv", append(w.attrs, attrs("activation", choose(s.drawing, "Relu", "Sigmoid", "Tanh"))...), inputs, r)
	return true
}

// pool adds a pool.
func (s *scope) pool() bool {
	v, ok := s.float(4, 4, 4, 3, 5)
	if !ok {
		return false
	}
	op := choose(s.drawing, "MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
	w, ok := s.window(v, op == "MaxPool" && s.opset >= 10, false)
	if !ok {
		return false
	}
	list := w.attrs
	switch op {
	case "AveragePool":
		if s.one(2) {
			list = append(list, attrs("count_include_pad", 1)...)
		}
	case "LpPool":
		list = append(list, attrs("p", choose(s.drawing, 1, 2, 3))...)
	}
	if s.opset >= 10 && op != "LpPool" && (w.auto == "" || w.auto == "NOTSET") && s.one(4) {
		if out, ok := w.ceiled(v.shape[2:]); ok {
			list, w.out = append(list, attrs("ceil_mode", 1)...), out
		}
	}
	s.node("", op, list, []value{v}, w.result(v, 0))
	return true
}

// ceiled returns the sizes of a pool whose last window may reach over the padding. It is not ok if that
// window would begin in the padding: ONNX leaves it out, ONNX Runtime 1.32 counts it when it infers
// shapes, and refuses the model.
func (w *window) ceiled(sizes []int64) ([]int64, bool) {
	out := make([]int64, len(sizes))
	for i, n := range sizes {
		reach := w.dilations[i]*(w.kernel[i]-1) + 1
		before, after := w.pads[i], w.pads[len(w.kernel)+i]
		out[i] = (n+before+after-reach+w.strides[i]-1)/w.strides[i] + 1
		if (out[i]-1)*w.strides[i] >= n+before {
			return nil, false
		}
	}
	return out, true
}

// globalPool adds a global pool.
func (s *scope) globalPool() bool {
	v, ok := s.float(3, 4, 5)
	if !ok {
		return false
	}
	r := v.like()
	r.shape, r.symbols = slices.Clone(v.shape), slices.Clone(v.symbols)
	for a := 2; a < v.rank(); a++ {
		r.shape[a], r.symbols[a] = 1, ""
	}
	s.node("", choose(s.drawing, "GlobalAveragePool", "GlobalMaxPool"), nil, []value{v}, r)
	return true
}

// convTranspose adds a transposed convolution.
func (s *scope) convTranspose() bool {
	v, ok := s.float(4, 4, 3)
	if !ok || v.free(1) || v.free(v.rank()-1) {
		return false
	}
	groups, per := int64(1), s.between(1, 5)
	if s.one(4) {
		groups, per = v.shape[1], s.between(1, 2)
	}
	var kernel, strides, pads, ends, more []int64
	w := window{}
	for _, n := range v.shape[2:] {
		k, stride := s.between(1, 4), s.between(1, 3)
		before, after := s.r.Int64N(min(k, 2)), s.r.Int64N(min(k, 2))
		extra := int64(0)
		if stride > 1 && s.one(3) {
			extra = 1
		}
		kernel, strides, pads, ends, more = append(kernel, k), append(strides, stride), append(pads, before), append(ends, after), append(more, extra)
		w.out = append(w.out, stride*(n-1)+k-before-after+extra)
		if w.out[len(w.out)-1] < 1 {
			return false
		}
	}
	r := w.result(v, groups*per)
	if product(r.shape) > most {
		return false
	}
	list := attrs("kernel_shape", kernel, "strides", strides, "pads", append(pads, ends...), "group", groups)
	if slices.Max(more) > 0 {
		list = append(list, attrs("output_padding", more)...)
	}
	inputs := []value{v, s.weight(v.shape[1]/groups*product(kernel), append([]int64{v.shape[1], per}, kernel...)...)}
	if s.one(2) {
		inputs = append(inputs, s.weight(10, groups*per))
	}
	s.node("", "ConvTranspose", list, inputs, r)
	return true
}

// batchNorm adds a batch normalization that does not train.
func (s *scope) batchNorm() bool {
	v, ok := s.float(2, 3, 4, 4, 5)
	if !ok || v.free(1) {
		return false
	}
	c := v.shape[1]
	positive := s.constant(s.data(graph.Float32, []int64{c}, func() float64 { return 0.5 + s.r.Float64() }))
	list := attrs("epsilon", 1e-3)
	if s.opset < 9 && s.one(2) {
		list = append(list, attrs("spatial", 1)...)
	}
	s.unary("BatchNormalization", list, v, s.floats(1, 0.2, c), s.floats(0, 0.2, c), s.floats(0, 0.2, c), positive)
	return true
}

// instanceNorm adds a norm over the places of a channel, or of a group of them.
func (s *scope) instanceNorm() bool {
	v, ok := s.float(3, 4, 5)
	if !ok || v.free(1) || product(v.shape[2:]) < 3 {
		return false
	}
	c := v.shape[1]
	switch {
	case s.opset >= 21 && c%2 == 0 && s.one(2):
		s.unary("GroupNormalization", attrs("num_groups", 2), v, s.floats(1, 0.2, c), s.floats(0, 0.2, c))
	case s.opset >= 9 && s.one(4) && v.rank() == 4:
		s.unary("MeanVarianceNormalization", nil, v)
	default:
		s.unary("InstanceNormalization", attrs("epsilon", 1e-3), v, s.floats(1, 0.2, c), s.floats(0, 0.2, c))
	}
	return true
}

// lrn adds a norm over neighbouring channels.
func (s *scope) lrn() bool {
	v, ok := s.float(4)
	if !ok || v.free(1) {
		return false
	}
	s.unary("LRN", attrs("size", choose(s.drawing, 1, 3, 5), "alpha", 0.1), v)
	return true
}

// resize adds a node that changes the size of images.
func (s *scope) resize() bool {
	v, ok := s.float(4)
	if !ok || v.free(2) || v.free(3) {
		return false
	}
	r := v.like()
	r.shape, r.symbols = slices.Clone(v.shape), slices.Clone(v.symbols)
	scales := []float64{1, 1, choose(s.drawing, 1, 2.0, 2, 3, 0.5), choose(s.drawing, 1, 2.0, 2, 3, 0.5)}
	switch {
	case s.opset < 10: // Upsample
		scales[2], scales[3] = max(scales[2], 1), max(scales[3], 1)
	case s.one(8):
		scales[2], scales[3] = choose(s.drawing, 1.5, 0.6, 1.3), choose(s.drawing, 1.5, 0.6, 1.3)
	}
	for a := 2; a < 4; a++ {
		r.shape[a] = int64(float32(v.shape[a]) * float32(scales[a])) // as runtimes compute it
		if r.shape[a] < 1 {
			return false
		}
	}
	if product(r.shape) > most {
		return false
	}
	floats := make([]float32, 4)
	for i, x := range scales {
		floats[i] = float32(x)
	}
	i := -1
	mode := choose(s.drawing, "nearest", "nearest", "linear")
	scaled := func() value {
		return s.constant(s.data(graph.Float32, []int64{4}, func() float64 { i++; return scales[i] }))
	}
	switch {
	case s.opset < 9:
		a := attrs("mode", mode)
		a = append(a, &graph.Attr{Name: "scales", Type: graph.AttrFloats, Floats: floats})
		s.node("", "Upsample", a, []value{v}, r)
	case s.opset < 10:
		s.node("", "Upsample", attrs("mode", mode), []value{v, scaled()}, r)
	case s.opset < 11:
		s.node("", "Resize", attrs("mode", mode), []value{v, scaled()}, r)
	default:
		a := attrs("mode", choose(s.drawing, mode, mode, "cubic"), "coordinate_transformation_mode", choose(s.drawing, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
		if mode == "nearest" {
			a = attrs("mode", mode, "coordinate_transformation_mode", choose(s.drawing, "asymmetric", "half_pixel"), "nearest_mode", choose(s.drawing, "floor", "round_prefer_floor", "ceil"))
		}
		roi := left
		if s.opset < 13 {
			roi = s.constant(&graph.Data{Type: graph.Float32, Dims: []int64{0}})
		}
		if s.one(2) || v.anyFree() {
			s.node("", "Resize", a, []value{v, roi, scaled()}, r)
			return true
		}
		empty := left
		if s.opset < 13 {
			empty = s.constant(&graph.Data{Type: graph.Float32, Dims: []int64{0}})
		}
		s.node("", "Resize", a, []value{v, roi, empty, s.list(r.shape...)}, r)
	}
	return true
}

// depthToSpace moves channels to places or back.
func (s *scope) depthToSpace() bool {
	v, ok := s.float(4)
	if !ok || v.free(1) || v.free(2) || v.free(3) {
		return false
	}
	r := v.like()
	r.shape, r.symbols = slices.Clone(v.shape), slices.Clone(v.symbols)
	if s.one(2) && v.shape[1]%4 == 0 {
		r.shape[1], r.shape[2], r.shape[3] = v.shape[1]/4, v.shape[2]*2, v.shape[3]*2
		a := attrs("blocksize", 2)
		if s.opset >= 11 && s.one(2) {
			a = append(a, attrs("mode", "CRD")...)
		}
		s.node("", "DepthToSpace", a, []value{v}, r)
		return true
	}
	if v.shape[2]%2 != 0 || v.shape[3]%2 != 0 {
		return false
	}
	r.shape[1], r.shape[2], r.shape[3] = v.shape[1]*4, v.shape[2]/2, v.shape[3]/2
	s.node("", "SpaceToDepth", attrs("blocksize", 2), []value{v}, r)
	return true
}

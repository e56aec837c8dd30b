package randmodel

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var moves = []block{
	{weight: 4, add: (*scope).concat},
	{weight: 3, add: (*scope).halves},
	{weight: 3, add: (*scope).split},
	{weight: 2, add: (*scope).slice},
	{weight: 2, add: (*scope).transpose},
	{weight: 2, add: (*scope).flatten},
	{weight: 1, add: (*scope).pad},
	{weight: 1, add: (*scope).tile},
	{weight: 1, add: (*scope).gather},
	{weight: 1, add: (*scope).squeeze},
	{weight: 2, add: (*scope).reduce},
	{weight: 1, add: (*scope).shapeOf},
}

// concat joins values along an axis.
func (s *scope) concat() bool {
	v, ok := s.float(2, 3, 4, 4, 5)
	if !ok {
		return false
	}
	axis := choose(s.drawing, 1, 1, s.r.IntN(v.rank()))
	if v.free(axis) {
		return false
	}
	list, n := []value{v}, v.shape[axis]
	for range 1 + s.r.IntN(3) {
		w, ok := s.pick(func(w value) bool {
			if w.elem != v.elem || w.rank() != v.rank() || w.free(axis) {
				return false
			}
			shape, symbols := w.with(axis, v.shape[axis])
			return v.is(shape, symbols)
		})
		if ok && product(v.shape)/v.shape[axis]*(n+w.shape[axis]) <= most {
			list, n = append(list, w), n+w.shape[axis]
		}
	}
	if len(list) == 1 && s.r.IntN(4) > 0 {
		return false
	}
	s.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	shape, symbols := v.with(axis, n)
	s.node("", "Concat", attrs("axis", axis), list, result{v.elem, shape, symbols})
	return true
}

// cut adds a Split and returns its parts.
func (s *scope) cut(v value, axis int, parts ...int64) []value {
	var results []result
	for _, n := range parts {
		shape, symbols := v.with(axis, n)
		results = append(results, result{v.elem, shape, symbols})
	}
	a, inputs := attrs("axis", axis), []value{v}
	equal := slices.Max(parts) == slices.Min(parts)
	switch {
	case equal && s.one(3) && s.opset < 18:
	case equal && s.opset >= 18 && s.one(2):
		a = append(a, attrs("num_outputs", len(parts))...)
	case s.opset < 13:
		a = append(a, attrs("split", parts)...)
	default:
		inputs = append(inputs, s.list(parts...))
	}
	return s.hidden("", "Split", a, inputs, results...)
}

// axis draws an axis of v that is not free and has at least n elements.
func (s *scope) axis(v value, n int64) (int, bool) {
	var list []int
	for a := range v.rank() {
		if !v.free(a) && v.shape[a] >= n {
			list = append(list, a, a)
			if a == 1 {
				list = append(list, a, a)
			}
		}
	}
	if len(list) == 0 {
		return 0, false
	}
	return list[s.r.IntN(len(list))], true
}

// along draws a value and one of its axes, which is not free and has at least n elements.
func (s *scope) along(n int64, ranks ...int) (value, int, bool) {
	v, ok := s.float(ranks...)
	if !ok {
		return v, 0, false
	}
	axis, ok := s.axis(v, n)
	return v, axis, ok
}

// halves splits a value, does something with the parts and joins them.
func (s *scope) halves() bool {
	v, axis, ok := s.along(2, 2, 3, 4)
	if !ok {
		return false
	}
	n := v.shape[axis]
	first := n / 2
	if s.one(2) {
		first = s.between(1, n-1)
	}
	parts := s.cut(v, axis, first, n-first)
	if s.one(3) { // by two Slices in the place of a Split
		s.g.Nodes = s.g.Nodes[:len(s.g.Nodes)-1]
		s.g.Tensors = s.g.Tensors[:parts[0].id]
		parts = []value{s.part(v, axis, 0, first), s.part(v, axis, first, n)}
	}
	for i := range parts {
		if s.r.IntN(3) > 0 {
			parts[i] = s.hidden("", choose(s.drawing, "Relu", "Sigmoid", "Neg", "Tanh"), nil, parts[i:i+1], parts[i].like())[0]
		}
	}
	if s.one(3) {
		slices.Reverse(parts)
	}
	s.node("", "Concat", attrs("axis", axis), parts, v.like())
	if s.one(3) {
		s.all = append(s.all, parts...)
	}
	return true
}

// split adds a Split whose parts are read further on.
func (s *scope) split() bool {
	v, axis, ok := s.along(2, 2, 3, 4)
	if !ok {
		return false
	}
	n := v.shape[axis]
	parts := []int64{n / 2, n - n/2}
	switch {
	case n%3 == 0 && s.one(2):
		parts = []int64{n / 3, n / 3, n / 3}
	case n >= 3 && s.one(2):
		a := s.between(1, n-2)
		parts = []int64{a, 1, n - a - 1}
	}
	s.all = append(s.all, s.cut(v, axis, parts...)...)
	return true
}

// part adds a Slice of the elements from to to-1 of an axis.
func (s *scope) part(v value, axis int, from, to int64) value {
	shape, symbols := v.with(axis, to-from)
	r := result{v.elem, shape, symbols}
	if to == v.shape[axis] && s.one(2) {
		to = 1 << 40
	}
	if s.opset < 10 {
		return s.hidden("", "Slice", attrs("axes", []int64{int64(axis)}, "starts", []int64{from}, "ends", []int64{to}), []value{v}, r)[0]
	}
	inputs := []value{v, s.list(from), s.list(to), s.list(int64(axis))}
	if s.one(3) {
		inputs = append(inputs, s.list(1))
	}
	return s.hidden("", "Slice", nil, inputs, r)[0]
}

// slice adds a Slice, sometimes with steps.
func (s *scope) slice() bool {
	v, axis, ok := s.along(2, 2, 3, 4)
	if !ok {
		return false
	}
	n := v.shape[axis]
	if s.opset >= 10 && s.one(3) {
		step := choose(s.drawing, int64(2), -1, 3)
		from, to, length := int64(0), n, (n+step-1)/step
		if step < 0 {
			from, to, length = n-1, -1<<40, n
		}
		shape, symbols := v.with(axis, length)
		s.node("", "Slice", nil, []value{v, s.list(from), s.list(to), s.list(int64(axis)), s.list(step)}, result{v.elem, shape, symbols})
		return true
	}
	from := s.r.Int64N(n)
	s.all = append(s.all, s.part(v, axis, from, s.between(from+1, n)))
	return true
}

// transposed adds a Transpose.
func (s *scope) transposed(v value, perm ...int) value {
	r := result{elem: v.elem}
	var list []int64
	for _, a := range perm {
		r.shape, r.symbols, list = append(r.shape, v.shape[a]), append(r.symbols, v.symbols[a]), append(list, int64(a))
	}
	return s.hidden("", "Transpose", attrs("perm", list), []value{v}, r)[0]
}

// transpose adds a Transpose of a random permutation.
func (s *scope) transpose() bool {
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	s.all = append(s.all, s.transposed(v, s.r.Perm(v.rank())...))
	return true
}

// reshaped adds a Reshape that keeps the first axes and gives the others these lengths.
func (s *scope) reshaped(v value, kept int, lengths ...int64) value {
	r := result{v.elem, append(slices.Clone(v.shape[:kept]), lengths...), append(slices.Clone(v.symbols[:kept]), make([]string, len(lengths))...)}
	to := append(make([]int64, kept), lengths...)
	if !slices.ContainsFunc(v.symbols[:kept], func(s string) bool { return s != "" }) && s.one(2) {
		to = slices.Clone(r.shape)
	}
	if s.one(3) && len(lengths) > 0 {
		to[kept+s.r.IntN(len(lengths))] = -1
	}
	return s.hidden("", "Reshape", nil, []value{v, s.list(to...)}, r)[0]
}

// fixedFrom reports whether all axes from the given one on have a fixed length.
func (v value) fixedFrom(axis int) bool {
	return !slices.ContainsFunc(v.symbols[axis:], func(s string) bool { return s != "" })
}

// flatten gives a value another number of axes.
func (s *scope) flatten() bool {
	v, ok := s.float(3, 4, 5)
	if !ok || !v.fixedFrom(1) {
		return false
	}
	rest := product(v.shape[1:])
	switch {
	case v.rank() > 3 && s.one(2): // places become a sequence
		w := s.reshaped(v, 1, v.shape[1], product(v.shape[2:]))
		if s.one(2) {
			w = s.transposed(w, 0, 2, 1)
		}
		s.all = append(s.all, w)
	case v.rank() == 3 && s.one(2): // a sequence becomes an image
		for _, n := range []int64{2, 3} {
			if v.shape[2]%n == 0 {
				s.all = append(s.all, s.reshaped(v, 1, v.shape[1], n, v.shape[2]/n))
				return true
			}
		}
		return false
	case rest > 600:
		return false
	case s.one(2):
		s.node("", "Flatten", attrs("axis", 1), []value{v}, result{v.elem, []int64{v.shape[0], rest}, []string{v.symbols[0], ""}})
	default:
		s.all = append(s.all, s.reshaped(v, 1, rest))
	}
	return true
}

// pad adds a Pad.
func (s *scope) pad() bool {
	v, axis, ok := s.along(3, 2, 3, 4)
	if !ok {
		return false
	}
	pads := make([]int64, 2*v.rank())
	pads[axis], pads[axis+v.rank()] = s.r.Int64N(3), s.r.Int64N(3)
	shape, symbols := v.with(axis, v.shape[axis]+pads[axis]+pads[axis+v.rank()])
	mode := choose(s.drawing, "constant", "constant", "reflect", "edge")
	if product(shape) > most {
		return false
	}
	if s.opset < 11 {
		s.node("", "Pad", attrs("mode", mode, "pads", pads), []value{v}, result{v.elem, shape, symbols})
		return true
	}
	inputs := []value{v, s.list(pads...)}
	if mode == "constant" && s.one(2) {
		inputs = append(inputs, s.scalar(graph.Float32, 0.25))
	}
	s.node("", "Pad", attrs("mode", mode), inputs, result{v.elem, shape, symbols})
	return true
}

// tile repeats a value.
func (s *scope) tile() bool {
	v, ok := s.float(2, 3, 4)
	if !ok || v.elements() > most/4 {
		return false
	}
	axis, ok := s.axis(v, 1)
	if !ok {
		return false
	}
	if s.opset >= 8 && s.one(2) {
		wide := slices.Clone(v.shape)
		for i := range wide {
			wide[i] = 1
		}
		if v.shape[axis] != 1 {
			return false
		}
		wide[axis] = 3
		shape, symbols := v.with(axis, 3)
		s.node("", "Expand", nil, []value{v, s.list(wide...)}, result{v.elem, shape, symbols})
		return true
	}
	times := make([]int64, v.rank())
	for i := range times {
		times[i] = 1
	}
	times[axis] = 2
	shape, symbols := v.with(axis, 2*v.shape[axis])
	s.node("", "Tile", nil, []value{v, s.list(times...)}, result{v.elem, shape, symbols})
	return true
}

// gather takes rows of a value.
func (s *scope) gather() bool {
	v, axis, ok := s.along(2, 2, 3, 4)
	if !ok {
		return false
	}
	n := v.shape[axis]
	if s.one(3) { // one row, whose axis goes
		r := result{v.elem, slices.Delete(slices.Clone(v.shape), axis, axis+1), slices.Delete(slices.Clone(v.symbols), axis, axis+1)}
		s.node("", "Gather", attrs("axis", axis), []value{v, s.scalar(graph.Int64, float64(s.r.Int64N(n)))}, r)
		return true
	}
	var rows []int64
	for range s.between(1, min(n, 5)) {
		rows = append(rows, s.r.Int64N(n))
	}
	shape, symbols := v.with(axis, int64(len(rows)))
	s.node("", "Gather", attrs("axis", axis), []value{v, s.list(rows...)}, result{v.elem, shape, symbols})
	return true
}

// squeeze adds or removes an axis of one element.
func (s *scope) squeeze() bool {
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	op, axis := "Unsqueeze", s.r.IntN(v.rank()+1)
	r := result{elem: v.elem}
	for a, n := range v.shape {
		if n == 1 && !v.free(a) && a > 0 && v.rank() > 2 {
			op, axis = "Squeeze", a
			r.shape, r.symbols = slices.Delete(slices.Clone(v.shape), a, a+1), slices.Delete(slices.Clone(v.symbols), a, a+1)
			break
		}
	}
	if op == "Unsqueeze" {
		if v.rank() > 3 {
			return false
		}
		r.shape, r.symbols = slices.Insert(slices.Clone(v.shape), axis, 1), slices.Insert(slices.Clone(v.symbols), axis, "")
	}
	if s.opset < 13 {
		s.node("", op, attrs("axes", []int64{int64(axis)}), []value{v}, r)
	} else {
		s.node("", op, nil, []value{v, s.list(int64(axis))}, r)
	}
	return true
}

// reduce reduces an axis.
func (s *scope) reduce() bool {
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	axis, keep := s.r.IntN(v.rank()), s.r.IntN(2)
	if v.rank() == 2 {
		keep = 1
	}
	r := result{elem: v.elem}
	r.shape, r.symbols = v.with(axis, 1)
	if keep == 0 {
		r.shape, r.symbols = slices.Delete(r.shape, axis, axis+1), slices.Delete(r.symbols, axis, axis+1)
	}
	op := choose(s.drawing, "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
	if s.opset >= 18 || op == "ReduceSum" && s.opset >= 13 {
		s.node("", op, attrs("keepdims", keep), []value{v, s.list(int64(axis))}, r)
	} else {
		s.node("", op, attrs("keepdims", keep, "axes", []int64{int64(axis)}), []value{v}, r)
	}
	return true
}

// shapeOf computes the shape of a Reshape from that of a value.
func (s *scope) shapeOf() bool {
	v, ok := s.float(3, 4)
	if !ok || !v.fixedFrom(1) || product(v.shape[1:]) > 600 {
		return false
	}
	shape := s.hidden("", "Shape", nil, []value{v}, result{graph.Int64, []int64{int64(v.rank())}, nil})[0]
	first := s.hidden("", "Gather", nil, []value{shape, s.list(0)}, result{graph.Int64, []int64{1}, nil})[0]
	to := s.hidden("", "Concat", attrs("axis", 0), []value{first, s.list(-1)}, result{graph.Int64, []int64{2}, nil})[0]
	s.node("", "Reshape", nil, []value{v, to}, result{v.elem, []int64{v.shape[0], product(v.shape[1:])}, []string{v.symbols[0], ""}})
	return true
}

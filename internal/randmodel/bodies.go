package randmodel

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var bodies = []block{
	{weight: 2, add: (*scope).branches},
	{weight: 2, add: (*scope).loop},
	{weight: 2, since: 9, add: (*scope).scan},
}

// deepest is the largest depth of bodies.
const deepest = 2

// body draws a graph within a node of s: inputs as given, some blocks.
func (s *scope) body() *scope {
	return &scope{drawing: s.drawing, g: &graph.Graph{Name: s.name("body")}, outer: s, inner: map[graph.TensorID]graph.TensorID{}}
}

// finish ends a body.
func (s *scope) finish() *graph.Graph {
	s.g.Link()
	return s.g
}

// some adds blocks to a body.
func (s *scope) some(n int) {
	s.depth++
	for range n {
		s.block()
	}
	s.depth--
}

// made draws a value that the body s itself makes or has as an input, else it copies v.
func (s *scope) made(v value) value {
	var list []value
	for _, w := range s.all {
		if w.is(v.shape, v.symbols) && w.elem == v.elem {
			list = append(list, w)
		}
	}
	for _, w := range slices.Backward(list) {
		if s.r.IntN(3) > 0 {
			return w
		}
	}
	return s.hidden("", choose(s.drawing, "Relu", "Tanh", "Neg"), nil, []value{v}, v.like())[0]
}

// condition returns a bool: an input, a constant, or computed.
func (s *scope) condition() value {
	switch s.r.IntN(4) {
	case 0:
		return s.main().input("cond", graph.Bool, []int64{}, nil)
	case 1:
		return s.scalar(graph.Bool, float64(s.r.IntN(2)))
	}
	v, ok := s.float(2, 3, 4)
	if !ok || s.opset < 9 {
		return s.main().input("cond", graph.Bool, []int64{}, nil)
	}
	sum := s.hidden("", "ReduceMax", attrs("keepdims", 0), []value{v}, result{v.elem, []int64{}, nil})[0]
	return s.hidden("", "Greater", nil, []value{sum, s.scalar(graph.Float32, 0.5)}, result{graph.Bool, []int64{}, nil})[0]
}

// branches adds an If.
func (s *scope) branches() bool {
	if s.depth >= deepest {
		return false
	}
	v, ok := s.float(2, 3, 4)
	if !ok {
		return false
	}
	w, second := v, s.one(3)
	if second {
		w, _ = s.float(2, 3, 4)
	}
	cond := s.condition()
	var list []*graph.Graph
	for range 2 {
		b := s.body()
		b.some(s.r.IntN(4))
		b.output(b.made(v))
		if second {
			b.output(b.made(w))
		}
		list = append(list, b.finish())
	}
	results := []result{v.like()}
	if second {
		results = append(results, w.like())
	}
	s.node("", "If", attrs("then_branch", list[0], "else_branch", list[1]), []value{cond}, results...)
	return true
}

// loop adds a Loop with a carried value, and perhaps one that is stacked.
func (s *scope) loop() bool {
	if s.depth >= deepest {
		return false
	}
	v, ok := s.float(2, 3)
	if !ok || v.elements() > most/8 {
		return false
	}
	b := s.body()
	iteration := b.input("i", graph.Int64, []int64{}, nil)
	cond := b.input("keep", graph.Bool, []int64{}, nil)
	carried := b.input("state", v.elem, v.shape, v.symbols)
	b.all = append(b.all, carried)
	if s.one(4) { // read the number of the iteration
		x := b.hidden("", "Cast", attrs("to", int64(graph.Float32)), []value{iteration}, result{graph.Float32, []int64{}, nil})[0]
		b.node("", "Add", nil, []value{carried, x}, carried.like())
	}
	b.some(1 + s.r.IntN(3))
	next := b.made(carried)
	keep := cond
	if s.one(2) {
		keep = b.hidden("", "Identity", nil, []value{cond}, cond.like())[0]
	}
	b.output(keep)
	b.output(b.hidden("", "Tanh", nil, []value{next}, next.like())[0])
	trips := s.between(0, 3)
	count := s.scalar(graph.Int64, float64(trips))
	results := []result{v.like()}
	stacked := s.one(2) && trips > 0
	if stacked {
		y, ok := value{}, false
		for _, w := range slices.Backward(b.all) {
			if w.elem == graph.Float32 && w.of == b && w.elements() < most/8 {
				y, ok = w, true
				break
			}
		}
		if !ok || y.anyFree() {
			y = next
		}
		if y.anyFree() {
			stacked = false
		} else {
			b.output(b.hidden("", "Neg", nil, []value{y}, y.like())[0])
			results = append(results, result{y.elem, append([]int64{trips}, y.shape...), append([]string{""}, y.symbols...)})
		}
	}
	inputs := []value{count, left, v}
	switch s.r.IntN(4) {
	case 0:
		inputs[1] = s.scalar(graph.Bool, 1)
	case 1:
		if !stacked {
			inputs[0] = s.main().input("trip", graph.Int64, []int64{}, nil)
		}
	}
	s.node("", "Loop", attrs("body", b.finish()), inputs, results...)
	return true
}

// scan adds a Scan over an axis, with a state and a stacked result.
func (s *scope) scan() bool {
	if s.depth >= deepest {
		return false
	}
	v, ok := s.float(3, 4)
	if !ok {
		return false
	}
	axis := s.r.IntN(2)
	b := s.body()
	shape, symbols := slices.Delete(slices.Clone(v.shape), axis, axis+1), slices.Delete(slices.Clone(v.symbols), axis, axis+1)
	state, stated := value{}, s.r.IntN(4) > 0
	var inputs []value
	var results []result
	if stated {
		w, ok := s.pick(func(w value) bool { return w.elem == v.elem && w.rank() >= 2 && w.elements() < most/8 })
		if !ok {
			stated = false
		} else {
			state = b.input("state", w.elem, w.shape, w.symbols)
			b.all = append(b.all, state)
			inputs, results = append(inputs, w), append(results, w.like())
		}
	}
	row := b.input("row", v.elem, shape, symbols)
	b.all = append(b.all, row)
	b.some(1 + s.r.IntN(3))
	if stated {
		next := b.made(state)
		b.output(b.hidden("", "Tanh", nil, []value{next}, next.like())[0])
	}
	y := b.made(row)
	if s.one(3) {
		for _, w := range b.all {
			if w.of == b && w.elem == graph.Float32 && w.elements()*v.shape[axis] < most {
				y = w
			}
		}
	}
	b.output(b.hidden("", choose(s.drawing, "Neg", "Relu"), nil, []value{y}, y.like())[0])
	inputs = append(inputs, v)
	out := 0
	if y.rank() > 0 && s.one(3) {
		out = s.r.IntN(y.rank() + 1)
	}
	results = append(results, result{y.elem, slices.Insert(slices.Clone(y.shape), out, v.shape[axis]), slices.Insert(slices.Clone(y.symbols), out, v.symbols[axis])})
	a := attrs("body", b.finish(), "num_scan_inputs", 1)
	if axis != 0 {
		a = append(a, attrs("scan_input_axes", []int64{int64(axis)})...)
	}
	if out != 0 {
		a = append(a, attrs("scan_output_axes", []int64{int64(out)})...)
	}
	if s.one(4) {
		a = append(a, attrs("scan_input_directions", []int64{1})...)
	}
	s.node("", "Scan", a, inputs, results...)
	return true
}

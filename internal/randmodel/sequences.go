package randmodel

import (
	"github.com/onnxmem/onnxmem/graph"
)

var sequences = []block{
	{weight: 2, add: (*scope).recurrent},
	{weight: 1, since: 11, add: (*scope).cumSum},
	{weight: 1, add: (*scope).topK},
}

// recurrent adds an RNN, GRU or LSTM whose weights are initializers or inputs.
func (s *scope) recurrent() bool {
	v, ok := s.float(3)
	if !ok || v.free(2) {
		return false
	}
	if !s.one(4) {
		v = s.transposed(v, 1, 0, 2)
	}
	op := choose(s.drawing, "RNN", "GRU", "GRU", "LSTM", "LSTM")
	gates := map[string]int64{"RNN": 1, "GRU": 3, "LSTM": 4}[op]
	hidden, directions := s.between(1, 6), int64(1)
	direction := choose(s.drawing, "forward", "forward", "reverse", "bidirectional")
	if direction == "bidirectional" {
		directions = 2
	}
	a := attrs("hidden_size", hidden)
	if direction != "forward" || s.one(3) {
		a = append(a, attrs("direction", direction)...)
	}
	if op == "GRU" && s.one(2) {
		a = append(a, attrs("linear_before_reset", 1)...)
	}
	weight := func(terms int64, shape ...int64) value { return s.weight(terms, shape...) }
	if s.one(4) {
		weight = func(_ int64, shape ...int64) value { return s.main().input("w", graph.Float32, shape, nil) }
	}
	inputs := []value{v, weight(v.shape[2], directions, gates*hidden, v.shape[2]), weight(hidden, directions, gates*hidden, hidden)}
	length, batch := v.shape[0], v.shape[1]
	if s.one(2) {
		inputs = append(inputs, weight(20, directions, 2*gates*hidden))
		if s.one(3) && !v.free(1) && !v.free(0) {
			lengths := s.constant(s.data(graph.Int32, []int64{batch}, func() float64 { return float64(s.between(1, length)) }))
			inputs = append(inputs, lengths)
			if s.one(2) {
				inputs = append(inputs, s.floats(0, 0.5, directions, batch, hidden))
			}
		}
	}
	sequence := result{v.elem, []int64{length, directions, batch, hidden}, []string{v.symbols[0], "", v.symbols[1], ""}}
	last := result{v.elem, []int64{directions, batch, hidden}, []string{"", v.symbols[1], ""}}
	results := []result{sequence}
	switch s.r.IntN(4) {
	case 0:
		results = []result{{}, last}
	case 1:
		results = append(results, last)
	}
	y := s.hidden("", op, a, inputs, results...)
	for _, y := range y {
		if y.rank() == 3 {
			s.all = append(s.all, y)
			continue
		}
		// [length, directions, batch, hidden]
		if directions == 1 && s.one(2) && !y.free(0) && !y.free(2) {
			s.all = append(s.all, s.transposed(s.reshaped(y, 0, length, batch, hidden), 1, 0, 2))
			continue
		}
		s.all = append(s.all, s.transposed(y, 2, 1, 0, 3))
	}
	return true
}

// cumSum adds sums up to each element.
func (s *scope) cumSum() bool {
	v, ok := s.float(2, 3)
	if !ok {
		return false
	}
	s.unary("CumSum", nil, v, s.scalar(graph.Int64, float64(s.r.IntN(v.rank()))))
	return true
}

// topK takes the largest elements, and not their places: two that are nearly equal may
// swap.
func (s *scope) topK() bool {
	v, ok := s.float(2, 3)
	if !ok || v.free(v.rank()-1) {
		return false
	}
	last := v.rank() - 1
	k := s.between(1, v.shape[last])
	shape, symbols := v.with(last, k)
	r := result{v.elem, shape, symbols}
	if s.opset < 10 {
		s.node("", "TopK", attrs("k", k), []value{v}, r, result{graph.Int64, shape, symbols})
	} else {
		s.node("", "TopK", nil, []value{v, s.list(k)}, r, result{graph.Int64, shape, symbols})
	}
	s.all = s.all[:len(s.all)-1]
	return true
}

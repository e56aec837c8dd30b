package kernel

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// recurrence lists the recurrent layers.
var recurrence = family{"", []Kernel{
	{Name: "RNN", Make: recurrent(1)},
	{Name: "GRU", Make: recurrent(3)},
	{Name: "LSTM", Make: recurrent(4)},
}}

// recurrent makes the kernel of a layer by its number of gates: RNN (1), GRU (z, r, h)
// or LSTM (i, o, f, c).
func recurrent(gates int) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return makeLayer(c, gates)
		case graph.Float64:
			return recurrentOf[float64](c, gates)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

// sequence is a recurrent node. In layout 0, X is [steps, batch, input], Y is [steps,
// directions, batch, hidden], and states are [directions, batch, hidden]. In layout 1
// the batch comes first.
type sequence[T floating] struct {
	c                                    *Invocation
	gates, steps, batch, input, hidden   int
	directions                           int
	batchFirst, backward, before, couple bool
	clip                                 float64
	acts                                 []func(float64) float64
	rows                                 []func(d, s []float32) // acts, for many numbers; d may be s
}

// sequenceOf reads the shapes and attributes of a node.
func sequenceOf[T floating](c *Invocation, gates int) (*sequence[T], error) {
	f, err := c.Recurrent(gates)
	if err != nil {
		return nil, err
	}
	s := &sequence[T]{
		c: c, gates: gates, steps: f.Steps, batch: f.Batch, input: f.Input, hidden: f.Hidden, directions: f.Directions,
		batchFirst: f.BatchFirst, backward: f.Backward, before: f.Before, couple: f.Couple, clip: f.Clip,
	}
	s.activate(f.Activations)
	return s, nil
}

func recurrentOf[T floating](c *Invocation, gates int) (Run, error) {
	s, err := sequenceOf[T](c, gates)
	if err != nil {
		return nil, err
	}
	// Each worker needs the gates of one batch element, its states, and one state in the
	// tensors' dtype.
	each, typed := c.Each(mul(8, 2*gates+3, s.hidden)), c.Each(mul(8, s.hidden))
	var pool *work.Pool
	part := func(p, worker int) {
		s.line(p/s.batch, p%s.batch, span[float64](pool.Each(worker, each), (2*gates+3)*s.hidden), span[T](pool.Each(worker, typed), s.hidden))
	}
	return func(w *work.Pool) error {
		if err := s.checkLengths(); err != nil {
			return err
		}
		pool = w
		w.For(s.directions*s.batch, part)
		return nil
	}, nil
}

// reversed reports whether direction d begins at the end.
func (s *sequence[T]) reversed(d int) bool { return s.backward || d == 1 }

// length is the length of sequence b.
func (s *sequence[T]) length(b int) int {
	if s.c.Has(4) {
		return int(data[int32](s.c.In[4])[b])
	}
	return s.steps
}

// checkLengths fails at the first sequence that is longer than the input.
func (s *sequence[T]) checkLengths() error {
	if !s.c.Has(4) {
		return nil
	}
	for b, n := range data[int32](s.c.In[4]) {
		if n < 0 || int(n) > s.steps {
			return fmt.Errorf("input 4: sequence %d has length %d, expected one in [0, %d]", b, n, s.steps)
		}
	}
	return nil
}

// activate sets the functions of the activations.
func (s *sequence[T]) activate(list []form.Activation) {
	for _, a := range list {
		alpha, beta := float64(a.Alpha), float64(a.Beta)
		var f func(float64) float64
		var row func(d, s []float32)
		switch a.Name {
		case "sigmoid":
			f, row = sigmoid, simd.Sigmoid
		case "tanh":
			f, row = math.Tanh, simd.Tanh
		case "relu":
			f = func(x float64) float64 { return max(x, 0) }
		case "softsign":
			f = func(x float64) float64 { return x / (1 + math.Abs(x)) }
		case "softplus":
			f = softplus
		case "affine":
			f = func(x float64) float64 { return alpha*x + beta }
		case "leakyrelu":
			f = func(x float64) float64 { return max(x, 0) + alpha*min(x, 0) }
		case "thresholdedrelu":
			f = func(x float64) float64 {
				if x > alpha {
					return x
				}
				return 0
			}
		case "scaledtanh":
			f = func(x float64) float64 { return alpha * math.Tanh(beta*x) }
		case "hardsigmoid":
			f = func(x float64) float64 { return max(0, min(1, alpha*x+beta)) }
		case "elu":
			f = func(x float64) float64 {
				if x < 0 {
					return alpha * math.Expm1(x)
				}
				return x
			}
		}
		if row == nil {
			row = func(d, s []float32) {
				for i, x := range s {
					d[i] = float32(f(float64(x)))
				}
			}
		}
		s.acts, s.rows = append(s.acts, f), append(s.rows, row)
	}
}

// cut clips the input of an activation (attribute clip).
func (s *sequence[T]) cut(x float64) float64 {
	if s.clip > 0 {
		return max(-s.clip, min(s.clip, x))
	}
	return x
}

// line runs one direction for one batch element.
func (s *sequence[T]) line(d, b int, scratch []float64, typed []T) {
	n, g := s.hidden, s.gates
	wx, rh := scratch[:g*n], scratch[g*n:2*g*n]
	h, cell, next := scratch[2*g*n:(2*g+1)*n], scratch[(2*g+1)*n:(2*g+2)*n], scratch[(2*g+2)*n:]
	s.state(h, 5, d, b)
	s.state(cell, 6, d, b)
	length := s.length(b)
	acts := s.acts[len(s.acts)/s.directions*d:]
	w := data[T](s.c.In[1])[d*g*n*s.input:]
	r := data[T](s.c.In[2])[d*g*n*n:]
	var bias []T
	if s.c.Has(3) {
		bias = data[T](s.c.In[3])[d*2*g*n:]
	}
	m := s.c.Meter()
	for t := range s.steps {
		m.Add(n)
		at := t
		if s.reversed(d) {
			at = length - 1 - t
		}
		if t >= length {
			s.output(t, d, b, nil)
			continue
		}
		x := data[T](s.c.In[0])[s.place(at, b)*s.input:][:s.input]
		for i, v := range h {
			typed[i] = T(v)
		}
		for k := range wx {
			m.Add(s.input + n)
			sum, rec := dot(w[k*s.input:(k+1)*s.input], x), dot(r[k*n:(k+1)*n], typed)
			if bias != nil {
				sum += float64(bias[k])
				rec += float64(bias[g*n+k])
			}
			wx[k], rh[k] = sum, rec
		}
		switch g {
		case 1:
			for i := range n {
				next[i] = acts[0](s.cut(wx[i] + rh[i]))
			}
		case 3:
			s.gru(acts, wx, rh, h, next, r, bias, typed)
		default:
			s.lstm(acts, d, wx, rh, cell, next)
		}
		copy(h, next)
		s.output(at, d, b, h)
	}
	s.final(1, d, b, h)
	s.final(2, d, b, cell)
}

// dot is the dot product in float64.
func dot[T floating](a, b []T) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

// gru computes the next state, with z as the update gate and r as the reset gate.
func (s *sequence[T]) gru(acts []func(float64) float64, wx, rh, h, next []float64, r, bias, typed []T) {
	n := s.hidden
	for i := range n {
		wx[i] = acts[0](s.cut(wx[i] + rh[i]))       // z
		wx[n+i] = acts[0](s.cut(wx[n+i] + rh[n+i])) // r
		typed[i] = T(wx[n+i] * h[i])
	}
	m := s.c.Meter()
	for i := range n {
		m.Add(n)
		rec := wx[n+i] * rh[2*n+i]
		if !s.before {
			rec = dot(r[(2*n+i)*n:(2*n+i+1)*n], typed)
			if bias != nil {
				rec += float64(bias[3*n+2*n+i])
			}
		}
		candidate := acts[1](s.cut(wx[2*n+i] + rec))
		next[i] = (1-wx[i])*candidate + wx[i]*h[i]
	}
}

// lstm computes the next state and cell, with peepholes.
func (s *sequence[T]) lstm(acts []func(float64) float64, d int, wx, rh, cell, next []float64) {
	n := s.hidden
	var peep []T
	if s.c.Has(7) {
		peep = data[T](s.c.In[7])[d*3*n:]
	}
	for i := range n {
		in, out, forget, c := wx[i]+rh[i], wx[n+i]+rh[n+i], wx[2*n+i]+rh[2*n+i], wx[3*n+i]+rh[3*n+i]
		if peep != nil {
			in += float64(peep[i]) * cell[i]
			forget += float64(peep[2*n+i]) * cell[i]
		}
		in = acts[0](s.cut(in))
		forget = acts[0](s.cut(forget))
		if s.couple {
			forget = 1 - in
		}
		cell[i] = forget*cell[i] + in*acts[1](s.cut(c))
		if peep != nil {
			out += float64(peep[n+i]) * cell[i]
		}
		next[i] = acts[0](s.cut(out)) * acts[2](cell[i])
	}
}

// place is the row of X at step t of batch element b.
func (s *sequence[T]) place(t, b int) int {
	if s.batchFirst {
		return b*s.steps + t
	}
	return t*s.batch + b
}

// state reads an initial state, which is 0 if the input is omitted.
func (s *sequence[T]) state(to []float64, input, d, b int) {
	clear(to)
	for i, v := range s.initial(input, d, b) {
		to[i] = float64(v)
	}
}

// initial is the row of an initial state; nil if the input is omitted.
func (s *sequence[T]) initial(input, d, b int) []T {
	if !s.c.Has(input) || input == 6 && s.gates != 4 {
		return nil
	}
	return s.ofState(s.c.In[input], d, b)
}

// ofState is the row of a tensor of states.
func (s *sequence[T]) ofState(t *Tensor, d, b int) []T {
	row := d*s.batch + b
	if s.batchFirst {
		row = b*s.directions + d
	}
	return data[T](t)[row*s.hidden:][:s.hidden]
}

// ofY is the row of Y at step t; nil if the output is omitted.
func (s *sequence[T]) ofY(t, d, b int) []T {
	if !s.c.HasOut(0) {
		return nil
	}
	row := (t*s.directions+d)*s.batch + b
	if s.batchFirst {
		row = (b*s.steps+t)*s.directions + d
	}
	return data[T](s.c.Out[0])[row*s.hidden:][:s.hidden]
}

// output writes a row of Y, or zeros if h is nil.
func (s *sequence[T]) output(t, d, b int, h []float64) {
	to := s.ofY(t, d, b)
	clear(to)
	for i := range min(len(to), len(h)) {
		to[i] = T(h[i])
	}
}

// final writes a final state.
func (s *sequence[T]) final(output, d, b int, h []float64) {
	if !s.c.HasOut(output) {
		return
	}
	to := s.ofState(s.c.Out[output], d, b)
	for i, v := range h {
		to[i] = T(v)
	}
}

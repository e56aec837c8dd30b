package reference

import (
	"math"
	"slices"
	"strings"
)

// recurrentOperators are the recurrent layers.
var recurrentOperators = []operator{
	{"RNN", recurrent(1, 1, rnnStep, "Tanh")},
	{"GRU", recurrent(3, 2, gruStep, "Sigmoid", "Tanh")},
	{"LSTM", recurrent(4, 3, lstmStep, "Sigmoid", "Tanh", "Tanh")},
}

// cell is one direction of a recurrent operator.
type cell struct {
	c       *evaluation
	hidden  int
	fromX   func(gate, unit int, x []float64) float64 // W·x + bias
	fromH   func(gate, unit int, h []float64) float64 // R·h + bias
	peep    func(gate, unit int) float64
	act     []func(float64) float64
	clipped func(float64) float64
	widest  float64 // the largest sum of terms of a gate so far
}

// gate applies activation number a to the sum of the contributions of x and h, and more.
func (l *cell) gate(a, g, unit int, x, h []float64, more float64) float64 {
	return l.act[a](l.clipped(l.fromX(g, unit, x) + l.fromH(g, unit, h) + more))
}

func rnnStep(l *cell, x, h, _ []float64) (next, _ []float64) {
	for u := range l.hidden {
		next = append(next, l.gate(0, 0, u, x, h, 0))
	}
	return next, nil
}

// gruStep computes a step with the gates z, r, h.
func gruStep(l *cell, x, h, _ []float64) (next, _ []float64) {
	reset := make([]float64, l.hidden)
	gated := make([]float64, l.hidden)
	for u := range reset {
		reset[u] = l.gate(0, 1, u, x, h, 0)
		gated[u] = reset[u] * h[u]
	}
	for u := range l.hidden {
		z := l.gate(0, 0, u, x, h, 0)
		inner := l.fromH(2, u, gated)
		if l.c.int("linear_before_reset", 0) != 0 {
			inner = reset[u] * l.fromH(2, u, h)
		}
		candidate := l.act[1](l.clipped(l.fromX(2, u, x) + inner))
		next = append(next, (1-z)*candidate+z*h[u])
	}
	return next, nil
}

// lstmStep computes a step with the gates i, o, f, c and the peepholes i, o, f.
func lstmStep(l *cell, x, h, state []float64) (next, nextState []float64) {
	for u := range l.hidden {
		in := l.gate(0, 0, u, x, h, l.peep(0, u)*state[u])
		forget := 1 - in
		if l.c.int("input_forget", 0) == 0 {
			forget = l.gate(0, 2, u, x, h, l.peep(2, u)*state[u])
		}
		s := forget*state[u] + in*l.gate(1, 3, u, x, h, 0)
		out := l.gate(0, 1, u, x, h, l.peep(1, u)*s)
		next, nextState = append(next, out*l.act[2](s)), append(nextState, s)
	}
	return next, nextState
}

// activation returns one of the functions that recurrent operators name.
func activation(name string) func(float64) float64 {
	switch strings.ToLower(name) {
	case "sigmoid":
		return sigmoid
	case "tanh":
		return math.Tanh
	case "relu":
		return func(v float64) float64 { return math.Max(v, 0) }
	case "softsign":
		return func(v float64) float64 { return v / (1 + math.Abs(v)) }
	case "softplus":
		return softplus
	}
	fail("activation %q", name)
	return nil
}

// recurrent runs each sample through its sequence, forwards, backwards or both. The
// outputs after the end of a short sequence are zero.
func recurrent(gates, activations int, step func(l *cell, x, h, state []float64) (next, nextState []float64), usual ...string) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		x, w, r := c.x(0), c.x(1), c.x(2)
		batchFirst := c.int("layout", 0) != 0
		initial := []*Tensor{c.x(5), c.x(6)}
		if batchFirst {
			x = x.permuted(1, 0, 2)
			for k, t := range initial {
				if t != nil {
					initial[k] = t.permuted(1, 0, 2)
				}
			}
		}
		steps, batch, width := x.Shape[0], x.Shape[1], x.Shape[2]
		directions, hidden := w.Shape[0], c.int("hidden_size", r.Shape[2])
		names := slices.Concat(usual, usual)
		if a := c.attr("activations"); a != nil {
			names = a.Strings
			if c.has("activation_alpha") || c.has("activation_beta") {
				fail("activations with constants of their own")
			}
		}
		y := zeros(x.Type, []int{steps, directions, batch, hidden})
		last, lastState := zeros(x.Type, []int{directions, batch, hidden}), zeros(x.Type, []int{directions, batch, hidden})
		widest := 0.0
		for d := range directions {
			l := &cell{c: c, hidden: hidden, clipped: func(v float64) float64 { return v }}
			if c.has("clip") {
				most := c.float("clip", 0)
				l.clipped = func(v float64) float64 { return math.Max(-most, math.Min(most, v)) }
			}
			for k := range activations {
				l.act = append(l.act, activation(names[d*activations+k]))
			}
			bias := func(i int) float64 {
				if c.x(3) == nil {
					return 0
				}
				return c.x(3).F[d*2*gates*hidden+i]
			}
			product := func(m *Tensor, row int, v []float64) float64 {
				t, terms := 0.0, 0.0
				for k, w := range m.F[(d*gates*hidden+row)*len(v):][:len(v)] {
					t += w * v[k]
					terms += math.Abs(w * v[k])
				}
				l.widest = max(l.widest, terms)
				return t
			}
			l.fromX = func(g, u int, v []float64) float64 { return product(w, g*hidden+u, v) + bias(g*hidden+u) }
			l.fromH = func(g, u int, v []float64) float64 { return product(r, g*hidden+u, v) + bias((gates+g)*hidden+u) }
			l.peep = func(g, u int) float64 {
				if c.x(7) == nil {
					return 0
				}
				return c.x(7).F[(d*3+g)*hidden+u]
			}
			backwards := c.str("direction", "forward") == "reverse" || d == 1
			for b := range batch {
				length := steps
				if c.x(4) != nil {
					length = int(c.x(4).I[b])
				}
				state := [][]float64{make([]float64, hidden), make([]float64, hidden)}
				for k, t := range initial {
					if t != nil && (k == 0 || gates == 4) {
						copy(state[k], t.F[(d*batch+b)*hidden:])
					}
				}
				for k := range length {
					t := k
					if backwards {
						t = length - 1 - k
					}
					in := x.F[(t*batch+b)*width : (t*batch+b+1)*width]
					h, s := step(l, in, state[0], state[1])
					state = [][]float64{h, s}
					copy(y.F[((t*directions+d)*batch+b)*hidden:], h)
				}
				copy(last.F[(d*batch+b)*hidden:], state[0])
				copy(lastState.F[(d*batch+b)*hidden:], state[1])
			}
			widest = max(widest, l.widest)
		}
		if batchFirst {
			y, last, lastState = y.permuted(2, 0, 1, 3), last.permuted(1, 0, 2), lastState.permuted(1, 0, 2)
		}
		// The error of a step is the rounding error of its gates' sums, plus the errors of
		// the previous steps, which the gates do not amplify.
		for k, t := range []*Tensor{y, last, lastState} {
			c.massOf(k, t, func(v float64) float64 { return (1 + math.Abs(v)) * (1 + widest) })
		}
		return []*Tensor{y, last, lastState}
	}
}

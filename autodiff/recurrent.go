package autodiff

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// recurrentExpansions replace LSTM, GRU and RNN by their cells: the gradient needs the
// gates and all states, which the operators do not return. Few steps have a cell each,
// more are the iterations of a Scan. The input is multiplied by its weights for all
// steps at once.
var recurrentExpansions = expansionsOf("", map[string]func(*Backward) []ID{
	"LSTM": func(c *Backward) []ID { return c.cells(4, []string{"Sigmoid", "Tanh", "Tanh"}, lstmCell) },
	"GRU":  func(c *Backward) []ID { return c.cells(3, []string{"Sigmoid", "Tanh"}, gruCell) },
	"RNN":  func(c *Backward) []ID { return c.cells(1, []string{"Tanh"}, rnnCell) },
})

// mostUnrolled is the largest number of steps that have a cell each. A Scan keeps of
// each step only its states, and its nodes do not become more with the steps; but no
// two steps overlap.
const mostUnrolled = 8

// direction is one direction of a recurrent operator: its weights and attributes.
type direction struct {
	recurrent   []ID // R, [gates·hidden, hidden]; for a GRU, first the part for z and r, then the part for h
	bias        ID   // the bias of R if it is not added to the bias of W (GRU)
	peepholes   []ID
	activations []func(ID) ID
	hidden      int64
	reverse     bool
	sums        []bool // for each state: the steps add to it
	coupled     bool   // LSTM: input_forget
	resetAfter  bool   // GRU: linear_before_reset
}

// cell emits one step: it takes the states before the step (graph.None if they
// are zero) and returns those after it. in is the contribution of the input to
// all gates. What a step adds to is float32 in 16 bits too, as it is under autocast: the
// cell of an LSTM, the state of a GRU.
type cell func(c *Backward, d *direction, in ID, states []ID) []ID

// cells emits the steps of an operator with that many gates. Inputs and outputs
// are those of the specification: X W R B sequence_lens initial_h initial_c P,
// and Y Y_h Y_c.
func (c *Backward) cells(gates int64, activations []string, step cell) []ID {
	x := c.X(0)
	batchFirst := c.Int("layout", 0) != 0
	if batchFirst {
		x = c.transpose(x, 1, 0, 2)
	}
	shape, dirs, hidden := c.shape(x), int64(1), int64(0)
	if r := c.shape(c.X(2)); c.err == nil {
		dirs, hidden = r[0], r[2]
	}
	if c.err != nil || !c.divisible(shape) {
		return nil
	}
	steps, batch := shape[0], shape[1]
	flat := c.reshape(x, []int64{steps * batch, shape[2]})
	states := 1
	sums := []bool{gates == 3}
	if gates == 4 { // LSTM
		states, sums = 2, []bool{false, true}
	}
	w, r := c.perDirection(c.X(1), dirs), c.perDirection(c.X(2), dirs)
	b, p := c.perDirection(c.X(3), dirs), c.perDirection(c.X(7), dirs)
	initial := make([][]ID, states)
	for k := range initial {
		t := c.X(5 + k)
		if batchFirst && c.present(t) {
			t = c.transpose(t, 1, 0, 2)
		}
		initial[k] = c.perDirection(t, dirs)
	}
	functions := c.activations(activations, int(dirs))
	if c.err != nil {
		return nil
	}
	var results []ID
	final := make([][]ID, states)
	for k := range dirs {
		d := &direction{
			recurrent: []ID{r[k]}, bias: graph.None, hidden: hidden, activations: functions[k], sums: sums,
			reverse: c.Str("direction", "forward") == "reverse" || k == 1,
			coupled: c.Int("input_forget", 0) != 0, resetAfter: c.Int("linear_before_reset", 0) != 0,
		}
		if gates == 3 { // GRU
			d.recurrent = c.split(r[k], 0, 2*hidden, hidden)
		}
		if c.present(p[k]) {
			d.peepholes = c.split(p[k], 0, filled(hidden, 3)...)
		}
		in := c.with("Gemm", attrs{"transB": 1}, flat, w[k], c.recurrentBias(d, b[k], gates))
		var state []ID
		for s := range initial {
			state = append(state, initial[s][k])
		}
		var made ID
		if steps > mostUnrolled {
			own := func(c *Backward) []func(ID) ID { return c.activations(activations, int(dirs))[k] }
			made, state = c.iterated(d, steps, in, state, step, own)
		} else {
			made, state = c.unrolled(d, steps, in, state, step)
		}
		results = append(results, c.reshape(made, []int64{steps, 1, batch, hidden}))
		for s := range final {
			final[s] = append(final[s], c.reshape(c.castLike(state[s], x), []int64{1, batch, hidden}))
		}
	}
	y := c.joined(results, 1)
	if batchFirst {
		y = c.transpose(y, 2, 0, 1, 3)
	}
	out := []ID{y}
	for _, f := range final {
		t := c.joined(f, 0)
		if batchFirst {
			t = c.transpose(t, 1, 0, 2)
		}
		out = append(out, t)
	}
	return out
}

// unrolled emits a cell for each step of one direction. It returns the first states
// after each step and the states after the last.
func (c *Backward) unrolled(d *direction, steps int64, in ID, state []ID, step cell) (ID, []ID) {
	for k, t := range state {
		if d.sums[k] && c.present(t) {
			state[k] = c.widened(t)
		}
	}
	at := c.split(in, 0, filled(c.shape(in)[0]/steps, int(steps))...)
	made := make([]ID, steps)
	for i := range steps {
		if d.reverse {
			i = steps - 1 - i
		}
		state = step(c, d, at[i], state)
		made[i] = c.castTo(state[0], c.typeOf(in).Elem)
	}
	return c.joined(made, 0), state
}

// iterated emits the steps of one direction as a Scan. activations returns the
// functions of the cell for the body.
func (c *Backward) iterated(d *direction, steps int64, in ID, initial []ID, step cell, activations func(*Backward) []func(ID) ID) (ID, []ID) {
	shape := c.shape(in)
	if c.err != nil {
		return graph.None, initial
	}
	batch, elem := graph.Dim(shape[0]/steps), c.typeOf(in).Elem
	b := c.newBody("cell")
	inner := &Backward{emitter: b.emitter, Node: c.Node}
	own := *d
	own.recurrent, own.peepholes, own.bias = nil, nil, b.capture(d.bias)
	for _, r := range d.recurrent {
		own.recurrent = append(own.recurrent, b.capture(r))
	}
	for _, p := range d.peepholes {
		own.peepholes = append(own.peepholes, b.capture(p))
	}
	own.activations = activations(inner)
	var states, scanned []ID
	var types []graph.Type
	for k, t := range initial {
		typ := graph.TensorOf(elem, batch, graph.Dim(d.hidden))
		if d.sums[k] {
			typ.Elem = widest(elem)
		}
		if t == graph.None {
			t = c.zeros(in, shape[0]/steps, d.hidden)
		}
		t = c.castTo(t, typ.Elem)
		states, scanned, types = append(states, b.input([]string{"h", "c"}[k], typ)), append(scanned, t), append(types, typ)
	}
	x := b.input("x", graph.TensorOf(elem, batch, graph.Dim(shape[1])))
	made := step(inner, &own, x, states)
	b.finish(append(slices.Clone(made), inner.castTo(made[0], elem)), b.g.Inputs...)
	list := attrs{"num_scan_inputs": 1}
	if d.reverse {
		list["scan_input_directions"], list["scan_output_directions"] = []int64{1}, []int64{1}
	}
	scanned = append(scanned, c.reshape(in, []int64{steps, int64(batch), shape[1]}))
	out := c.emitBody("Scan", list.list(), map[string]*graph.Graph{"body": b.g}, append(types, stackOf(graph.TensorOf(elem, batch, graph.Dim(d.hidden)), steps)), scanned...)
	return out[len(initial)], out[:len(initial)]
}

// divisible refuses the attributes and inputs that cells does not support.
func (c *Backward) divisible(shape []int64) bool {
	if c.Node.Attr("clip") != nil {
		c.Failf("attribute clip is set: expected a cell without it on a path to the loss")
		return false
	}
	if shape[0] < 1 {
		c.Failf("input 0 has %d steps: expected some on a path to the loss", shape[0])
		return false
	}
	if !c.present(c.X(4)) {
		return true
	}
	lengths, known := c.ints(c.X(4))
	if !known || slices.ContainsFunc(lengths, func(n int64) bool { return n != shape[0] }) {
		c.Failf("input 4 (sequence_lens) is given: expected a constant that gives every sequence all %d steps", shape[0])
		return false
	}
	return true
}

// perDirection splits a tensor along its first axis, one part for each direction;
// graph.None if it is left out.
func (c *Backward) perDirection(t ID, dirs int64) []ID {
	if !c.present(t) {
		return slices.Repeat([]ID{graph.None}, int(dirs))
	}
	shape := c.shape(t)
	if c.err != nil {
		return slices.Repeat([]ID{graph.None}, int(dirs))
	}
	parts := c.split(t, 0, filled(1, int(dirs))...)
	for k, part := range parts {
		parts[k] = c.reshape(part, shape[1:])
	}
	return parts
}

// recurrentBias is the bias added to X·Wᵀ: the biases of W and of R, except the
// one of a GRU's hidden gate if the reset gate applies to it.
func (c *Backward) recurrentBias(d *direction, b ID, gates int64) ID {
	if !c.present(b) {
		return graph.None
	}
	rows := gates * d.hidden
	parts := c.split(b, 0, rows, rows)
	if gates != 3 || !d.resetAfter { // no GRU
		return c.add(parts[0], parts[1])
	}
	own := c.split(parts[0], 0, 2*d.hidden, d.hidden)
	rest := c.split(parts[1], 0, 2*d.hidden, d.hidden)
	d.bias = rest[1]
	return c.joined([]ID{c.add(own[0], rest[0]), own[1]}, 0)
}

// widest is float32 for a type of 16 bits.
func widest(elem graph.DType) graph.DType {
	if is16Bits(elem) {
		return graph.Float32
	}
	return elem
}

// gates splits in + h·Rᵀ into n gates.
func (c *Backward) gates(d *direction, in, h ID, n int) []ID {
	if c.present(h) {
		in = c.with("Gemm", attrs{"transB": 1}, h, d.recurrent[0], in)
	}
	return c.split(in, 1, filled(d.hidden, n)...)
}

// lstmCell has the gates i, o, f, c and the peepholes i, o, f.
func lstmCell(c *Backward, d *direction, in ID, states []ID) []ID {
	h, cell := states[0], states[1]
	g := c.gates(d, in, h, 4)
	peep := func(gate ID, k int, state ID) ID {
		if d.peepholes == nil || !c.present(state) {
			return gate
		}
		return c.add(gate, c.mul(c.castLike(state, gate), d.peepholes[k]))
	}
	i := d.activations[0](peep(g[0], 0, cell))
	updated := c.mul(c.widened(i), c.widened(d.activations[1](g[3])))
	if c.present(cell) {
		var f ID
		if d.coupled {
			f = c.sub(c.scalar(i, 1), i)
		} else {
			f = d.activations[0](peep(g[2], 2, cell))
		}
		updated = c.add(c.mul(c.widened(f), cell), updated)
	}
	o := d.activations[0](peep(g[1], 1, updated))
	return []ID{c.castLike(c.mul(c.widened(o), d.activations[2](updated)), in), updated}
}

// gruCell has the gates z, r, h. The reset gate applies to the state before the
// product, or to the product (linear_before_reset).
func gruCell(c *Backward, d *direction, in ID, states []ID) []ID {
	h := states[0]
	f, g := d.activations[0], d.activations[1]
	part := c.split(in, 1, 2*d.hidden, d.hidden)
	if !c.present(h) {
		zr := c.split(part[0], 1, d.hidden, d.hidden)
		candidate := part[1]
		if c.present(d.bias) {
			candidate = c.add(candidate, c.mul(f(zr[1]), d.bias))
		}
		return []ID{c.mul(c.widened(c.sub(c.scalar(in, 1), f(zr[0]))), c.widened(g(candidate)))}
	}
	sum := h
	h = c.castLike(h, in)
	zr := c.split(c.with("Gemm", attrs{"transB": 1}, h, d.recurrent[0], part[0]), 1, d.hidden, d.hidden)
	z, reset := f(zr[0]), f(zr[1])
	var candidate ID
	if d.resetAfter {
		product := c.with("Gemm", attrs{"transB": 1}, h, d.recurrent[1], d.bias)
		candidate = g(c.add(part[1], c.mul(reset, product)))
	} else {
		candidate = g(c.with("Gemm", attrs{"transB": 1}, c.mul(reset, h), d.recurrent[1], part[1]))
	}
	z = c.widened(z)
	return []ID{c.add(c.mul(c.sub(c.scalar(z, 1), z), c.widened(candidate)), c.mul(z, sum))}
}

func rnnCell(c *Backward, d *direction, in ID, states []ID) []ID {
	return []ID{d.activations[0](c.gates(d, in, states[0], 1)[0])}
}

// cellActivations are the functions of recurrent cells with the defaults of their
// alpha and beta, nil if they have none.
var cellActivations = map[string]struct {
	defaults []float64
	apply    func(c *Backward, t ID, alpha, beta float64) ID
}{
	"sigmoid":  {nil, func(c *Backward, t ID, _, _ float64) ID { return c.op("Sigmoid", t) }},
	"tanh":     {nil, func(c *Backward, t ID, _, _ float64) ID { return c.op("Tanh", t) }},
	"relu":     {nil, func(c *Backward, t ID, _, _ float64) ID { return c.op("Relu", t) }},
	"softsign": {nil, func(c *Backward, t ID, _, _ float64) ID { return c.op("Softsign", t) }},
	"softplus": {nil, func(c *Backward, t ID, _, _ float64) ID { return c.op("Softplus", t) }},
	"affine":   {[]float64{1, 0}, func(c *Backward, t ID, a, b float64) ID { return c.plus(c.times(t, a), b) }},
	"scaledtanh": {[]float64{1, 1}, func(c *Backward, t ID, a, b float64) ID {
		return c.times(c.op("Tanh", c.times(t, b)), a)
	}},
	"leakyrelu": {[]float64{0.01}, func(c *Backward, t ID, a, _ float64) ID { return c.with("LeakyRelu", attrs{"alpha": a}, t) }},
	"elu":       {[]float64{1}, func(c *Backward, t ID, a, _ float64) ID { return c.with("Elu", attrs{"alpha": a}, t) }},
	"thresholdedrelu": {[]float64{1}, func(c *Backward, t ID, a, _ float64) ID {
		return c.with("ThresholdedRelu", attrs{"alpha": a}, t)
	}},
	"hardsigmoid": {[]float64{0.2, 0.5}, func(c *Backward, t ID, a, b float64) ID {
		return c.with("HardSigmoid", attrs{"alpha": a, "beta": b}, t)
	}},
}

// activations returns the functions of each direction: those listed, whose alpha
// and beta are taken from their lists in turn, or else the operator's own.
func (c *Backward) activations(own []string, dirs int) [][]func(ID) ID {
	names := slices.Repeat(own, dirs)
	if a := c.Node.Attr("activations"); a != nil && len(a.Strings) > 0 {
		names = a.Strings
	}
	if len(names) != len(own)*dirs {
		c.Failf("activations has %d names, expected %d for each of %d directions", len(names), len(own), dirs)
		return nil
	}
	var lists [2][]float32
	for k, name := range []string{"activation_alpha", "activation_beta"} {
		if a := c.Node.Attr(name); a != nil {
			lists[k] = a.Floats
		}
	}
	byDirection := make([][]func(ID) ID, dirs)
	for k, name := range names {
		f, known := cellActivations[strings.ToLower(name)]
		if !known {
			c.Failf("activation %q is not known", name)
			return nil
		}
		var v [2]float64
		for i, d := range f.defaults {
			if v[i] = d; len(lists[i]) > 0 {
				v[i], lists[i] = float64(lists[i][0]), lists[i][1:]
			}
		}
		byDirection[k/len(own)] = append(byDirection[k/len(own)], func(t ID) ID { return f.apply(c, t, v[0], v[1]) })
	}
	return byDirection
}

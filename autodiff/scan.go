package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// lifted returns the nodes with the tensors that bodies capture as further inputs of
// their nodes, to which gradients flow as to others. Only differentiation uses it:
// emitter.stands gives the node of the graph.
func (e *emitter) lifted(nodes []*graph.Node) []*graph.Node {
	out := slices.Clone(nodes)
	if e.stands == nil {
		e.stands = map[*graph.Node]*graph.Node{}
	}
	for i, n := range nodes {
		if len(n.Captures) == 0 || LookupRule(n.Domain, n.Op) == nil {
			continue
		}
		l := *n
		l.Inputs, l.Outputs, l.Captures = slices.Concat(n.Inputs, n.Captures), slices.Clone(n.Outputs), nil
		out[i], e.stands[&l] = &l, n
	}
	return out
}

// inGraph is the node of the graph for which c.Node stands, or c.Node.
func (c *Backward) inGraph() *graph.Node {
	if n := c.stands[c.Node]; n != nil {
		return n
	}
	return c.Node
}

// scanned is a Scan that is being differentiated.
type scanned struct {
	*Backward
	node   *graph.Node  // in the graph
	from   *graph.Graph // its body
	states int          // the number of states
	length int64        // the number of iterations

	b      *body     // of the gradient
	inputs []ID      // b's tensors for the inputs of from, then for its captures
	to     map[ID]ID // b's tensors for those of from

	needs  []bool     // inputs and captures to which a gradient flows in some iteration
	seeds  []ID       // for each output of from: b's input with its gradient
	kept   map[int]ID // for each state: the outer tensor with its values before all iterations
	before int64      // the direction in which kept lists them
}

// scanGrad emits a Scan that goes through the iterations in reverse: its body computes
// the forward body again, from the states before the iteration, and then the gradients.
// So all that is kept of an iteration are those states; the forward Scan returns them as
// further outputs.
func scanGrad(c *Backward) {
	s := &scanned{Backward: c, node: c.inGraph(), kept: map[int]ID{}}
	m := int(c.Int("num_scan_inputs", 0))
	s.from, s.states = s.node.Attr("body").Graph, len(s.node.Inputs)-m
	for _, name := range []string{"scan_input_axes", "scan_output_axes"} {
		if slices.ContainsFunc(c.List(name, nil), func(a int64) bool { return a != 0 }) {
			c.Failf("%s is %v: expected a Scan along axis 0", name, c.List(name, nil))
			return
		}
	}
	shape := c.shape(c.X(s.states))
	if c.err != nil {
		return
	}
	s.length, s.before = shape[0], s.direction("scan_input_directions", 0)
	s.b = c.newBody("gradient")
	for i, t := range s.from.Inputs {
		name := "scan"
		if i < s.states {
			name = "state"
		}
		s.inputs = append(s.inputs, s.b.input(name, s.from.Tensors[t].Type))
	}
	nodes, to := s.b.copyOf(s.from, s.inputs)
	s.to = to
	for _, x := range s.from.Captures {
		s.inputs = append(s.inputs, to[x.Inner])
	}
	outs, wrt := s.flow(s.b.lifted(nodes))
	if c.err != nil {
		return
	}
	grads := slices.Repeat([]ID{graph.None}, len(s.inputs))
	if len(outs) > 0 {
		var seeds, asked []ID
		for k, t := range s.seeds {
			if t != graph.None {
				seeds = append(seeds, s.seeds[k])
			}
		}
		for _, i := range wrt {
			asked = append(asked, s.inputs[i])
		}
		made, err := s.b.differentiate(slices.Clone(s.b.g.Nodes), outs, seeds, asked)
		s.b.scope, s.b.of, s.b.phase = s.scope, s.of, phaseBackward
		if err != nil {
			c.fail(err)
			return
		}
		for k, i := range wrt {
			grads[i] = made[k]
		}
	}
	s.result(grads)
}

// direction is the direction of scan input or output k: 1 is reverse.
func (s *scanned) direction(name string, k int) int64 {
	return directionOf(s.node, name, k)
}

func directionOf(n *graph.Node, name string, k int) int64 {
	if list := attr.Ints(n, name); k < len(list) {
		return list[k]
	}
	return 0
}

// outerInput is the outer tensor of input i of the body, or of a capture.
func (s *scanned) outerInput(i int) ID {
	if n := len(s.from.Inputs); i >= n {
		return s.from.Captures[i-n].Outer
	}
	return s.node.Inputs[i]
}

// asks reports whether the gradient of input i, or of a capture, is asked for.
func (s *scanned) asks(i int) bool {
	if n := len(s.from.Inputs); i >= n {
		k := slices.Index(s.Node.Inputs[len(s.node.Inputs):], s.outerInput(i))
		return k >= 0 && s.Needs(len(s.node.Inputs)+k)
	}
	return s.Needs(i)
}

// flow finds the states that carry a gradient: those of the initial states and of
// what iterations make of them, as far as the loss depends on them. It sets needs and
// seeds, and returns the outputs of the body with a seed, each made by an Identity of
// its own, and the inputs whose gradients the body computes.
func (s *scanned) flow(nodes []*graph.Node) (outs []ID, wrt []int) {
	s.needs = make([]bool, len(s.inputs))
	for i := range s.needs {
		s.needs[i] = s.asks(i)
	}
	seeded := make([]bool, len(s.from.Outputs))
	for k := range seeded {
		seeded[k] = s.D(k) != graph.None
	}
	var t *tape
	for changed := true; changed; {
		changed = false
		t = newTape(s.b.emitter)
		var asked []ID
		for i, id := range s.inputs {
			if s.needs[i] {
				asked = append(asked, id)
			}
		}
		var from []ID
		for k, o := range s.from.Outputs {
			if seeded[k] {
				from = append(from, s.to[o])
			}
		}
		if err := t.analyse(nodes, from, asked); err != nil {
			s.fail(err)
			return nil, nil
		}
		for k := range s.states {
			made := s.to[s.from.Outputs[k]]
			if !s.needs[k] && t.need[made] {
				s.needs[k], changed = true, true
			}
			if !seeded[k] && s.needs[k] && t.reached[s.inputs[k]] {
				seeded[k], changed = true, true
			}
		}
	}
	for i, id := range s.inputs {
		if s.needs[i] && t.reached[id] {
			wrt = append(wrt, i)
		}
	}
	s.seeds = slices.Repeat([]ID{graph.None}, len(s.from.Outputs))
	for k, o := range s.from.Outputs {
		if !seeded[k] || !t.need[s.to[o]] {
			continue
		}
		s.seeds[k] = s.b.input("d", s.from.Tensors[o].Type)
		outs = append(outs, s.b.op("Identity", s.to[o]))
	}
	return outs, wrt
}

// result emits the Scan of the gradient and sets the gradients of the node; the body has these gradients of the inputs
// and captures.
func (s *scanned) result(grads []ID) {
	var outputs, initial []ID // of the body: its states come first
	var carried []int         // the states of from whose gradients are states
	for k := range s.states {
		if s.seeds[k] == graph.None {
			continue
		}
		if grads[k] == graph.None {
			grads[k] = s.b.zeros(s.seeds[k], s.b.shape(s.seeds[k])...)
		}
		d := s.D(k)
		if d == graph.None {
			d = s.zeros(s.X(k), s.shape(s.X(k))...)
		}
		outputs, initial, carried = append(outputs, grads[k]), append(initial, d), append(carried, k)
	}
	seeds := slices.DeleteFunc(slices.Clone(s.seeds[:s.states]), func(t ID) bool { return t == graph.None })
	stacks := map[int]int{} // for each scanned input, the output that is its gradient
	for i, k := s.states, 0; i < len(s.from.Inputs); i++ {
		if grads[i] != graph.None {
			stacks[i] = k
			k++
		}
	}
	products := s.products(grads, stacks)
	sums := map[int]int{} // for each capture, the state of the gradient that is its sum
	for i := len(s.from.Inputs); i < len(grads); i++ {
		if grads[i] == graph.None || products[i] != nil {
			continue
		}
		shape := s.b.shape(grads[i])
		sum := s.b.input("sum", s.b.typeOf(grads[i]))
		sums[i] = len(outputs)
		seeds = append(seeds, sum)
		outputs, initial = append(outputs, s.added(sum, grads[i])), append(initial, s.zeros(s.outerInput(i), shape...))
	}
	states := len(initial)
	directions := []int64{}
	for i := s.states; i < len(s.from.Inputs); i++ {
		if grads[i] != graph.None {
			outputs = append(outputs, grads[i])
			directions = append(directions, 1-s.direction("scan_input_directions", i-s.states))
		}
	}
	if s.err == nil && s.b.err != nil {
		s.fail(s.b.err)
	}
	if s.err != nil {
		return
	}
	made := []ID{}
	if len(outputs) > 0 {
		made = s.run(seeds, outputs, initial, directions, states)
	}
	carriedOver, stackedUp := made[:min(states, len(made))], made[min(states, len(made)):]
	zeros := func(i int) ID { return s.zeros(s.X(i), s.shape(s.X(i))...) }
	for i := range s.from.Inputs {
		if !s.Needs(i) {
			continue
		}
		k, there := stacks[i]
		switch at := slices.Index(carried, i); {
		case at >= 0:
			s.Set(i, carriedOver[at])
		case there:
			s.Set(i, stackedUp[k])
		default:
			s.Set(i, zeros(i))
		}
	}
	for q := len(s.node.Inputs); q < len(s.Node.Inputs); q++ {
		if !s.Needs(q) {
			continue
		}
		var terms []ID
		for i, x := range s.from.Captures {
			if x.Outer != s.Node.Inputs[q] {
				continue
			}
			var part ID
			if k, there := sums[len(s.from.Inputs)+i]; there {
				part = carriedOver[k]
			} else if p := products[len(s.from.Inputs)+i]; p != nil {
				part = p.emit(s, stackedUp)
			} else {
				continue
			}
			terms = append(terms, part)
		}
		if len(terms) == 0 {
			terms = append(terms, zeros(q))
		}
		s.Set(q, s.sumOf(terms))
	}
}

// run finishes the body and emits its Scan. seeds are the body's inputs that are
// states; the first outputs are the states.
func (s *scanned) run(seeds, outputs, initial []ID, directions []int64, states int) []ID {
	// The states come first among the inputs.
	b := s.b
	isState := map[ID]bool{}
	for _, t := range seeds {
		isState[t] = true
	}
	given := map[ID]ID{} // the outer tensor of each scanned input of the body
	reverse := map[ID]int64{}
	for i, t := range s.inputs[:len(s.from.Inputs)] {
		if i >= s.states {
			given[t], reverse[t] = s.node.Inputs[i], 1-s.direction("scan_input_directions", i-s.states)
		}
	}
	for k := s.states; k < len(s.seeds); k++ {
		if t := s.seeds[k]; t != graph.None {
			given[t], reverse[t] = s.D(k), 1-s.direction("scan_output_directions", k-s.states)
		}
	}
	scanned := slices.DeleteFunc(slices.Clone(b.g.Inputs), func(t ID) bool { return isState[t] })
	b.g.Inputs = slices.Concat(seeds, scanned)
	index := map[ID]int{}
	for k, t := range b.g.Inputs {
		index[t] = k
	}
	types := make([]graph.Type, len(outputs))
	for k, t := range outputs {
		types[k] = b.typeOf(t)
		if k >= states {
			types[k] = stackOf(types[k], s.length)
		}
	}
	stay := seeds
	needed := neededBy(b.g, slices.Concat(outputs, seeds))
	if !slices.ContainsFunc(scanned, func(t ID) bool { return needed[t] }) {
		// The gradients of captures may depend on no scanned input. One stays: it says how
		// often the body runs.
		stay = append(slices.Clone(seeds), s.inputs[s.states])
	}
	kept := b.finish(slices.Clone(outputs), stay...)
	if s.err != nil {
		return slices.Repeat([]ID{graph.None}, len(outputs))
	}
	in := initial
	var inDirections []int64
	for _, t := range scanned {
		if !kept[index[t]] {
			continue
		}
		outer, there := given[t]
		direction := reverse[t]
		if !there { // a state before the iteration
			outer, direction = s.keep(slices.Index(s.inputs, t)), 1-s.before
		}
		in, inDirections = append(in, outer), append(inDirections, direction)
	}
	list := attrs{"num_scan_inputs": int64(len(inDirections)), "scan_input_directions": inDirections}
	if len(directions) > 0 {
		list["scan_output_directions"] = directions
	}
	return s.emitBody("Scan", list.list(), map[string]*graph.Graph{"body": b.g}, types, in...)
}

// keep makes the forward Scan return state k as it is before each iteration.
func (s *scanned) keep(k int) ID {
	if t, there := s.kept[k]; there {
		return t
	}
	g, n := s.from, s.node
	scans := len(g.Outputs) - s.states
	copied := g.NewTensor(s.unique(s.scope + "before"))
	g.Tensors[copied].Type = g.Tensors[g.Inputs[k]].Type
	node := &graph.Node{Name: g.Tensors[copied].Name, Op: "Identity", Inputs: []ID{g.Inputs[k]}, Outputs: []ID{copied}}
	g.Nodes = append(g.Nodes, node)
	g.Outputs = append(g.Outputs, copied)
	g.Link()
	g.Span, n.Span = graph.Span{}, graph.Span{}
	var directions []int64
	for k := range scans {
		directions = append(directions, s.direction("scan_output_directions", k))
	}
	directions = append(directions, s.before)
	n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a *graph.Attr) bool {
		return a.Name == "scan_output_directions" || a.Name == "scan_output_axes" // all axes are 0
	})
	n.Attrs = append(n.Attrs, attrs{"scan_output_directions": directions}.list()...)
	for _, a := range n.Attrs {
		a.Span = graph.Span{}
	}
	t := s.newTensor(s.unique(s.g.Tensors[firstOutput(n)].Name+".states"), stackOf(g.Tensors[copied].Type, s.length), nil)
	n.Outputs = append(n.Outputs, t)
	s.kept[k] = t
	return t
}

// trimScans removes the scanned outputs of Scans along axis 0 that nothing reads: all
// outputs of a recurrent operator but the last state, if that alone is used.
func (s *trainer) trimScans() {
	read := map[ID]bool{}
	for _, t := range s.g.Outputs {
		read[t] = true
	}
	for _, n := range s.g.Nodes {
		n.Reads(func(t ID) { read[t] = true })
	}
	for _, n := range s.g.Nodes {
		body, m := n.Attr("body"), n.Attr("num_scan_inputs")
		if n.Op != "Scan" || n.Domain != "" || body == nil || m == nil || n.Attr("scan_output_axes") != nil {
			continue
		}
		g, states := body.Graph, len(n.Inputs)-int(m.Int)
		outputs, results := n.Outputs[:states:states], g.Outputs[:states:states]
		var directions []int64
		for k := states; k < len(n.Outputs); k++ {
			if !read[n.Outputs[k]] {
				continue
			}
			outputs, results = append(outputs, n.Outputs[k]), append(results, g.Outputs[k])
			directions = append(directions, directionOf(n, "scan_output_directions", k-states))
		}
		if len(outputs) == len(n.Outputs) {
			continue
		}
		n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a *graph.Attr) bool { return a.Name == "scan_output_directions" })
		if len(directions) > 0 {
			n.Attrs = append(n.Attrs, attrs{"scan_output_directions": directions}.list()...)
		}
		n.Outputs, n.Span, body.Span = outputs, graph.Span{}, graph.Span{}
		trimBody(g, results)
		n.SetCaptures()
	}
}

// stackOf is the type of n tensors of a type, one behind the other.
func stackOf(t graph.Type, n int64) graph.Type {
	t.Shape = slices.Concat([]graph.Dim{graph.Dim(n)}, t.Shape)
	return t
}

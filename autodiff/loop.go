package autodiff

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// loopExpansions replace a Loop whose iterations are counted, or bounded, by a Scan over
// their numbers, which has a gradient, and a Scan along other axes by one along axis 0.
var loopExpansions = expansionsOf("", map[string]func(*Backward) []ID{"Loop": expandLoop, "Scan": turnedScan})

// expandLoop covers the Loops that admitsLoop admits.
func expandLoop(c *Backward) []ID {
	if _, counted := c.counted(c.Node); counted {
		return countedLoop(c)
	}
	return boundedLoop(c)
}

// admitsLoop: a Loop is replaced if its iterations are counted, or bounded and it computes from
// weights.
func admitsLoop(s *trainer, n *graph.Node) bool {
	if _, counted := s.counted(n); counted {
		return true
	}
	_, why := s.bounded(n)
	return why == "" && s.weighted[n]
}

// turns reports whether a Scan goes along an axis other than 0.
func turns(n *graph.Node) bool {
	other := func(a int64) bool { return a != 0 }
	return slices.ContainsFunc(attr.Ints(n, "scan_input_axes"), other) || slices.ContainsFunc(attr.Ints(n, "scan_output_axes"), other)
}

// turnedScan emits a Scan along axis 0 of the transposed inputs, and transposes its
// outputs back.
func turnedScan(c *Backward) []ID {
	n := c.Node
	m := int(c.Int("num_scan_inputs", 0))
	states := len(n.Inputs) - m
	axis := func(name string, k, rank int) int {
		list := attr.Ints(n, name)
		if k >= len(list) {
			return 0
		}
		a, err := attr.Axis(name, list[k], rank)
		if err != nil {
			c.Failf("%w", err)
		}
		return a
	}
	front := func(a, rank int) []int64 { return concat([]int64{int64(a)}, axes(0, a), axes(a+1, rank-a-1)) }
	in := slices.Clone(n.Inputs)
	for i := states; i < len(in); i++ {
		rank := c.rank(in[i])
		a := axis("scan_input_axes", i-states, rank)
		if c.err != nil {
			return nil
		}
		in[i] = c.transpose(in[i], front(a, rank)...)
	}
	g := n.Attr("body").Graph.Clone()
	g.Link()
	var types []graph.Type
	back := make([][]int64, len(g.Outputs))
	for k := range g.Outputs {
		t := ID(graph.None)
		if k < len(n.Outputs) {
			t = n.Outputs[k]
		}
		if t == graph.None { // its type is that of the body's output
			typ := g.Tensors[g.Outputs[k]].Type
			if k >= states {
				typ = stackOf(typ, c.shape(in[states])[0])
			}
			types = append(types, typ)
			continue
		}
		typ, rank := c.typeOf(t), c.rank(t)
		if c.err != nil {
			return nil
		}
		if k >= states {
			a := axis("scan_output_axes", k-states, rank)
			if c.err != nil {
				return nil
			}
			typ.Shape = concatDims(typ.Shape[a:a+1], typ.Shape[:a], typ.Shape[a+1:])
			back[k] = concat(axes(1, a), []int64{0}, axes(a+1, rank-a-1))
		}
		types = append(types, typ)
	}
	list := attrs{"num_scan_inputs": m}
	for _, name := range []string{"scan_input_directions", "scan_output_directions"} {
		if d := attr.Ints(n, name); len(d) > 0 {
			list[name] = d
		}
	}
	made := c.emitBody("Scan", list.list(), map[string]*graph.Graph{"body": g}, types, in...)
	for k, perm := range back {
		if perm != nil {
			made[k] = c.transpose(made[k], perm...)
		}
	}
	return made
}

func concatDims(lists ...[]graph.Dim) []graph.Dim { return slices.Concat(lists...) }

// mostGuarded limits the iterations of a Loop that may end earlier: the step keeps the
// states before each of them.
const mostGuarded = 1 << 12

// bounded returns the largest number of iterations of a Loop that may end earlier, as its
// condition or its number of iterations depends on data; why says why it has no gradient.
func (e *emitter) bounded(n *graph.Node) (most int64, why string) {
	body := n.Attr("body")
	if len(n.Inputs) < 3 || body == nil || body.Graph == nil || len(body.Graph.Outputs) < len(n.Inputs)-1 {
		return 0, "it carries no state from one iteration to the next"
	}
	if n.Inputs[0] == graph.None {
		return 0, "it runs as long as its condition holds, so the number of iterations has no bound"
	}
	v := e.values[n.Inputs[0]]
	if v == nil || len(v.Elems) != 1 || v.Elems[0].State == ops.Hidden {
		return 0, "its number of iterations depends on data and has no bound: give the input on which it depends a value (--value)"
	}
	if most = v.Elems[0].I; most < 1 || most > mostGuarded {
		return 0, fmt.Sprintf("it may end earlier than after %d iterations: expected a bound of 1 to %d", most, mostGuarded)
	}
	for k := len(n.Inputs) - 2; k < len(n.Outputs); k++ {
		if t := n.Outputs[k]; t != graph.None && (e.g.Tensors[t].Output || len(e.g.Tensors[t].Readers) > 0) {
			return 0, fmt.Sprintf("output %d has an entry for each iteration, whose number depends on data", k)
		}
	}
	g := body.Graph
	for k, t := range g.Outputs[1:] {
		if k+2 >= len(n.Inputs) {
			break
		}
		was, is := e.typeOf(n.Inputs[k+2]), g.Tensors[t].Type
		if !was.Exact() || !is.Exact() || was.String() != is.String() {
			return 0, fmt.Sprintf("state %d has type %v, and %v after an iteration: expected a fixed shape", k, was, is)
		}
	}
	return most, ""
}

// boundedLoop emits a Scan over the numbers of the iterations. An iteration is an If: once
// the Loop has ended, it passes the states on.
func boundedLoop(c *Backward) []ID {
	most, _ := c.bounded(c.Node)
	n, from := c.Node, c.Node.Attr("body").Graph.Clone()
	from.Link()
	states := n.Inputs[2:]
	flag, whole := graph.Type{Kind: graph.KindTensor, Elem: graph.Bool, Ranked: true}, graph.Type{Kind: graph.KindTensor, Elem: graph.Int64, Ranked: true}
	b := c.newBody("iterations")
	on := b.input("on", flag)
	var held []ID
	types := []graph.Type{flag}
	for _, t := range states {
		held = append(held, b.input("state", c.typeOf(t)))
		types = append(types, c.typeOf(t))
	}
	number := b.input("number", whole)
	going := on
	if v := c.values[n.Inputs[0]]; v.Elems[0].State != ops.Known {
		last := b.capture(c.reshape(n.Inputs[0], nil))
		going = b.op("And", on, b.op("Less", number, last))
	}
	// In the branch, the Loop's body captures what it captured outside, through b.
	for i := range from.Captures {
		from.Captures[i].Outer = b.capture(from.Captures[i].Outer)
	}
	goes := b.newBody("iteration")
	in := []ID{goes.capture(number), goes.capture(going)}
	for _, t := range held {
		in = append(in, goes.capture(t))
	}
	_, to := goes.copyOf(from, in)
	results := []ID{goes.reshape(to[from.Outputs[0]], nil)}
	for k := range states {
		results = append(results, to[from.Outputs[1+k]])
	}
	goes.finish(results)
	ended := b.newBody("ended")
	passed := []ID{ended.capture(going)}
	for _, t := range held {
		passed = append(passed, ended.capture(t))
	}
	ended.finish(passed)
	after := b.emitBody("If", nil, map[string]*graph.Graph{"then_branch": goes.g, "else_branch": ended.g}, types, going)
	b.finish(after, append([]ID{on}, held...)...)
	numbers := make([]int64, most)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	first := ID(graph.None)
	if n.Inputs[1] != graph.None {
		first = c.reshape(n.Inputs[1], nil)
	} else {
		first = c.constant(graph.Bool, nil, []byte{1}, nil)
	}
	made := c.emitBody("Scan", attrs{"num_scan_inputs": 1}.list(), map[string]*graph.Graph{"body": b.g}, types, slices.Concat([]ID{first}, states, []ID{c.list(numbers...)})...)
	for k := len(states); k < len(n.Outputs); k++ {
		n.Outputs[k] = graph.None // nothing reads them
	}
	return made[1:]
}

// mostIterations limits the list of numbers.
const mostIterations = 1 << 20

// counted reports whether a Loop runs a number of iterations that is known, and more
// than none, whatever its body computes.
func (e *emitter) counted(n *graph.Node) (iterations int64, ok bool) {
	body := n.Attr("body")
	if len(n.Inputs) == 0 || body == nil || body.Graph == nil {
		return 0, false
	}
	count, known := e.ints(n.Inputs[0])
	if !known || len(count) != 1 || count[0] < 1 || count[0] > mostIterations {
		return 0, false
	}
	if len(n.Inputs) > 1 && n.Inputs[1] != graph.None {
		if v := e.values[n.Inputs[1]]; v == nil || len(v.Elems) != 1 || v.Elems[0].State != ops.Known || v.Elems[0].I == 0 {
			return 0, false
		}
	}
	g := body.Graph
	goes := g.Outputs[0]
	for goes != g.Inputs[1] {
		at := g.Tensors[goes]
		if d := at.Data; d != nil {
			return count[0], d.Type == graph.Bool && len(d.Raw) == 1 && d.Raw[0] != 0
		}
		if k := slices.IndexFunc(g.Captures, func(c graph.Capture) bool { return c.Inner == goes }); k >= 0 {
			v := e.values[g.Captures[k].Outer]
			return count[0], v != nil && len(v.Elems) == 1 && v.Elems[0].State == ops.Known && v.Elems[0].I != 0
		}
		if at.Maker < 0 {
			return 0, false
		}
		maker := g.Nodes[at.Maker]
		if v := maker.Attr("value"); ops.IsConstant(maker) && v != nil && v.Tensor != nil {
			return count[0], len(v.Tensor.Raw) == 1 && v.Tensor.Raw[0] != 0
		}
		if !ops.Copies(maker) {
			return 0, false
		}
		goes = maker.Inputs[0]
	}
	return count[0], true
}

// countedLoop emits the Scan. The body's condition is a constant.
func countedLoop(c *Backward) []ID {
	iterations, _ := c.counted(c.Node)
	g := c.Node.Attr("body").Graph.Clone()
	g.Link()
	number, condition := g.Inputs[0], g.Tensors[g.Inputs[1]]
	condition.Data = &graph.Data{Name: condition.Name, Type: graph.Bool, Dims: []int64{}, Raw: []byte{1}, Bytes: 1}
	condition.Declared, condition.Input = nil, false
	states := slices.Clone(g.Inputs[2:])
	g.Inputs, g.Outputs, g.Span = append(slices.Clone(states), number), g.Outputs[1:], graph.Span{}
	g.Link()
	numbers := make([]int64, iterations)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	var types []graph.Type
	for k, t := range g.Outputs {
		typ := g.Tensors[t].Type
		if k >= len(states) {
			typ = stackOf(typ, iterations)
		}
		types = append(types, typ)
	}
	in := append(slices.Clone(c.Node.Inputs[2:]), c.list(numbers...))
	return c.emitBody("Scan", attrs{"num_scan_inputs": 1}.list(), map[string]*graph.Graph{"body": g}, types, in...)
}

// weightedLoops returns the Loops that compute floating-point numbers from weights. Others,
// which prepare data, stay as they are.
func (s *trainer) weightedLoops(nodes []*graph.Node, order []graph.NodeID) map[*graph.Node]bool {
	loops, from := map[*graph.Node]bool{}, map[ID]bool{}
	for id, t := range s.g.Tensors {
		given := t.Data != nil || t.Capture || s.inBody && slices.Contains(s.g.Inputs, ID(id))
		from[ID(id)] = given && t.Type.Elem.Floating() && len(t.Type.Shape) > 0
	}
	for _, k := range order {
		n := nodes[k]
		some := false
		n.Reads(func(t ID) { some = some || from[t] })
		for _, t := range n.Outputs {
			if some && t != graph.None && s.g.Tensors[t].Type.Elem.Floating() {
				from[t], loops[n] = true, true
			}
		}
	}
	return loops
}

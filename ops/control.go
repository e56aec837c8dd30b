package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// control lists the operators with bodies.
var control = family{"", []Op{
	{Name: "If", Class: Control, Branches: true, Infer: inferIf},
	{Name: "Loop", Class: Control, Repeats: true, Updates: true, Infer: inferLoop, Inplace: overCarried},
	{Name: "Scan", Class: Control, Repeats: true, Infer: inferScan, Inplace: overScanned},
	{Name: "SequenceMap", Class: Control, Infer: inferSequenceMap},
}}

// overCarried: the last value of what a Loop carries may overwrite the first. A kernel reads
// all first values before the first iteration, and writes the last ones after all iterations.
func overCarried(c *Call) (pairs []graph.Alias) {
	for in := 2; in < len(c.In) && in-2 < len(c.Out); in++ {
		pairs = append(pairs, graph.Alias{Out: in - 2, In: in})
	}
	return pairs
}

// overScanned: what a Scan stacks may overwrite what it scans along the same axis in the
// same direction. In each iteration a kernel reads all slices before it writes one, and of
// that tensor only slices of later iterations are read afterwards. An input that the body
// captures is read by all iterations.
func overScanned(c *Call) (pairs []graph.Alias) {
	m := int(c.Int("num_scan_inputs", 0))
	states := len(c.In) - m
	if c.Version < 9 || m < 1 || states < 0 {
		return nil
	}
	read := func(what string, k int, rank int) (axis, direction int64) {
		if list := c.Ints("scan_" + what + "_axes"); k < len(list) {
			axis = list[k]
		}
		if axis < 0 {
			axis += int64(rank)
		}
		if list := c.Ints("scan_" + what + "_directions"); k < len(list) {
			direction = list[k]
		}
		return axis, direction
	}
	for out := states; out < len(c.Out); out++ {
		for in := states; in < len(c.In); in++ {
			if !c.sameShapeAndSize(out, in) || !c.In[in].Exact() || c.captures(in) {
				continue
			}
			rank := len(c.In[in].Shape)
			axis, direction := read("output", out-states, rank)
			if a, d := read("input", in-states, rank); a == axis && d == direction {
				pairs = append(pairs, graph.Alias{Out: out, In: in})
			}
		}
	}
	return pairs
}

// captures reports whether a body reads the storage of an input from outside.
func (c *Call) captures(in int) bool {
	return slices.ContainsFunc(c.Node.Captures, func(t graph.TensorID) bool {
		return c.scope == nil || c.scope.stored[t] == c.scope.stored[c.Node.Inputs[in]]
	})
}

// body returns a graph attribute; it is an error if it is missing.
func (c *Call) body(name string) (*graph.Graph, error) {
	a := c.Node.Attr(name)
	if a == nil || a.Graph == nil {
		return nil, c.Errf("attribute %q is missing: expected a graph", name)
	}
	return a.Graph, nil
}

// needScalar refuses input i unless it is, or may be, a tensor of one element of
// type elem.
func (c *Call) needScalar(i int, elem graph.DType) error {
	a := c.In[i]
	if a.Kind == graph.KindUnknown {
		return nil
	}
	n, exact := a.Elements()
	if a.Kind != graph.KindTensor || a.Elem != elem && a.Elem != graph.Undefined || exact && n != 1 {
		e := graph.Type{Kind: graph.KindTensor, Elem: elem, Ranked: true}
		return graph.Errorf("input %d%s is %v, expected %v", i, c.inputName(i), a.Type, e)
	}
	return nil
}

// inferIf: the types of the branch that is taken, if the condition is known, else
// the union of both.
func inferIf(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	if err := c.needScalar(0, graph.Bool); err != nil {
		return err
	}
	names := [2]string{"else_branch", "then_branch"}
	var branches [2]*graph.Graph
	for k, name := range names {
		g, err := c.body(name)
		if err != nil {
			return err
		}
		if len(g.Inputs) != 0 {
			return c.Errf("%s has %d inputs, expected none", name, len(g.Inputs))
		}
		if len(g.Outputs) != len(c.Out) {
			return c.Errf("%s makes %d outputs, expected %d", name, len(g.Outputs), len(c.Out))
		}
		branches[k] = g
	}
	cond, known := c.In[0].Value.Int()
	taken := 0
	if cond != 0 {
		taken = 1
	}
	// Exporters guard a Squeeze by a test of the length, and a model for two
	// sampling rates holds both: the shapes of a branch that is not taken may
	// contradict each other.
	var outs [2][]Arg
	var failed [2]error
	for k, g := range branches {
		outs[k], failed[k] = c.inferBody(g, []Arg{})
		switch err := failed[k]; {
		case known && k != taken:
			neverRuns(g, "the condition is known")
		case err == nil:
			c.Node.Semantics.FLOPs = max(c.Node.Semantics.FLOPs, bodyFLOPs(g))
		case known || !c.fitsOthers(g):
			return err
		default:
			neverRuns(g, err.Error())
			c.inf.impossible = append(c.inf.impossible, impossible{g, c.scope.g.Label(c.id), names[k]})
		}
	}
	switch {
	case known:
	case failed[0] != nil && failed[1] != nil:
		return failed[1]
	case failed[0] != nil:
		known, taken = true, 1
	case failed[1] != nil:
		known, taken = true, 0
	}
	for i := range c.Out {
		if known {
			c.SetType(i, outs[taken][i].Type)
			c.SetValue(i, outs[taken][i].Value)
			continue
		}
		t, err := c.either(i, outs[1][i].Type, outs[0][i].Type)
		if err != nil {
			return err
		}
		c.SetType(i, t)
		c.SetValue(i, unionValue(outs[1][i].Value, outs[0][i].Value))
		if clash(outs[1][i].Type, outs[0][i].Type) {
			if c.varies == nil {
				c.varies = map[int]bool{}
			}
			c.varies[i] = true
		}
	}
	return nil
}

// clash reports whether no shape fits two types: they have different ranks, or
// an axis has two known lengths.
func clash(a, b graph.Type) bool {
	if !a.Ranked || !b.Ranked {
		return false
	}
	if len(a.Shape) != len(b.Shape) {
		return true
	}
	for i, d := range a.Shape {
		if !SameDim(d, b.Shape[i]) {
			return true
		}
	}
	return false
}

// fitsOthers reports whether a branch that cannot be inferred could be with other
// shapes and values of the tensors that it reads from outside. It infers the branch
// without them.
func (c *Call) fitsOthers(g *graph.Graph) bool {
	s := &scope{g: g, outer: c.scope, opsets: c.scope.opsets, blank: true}
	return c.inf.graph(s, []Arg{}) == nil
}

// impossible is a branch whose shapes contradict each other for the present
// dimensions.
type impossible struct {
	g            *graph.Graph
	node, branch string
}

// warnImpossible reports the branches that are planned as never taken because
// their shapes contradict. One that was inferred again later, in a loop, may fit.
func (inf *inferrer) warnImpossible() {
	for _, b := range inf.impossible {
		if b.g.NeverRuns != "" {
			inf.warnf("%s: %s is planned as never taken, since it cannot run with these shapes: %s", b.node, b.branch, b.g.NeverRuns)
		}
	}
}

// either is the type of output i of an If whose branches make a and b. An
// optional is compatible with the type that it holds.
func (c *Call) either(i int, a, b graph.Type) (graph.Type, error) {
	switch {
	case a.Kind == graph.KindUnknown || b.Kind == graph.KindUnknown || a.Kind == b.Kind && a.Kind != graph.KindTensor:
		return Union(a, b), nil
	case a.Kind == graph.KindOptional:
		return a, nil
	case b.Kind == graph.KindOptional:
		return b, nil
	case a.Kind != b.Kind || a.Elem != b.Elem && a.Elem != graph.Undefined && b.Elem != graph.Undefined:
		return a, c.Errf("output %d is %v in then_branch, but %v in else_branch", i, a, b)
	}
	return Union(a, b), nil
}

// neverRunsReason is the reason why a tensor of a body that never runs has no
// size.
const neverRunsReason = "it stands in a body that is never run"

// neverRuns clears what inference left in a body that never runs, for the given
// reason: nothing in it has a size.
func neverRuns(g *graph.Graph, why string) {
	g.NeverRuns = why
	for _, n := range g.Nodes {
		n.Semantics = graph.Semantics{Known: true}
		for _, a := range n.Bodies() {
			if a.Graph != nil {
				neverRuns(a.Graph, why)
			}
		}
	}
	for _, t := range g.Tensors {
		if t.Data == nil && !t.Capture {
			t.Type, t.Bytes, t.Bounded = graph.Type{}, 0, false
			t.Dynamic = neverRunsReason
		}
	}
}

// bodyFLOPs is the number of floating-point operations of one run of a body.
func bodyFLOPs(g *graph.Graph) int64 {
	sum := int64(0)
	for _, n := range g.Nodes {
		sum = addFLOPs(sum, n.Semantics.FLOPs)
	}
	return sum
}

// inferSequenceMap (since 17) runs the body once for each item of input 0. If the
// items are known individually, so are those of the outputs.
func inferSequenceMap(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	body, err := c.body("body")
	if err != nil {
		return err
	}
	if len(body.Inputs) != len(c.In) {
		return c.Errf("body has %d inputs, expected %d as the node", len(body.Inputs), len(c.In))
	}
	if len(body.Outputs) != len(c.Out) {
		return c.Errf("body makes %d outputs, expected %d", len(body.Outputs), len(c.Out))
	}
	if err := c.Need(len(c.In)); err != nil {
		return err
	}
	if err := c.needSequence(0); err != nil {
		return err
	}
	args := make([]Arg, len(c.In))
	count := -1 // number of items, if it is known for all sequences
	for i, a := range c.In {
		args[i] = a
		if a.Kind != graph.KindSequence {
			continue
		}
		args[i] = Arg{Present: true}
		if a.Of != nil {
			args[i].Type = *a.Of
		}
		switch n := len(a.Value.items()); {
		case a.Value.items() == nil:
			count = -2
		case count >= 0 && n != count:
			return c.Errf("input %d%s has %d items, expected %d as in the first sequence", i, c.inputName(i), n, count)
		case count > -2:
			count = n
		}
	}
	items := make([][]Arg, len(c.Out))
	for k := 0; k < count && c.inf.mayUnroll(body); k++ {
		each := make([]Arg, len(c.In))
		for i, a := range c.In {
			each[i] = a
			if a.Kind == graph.KindSequence {
				each[i] = a.Value.Items[k]
			}
		}
		outs, err := c.inferBody(body, each)
		if err != nil {
			break // only the types of the whole sequences are used
		}
		for i, o := range outs {
			items[i] = append(items[i], o)
		}
	}
	outs, err := c.inferBody(body, args)
	if err != nil {
		if count != 0 {
			return err
		}
		neverRuns(body, "it has no items")
		outs = make([]Arg, len(c.Out))
	}
	if count >= 0 {
		c.Node.Semantics.FLOPs = mulFLOPs(bodyFLOPs(body), int64(count))
	}
	for i, o := range outs {
		of := o.Type
		if count > 0 && len(items[i]) == count {
			of = unionOf(items[i])
		}
		c.SetType(i, graph.Type{Kind: graph.KindSequence, Of: &of})
		if count >= 0 && len(items[i]) == count {
			c.SetValue(i, sequenceOf(items[i]))
		}
	}
	return nil
}

// mayUnroll reports whether a body may be inferred once more to follow a loop,
// and counts that.
func (inf *inferrer) mayUnroll(body *graph.Graph) bool {
	inf.unrolled += sizeOf(body)
	return inf.unrolled <= maxUnrolled
}

// unionValue is the knowledge of a value that is either a or b.
func unionValue(a, b *Value) *Value {
	if a == nil || b == nil {
		return nil
	}
	if a.Items != nil || b.Items != nil {
		if a.Items == nil || b.Items == nil || len(a.Items) != len(b.Items) {
			return nil
		}
		v := &Value{Items: make([]Arg, len(a.Items))}
		for i, x := range a.Items {
			y := b.Items[i]
			v.Items[i] = Arg{true, Union(x.Type, y.Type), unionValue(x.Value, y.Value)}
		}
		return v
	}
	if len(a.Elems) != len(b.Elems) || len(a.Shape) != len(b.Shape) {
		return nil
	}
	for k := range a.Shape {
		if a.Shape[k] != b.Shape[k] {
			return nil
		}
	}
	v := &Value{Shape: a.Shape, Elems: make([]Scalar, len(a.Elems))}
	for i, x := range a.Elems {
		y := b.Elems[i]
		switch {
		case x == y:
			v.Elems[i] = x
		case x.State == Hidden || y.State == Hidden || x.I < 0 || y.I < 0 || x.F != 0 || y.F != 0:
			v.Elems[i].State = Hidden
		case x.F != x.F || y.F != y.F:
			v.Elems[i].State = Hidden
		default:
			v.Elems[i] = Scalar{I: max(x.I, y.I), State: Bounded}
		}
	}
	return v
}

// scalarOf is a value of rank 0.
func scalarOf(s Scalar) *Value { return &Value{Shape: []int64{}, Elems: []Scalar{s}} }

// stacked is the type of the results of that many iterations, joined along a new
// axis.
func stacked(t graph.Type, axis int, length graph.Dim) graph.Type {
	if !t.Ranked || axis > len(t.Shape) {
		return graph.Type{Kind: graph.KindTensor, Elem: t.Elem}
	}
	shape := make([]graph.Dim, 0, len(t.Shape)+1)
	shape = append(shape, t.Shape[:axis]...)
	shape = append(shape, length)
	shape = append(shape, t.Shape[axis:]...)
	s := graph.Type{Kind: graph.KindTensor, Elem: t.Elem, Ranked: true, Shape: shape}
	if _, _, _, err := s.Size(); err != nil {
		// A loop of 2^62 iterations can be planned, though not run.
		shape[axis] = graph.Unknown
	}
	return s
}

// atMost is a bounded length, or unknown if the bound means "no limit": exporters
// write the largest 32 or 64 bit integer for a while loop.
func atMost(n int64) graph.Dim {
	if n >= math.MaxInt32 {
		return graph.Unknown
	}
	return graph.AtMost(max(n, 0))
}

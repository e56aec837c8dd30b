package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// loop is the body of a Loop or a Scan, which runs repeatedly.
type loop struct {
	c       *Call
	what    string // "carried value" or "state", for messages
	body    *graph.Graph
	lead    []Arg // inputs before the carried values: iteration number and condition
	carried []Arg // before the first iteration
	tail    []Arg // inputs after them: slices of scanned inputs
	first   int   // the body's output that is the first carried value
	fixed   bool  // a carried value must keep its shape
}

// newLoop compares the body's inputs and outputs with the node's.
func newLoop(l *loop) (*loop, error) {
	c := l.c
	if want := len(l.lead) + len(l.carried) + len(l.tail); len(l.body.Inputs) != want {
		return nil, c.Errf("body has %d inputs, expected %d", len(l.body.Inputs), want)
	}
	if least := l.first + len(l.carried); len(l.body.Outputs) < least {
		return nil, c.Errf("body has %d outputs, expected at least %d", len(l.body.Outputs), least)
	}
	if made := len(l.body.Outputs) - l.first; len(c.Out) > made {
		return nil, c.Errf("body has %d outputs for the node, expected %d", made, len(c.Out))
	}
	for i, a := range l.carried {
		if !a.Present {
			return nil, c.Errf("initial %s %d is missing", l.what, i)
		}
	}
	return l, nil
}

// args are the body's inputs.
func (l *loop) args(carried []Arg) []Arg {
	return slices.Concat(l.lead, carried, l.tail)
}

// kept reports whether the body passes input i unchanged to output o.
func (l *loop) kept(i, o int) bool {
	g := l.body
	t := g.Outputs[o]
	for range len(g.Nodes) + 1 {
		if t == g.Inputs[i] {
			return true
		}
		if t < 0 || g.Tensors[t].Maker < 0 {
			return false
		}
		n := g.Nodes[g.Tensors[t].Maker]
		if n.Domain != "" || n.Op != "Identity" || len(n.Inputs) != 1 || l.c.inf.function(n) != nil {
			return false
		}
		t = n.Inputs[0]
	}
	return false
}

// fixpoint infers the body with types of the carried values that hold in every
// iteration, and returns the body's outputs. It starts with the initial types and
// widens those that the body changes: to a bound, then to unknown lengths, then
// to an unknown rank. Values remain only if the body does not change them.
func (l *loop) fixpoint() (ins, outs []Arg, err error) {
	c := l.c
	ins = slices.Clone(l.carried)
	for i := range ins {
		if !l.kept(len(l.lead)+i, l.first+i) {
			ins[i].Value = nil
		}
	}
	const rounds = 5 // by then the types are as wide as possible
	for round := range rounds {
		outs, err = c.inferBody(l.body, l.args(ins))
		if err != nil {
			return nil, nil, err
		}
		stable := true
		for i := range ins {
			t, err := l.widen(i, ins[i].Type, outs[l.first+i].Type, round)
			if err != nil {
				return nil, nil, err
			}
			if !equalTypes(t, ins[i].Type) {
				ins[i] = Arg{Present: true, Type: t}
				stable = false
			}
		}
		if stable {
			break
		}
	}
	return ins, outs, nil
}

// widen is a type that covers carried value i before the iteration and after it.
func (l *loop) widen(i int, was, out graph.Type, round int) (graph.Type, error) {
	if out.Kind == graph.KindUnknown || was.Kind == graph.KindUnknown {
		return was, nil
	}
	if out.Kind != was.Kind {
		// Since 16 the input may be an optional and the output its element.
		if was.Kind == graph.KindOptional {
			return was, nil
		}
		return was, l.c.Errf("%s %d is %v, but the body makes %v of it", l.what, i, was, out)
	}
	if out.Elem == graph.Undefined {
		out.Elem = was.Elem
	}
	if was.Elem == graph.Undefined {
		was.Elem = out.Elem
	}
	if was.Elem != out.Elem {
		return was, l.c.Errf("%s %d is %v, but the body makes %v of it", l.what, i, was, out)
	}
	if l.fixed && was.Ranked && out.Ranked {
		if len(was.Shape) != len(out.Shape) || slices.ContainsFunc(indices(was.Shape), func(k int) bool { return !SameDim(was.Shape[k], out.Shape[k]) }) {
			return was, l.c.Errf("%s %d is %v, but the body makes %v of it: expected the same shape in every iteration", l.what, i, was, out)
		}
	}
	u := Union(was, out)
	if equalTypes(u, was) || round == 0 {
		return u, nil
	}
	if was.Kind == graph.KindTensor && u.Ranked && round == 1 {
		for k := range u.Shape {
			if u.Shape[k] != was.Shape[k] {
				u.Shape[k] = graph.Unknown
			}
		}
		return u, nil
	}
	return graph.Type{Kind: was.Kind, Elem: was.Elem}, nil
}

func indices[T any](s []T) []int {
	list := make([]int, len(s))
	for i := range list {
		list[i] = i
	}
	return list
}

// equalTypes reports whether two types say the same.
func equalTypes(a, b graph.Type) bool {
	if a.Kind != b.Kind || a.Elem != b.Elem || a.Ranked != b.Ranked || !slices.Equal(a.Shape, b.Shape) || (a.Of == nil) != (b.Of == nil) {
		return false
	}
	return a.Of == nil || equalTypes(*a.Of, *b.Of)
}

// inferLoop: inputs are the trip count, the condition and the carried values;
// outputs the carried values after the last iteration and the scan outputs.
//
// A loop of a known and small number of iterations whose carried values change
// their shape, or hold shape arithmetic, is followed through one by one. Any
// other is inferred with types that hold in all iterations.
func inferLoop(c *Call) error {
	body, err := c.body("body")
	if err != nil {
		return err
	}
	if c.Has(0) {
		if err := c.needScalar(0, graph.Int64); err != nil {
			return err
		}
	}
	if c.Has(1) {
		if err := c.needScalar(1, graph.Bool); err != nil {
			return err
		}
	}
	l := &loop{c: c, what: "carried value", body: body, first: 1}
	if len(c.In) > 2 {
		l.carried = c.In[2:]
	}
	trips, start := tripCount(c), Known
	l.lead = loopLead(c, iterationOf(trips))
	if _, err := newLoop(l); err != nil {
		return err
	}
	never := trips == 0
	if c.Has(1) {
		if v, known := c.In[1].Value.Int(); !known {
			start = Hidden
		} else if v == 0 {
			never = true
		}
	}
	condKept := l.kept(1, 0)
	if !c.Has(1) && condKept {
		l.lead[1].Value = scalarOf(Scalar{I: 1})
	}
	ins, outs, err := l.fixpoint()
	if err != nil {
		if !never {
			return err
		}
		neverRuns(body, "it has no iterations")
		outs = make([]Arg, len(body.Outputs))
		ins = l.carried
	}
	result := loopResult{outs: outs}
	if never {
		result.fill(l, 0, true)
	} else {
		v, known := outs[0].Value.Int()
		always := start == Known && known && v != 0
		followed, done := false, loopResult{}
		if _, bounded := trips.Max(); bounded || !always { // else nothing known ends it
			followed, done = l.follow(trips, start, ins, outs)
		}
		if followed && !done.ok {
			// The body was left as of the last iteration that was followed.
			if _, err := c.inferBody(body, l.args(ins)); err != nil {
				return err
			}
		}
		if done.ok {
			result = done
			l.lead = loopLead(c, iterationOf(graph.AtMost(done.longest)))
			if l.lead[1].Value == nil && !c.Has(1) && condKept {
				l.lead[1].Value = scalarOf(Scalar{I: 1})
			}
			if _, err := c.inferBody(body, l.args(done.seen)); err != nil {
				return err
			}
		} else {
			result.fill(l, loopLength(trips, always), start == Known && trips.Exact() && trips > 0)
		}
	}
	for i := range l.carried {
		c.SetType(i, result.carried[i].Type)
		c.SetValue(i, result.carried[i].Value)
	}
	if result.length.Exact() {
		c.Node.Semantics.FLOPs = mulFLOPs(bodyFLOPs(body), int64(result.length))
	}
	for o := 1 + len(l.carried); o < len(body.Outputs); o++ {
		t := result.outs[o].Type
		if t.Kind != graph.KindTensor && t.Kind != graph.KindUnknown {
			return c.Errf("scan output %d of the body is %v, expected a tensor", o-1-len(l.carried), t)
		}
		c.SetType(o-1, stacked(t, 0, result.length))
		if result.scans != nil {
			c.SetValue(o-1, stackValues(c, o-1, result.scans[o-1-len(l.carried)]))
		}
	}
	return nil
}

// loopResult is what is known after a loop.
type loopResult struct {
	ok      bool
	length  graph.Dim // number of iterations
	longest int64
	outs    []Arg   // the body's outputs, as they hold for every iteration
	carried []Arg   // after the last iteration
	seen    []Arg   // before any iteration
	scans   [][]Arg // each scan output of each iteration, when all ran for certain
}

// fill fills in the result from the types that hold in every iteration.
// atLeastOnce: the body is run for certain.
func (r *loopResult) fill(l *loop, length graph.Dim, atLeastOnce bool) {
	r.length = length
	for i, a := range l.carried {
		out := r.outs[l.first+i]
		if l.kept(len(l.lead)+i, l.first+i) {
			out.Value = a.Value
		}
		switch {
		case length == 0:
			out = a
		case !atLeastOnce && out.Kind == a.Kind:
			out = Arg{true, Union(a.Type, out.Type), unionValue(a.Value, out.Value)}
		case out.Kind == graph.KindUnknown:
			out = Arg{true, graph.Type{Kind: a.Kind, Elem: a.Elem}, nil}
		}
		r.carried = append(r.carried, out)
	}
}

// tripCount is the number of iterations that input 0 allows.
func tripCount(c *Call) graph.Dim {
	if !c.Has(0) || c.In[0].Value == nil || len(c.In[0].Value.Elems) != 1 {
		return graph.Unknown
	}
	s := c.In[0].Value.Elems[0]
	s.I = min(s.I, 1<<62) // so that it is a length
	if s.State == Known {
		s.I = max(s.I, 0)
	}
	return s.Dim()
}

// loopLead is the first two inputs of a Loop's body. An iteration begins only
// when the condition, if there is one, is true.
func loopLead(c *Call, iteration Scalar) []Arg {
	lead := []Arg{
		{true, graph.TensorOf(graph.Int64), scalarOf(iteration)},
		{true, graph.TensorOf(graph.Bool), nil},
	}
	if c.Has(1) {
		lead[1].Value = scalarOf(Scalar{I: 1})
	}
	return lead
}

// iterationOf is the iteration number of a loop of at most that many iterations.
func iterationOf(trips graph.Dim) Scalar {
	most, ok := trips.Max()
	if !ok {
		return Scalar{State: Hidden}
	}
	return Scalar{I: max(most-1, 0), State: Bounded}
}

// loopLength is the length of the scan outputs. always: the condition never
// ends the loop.
func loopLength(trips graph.Dim, always bool) graph.Dim {
	most, ok := trips.Max()
	switch {
	case !ok:
		return graph.Unknown
	case always && trips.Exact():
		return trips
	}
	return atMost(most)
}

// follow infers the iterations one by one, each with the types and values that
// the one before made. wanted is false where that would tell nothing new.
func (l *loop) follow(trips graph.Dim, start State, ins, outs []Arg) (wanted bool, r loopResult) {
	const longest = 1000
	most, bounded := trips.Max()
	if bounded && most > longest || !l.worthFollowing(ins, outs) {
		return false, r
	}
	c := l.c
	state := slices.Clone(l.carried)
	r.seen = slices.Clone(state)
	scans := make([][]Arg, len(l.body.Outputs)-l.first-len(l.carried))
	cond := Scalar{I: 1, State: start}
	certain := true // every iteration so far ran
	for t := int64(0); ; t++ {
		if bounded && t == most {
			break
		}
		if cond.State == Known && cond.I == 0 {
			break
		}
		if cond.State != Known && !bounded || t == longest || !c.inf.mayUnroll(l.body) {
			return true, r
		}
		if cond.State != Known || !trips.Exact() && bounded || !bounded && c.Has(0) {
			certain = false
		}
		if !certain {
			r.carried = unionArgs(r.carried, state)
		}
		r.seen = unionArgs(r.seen, state)
		lead := loopLead(c, Scalar{I: t})
		lead[1].Value = scalarOf(Scalar{I: 1})
		out, err := c.inferBody(l.body, slices.Concat(lead, state, l.tail))
		if err != nil {
			return true, r
		}
		for i := range state {
			if _, err := l.widen(i, state[i].Type, out[l.first+i].Type, 0); err != nil {
				return true, r
			}
		}
		if t == 0 {
			r.outs = slices.Clone(out)
		} else {
			r.outs = unionArgs(r.outs, out)
		}
		state = slices.Clone(out[l.first : l.first+len(state)])
		for k := range scans {
			scans[k] = append(scans[k], out[l.first+len(state)+k])
		}
		cond = Scalar{State: Hidden}
		if v := out[0].Value; v != nil && len(v.Elems) == 1 {
			cond = v.Elems[0]
		}
		r.longest = t + 1
	}
	r.carried = unionArgs(r.carried, state)
	r.ok = r.longest > 0
	r.length = atMost(r.longest)
	if certain {
		r.length, r.scans = graph.Dim(r.longest), scans
	}
	return true, r
}

// worthFollowing reports whether the iterations differ in shape, or may do so
// in what depends on the carried values.
func (l *loop) worthFollowing(ins, outs []Arg) bool {
	for i, a := range l.carried {
		if !equalTypes(a.Type, ins[i].Type) {
			return true
		}
		if ins[i].Value == nil && a.Value != nil && (a.Value.Items != nil || !a.Elem.Floating()) {
			return true
		}
	}
	for _, o := range outs[l.first:] {
		if slices.Contains(o.Shape, graph.Unknown) || o.Kind == graph.KindTensor && !o.Ranked {
			return true
		}
	}
	return false
}

// unionArgs is what is known of values that are either those of a or of b; a is
// nil at first.
func unionArgs(a, b []Arg) []Arg {
	if a == nil {
		return slices.Clone(b)
	}
	u := make([]Arg, len(a))
	for i := range a {
		u[i] = Arg{true, Union(a[i].Type, b[i].Type), unionValue(a[i].Value, b[i].Value)}
	}
	return u
}

// stackValues is the value of a scan output whose parts are all known.
func stackValues(c *Call, o int, parts []Arg) *Value {
	shape, ok := c.outShape(o)
	if !ok {
		return nil
	}
	v := &Value{Shape: shape}
	for _, p := range parts {
		if p.Value == nil || p.Value.Items != nil {
			return nil
		}
		v.Elems = append(v.Elems, p.Value.Elems...)
	}
	if int64(len(v.Elems)) != count(shape) {
		return nil
	}
	return v
}

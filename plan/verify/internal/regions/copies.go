package regions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// copied: role node. The node is a copy of the node of the source that makes T. It must
// make some rows of its outputs, and read the rows that these need; or it adds up some of
// the rows of its inputs.
func (c *sliced) copied(p *sliceNode, n *graph.Node) string {
	if c.b.lacks && c.tensor(p.tensor) == none {
		c.unchecked = true
		return c.skipped(p, n)
	}
	of, wrong := c.role(p)
	if wrong != "" {
		return wrong
	}
	maker := c.b.g.Tensors[of].Maker
	if maker < 0 {
		return fmt.Sprintf("expected a tensor that a node of the source makes, found %q", graph.Short(p.tensor))
	}
	old := c.b.g.Nodes[maker]
	switch x := c.b.node(maker); {
	case old.Outputs[subject.FirstOutput(old)] != of:
		return fmt.Sprintf("expected the name of the first output of %s, found %q", c.b.g.Label(maker), graph.Short(p.tensor))
	case len(n.Outputs) != len(old.Outputs):
		return fmt.Sprintf("expected %s, as %s has, found %d", subject.Count(len(old.Outputs), "output"), c.b.g.Label(maker), len(n.Outputs))
	case slices.ContainsFunc(n.Inputs, func(t graph.TensorID) bool { return t >= 0 && c.holds[t].kind == hasFault }):
		return c.skipped(p, n)
	case x == nil:
		return fmt.Sprintf("%s has bodies or types that are not exact: expected no copies", c.b.g.Label(maker))
	case !c.v.knowsRows(old):
		c.unchecked = true
		return c.skipped(p, n)
	default:
		if wrong, weighs := c.weighed(p, n, old, of); weighs {
			return wrong
		}
		k := &copying{c: c, p: p, n: n, old: old, node: x, of: of}
		return k.check()
	}
}

// copying compares a copy with its node.
type copying struct {
	c    *sliced
	p    *sliceNode
	n    *graph.Node // the copy
	old  *graph.Node // in the graph before
	node *rowmap.Node
	of   graph.TensorID
	axes []int // of each input of the copy: the axis of which it reads rows, none: it reads all

	stated []graph.TensorID // inputs of the node in whose place the copy states lists
}

// check tries the ways in which a copy may make rows. The lengths of its first output say
// which axis it is; if none is shorter, it makes all rows of some axis, or adds.
func (k *copying) check() string {
	c := k.c
	for i, t := range k.n.Outputs {
		if (t < 0) != (k.old.Outputs[i] < 0) {
			return fmt.Sprintf("output %d: expected the outputs of %s", i, k.old.OpName())
		}
	}
	if len(k.n.Outputs) == 0 || k.n.Outputs[0] < 0 {
		return fmt.Sprintf("expected copies of a node that makes output 0, found %s", k.old.OpName())
	}
	for j, t := range k.n.Inputs {
		goesOn := t >= 0 && c.holds[t].kind == hasSum
		if wrong := c.inSlice(k.p, t, goesOn); wrong != "" {
			return fmt.Sprintf("input %d: %s", j, wrong)
		}
	}
	want, found := k.node.Out[0].Shape, exactShape(c.g.Tensors[k.n.Outputs[0]].Type)
	if len(found) != len(want) {
		return fmt.Sprintf("expected rows of %q, which has %d axes, found %v", graph.Short(k.p.tensor), len(want), found)
	}
	var axes []int
	for a, d := range want {
		if found[a] != d {
			axes = append(axes, a)
		}
	}
	switch len(axes) {
	case 0:
		return k.whole()
	case 1:
		return k.along(axes[0], found[axes[0]])
	}
	return fmt.Sprintf("expected rows of one axis of %q, whose shape is %v, found shape %v", graph.Short(k.p.tensor), want, found)
}

// whole checks a copy whose first output has all of its rows.
func (k *copying) whole() string {
	wrong := ""
	j, part := k.addend()
	if j >= 0 {
		if wrong = k.adds(j, part); wrong == "" {
			return ""
		}
	}
	// A region may read all rows of an input in each slice, as below several kernels. Along
	// which axis it is cut is then said by what its other nodes make of the copy's results.
	axes := make([]int, len(k.node.Out[0].Shape))
	for axis := range axes {
		axes[axis] = axis
	}
	slices.SortStableFunc(axes, func(a, b int) int { return cmp.Compare(k.placed(b), k.placed(a)) })
	for _, axis := range axes {
		length := k.node.Out[0].Shape[axis]
		if k.node.Along(axis) == nil {
			continue
		}
		switch other := k.along(axis, length); {
		case other == "":
			return ""
		case wrong == "":
			wrong = other
		}
	}
	if wrong == "" {
		wrong = fmt.Sprintf("expected a copy that makes rows, which %s has none of", k.old.OpName())
	}
	return wrong
}

// placed is 1 if rows of an axis are what is made of the copy's results, 0 if not.
func (k *copying) placed(axis int) int {
	if m := k.node.Along(axis); m != nil {
		if _, known := k.likely(m); known {
			return 1
		}
	}
	return 0
}

// along checks a copy that makes so many rows of an axis of its first output.
func (k *copying) along(axis int, length int64) string {
	c := k.c
	m := k.node.Along(axis)
	if m == nil {
		return fmt.Sprintf("its rows of axis %d cannot be computed alone: expected rows of another axis", axis)
	}
	total := k.node.Out[0].Shape[axis]
	first, alike := k.firstRows(m, length, total)
	if lo, known := k.likely(m); known && !alike && lo >= 0 && lo <= total-length {
		first = append([]int64{lo}, first...)
	}
	wrong := ""
	for _, lo := range first {
		change := rowmap.Change{}
		if m.Change != nil {
			change = m.Change(lo, lo+length)
		}
		other := k.differs(m.In, change, lo, lo+length, none)
		if other == "" {
			k.makes(m, lo, length, alike)
			return ""
		}
		if wrong == "" {
			wrong = fmt.Sprintf("for rows [%d, %d) of axis %d: %s%s", lo, lo+length, axis, other, k.reading(m))
		}
	}
	if wrong == "" {
		wrong = fmt.Sprintf("expected rows of axis %d of %q from rows of its inputs, found inputs that make no %d rows%s", axis, graph.Short(k.p.tensor), length, c.made(k.n.Inputs[0]))
	}
	return wrong
}

// likely returns the first row that the copy is likely to make, by what is done with its
// outputs.
func (k *copying) likely(m *rowmap.Map) (lo int64, known bool) {
	for i, t := range k.n.Outputs {
		if at, placed := k.c.at[t]; placed && t >= 0 && m.Out[i] == at.axis {
			return at.lo, true
		}
	}
	return 0, false
}

// reading says for a message which rows the copy reads of the first input that is cut.
func (k *copying) reading(m *rowmap.Map) string {
	for j, r := range m.In {
		if r.Axis != rowmap.Whole && j < len(k.n.Inputs) && k.n.Inputs[j] >= 0 {
			t := k.n.Inputs[j]
			return fmt.Sprintf(" (its input %d is %s%s)", j, k.c.b.text(k.c.holds[t]), k.c.made(t))
		}
	}
	return ""
}

// mostTries bounds how many first rows are tried where inputs are read to both of their
// ends, as below a wide kernel.
const mostTries = 1 << 8

// firstRows returns the first rows for which the copy may read what it reads: the only
// one, mostly. alike is true if no row of an input is read, so that all rows are alike.
func (k *copying) firstRows(m *rowmap.Map, length, total int64) (list []int64, alike bool) {
	if length == total {
		return []int64{0}, false
	}
	c, cuts := k.c, false
	low, high := int64(0), total-length
	for j, r := range m.In {
		if r.Axis == rowmap.Whole || !k.node.In[j].Present {
			continue
		}
		cuts = true
		at := j
		if r.MayBeNone {
			at = 0 // the inputs before the first one that is read are left out
		}
		if at >= len(k.n.Inputs) || k.n.Inputs[at] < 0 {
			continue
		}
		x := c.b.relative(c.holds[k.n.Inputs[at]], k.old.Inputs[j])
		if x.kind != hasRows || x.of != k.old.Inputs[j] || x.axis != none && x.axis != r.Axis || x.lo == anyRow {
			continue
		}
		from, to := x.lo, x.hi
		if x.axis == none {
			from, to = 0, r.Length
		}
		switch {
		case r.MayBeNone:
			list = append(list, from+r.Before)
		case from > 0:
			list = append(list, (from+r.Before)/r.Mul*r.Div)
		case to < r.Length:
			list = append(list, (to-r.After)/r.Mul*r.Div-length)
		default: // both ends are those of the input
			low = max(low, (r.Length-r.After)/r.Mul*r.Div-length)
			high = min(high, r.Before/r.Mul*r.Div)
		}
		if len(list) > 0 && !r.MayBeNone {
			break
		}
	}
	if !cuts {
		return []int64{0}, true
	}
	if len(list) == 0 {
		for lo := low; lo <= high && len(list) < mostTries; lo++ {
			list = append(list, lo)
		}
		if len(list) == 0 {
			list = []int64{0}
		}
	}
	return slices.DeleteFunc(list, func(lo int64) bool { return lo < 0 || lo > total-length }), false
}

// makes records what the outputs of a copy hold.
func (k *copying) makes(m *rowmap.Map, lo, length int64, alike bool) {
	c := k.c
	k.noteReads()
	for i, t := range k.n.Outputs {
		switch {
		case t < 0:
		case m.Out[i] == rowmap.Whole:
			c.holds[t] = contents{}
		case alike:
			c.holds[t] = c.b.rowsOf(k.old.Outputs[i], m.Out[i], anyRow, length)
		default:
			c.holds[t] = c.b.rowsOf(k.old.Outputs[i], m.Out[i], lo, lo+length)
		}
		if t >= 0 && m.Out[i] != rowmap.Whole {
			x := c.holds[t]
			x.modulo = m.Modulo[i]
			c.holds[t] = x
		}
	}
	c.order(k.p, k.n)
}

// noteReads notes what the copy reads from outside of its region.
func (k *copying) noteReads() {
	for i, t := range k.n.Inputs {
		if i < len(k.axes) {
			k.c.reads(k.p, t, k.axes[i])
		}
	}
	for _, t := range k.stated {
		if k.c.b.stated[t] != nil {
			continue // of a part: no tensor of the source
		}
		k.c.regions[k.p.region].reads(k.c.b.g.Tensors[t].Name, none)
	}
	if old := k.c.b.ofSlice[k.old]; old != nil {
		for j, t := range k.old.Inputs { // what a node of a slice states
			if j < len(old.Inputs) && old.Inputs[j] >= 0 && k.c.b.stated[t] != nil {
				k.c.outer(k.p, func(r *regionFound, _ int) { r.reads(k.c.b.g.Tensors[old.Inputs[j]].Name, none) })
			}
		}
	}
}

// addend returns the first input of which the copy reads some of the rows alone.
func (k *copying) addend() (int, contents) {
	for j := range min(len(k.n.Inputs), len(k.node.In)) {
		if t := k.n.Inputs[j]; t >= 0 {
			if x := k.c.b.relative(k.c.holds[t], k.old.Inputs[j]); x.kind == hasRows && x.axis != none {
				return j, x
			}
		}
	}
	return none, contents{}
}

// adds checks a copy that adds up the rows that its input j holds.
func (k *copying) adds(j int, part contents) string {
	c := k.c
	s := k.node.Sum(j, part.axis)
	if s == nil {
		return fmt.Sprintf("input %d: expected %s, found %s%s", j, c.b.text(all(k.old.Inputs[j])), c.b.text(part), c.made(k.n.Inputs[j]))
	}
	for i := j + 1; part.lo == anyRow && i < min(len(k.n.Inputs), len(s.In)); i++ {
		if t := k.n.Inputs[i]; t >= 0 && s.In[i].Axis != rowmap.Whole && c.holds[t].kind == hasRows && c.holds[t].axis == s.In[i].Axis {
			part = c.holds[t] // its rows are not all alike
		}
	}
	lo, hi := part.lo, part.hi
	if lo == anyRow {
		lo = 0
	}
	acc := none
	x := contents{kind: hasSum, of: k.of, axis: none, lo: part.lo, hi: part.hi}
	if s.Third && len(k.old.Inputs) == 2 && len(k.n.Inputs) == 3 && k.old.Attr("beta") == nil {
		acc = 2
	}
	if k.p.slice == 0 && lo > 0 {
		return fmt.Sprintf("input %d: expected rows of axis %d of %q from row 0 on, found %s%s", j, part.axis, graph.Short(c.b.g.Tensors[part.of].Name), c.b.text(part), c.made(k.n.Inputs[j]))
	}
	if wrong := k.differs(s.In, s.Change, lo, hi, acc); wrong != "" {
		return fmt.Sprintf("for the sum of rows [%d, %d): %s", lo, hi, wrong)
	}
	r := &c.regions[k.p.region]
	if how := r.sums[k.of]; how == nil {
		r.sums[k.of] = &addition{by: s.By, over: s.In, length: s.Length, mean: s.Mean, count: s.Count}
		r.makes(k.p.tensor, none, "", c.g.Label(c.g.Tensors[k.n.Outputs[0]].Maker))
	} else if !slices.Equal(how.over, s.In) {
		return "expected a sum over the rows of the same axis as in the other slices, found another axis"
	}
	if acc >= 0 {
		last := k.n.Inputs[acc]
		if last < 0 {
			return fmt.Sprintf("input %d: expected what the rows before row %d add to %q, found none", acc, lo, graph.Short(k.p.tensor))
		}
		together, ok := sumOf(c.holds[last], x)
		if !ok {
			return fmt.Sprintf("input %d: expected what the rows before row %d add to %q, found %s%s", acc, lo, graph.Short(k.p.tensor), c.b.text(c.holds[last]), c.made(last))
		}
		x = together
	}
	k.noteReads()
	c.summed(k.n.Outputs[0], x)
	c.order(k.p, k.n)
	return ""
}

// differs says how the copy differs from one that makes rows [lo, hi); "" if it does
// not. in are the rows of each input, acc is an input that the node does not have.
func (k *copying) differs(in []rowmap.Rows, change rowmap.Change, lo, hi int64, acc int) string {
	c := k.c
	op := k.old.Op
	if change.Op != "" {
		op = change.Op
	}
	if k.n.Op != op || k.n.Domain != k.old.Domain || k.n.Overload != k.old.Overload {
		return fmt.Sprintf("expected operator %s, found %s", op, k.n.OpName())
	}
	want := &graph.Node{}
	for _, a := range k.old.Attrs {
		if !slices.Contains(change.Drop, a.Name) && !slices.ContainsFunc(change.Attrs, func(b *graph.Attr) bool { return a.Name == b.Name }) {
			want.Attrs = append(want.Attrs, a)
		}
	}
	want.Attrs = append(want.Attrs, change.Attrs...)
	if name := c.same.Attributes(k.n, want); name != "" {
		return fmt.Sprintf("attribute %q: expected %s, found %s", graph.Short(name), attributeText(want.Attr(name)), attributeText(k.n.Attr(name)))
	}
	at := 0 // input of the copy
	k.axes, k.stated = k.axes[:0], k.stated[:0]
	for j, t := range k.old.Inputs {
		_, stated := change.Inputs[at]
		from, to := int64(0), int64(0)
		if t >= 0 && in[j].Axis != rowmap.Whole {
			var ok bool
			if from, to, ok = in[j].Of(lo, hi); !ok {
				return fmt.Sprintf("no rows of input %d make these", j)
			}
			if from == to && in[j].MayBeNone {
				continue
			}
		}
		axis := in[j].Axis
		switch {
		case stated:
			axis = none
			if t >= 0 {
				k.stated = append(k.stated, t)
			}
		case at >= len(k.n.Inputs):
			return fmt.Sprintf("expected an input %d, found %d inputs", at, len(k.n.Inputs))
		case t < 0 || axis == rowmap.Whole:
			if wrong := c.wants(k.n.Inputs[at], t); wrong != "" {
				return fmt.Sprintf("input %d: %s", at, wrong)
			}
		case k.n.Inputs[at] < 0:
			return fmt.Sprintf("input %d: expected %s, found none", at, c.b.text(c.b.rowsOf(t, axis, from, to)))
		case !c.b.has(k.remains(at, c.holds[k.n.Inputs[at]]), t, axis, from, to):
			return fmt.Sprintf("input %d: expected %s, found %s%s", at, c.b.text(c.b.rowsOf(t, axis, from, to)), c.b.text(c.holds[k.n.Inputs[at]]), c.made(k.n.Inputs[at]))
		}
		k.axes = append(k.axes, axis)
		at++
	}
	for _, j := range slices.Sorted(maps.Keys(change.Inputs)) {
		list := change.Inputs[j]
		at = max(at, j+1)
		if j >= len(k.n.Inputs) {
			return fmt.Sprintf("input %d: expected %v, found none", j, list)
		}
		if found, ok := c.vector(k.n.Inputs[j]); !ok || !slices.Equal(found, list) && !k.becomes(found, list) {
			return fmt.Sprintf("input %d: expected a constant %v, found %v", j, list, found)
		}
	}
	for j := len(k.axes); j < at; j++ { // stated behind the node's own inputs
		if _, stated := change.Inputs[j]; !stated && k.n.Inputs[j] >= 0 {
			return fmt.Sprintf("input %d: expected none, found one", j)
		}
	}
	if acc >= 0 {
		at++
	}
	if len(k.n.Inputs) != at {
		return fmt.Sprintf("expected %s, found %d", subject.Count(at, "input"), len(k.n.Inputs))
	}
	return ""
}

// openLengths are the numbers that stand for lengths of the input in a shape that a node states: with
// Reshape, 0 is the input's length and -1 what is left; with Expand, 1 keeps the input's.
var openLengths = map[string][]int64{"Reshape": {0, -1}, "Expand": {1}}

// becomes reports whether a shape that the copy states, for ranges of dimensions, becomes another
// one by the rules of its operator. What it becomes is what inference finds.
func (k *copying) becomes(stated, list []int64) bool {
	if k.c.v.Plan.Ranges == nil || k.n.Domain != "" || len(stated) != len(list) || len(k.n.Outputs) != 1 || k.n.Outputs[0] < 0 {
		return false
	}
	for i, n := range stated {
		if n != list[i] && !slices.Contains(openLengths[k.n.Op], n) {
			return false
		}
	}
	return slices.Equal(exactShape(k.c.g.Tensors[k.n.Outputs[0]].Type), list)
}

// remains returns what the copy sees of the contents of an input: a remainder on division
// does not depend on multiples of the divisor.
func (k *copying) remains(input int, x contents) contents {
	if x.modulo == 0 || input != 0 || k.old.Domain != "" || k.old.Op != "Mod" || k.old.Attr("fmod") != nil {
		return x
	}
	if d := k.node.In[1]; d.Known && len(d.Ints) == 1 && d.Ints[0] > 0 && x.modulo%d.Ints[0] == 0 {
		x.modulo = 0
	}
	return x
}

// attributeText describes an attribute in a message.
func attributeText(a *graph.Attr) string {
	if a == nil {
		return "none"
	}
	switch a.Type {
	case graph.AttrInt:
		return fmt.Sprint(a.Int)
	case graph.AttrInts:
		return graph.Short(fmt.Sprint(a.Ints))
	case graph.AttrFloat:
		return fmt.Sprint(a.Float)
	case graph.AttrString:
		return fmt.Sprintf("%q", graph.Short(a.String))
	}
	return "another value"
}

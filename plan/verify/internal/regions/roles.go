package regions

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// reads notes that a node of a slice reads a tensor of the graph outside of its region:
// rows of an axis, or all of it.
func (c *sliced) reads(p *sliceNode, t graph.TensorID, axis int) {
	if t < 0 {
		return
	}
	if maker := c.g.Tensors[t].Maker; maker >= 0 && c.tags[maker] != nil && c.inRegion(c.tags[maker], p.region) {
		return
	}
	c.outer(p, func(r *regionFound, region int) {
		if maker := c.g.Tensors[t].Maker; maker >= 0 && c.tags[maker] != nil && c.inRegion(c.tags[maker], region) || c.holds[t].kind == hasNothing {
			return
		}
		c.notes(r, t, none)
	})
	c.notes(&c.regions[p.region], t, axis)
}

// notes notes that a region reads a tensor.
func (c *sliced) notes(r *regionFound, t graph.TensorID, axis int) {
	if of, part := c.parts[t]; part {
		r.reads(of, c.holds[t].axis)
		return
	}
	if c.holds[t].kind == hasNothing {
		return // a list that the copy states
	}
	name := c.g.Tensors[t].Name
	c.isNamed(t, func(other string) bool {
		if _, known := r.inputs[other]; known {
			name = other
			return true
		}
		return false
	})
	r.reads(name, axis)
}

// inSlice says what is wrong with a tensor that a node of a slice reads. What its region
// makes must come from its own slice or, if the node goes on with what other slices put
// together, from the slice before.
func (c *sliced) inSlice(p *sliceNode, t graph.TensorID, goesOn bool) string {
	if t < 0 || c.g.Tensors[t].Maker < 0 {
		return ""
	}
	q, x := c.tags[c.g.Tensors[t].Maker], c.holds[t]
	if q == nil {
		return ""
	}
	if q.region != p.region {
		a, b, same := c.frames(p), c.frames(q), 0
		for same < min(len(a), len(b)) && a[same].region == b[same].region {
			if a[same].slice != b[same].slice {
				return fmt.Sprintf("expected a tensor of slice %d of region %d, found one of slice %d%s", a[same].slice, a[same].region, b[same].slice, c.made(t))
			}
			same++
		}
		if same == len(b) && x.kind == hasRows { // of the slice in which the region runs
			return ""
		}
		if of := c.before(t); of != none && c.b.made[c.b.g.Tensors[of].Name] == of && q.role == "put" && c.b.whole(x, of) {
			return ""
		}
		if output := q.role != "rows" && (q.role != "node" || c.regions[q.region].sums[x.of] != nil); output && x == all(x.of) {
			return ""
		}
		return fmt.Sprintf("expected a tensor of region %d or an output of another, found %s%s in region %d", p.region, c.b.text(x), c.made(t), q.region)
	}
	want := p.slice
	if goesOn && q.role != "base" {
		want--
	}
	if q.slice == want {
		return ""
	}
	return fmt.Sprintf("expected a tensor of slice %d, found one of slice %d%s", want, q.slice, c.made(t))
}

// wroteBefore reports whether a slice before that of a node wrote rows into a tensor. If a slice takes
// rows before the slice before it writes its own, that was not the last slice before it: what
// matters is which rows are overwritten.
func (c *sliced) wroteBefore(p *sliceNode, t graph.TensorID) bool {
	if t < 0 || c.g.Tensors[t].Maker < 0 {
		return false
	}
	q := c.tags[c.g.Tensors[t].Maker]
	return q != nil && q.region == p.region && q.role == "put" && q.slice < p.slice
}

// vector returns the elements of an initializer that is a vector of int64.
func (c *sliced) vector(t graph.TensorID) ([]int64, bool) {
	if t < 0 {
		return nil, false
	}
	x := c.g.Tensors[t]
	if x.Data == nil || x.Overridable || x.Data.Type != graph.Int64 || len(x.Data.Dims) != 1 {
		return nil, false
	}
	return x.Data.Integers(maxVector)
}

// maxVector is the largest number of elements of a list that a copy states: more than
// axes of a tensor.
const maxVector = 1 << 10

// number returns the element of an initializer that is a vector of one int64.
func (c *sliced) number(t graph.TensorID) (int64, bool) {
	list, ok := c.vector(t)
	if !ok || len(list) != 1 {
		return 0, false
	}
	return list[0], true
}

// plainNode says what is wrong with the form of a node that slices add; "" if it is
// right.
func plainNode(n *graph.Node, domain, op string, inputs, attributes int) string {
	switch {
	case n.Op != op || n.Domain != domain || n.Overload != "":
		return fmt.Sprintf("expected operator %s, found %s", op, n.OpName())
	case len(n.Inputs) != inputs || len(n.Outputs) != 1 || n.Outputs[0] < 0:
		return fmt.Sprintf("expected %s and an output, found %d and %d", subject.Count(inputs, "input"), len(n.Inputs), len(n.Outputs))
	case len(n.Attrs) != attributes:
		return fmt.Sprintf("expected %s, found %d", subject.Count(attributes, "attribute"), len(n.Attrs))
	}
	for j, t := range n.Inputs {
		if t < 0 {
			return fmt.Sprintf("expected an input %d, found none", j)
		}
	}
	return ""
}

// role returns the tensor of the graph before that a node of a slice is about.
func (c *sliced) role(p *sliceNode) (graph.TensorID, string) {
	t := c.tensor(p.tensor)
	if t == none {
		return none, fmt.Sprintf("expected a tensor of the source, found %q", graph.Short(p.tensor))
	}
	if c.b.shape(t) == nil {
		return none, fmt.Sprintf("expected a tensor with lengths that are known, found %q", graph.Short(p.tensor))
	}
	return t, ""
}

// skipped gives up on a node that follows from what was not checked.
func (c *sliced) skipped(p *sliceNode, n *graph.Node) string {
	c.partly(p)
	for _, t := range n.Outputs {
		if t >= 0 {
			c.holds[t] = contents{kind: hasFault}
		}
	}
	return ""
}

// taken: role rows. Slice takes rows of T, or of a tensor that is written over T where T
// has not been written over yet.
func (c *sliced) taken(p *sliceNode, n *graph.Node) string {
	from, to, axis, wrong := c.rowsTaken(n)
	if wrong != "" {
		return wrong
	}
	of, wrong := c.role(p)
	if wrong != "" {
		return wrong
	}
	shape := c.b.shape(of)
	x := c.b.relative(c.holds[n.Inputs[0]], of)
	if x.kind == hasFault {
		return c.skipped(p, n)
	}
	if axis < 0 || axis >= int64(len(shape)) || from < 0 || to <= from || to > shape[axis] {
		return fmt.Sprintf("expected rows of an axis of %q, found rows [%d, %d) of axis %d", graph.Short(p.tensor), from, to, axis)
	}
	a := int(axis)
	if x.kind != hasWritten || !c.wroteBefore(p, n.Inputs[0]) {
		if wrong := c.inSlice(p, n.Inputs[0], x.kind == hasWritten); wrong != "" {
			return wrong
		}
	}
	c.origin(p, n.Outputs[0], n.Inputs[0])
	c.reads(p, n.Inputs[0], a)
	modulo := x.modulo
	switch {
	case x.kind == hasWritten && x.over == of && x.axis == a && from >= x.hi:
		c.holds[n.Outputs[0]] = c.b.rowsOf(of, a, from, to)
	case x.kind == hasWritten && x.over == of && x.axis == a:
		return fmt.Sprintf("expected rows of %q that are not overwritten yet, from row %d on, found rows [%d, %d)", graph.Short(p.tensor), x.hi, from, to)
	case x.kind == hasRows && x.of == of && x.axis == none:
		c.holds[n.Outputs[0]] = c.b.rowsOf(of, a, from, to)
	case x.kind == hasRows && x.of == of && x.axis == a && x.lo == anyRow && to <= x.hi:
		c.holds[n.Outputs[0]] = c.b.rowsOf(of, a, anyRow, to-from)
	case x.kind == hasRows && x.of == of && x.axis == a && x.lo != anyRow && to <= x.hi-x.lo:
		c.holds[n.Outputs[0]] = c.b.rowsOf(of, a, x.lo+from, x.lo+to)
	default:
		return fmt.Sprintf("input 0: expected %q, or so many rows of its axis %d that rows [%d, %d) can be taken, found %s%s", graph.Short(p.tensor), a, from, to, c.b.text(x), c.made(n.Inputs[0]))
	}
	made := c.holds[n.Outputs[0]]
	made.modulo = modulo
	c.holds[n.Outputs[0]] = made
	return ""
}

// sliceInputs is the first opset whose Slice takes its rows as inputs.
const sliceInputs = 10

// rowsTaken returns which rows of an axis a Slice takes: by its inputs or, in older opsets, by
// its attributes.
func (c *sliced) rowsTaken(n *graph.Node) (from, to, axis int64, wrong string) {
	if c.v.Model.Opset("") < sliceInputs {
		if wrong := plainNode(n, "", "Slice", 1, 3); wrong != "" {
			return 0, 0, 0, wrong
		}
		from, ok1 := oneNumber(n, "starts")
		to, ok2 := oneNumber(n, "ends")
		axis, ok3 := oneNumber(n, "axes")
		if !ok1 || !ok2 || !ok3 {
			return 0, 0, 0, "expected starts, ends and axes with one number each"
		}
		return from, to, axis, ""
	}
	if wrong := plainNode(n, "", "Slice", 4, 0); wrong != "" {
		return 0, 0, 0, wrong
	}
	from, ok1 := c.number(n.Inputs[1])
	to, ok2 := c.number(n.Inputs[2])
	axis, ok3 := c.number(n.Inputs[3])
	if !ok1 || !ok2 || !ok3 {
		return 0, 0, 0, "expected a constant as the first row, the row behind the last one and the axis"
	}
	return from, to, axis, ""
}

// oneNumber returns the number of an attribute that is a list of one.
func oneNumber(n *graph.Node, name string) (int64, bool) {
	a := n.Attr(name)
	if a == nil || a.Ref != "" || a.Type != graph.AttrInts || len(a.Ints) != 1 {
		return 0, false
	}
	return a.Ints[0], true
}

// room: role base. ConstantOfShape makes room for T or, in opsets that do not have it, Tile of
// one element.
func (c *sliced) room(p *sliceNode, n *graph.Node) string {
	at := 0 // the input with the lengths
	if c.v.Model.Opset("") < 9 {
		at = 1
		if wrong := plainNode(n, "", "Tile", 2, 0); wrong != "" {
			return wrong
		}
		if x := c.g.Tensors[n.Inputs[0]]; x.Data == nil || slices.ContainsFunc(x.Data.Dims, func(d int64) bool { return d != 1 }) {
			return "input 0: expected an initializer of one element"
		}
	} else {
		if wrong := plainNode(n, "", "ConstantOfShape", 1, 1); wrong != "" {
			return wrong
		}
		if n.Attr("value") == nil {
			return "expected attribute value, found none"
		}
	}
	of, wrong := c.role(p)
	if wrong != "" {
		return wrong
	}
	if wrong := c.lengthsOf(p, n.Inputs[at], of); wrong != "" {
		return wrong
	}
	if want, found := c.b.g.Tensors[of].Type.Elem, c.g.Tensors[n.Outputs[0]].Type.Elem; want != found {
		return fmt.Sprintf("expected elements of type %v, as %q has, found %v", want, graph.Short(p.tensor), found)
	}
	c.holds[n.Outputs[0]] = contents{kind: hasRoom, of: of}
	return ""
}

// put: role put. PutRows writes the next rows of T.
func (c *sliced) put(p *sliceNode, n *graph.Node) string {
	attrs := 1
	if c.v.Model.Opset("") < sliceInputs {
		attrs = 4
	}
	if wrong := plainNode(n, graph.SwapDomain, graph.PutRows, 4, attrs); wrong != "" {
		return wrong
	}
	of, wrong := c.role(p)
	if wrong != "" {
		return wrong
	}
	at, ok1 := c.number(n.Inputs[2])
	axes, ok2 := c.number(n.Inputs[3])
	shape := c.b.shape(of)
	attribute := n.Attr("axis")
	switch {
	case !ok1 || !ok2:
		return "expected a constant as the first row and the axis"
	case attribute == nil || attribute.Int != axes || attribute.Ref != "":
		return fmt.Sprintf("expected %d, which is input 3, as attribute axis, too", axes)
	case axes < 0 || axes >= int64(len(shape)):
		return fmt.Sprintf("expected an axis of %q, which has %d, found axis %d", graph.Short(p.tensor), len(shape), axes)
	}
	axis := int(axes)
	r := &c.regions[p.region]
	base, part := c.holds[n.Inputs[0]], c.b.relative(c.holds[n.Inputs[1]], of)
	if t := c.before(n.Inputs[0]); t != none {
		base = c.b.relative(base, t) // all of a tensor of a slice, perhaps, over which rows are written
	}
	label := c.g.Label(c.g.Tensors[n.Outputs[0]].Maker)
	next := contents{kind: hasWritten, of: of, axis: axis, over: none}
	switch {
	case base.kind == hasRoom && base.of == of:
		r.makes(p.tensor, axis, "", label)
	case base.kind == hasWritten && base.of == of && base.axis == axis:
		next = base
	case base == all(base.of) && base.of != of && c.g.Tensors[n.Inputs[0]].Data == nil:
		x := c.b.g.Tensors[base.of]
		if y := c.b.g.Tensors[of]; x.Type.Elem != y.Type.Elem || !slices.Equal(c.b.shape(base.of), shape) {
			return fmt.Sprintf("input 0: expected room for %q, found %q, which has another type", graph.Short(p.tensor), graph.Short(x.Name))
		}
		next.over = base.of
		r.makes(p.tensor, axis, r.over(c, n.Inputs[0]), label)
	case base.kind == hasFault || part.kind == hasFault:
		return c.skipped(p, n)
	default:
		return fmt.Sprintf("input 0: expected room for %q, or rows of its axis %d in it, found %s%s", graph.Short(p.tensor), axis, c.b.text(base), c.made(n.Inputs[0]))
	}
	if part.kind == hasFault {
		return c.skipped(p, n)
	}
	for j := range 2 {
		if wrong := c.inSlice(p, n.Inputs[j], j == 0); wrong != "" {
			return fmt.Sprintf("input %d: %s", j, wrong)
		}
	}
	length := part.hi - part.lo
	switch {
	case c.b.whole(part, of):
		length = shape[axis]
	case part.lo == anyRow:
		length = part.hi
	}
	if at != next.hi {
		return fmt.Sprintf("expected rows of %q from row %d on, the next one, found row %d%s", graph.Short(p.tensor), next.hi, at, c.made(n.Inputs[0]))
	}
	if attrs > 1 { // which the body of the function reads
		for _, x := range []struct {
			name string
			want int64
		}{{"axes", axes}, {"at", at}, {"behind", at + length}} {
			if found, ok := oneNumber(n, x.name); !ok || found != x.want {
				return fmt.Sprintf("attribute %s: expected [%d], found %s", x.name, x.want, attributeText(n.Attr(x.name)))
			}
		}
	}
	if part.kind != hasRows || length < 0 || length > shape[axis]-at || !c.b.has(part, of, axis, at, at+length) {
		return fmt.Sprintf("input 1: expected rows of axis %d of %q from row %d on, found %s%s", axis, graph.Short(p.tensor), at, c.b.text(part), c.made(n.Inputs[1]))
	}
	if next.hi += length; next.hi == shape[axis] {
		next = c.b.all(of)
		c.origin(p, n.Outputs[0], n.Inputs[1])
	}
	c.holds[n.Outputs[0]] = next
	return ""
}

// addition says how the parts of a sum make the whole.
type addition struct {
	by     string
	over   []rowmap.Rows // the rows of each input that one part adds up
	length int64         // of the axis that is summed
	mean   bool
	count  int64
}

// sumOf returns the contents of the sum of two parts; false if their rows do not follow
// one another.
func sumOf(a, b contents) (contents, bool) {
	switch {
	case a.kind != hasSum || b.kind != hasSum || a.of != b.of || a.top != b.top:
		return contents{}, false
	case a.lo == anyRow && b.lo == anyRow:
		a.hi += b.hi
	case b.lo == anyRow:
		a.hi += b.hi
	case a.lo == anyRow:
		if b.lo != a.hi {
			return contents{}, false
		}
		a.lo, a.hi = 0, b.hi
	case a.hi != b.lo:
		return contents{}, false
	default:
		a.hi = b.hi
	}
	return a, true
}

// summed gives a tensor what it holds of a sum: all of T if nothing is missing.
func (c *sliced) summed(t graph.TensorID, x contents) {
	how := c.regions[c.tags[c.g.Tensors[t].Maker].region].sums[x.of]
	if how != nil && !how.mean && x.top == 0 && x.hi == how.length && (x.lo == 0 || x.lo == anyRow) {
		x = all(x.of)
	}
	c.holds[t] = x
}

// added: role sum. The parts of two slices are combined.
func (c *sliced) added(p *sliceNode, n *graph.Node) string {
	of, wrong := c.role(p)
	if wrong != "" {
		return wrong
	}
	if slices.ContainsFunc(n.Inputs, func(t graph.TensorID) bool { return t >= 0 && c.holds[t].kind == hasFault }) {
		return c.skipped(p, n) // nothing is known of the parts, nor how they are combined
	}
	how := c.regions[p.region].sums[of]
	if how == nil {
		return fmt.Sprintf("expected parts of %q that slices make, found none", graph.Short(p.tensor))
	}
	if wrong := plainNode(n, "", how.by, 2, 0); wrong != "" {
		return wrong
	}
	a, b := c.holds[n.Inputs[0]], c.holds[n.Inputs[1]]
	for j := range 2 {
		earlier := j == 0 && a.top == 0 // the sum of an attention in pieces is scaled first
		if wrong := c.inSlice(p, n.Inputs[j], earlier); wrong != "" {
			return fmt.Sprintf("input %d: %s", j, wrong)
		}
	}
	x, ok := sumOf(a, b)
	if !ok || x.of != of {
		return fmt.Sprintf("expected parts of %q of rows that follow one another, found %s and %s%s", graph.Short(p.tensor), c.b.text(a), c.b.text(b), c.made(n.Inputs[1]))
	}
	c.summed(n.Outputs[0], x)
	return ""
}

// divided: role mean. The sum is divided by the number of its elements.
func (c *sliced) divided(p *sliceNode, n *graph.Node) string {
	if wrong := plainNode(n, "", "Div", 2, 0); wrong != "" {
		return wrong
	}
	of, wrong := c.role(p)
	if wrong != "" {
		return wrong
	}
	how := c.regions[p.region].sums[of]
	x := c.holds[n.Inputs[0]]
	switch {
	case x.kind == hasFault:
		return c.skipped(p, n)
	case how == nil || !how.mean:
		return fmt.Sprintf("expected parts of the mean %q that slices make, found none", graph.Short(p.tensor))
	case x.kind != hasSum || x.of != of || x.hi != how.length || x.lo > 0:
		return fmt.Sprintf("expected the sum of all %d rows, found %s%s", how.length, c.b.text(x), c.made(n.Inputs[0]))
	}
	if wrong := c.inSlice(p, n.Inputs[0], false); wrong != "" {
		return wrong
	}
	by := c.g.Tensors[n.Inputs[1]]
	var found []float64
	if by.Data != nil && !by.Overridable && len(by.Data.Dims) == 0 && by.Data.Type == c.b.g.Tensors[of].Type.Elem {
		found, _ = by.Data.Reals(1)
	}
	want := float64(how.count)
	if by.Data != nil && by.Data.Type == graph.Float32 {
		want = float64(float32(want))
	}
	if len(found) != 1 || math.Float64bits(found[0]) != math.Float64bits(want) {
		return fmt.Sprintf("expected a constant %v of the type of %q to divide by, found %v", want, graph.Short(p.tensor), found)
	}
	c.holds[n.Outputs[0]] = all(of)
	return ""
}

package kv

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// moved gives all outputs of a node the tail of an input, along a new axis.
func (r *rewriter) moved(n *graph.Node, i, axis int) error {
	f := r.facts[n.Inputs[i]]
	f.axis, f.pure = axis, r.isPure(n)
	if f.kind != keys { // a result that is repeated for each key
		f.kind, f.tail = keys, tail{}
		if v, ok := r.constant(n.Inputs[i]); ok {
			f.tail = of(v)
		}
	}
	r.set(n, f)
	return nil
}

func transpose(r *rewriter, n *graph.Node) error {
	perm, err := attr.Permutation(n, r.rank(n.Inputs[0]))
	if err != nil {
		return err
	}
	return r.moved(n, 0, slices.Index(perm, r.facts[n.Inputs[0]].axis))
}

// reshape covers the operators that keep the order of the elements: the axis of keys must
// be one of the result, with as many elements before and after it.
func reshape(r *rewriter, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	to, err := r.keysAxis(y)
	if err != nil {
		return err
	}
	if !r.isKeys(n, 0) {
		return r.refuse(n, "%q is as long as the tokens so far, but no input is: expected an input of that length", graph.Short(r.nameOf(y)))
	}
	from := r.facts[x].axis
	around := func(t graph.TensorID, axis int) (before, after line) {
		product := func(axes []int) line {
			return r.fit(func(s *sample) (int64, bool) {
				n := int64(1)
				for _, k := range axes {
					d := dimOf(s.g.Tensors[t], k)
					if !d.Exact() {
						return 0, false
					}
					n *= int64(d)
				}
				return n, true
			})
		}
		var first, last []int
		for k := range r.rank(t) {
			switch {
			case k < axis:
				first = append(first, k)
			case k > axis:
				last = append(last, k)
			}
		}
		return product(first), product(last)
	}
	if to >= 0 {
		a, b := around(x, from)
		c, d := around(y, to)
		if a.known && b.known && a == c && b == d {
			return r.moved(n, 0, to)
		}
	}
	return r.refuse(n, "merges or divides axis %d of %q, which has an element for each token so far: expected it to stay an axis", from, graph.Short(r.nameOf(x)))
}

// expand repeats keys along other axes, or anything for each key.
func expand(r *rewriter, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	axis, err := r.keysAxis(y)
	if err != nil {
		return err
	}
	if r.isKeys(n, 0) && r.facts[x].axis+r.rank(y)-r.rank(x) != axis {
		return r.refuse(n, "input 0 %q grows along axis %d, but the result along axis %d", graph.Short(r.nameOf(x)), r.facts[x].axis, axis)
	}
	if r.facts[x].kind == position {
		if err := r.number(n, 0); err != nil {
			return err
		}
		r.set(n, fact{kind: keys, axis: axis})
		return nil
	}
	return r.moved(n, 0, axis)
}

// concat joins keys along another axis.
func concat(r *rewriter, n *graph.Node) error {
	y := n.Outputs[0]
	along, err := attr.Axis("axis", attr.Int(n, "axis", 0), r.rank(y))
	if err != nil {
		return err
	}
	f := fact{kind: keys, axis: -1, pure: r.isPure(n)}
	for i, t := range n.Inputs {
		g := r.facts[t]
		switch {
		case g.kind != keys:
			return r.refuse(n, "joins %q with what grows with the tokens: expected a graph input that it extends into a graph output (a cache)", graph.Short(r.nameOf(t)))
		case g.axis == along:
			return r.refuse(n, "extends %q, which is no graph input, or not into a graph output: expected a cache", graph.Short(r.nameOf(t)))
		case i == 0:
			f.tail = g.tail
		case g.tail != f.tail || g.tail.kind == indices:
			f.tail = tail{}
		}
		f.axis = g.axis
	}
	if f.tail.kind == indices {
		f.tail = tail{}
	}
	r.set(n, f)
	return nil
}

// split divides another axis.
func split(r *rewriter, n *graph.Node) error {
	axis, err := attr.Axis("axis", attr.Int(n, "axis", 0), r.rank(n.Inputs[0]))
	if err != nil {
		return err
	}
	if axis == r.facts[n.Inputs[0]].axis {
		return r.refuse(n, "divides %q along the tokens: expected another axis", graph.Short(r.nameOf(n.Inputs[0])))
	}
	return r.moved(n, 0, r.facts[n.Inputs[0]].axis)
}

// cumSum: a sum up to an element reads none after it.
func cumSum(r *rewriter, n *graph.Node) error {
	x := n.Inputs[0]
	at, ok := r.constant(n.Inputs[1])
	if !r.isKeys(n, 0) || !ok {
		return r.refuse(n, "expected a known axis")
	}
	axis, err := attr.Axis("axis", int64(at), r.rank(x))
	if err != nil {
		return err
	}
	if axis == r.facts[x].axis && attr.Int(n, "reverse", 0) != 0 {
		return r.refuse(n, "sums %q from its end, which moves with the tokens: expected a sum from the first", graph.Short(r.nameOf(x)))
	}
	r.set(n, fact{kind: keys, axis: r.facts[x].axis, pure: r.isPure(n)})
	return nil
}

// trilu keeps or clears the elements [row, column] by column - row. A column of the tail is
// past + new or more, and a row less than the number of rows.
func trilu(r *rewriter, n *graph.Node) error {
	if !r.isKeys(n, 0) {
		return r.plainNode(n)
	}
	x := n.Inputs[0]
	f := r.facts[x]
	rows, columns := r.rank(x)-2, r.rank(x)-1
	if f.axis == rows {
		return r.refuse(n, "rows of %q grow with the tokens: expected columns alone to", graph.Short(r.nameOf(x)))
	}
	f.pure = r.isPure(n)
	if f.axis == columns {
		k := line{known: true}
		if t := input(n, 1); t >= 0 {
			k = line{}
			if list := r.numbers(t); len(list) == 1 {
				k = list[0]
			}
			f.pure = f.pure && r.facts[t].kind != position
		}
		least := r.fresh - int64(r.shape(x)[rows]) + 1 // of column - row in the tail, beside past
		upper := attr.Int(n, "upper", 1) != 0
		inside := k.known && (k.slope == 0 || k.slope == 1) && (k.base <= least) && upper
		cleared := k.known && (k.slope == 0 || k.slope == 1) && (k.base < least) && !upper
		switch {
		case inside:
		case cleared:
			f.tail = of(0)
		case !f.tail.is(0):
			f.tail = tail{}
		}
		if f.tail.kind == indices {
			f.tail = tail{}
		}
	}
	r.set(n, f)
	return r.numbersAt(n, 1)
}

// rangeOf: numbers from a fixed one on, one for each token so far.
func rangeOf(r *rewriter, n *graph.Node) error {
	start, ok := r.constant(n.Inputs[0])
	delta, too := r.constant(n.Inputs[2])
	if !ok || !too {
		return r.refuse(n, "expected a range that begins at a fixed number")
	}
	f := fact{kind: keys, pure: r.isPure(n)}
	if start == 0 && delta == 1 {
		f.tail.kind = indices
	}
	r.set(n, f)
	return nil
}

func constantOfShape(r *rewriter, n *graph.Node) error {
	axis, err := r.keysAxis(n.Outputs[0])
	if err != nil {
		return err
	}
	f := fact{kind: keys, axis: axis, pure: r.isPure(n)}
	f.tail = of(0)
	if a := n.Attr("value"); a != nil {
		f.tail = tail{}
		if a.Tensor != nil {
			if v, ok := single(a.Tensor); ok {
				f.tail = of(v)
			}
		}
	}
	r.set(n, f)
	return nil
}

// single is the value of a tensor of one element.
func single(d *graph.Data) (float64, bool) {
	if list, ok := d.Integers(1); ok && len(list) == 1 {
		return float64(list[0]), true
	}
	if list, ok := d.Reals(1); ok && len(list) == 1 {
		return list[0], true
	}
	return 0, false
}

// slice takes other axes of keys, all of them, or the newest ones; or as many elements of
// something else as there are tokens.
func slice(r *rewriter, n *graph.Node) error {
	x, y := n.Inputs[0], n.Outputs[0]
	to, err := r.keysAxis(y)
	if err != nil {
		return err
	}
	f := r.facts[x]
	starts, ends := r.numbers(input(n, 1)), r.numbers(input(n, 2))
	moves := func(list []line) bool { return slices.ContainsFunc(list, func(l line) bool { return l.slope != 0 }) }
	if f.kind != keys && to < 0 && !moves(starts) && !moves(ends) {
		return r.plainNode(n)
	}
	axes := make([]int, len(starts))
	for k := range axes {
		axes[k] = k
	}
	if t := input(n, 3); t >= 0 {
		axes = axes[:0]
		for _, l := range r.numbers(t) {
			axis, err := attr.Axis("axes", l.base, r.rank(x))
			if err != nil || l.slope != 0 {
				return r.refuse(n, "expected known axes")
			}
			axes = append(axes, axis)
		}
	}
	if len(starts) == 0 || len(starts) != len(ends) || len(axes) != len(starts) {
		return r.refuse(n, "expected known bounds for an axis with an element for each token so far")
	}
	if f.kind != keys && to < 0 { // rows of a table, by the positions of the new tokens
		length := r.length(y, axes[0])
		if f.kind != plain || len(axes) != 1 || starts[0].slope != 1 || !length.known || length.slope != 0 || r.steps(n, 0) != 1 {
			return r.refuse(n, "takes elements of %q by bounds that depend on the tokens so far: expected those at the positions of the new tokens", graph.Short(r.nameOf(x)))
		}
		r.take(n, axes[0], starts[0], length.base)
		return nil
	}
	along := f.axis
	if f.kind != keys {
		along = to
	}
	k := slices.Index(axes, along)
	for j := range axes {
		if j != k && (starts[j].slope != 0 || ends[j].slope != 0) {
			return r.refuse(n, "expected fixed bounds on the other axes of %q", graph.Short(r.nameOf(x)))
		}
	}
	switch {
	case f.kind == keys && k < 0 && to == f.axis:
		return r.moved(n, 0, to)
	case k < 0 || r.steps(n, k) != 1:
		return r.refuse(n, "expected steps of 1 along axis %d, with an element for each token so far", along)
	case f.kind == keys && to >= 0: // all of them
		if starts[k] != (line{known: true}) {
			return r.refuse(n, "takes part of %q, whose elements are one for each token so far: expected all, or the newest ones", graph.Short(r.nameOf(x)))
		}
		return r.moved(n, 0, to)
	case f.kind == keys:
		return r.newest(n, k, len(starts), starts[k])
	}
	// As many elements of something else, from its first on.
	if starts[k] != (line{known: true}) || f.kind == position {
		return r.refuse(n, "takes as many elements of %q as there are tokens so far: expected them from its first on", graph.Short(r.nameOf(x)))
	}
	if have := r.length(x, along); !have.known || have.base < r.opt.Capacity {
		return r.refuse(n, "takes as many elements of %q as there are tokens so far, but it has %d: expected a capacity of at most that", graph.Short(r.nameOf(x)), have.base)
	}
	return r.moved(n, 0, to)
}

// steps is a step of a Slice node; 0 if it is not known.
func (r *rewriter) steps(n *graph.Node, k int) int64 {
	t := input(n, 4)
	if t < 0 {
		return 1
	}
	list := r.numbers(t)
	if k >= len(list) || list[k].slope != 0 {
		return 0
	}
	return list[k].base
}

// newest takes a fixed number of elements of keys: the first, or those of the newest
// tokens, which lie before the tail.
func (r *rewriter) newest(n *graph.Node, k, count int, start line) error {
	x, y := n.Inputs[0], n.Outputs[0]
	axis := r.facts[x].axis
	length := r.length(y, axis)
	all := r.length(x, axis)
	if start.slope == 0 && start.base < 0 {
		start = line{slope: all.slope, base: all.base + start.base, known: true}
	}
	switch {
	case !length.known || count != 1 || start.slope > 1 || start.slope < 0:
		return r.refuse(n, "takes part of %q, whose elements are one for each token so far: expected all, or the newest ones, and no other axis", graph.Short(r.nameOf(x)))
	case start.slope == 0 && start.base+length.base <= r.fresh: // of the first tokens
		r.set(n, fact{})
		return nil
	case start.slope == 0 || start.base < 0 || start.base+length.base > all.base:
		return r.refuse(n, "takes elements of %q that may lie behind those of the tokens so far", graph.Short(r.nameOf(x)))
	}
	r.take(n, axis, start, length.base)
	return nil
}

// take makes a Gather of a Slice node that takes count elements, from a position on: a Slice
// by numbers that are known only at run time has no fixed length.
func (r *rewriter) take(n *graph.Node, axis int, start line, count int64) {
	var at graph.TensorID
	if r.opt.New != "" && start.slope == 1 && count == r.fresh { // those of the new tokens
		number := func(v int64) graph.TensorID { return r.edit.constant(graph.Int64, []int64{}, []int64{v}) }
		behind := r.edit.node("Range", r.nameOf(n.Outputs[0])+".behind", nil, number(0), r.edit.freshNumber(), number(1))
		at = r.edit.add(r.edit.add(r.edit.index, r.edit.ints(start.base), r.nameOf(n.Outputs[0])+".first"), behind, r.nameOf(n.Outputs[0])+".places")
	} else {
		places := make([]int64, count)
		for i := range places {
			places[i] = start.at(r.opt.Capacity-r.fresh) + int64(i)
		}
		at = r.edit.add(r.edit.ints(places...), r.edit.lag(), r.nameOf(n.Outputs[0])+".places")
	}
	*n = graph.Node{Name: n.Name, Op: "Gather", Inputs: []graph.TensorID{n.Inputs[0], at}, Outputs: n.Outputs, Attrs: []*graph.Attr{intAttr("axis", int64(axis))}, Props: n.Props}
	r.set(n, fact{})
}

// gather takes elements of keys along another axis, or some by their positions, or anything
// by indices that grow.
func gather(r *rewriter, n *graph.Node) error {
	x, at := n.Inputs[0], n.Inputs[1]
	axis, err := attr.Axis("axis", attr.Int(n, "axis", 0), r.rank(x))
	if err != nil {
		return err
	}
	if r.isKeys(n, 0) && r.isKeys(n, 1) {
		return r.refuse(n, "both its inputs grow with the tokens")
	}
	switch f := r.facts[x]; {
	case r.isKeys(n, 0) && f.axis != axis:
		to := f.axis
		if axis < to {
			to += r.rank(at) - 1
		}
		if err := r.numbersAt(n, 1); err != nil {
			return err
		}
		return r.moved(n, 0, to)
	case r.isKeys(n, 0):
		lines := r.numbers(at)
		for _, l := range lines {
			if l.base < 0 || l.slope < 0 || l.slope > 1 || l.slope == 1 && l.base >= r.fresh || l.slope == 0 && l.base >= r.fresh {
				lines = nil
				break
			}
		}
		if lines == nil {
			return r.refuse(n, "takes elements of %q by indices that may lie behind the tokens so far: expected known positions", graph.Short(r.nameOf(x)))
		}
		r.set(n, fact{})
		return r.numbersAt(n, 1)
	case r.isKeys(n, 1):
		if err := r.numbersAt(n, 0); err != nil {
			return err
		}
		g := r.facts[at]
		if !g.pure {
			// Indices of the tail come from no run: they are kept within the table.
			rows := r.length(x, axis)
			if !rows.known || rows.slope != 0 || rows.base < 1 {
				return r.refuse(n, "reads %q, which has no fixed length, by indices that grow with the tokens", graph.Short(r.nameOf(x)))
			}
			elem := r.full().g.Tensors[at].Type.Elem
			n.Inputs[1] = r.edit.within(at, elem, -rows.base, rows.base-1)
			n.Span = graph.Span{}
		}
		r.set(n, fact{kind: keys, axis: axis + g.axis, pure: r.isPure(n)})
		return nil
	}
	if r.facts[at].kind == position {
		rows := r.length(x, axis)
		for _, l := range r.numbers(at) {
			if most := l.at(r.opt.Capacity - r.fresh); rows.known && most >= rows.base {
				return r.refuse(n, "takes row %d of %q when the caches are full, but it has %d: expected a capacity of at most %d", most, graph.Short(r.nameOf(x)), rows.base, r.opt.Capacity-(most-rows.base+1))
			}
		}
	}
	return r.plainNode(n)
}

// gatherND: pure indices are those of a full cache, so that all of them lie in it.
func gatherND(r *rewriter, n *graph.Node) error {
	x, at, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	axis, err := r.keysAxis(y)
	if err != nil {
		return err
	}
	if !r.isKeys(n, 1) || axis < 0 || axis != r.facts[at].axis || !r.facts[at].pure || attr.Int(n, "batch_dims", 0) != 0 {
		return r.refuse(n, "expected indices for each of the tokens so far that follow from lengths alone")
	}
	if f := r.facts[x]; f.kind == position || f.kind == keys && f.axis >= int(r.shape(at)[r.rank(at)-1]) {
		return r.refuse(n, "expected indices along the axis of %q that grows", graph.Short(r.nameOf(x)))
	}
	r.set(n, fact{kind: keys, axis: axis, pure: r.isPure(n)})
	return nil
}

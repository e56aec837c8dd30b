package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// slicing lists the operators that take a part of a tensor, possibly with steps.
var slicing = family{"", []Op{
	{Name: "Slice", Class: Move, Infer: inferSlice, Cut: cutOfSlice, Fold: foldSlice, Views: viewSlice, Ranges: rangesOfSlice, ReadsOutput: true, ReadsRows: true, Moves: true},
}}

// cut is the part of one axis that Slice takes, as written in the model.
type cut struct{ start, end, step Scalar }

// whole takes an entire axis.
var whole = cut{Scalar{}, Scalar{I: math.MaxInt64}, Scalar{I: 1}}

// inferSlice: the cuts are attributes in opset 1, where steps are 1, and inputs
// from opset 10 on.
func inferSlice(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	cuts, known, err := sliceCuts(c)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	shape := make([]graph.Dim, len(in.Shape))
	for k, d := range in.Shape {
		if known {
			shape[k] = cuts[k].length(d)
		} else {
			shape[k] = upTo(d)
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// sliceCuts returns the cut of each axis of input 0; known is false if the axes
// are not known.
func sliceCuts(c *Call) (cuts []cut, known bool, err error) {
	var lists [4]intList
	for i, name := range []string{"starts", "ends", "axes", ""} {
		if lists[i], err = c.list(name, i+1); err != nil {
			return nil, false, err
		}
		if i < 2 && !lists[i].stated {
			return nil, false, c.Errf("%s are missing: expected an attribute (opset 1) or input %d", name, i+1)
		}
	}
	n := -1
	for i, l := range lists {
		if !l.stated || !l.counted {
			continue
		}
		if n >= 0 && n != len(l.elems) {
			return nil, false, c.Errf("%s has %d elements, expected %d as the others have", []string{"starts", "ends", "axes", "steps"}[i], len(l.elems), n)
		}
		n = len(l.elems)
	}
	rank := len(c.In[0].Shape)
	if !c.In[0].Ranked {
		return nil, false, nil
	}
	if n > rank {
		return nil, false, c.Errf("%d axes are cut, but input 0 has shape %s", n, graph.ShapeString(c.In[0].Shape))
	}
	axes, axesKnown := lists[2].ints()
	if n < 0 || !axesKnown {
		return nil, false, nil
	}
	at, err := attr.Axes("axes", axes, rank)
	if err != nil {
		return nil, false, err
	}
	cuts = make([]cut, rank)
	for k := range cuts {
		cuts[k] = whole
	}
	for i := range n {
		k := i
		if lists[2].stated {
			k = at[i]
		}
		pick := func(l intList, otherwise Scalar) Scalar {
			switch {
			case !l.stated:
				return otherwise
			case !l.counted:
				return Scalar{State: Hidden}
			}
			return l.elems[i]
		}
		cuts[k] = cut{pick(lists[0], whole.start), pick(lists[1], whole.end), pick(lists[3], whole.step)}
		if s := cuts[k].step; s.State == Known && s.I == 0 {
			return nil, false, c.Errf("step 0 for axis %d, expected any other", k)
		}
	}
	return cuts, true, nil
}

// length is the length of the cut of an axis of length d. An unknown start or end
// is taken so that the result is the longest possible.
func (t cut) length(d graph.Dim) graph.Dim {
	if t == whole {
		return d
	}
	if t.step.State != Known {
		return upTo(d)
	}
	if most, bounded := d.Max(); bounded && t.start == (Scalar{}) && t.step == (Scalar{I: 1}) && !d.Exact() && t.end.State == Known && t.end.I >= most {
		return d // all of it, whatever its length
	} else if bounded && t.start == (Scalar{}) && t.step == (Scalar{I: 1}) && t.end.State == Bounded && t.end.Of != 0 &&
		(d.Exact() && most >= t.end.I || d.Identity() == t.end.Of) {
		return t.end.Dim()
	}
	exact := d.Exact() && t.start.State == Known && t.end.State == Known
	start, end := t.start.I, t.end.I
	forward := t.step.I > 0
	switch {
	case t.start.State == Known:
	case forward:
		start = 0
	case t.start.State == Hidden:
		start = math.MaxInt64
	}
	switch {
	case t.end.State == Hidden && forward:
		end = math.MaxInt64
	case t.end.State == Hidden:
		end = math.MinInt64
	case t.end.State == Bounded && !forward:
		end = 0
	}
	n, bounded := d.Max()
	if !bounded {
		n = math.MaxInt64
	}
	if exact || d.Exact() {
		n = sliceLen(n, start, end, t.step.I)
	} else {
		n = longest(n, start, end, t.step.I)
	}
	switch {
	case exact:
		return graph.Dim(n)
	case !bounded && n >= math.MaxInt32/2:
		return graph.Unknown // the largest 32 or 64 bit integer means the end
	}
	return upTo(graph.Dim(n))
}

// bounds returns the first index and the end of a cut of an axis of length d,
// clamped as in the specification.
func bounds(d, start, end, step int64) (first, last int64) {
	if start < 0 {
		start += d
	}
	if end < 0 {
		end += d
	}
	if step > 0 {
		return min(max(start, 0), d), min(max(end, 0), d)
	}
	return min(max(start, 0), d-1), min(max(end, -1), d-1)
}

// sliceLen is the number of indices of a cut.
func sliceLen(d, start, end, step int64) int64 {
	first, last := bounds(d, start, end, step)
	switch {
	case step > 0 && last > first:
		return (last-first-1)/step + 1
	case step < 0 && last < first:
		return (first-last-1)/negate(step) + 1
	}
	return 0
}

// longest is the largest sliceLen over all lengths up to d. If start and end
// count from the same side, the longest axis gives it.
func longest(d, start, end, step int64) int64 {
	switch {
	case step > 0 && start < 0 && end >= 0:
		n := min(-(start + 1), end-1, d-1) // minus one, since -start may overflow
		return max(n/step+1, 0) * sign(n+1)
	case step < 0 && start >= 0 && end < 0:
		n := min(start, -(end+1)-1, d-1)
		return max(n/negate(step)+1, 0) * sign(n+1)
	}
	n := sliceLen(d, start, end, step)
	if step < 0 && start < 0 && end < 0 {
		return max(n, min(d, 1)) // in a short axis, start is clamped to the first element
	}
	return n
}

// negate is -n, or the largest integer if that overflows.
func negate(n int64) int64 { return -max(n, -math.MaxInt64) }

// sign is 1 if n is positive, else 0.
func sign(n int64) int64 {
	if n > 0 {
		return 1
	}
	return 0
}

func foldSlice(c *Call) {
	v := c.Arg(0).Value
	if v == nil {
		return
	}
	cuts, known, err := sliceCuts(c)
	if err != nil || !known || len(cuts) != len(v.Shape) {
		return
	}
	first := make([]int64, len(cuts))
	for k, t := range cuts {
		if t.start.State != Known || t.end.State != Known || t.step.State != Known {
			return
		}
		first[k], _ = bounds(v.Shape[k], t.start.I, t.end.I, t.step.I)
	}
	from := make([]int64, len(cuts))
	c.fill(0, func(at []int64) Scalar {
		for k, i := range at {
			from[k] = first[k] + i*cuts[k].step.I
		}
		return v.at(from)
	})
}

// viewSlice: with a positive step, an axis that keeps its length keeps its
// elements. A bounded axis does if the cut takes all of it at any length.
func viewSlice(c *Call) []graph.Alias {
	cuts, known, err := sliceCuts(c)
	if err != nil || !known || len(c.Out) == 0 || len(c.Out[0].Shape) != len(cuts) {
		return nil
	}
	for k, t := range cuts {
		d := c.In[0].Shape[k]
		n, bounded := d.Max()
		all := t == whole || t.start == Scalar{} && t.step == Scalar{I: 1} && t.end.State == Known && bounded && t.end.I >= n
		same := d.Exact() && c.Out[0].Shape[k] == d && t.step.State == Known && t.step.I > 0
		if !all && !same {
			return nil
		}
	}
	return firstView(c)
}

// cutOfSlice: along an axis that is sliced with a positive step, a copy reads the rows
// from its first one to its last one.
func cutOfSlice(c *Call, axis int) *Cut {
	cuts, known, err := sliceCuts(c)
	if err != nil || !known {
		return nil
	}
	cut, t := c.same(axis), cuts[axis]
	if t == whole {
		return cut
	}
	var lists [4][]int64
	for i, name := range []string{"starts", "ends", "axes", ""} {
		l, err := c.list(name, i+1)
		if lists[i], known = l.ints(); err != nil || !known {
			return nil
		}
	}
	step := t.step.I
	if step < 1 {
		return nil
	}
	first, _ := bounds(c.length(0, axis), t.start.I, t.end.I, step)
	cut.In[0].Scale, cut.In[0].Before, cut.In[0].After = step, -first, first-step+1
	at := axis
	if len(lists[2]) > 0 {
		axes, err := attr.Axes("axes", lists[2], len(c.In[0].Shape))
		if err != nil {
			return nil
		}
		at = slices.Index(axes, axis)
	}
	cut.Change = func(lo, hi int64) Change {
		starts, ends := slices.Clone(lists[0]), slices.Clone(lists[1])
		starts[at], ends[at] = 0, (hi-lo-1)*step+1
		if c.HasAttr("starts") {
			return Change{Attrs: []*graph.Attr{intsAttr("starts", starts), intsAttr("ends", ends)}}
		}
		// All lists have one element type.
		change := Change{Inputs: map[int][]int64{1: starts, 2: ends}}
		for i := 2; i < 4; i++ {
			if c.Has(i + 1) {
				change.Inputs[i+1] = lists[i]
			}
		}
		return change
	}
	return cut
}

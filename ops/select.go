package ops

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// selections lists the operators that select elements, or find their positions,
// by value.
var selections = family{"", []Op{
	{Name: "OneHot", Class: Scatter, Infer: inferOneHot, Cut: cutOneHot},
	{Name: "Compress", Class: Move, Infer: inferCompress, Fold: foldCompress},
	{Name: "NonZero", Class: Other, Infer: inferNonZero, Fold: foldNonZero},
	{Name: "Unique", Class: Other, Infer: inferUnique},
	{Name: "TopK", Class: Other, Infer: inferTopK, Cut: cutTopK, Fold: foldTopK},
	{Name: "ArgMax", Class: Reduce, Infer: inferArg, Cut: cutArg, Fold: foldArg(1), Check: checkArg},
	{Name: "ArgMin", Class: Reduce, Infer: inferArg, Cut: cutArg, Fold: foldArg(-1), Check: checkArg},
}}

// inferOneHot inserts an axis of length depth into the indices' shape.
func inferOneHot(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	depth, err := c.scalar(1)
	if err != nil {
		return err
	}
	if depth.State == Known && depth.I < 0 {
		return c.Errf("depth is %d, expected 0 or more", depth.I)
	}
	if err := c.WantShape(2, "the values for off and on", 2); err != nil {
		return err
	}
	indices := c.In[0]
	if !indices.Ranked {
		c.SetUnranked(0, c.In[2].Elem)
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", -1), len(indices.Shape)+1)
	if err != nil {
		return err
	}
	c.Set(0, c.In[2].Elem, slices.Insert(slices.Clone(indices.Shape), axis, depth.Dim()))
	return nil
}

// inferCompress keeps the selected slices along an axis or, without an axis,
// elements of the flattened input: as many as the condition has true elements if
// known, else at most as many as it has elements.
func inferCompress(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.needElem(1, graph.Bool); err != nil {
		return err
	}
	if err := c.WantRank(1, 1); err != nil {
		return err
	}
	in := c.In[0]
	along := elements(in.Type)
	axis := -1
	if c.HasAttr("axis") {
		if !in.Ranked {
			c.SetUnranked(0, in.Elem)
			return nil
		}
		var err error
		if axis, err = attr.Axis("axis", c.Int("axis", 0), len(in.Shape)); err != nil {
			return err
		}
		along = in.Shape[axis]
	}
	n := upTo(along)
	if m, ok := c.DimOf(1, 0).Max(); ok {
		n = boundedBy(along, m)
	}
	if v := c.In[1].Value; v != nil {
		n = selected(v.Elems, along)
	}
	if axis < 0 {
		c.Set(0, in.Elem, []graph.Dim{n})
		return nil
	}
	c.Set(0, in.Elem, with(in.Shape, axis, n))
	return nil
}

// selected is the number of true elements among the first n of a condition.
func selected(elems []Scalar, n graph.Dim) graph.Dim {
	if most, ok := n.Max(); ok {
		elems = elems[:min(int64(len(elems)), most)]
	}
	sum, exact := int64(0), n.Exact()
	for _, e := range elems {
		if e.State != Known {
			exact = false
		}
		if e.State != Known || e.I != 0 {
			sum++
		}
	}
	if exact {
		return graph.Dim(sum)
	}
	return upTo(graph.Dim(sum))
}

func foldCompress(c *Call) {
	v, condition := c.Arg(0).Value, c.Arg(1).Value
	if v == nil || condition == nil {
		return
	}
	axis := 0
	if !c.HasAttr("axis") {
		v = v.Reshaped([]int64{int64(len(v.Elems))})
	} else if k, err := attr.Axis("axis", c.Int("axis", 0), len(v.Shape)); err == nil {
		axis = k
	} else {
		return
	}
	var kept []int64
	for i, e := range condition.Elems {
		if e.State != Known {
			return
		}
		if e.I != 0 {
			kept = append(kept, int64(i))
		}
	}
	from := make([]int64, len(v.Shape))
	c.fill(0, func(at []int64) Scalar {
		copy(from, at)
		if axis >= len(at) || at[axis] >= int64(len(kept)) {
			return hiddenScalar
		}
		from[axis] = kept[at[axis]]
		return v.at(from)
	})
}

// inferNonZero: the positions of the non-zero elements, at most all.
func inferNonZero(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	if !in.Ranked {
		c.Set(0, graph.Int64, unknowns(2))
		return nil
	}
	rank := graph.Dim(len(in.Shape))
	if rank == 0 {
		rank = graph.AtMost(1) // the standard says 0, ONNX Runtime makes it 1
	}
	c.Set(0, graph.Int64, []graph.Dim{rank, nonZeros(in)})
	return nil
}

func nonZeros(in Arg) graph.Dim {
	if in.Value == nil {
		return upTo(elements(in.Type))
	}
	n, exact := int64(0), true
	for _, e := range in.Value.Elems {
		if e.State != Known {
			exact = false
		}
		if e.State != Known || !isZero(e) {
			n++
		}
	}
	if exact {
		return graph.Dim(n)
	}
	return upTo(graph.Dim(n))
}

// isZero reports whether a known element is 0 or false.
func isZero(e Scalar) bool { return e.I == 0 && e.F == 0 }

func foldNonZero(c *Call) {
	v := c.Arg(0).Value
	if v == nil || len(v.Shape) == 0 || !allKnown(v.Elems) {
		return
	}
	var places []int64 // the index of each, concatenated
	index := make([]int64, len(v.Shape))
	for _, e := range v.Elems {
		if !isZero(e) {
			places = append(places, index...)
		}
		nextIndex(index, v.Shape)
	}
	c.fill(0, func(at []int64) Scalar {
		if i := at[1]*int64(len(index)) + at[0]; i < int64(len(places)) {
			return Scalar{I: places[i]}
		}
		return hiddenScalar
	})
}

// inferUnique: outputs 0, 1 and 3 have one entry per distinct element (or
// slice along the axis), so at most all; output 2 has one per element.
func inferUnique(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	all := elements(in.Type)
	var n graph.Dim
	switch {
	case !c.HasAttr("axis"):
		n = distinct(in.Value, -1, all)
		c.Set(0, in.Elem, []graph.Dim{n})
	case !in.Ranked:
		all, n = graph.Unknown, graph.Unknown
		c.SetUnranked(0, in.Elem)
	default:
		axis, err := attr.Axis("axis", c.Int("axis", 0), len(in.Shape))
		if err != nil {
			return err
		}
		all = in.Shape[axis]
		n = distinct(in.Value, axis, all)
		c.Set(0, in.Elem, with(in.Shape, axis, n))
	}
	c.Set(1, graph.Int64, []graph.Dim{n})
	c.Set(2, graph.Int64, []graph.Dim{all})
	c.Set(3, graph.Int64, []graph.Dim{n})
	return nil
}

// distinct is the number of distinct slices among n along an axis (negative: of n
// elements). NaN is not counted: libraries disagree on whether it equals itself.
func distinct(v *Value, axis int, n graph.Dim) graph.Dim {
	if n == 1 {
		return 1
	}
	if v == nil || !n.Exact() || n > FoldLimit || !allKnown(v.Elems) ||
		slices.ContainsFunc(v.Elems, func(e Scalar) bool { return math.IsNaN(e.F) }) {
		return upTo(n)
	}
	index := make([]int64, len(v.Shape))
	lines := make([][]byte, n)
	for i, e := range v.Elems {
		if axis >= 0 {
			i = int(index[axis])
		}
		lines[i] = fmt.Appendf(lines[i], "%d %v ", e.I, e.F)
		nextIndex(index, v.Shape)
	}
	seen := map[string]bool{}
	for _, l := range lines {
		seen[string(l)] = true
	}
	return graph.Dim(len(seen))
}

// inferTopK: K is an attribute in opset 1 and an input from opset 10 on. It
// cannot be larger than the axis.
func inferTopK(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	k := hiddenScalar
	switch a := c.Node.Attr("k"); {
	case c.Has(1):
		var err error
		if k, err = c.scalar(1); err != nil {
			return err
		}
	case a == nil:
		return c.Errf("k is missing: expected input 1, or the attribute k (before opset 10)")
	default:
		k = Scalar{I: a.Int}
	}
	if k.State == Known && k.I < 0 {
		return c.Errf("k is %d, expected 0 or more", k.I)
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		c.SetUnranked(1, graph.Int64)
		return nil
	}
	axis, err := attr.Axis("axis", c.Int("axis", -1), len(in.Shape))
	if err != nil {
		return err
	}
	d := in.Shape[axis]
	n := upTo(d)
	switch most, ok := d.Max(); {
	case k.State == Known && d.Exact() && k.I > most:
		return c.BadInput(0, "at least k = %d on axis %d", k.I, axis)
	case k.State == Known && (!ok || k.I <= most):
		n = graph.Dim(k.I)
	case k.State == Bounded:
		n = boundedBy(d, k.I)
	}
	c.Set(0, in.Elem, with(in.Shape, axis, n))
	c.Set(1, graph.Int64, with(in.Shape, axis, n))
	return nil
}

// foldTopK sorts known integers and reals; the sort is stable.
func foldTopK(c *Call) {
	v := c.Arg(0).Value
	if v == nil || !allKnown(v.Elems) || c.Int("sorted", 1) == 0 || c.In[0].Elem == graph.Uint64 {
		return
	}
	axis, err := attr.Axis("axis", c.Int("axis", -1), len(v.Shape))
	if err != nil {
		return
	}
	sign := 1
	if c.Int("largest", 1) != 0 {
		sign = -1
	}
	floating := c.In[0].Elem.Floating()
	if floating && slices.ContainsFunc(v.Elems, func(e Scalar) bool { return math.IsNaN(e.F) }) {
		return
	}
	from := make([]int64, len(v.Shape))
	// sorted is the order of the line that contains the index.
	sorted := func(at []int64) []int64 {
		copy(from, at)
		places := make([]int64, v.Shape[axis])
		line := make([]Scalar, len(places))
		for i := range places {
			places[i], from[axis] = int64(i), int64(i)
			line[i] = v.at(from)
		}
		slices.SortStableFunc(places, func(i, j int64) int {
			if floating {
				return sign * cmp.Compare(line[i].F, line[j].F)
			}
			return sign * cmp.Compare(line[i].I, line[j].I)
		})
		return places
	}
	lines := map[string][]int64{}
	place := func(at []int64) (int64, bool) {
		key := lineKey(at, axis)
		if lines[key] == nil {
			lines[key] = sorted(at)
		}
		if i := at[axis]; i < int64(len(lines[key])) {
			return lines[key][i], true
		}
		return 0, false
	}
	for o := range 2 {
		c.fill(o, func(at []int64) Scalar {
			i, ok := place(at)
			if !ok {
				return hiddenScalar
			}
			if o == 1 {
				return Scalar{I: i}
			}
			copy(from, at)
			from[axis] = i
			return v.at(from)
		})
	}
}

// inferArg gives int64 indices along one axis.
func inferArg(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	if !in.Ranked {
		c.SetUnranked(0, graph.Int64)
		return nil
	}
	reduced := make([]bool, len(in.Shape))
	if len(in.Shape) > 0 {
		axis, err := attr.Axis("axis", c.Int("axis", 0), len(in.Shape))
		if err != nil {
			return err
		}
		reduced[axis] = true
	}
	c.Set(0, graph.Int64, reduceShape(in.Shape, reduced, c.Int("keepdims", 1) != 0))
	return nil
}

// checkArg: the reduced axis must have elements.
func checkArg(c *Call) error {
	if elements(c.In[0].Type) == 0 {
		return c.BadInput(0, "elements on axis %d", c.Int("axis", 0))
	}
	return nil
}

// foldArg finds the largest (sign 1) or least (-1) of known elements.
func foldArg(sign int) func(c *Call) {
	return func(c *Call) {
		v := c.Arg(0).Value
		if v == nil || !allKnown(v.Elems) || len(v.Shape) == 0 || c.In[0].Elem == graph.Uint64 {
			return
		}
		axis, err := attr.Axis("axis", c.Int("axis", 0), len(v.Shape))
		if err != nil {
			return
		}
		last := c.Int("select_last_index", 0) != 0
		keep := c.Int("keepdims", 1) != 0
		from := make([]int64, len(v.Shape))
		c.fill(0, func(at []int64) Scalar {
			copy(from, at)
			if !keep {
				copy(from[axis+1:], at[axis:])
			}
			best, found := Scalar{}, hiddenScalar
			for i := range v.Shape[axis] {
				from[axis] = i
				e := v.at(from)
				order := sign * orderOf(e, best)
				if found.State == Hidden || order > 0 || order == 0 && last {
					best, found = e, Scalar{I: i}
				}
			}
			return found
		})
	}
}

// orderOf compares two known elements of one type.
func orderOf(a, b Scalar) int {
	switch {
	case a.I < b.I || a.F < b.F:
		return -1
	case a.I > b.I || a.F > b.F:
		return 1
	}
	return 0
}

// cutOneHot: the axes of the indices.
func cutOneHot(c *Call, axis int) *Cut {
	along := c.axisAttr(-1, len(c.Out[0].Shape))
	if axis == along {
		return nil
	}
	from := axis
	if axis > along {
		from--
	}
	cut := c.cut(axis)
	cut.In[0] = Same(from, c.length(0, from))
	return cut
}

// cutTopK: any axis but its own.
func cutTopK(c *Call, axis int) *Cut { return cutBut(-1)(c, axis) }

// cutArg: any axis but its own.
func cutArg(c *Call, axis int) *Cut {
	reduced := make([]bool, len(c.In[0].Shape))
	along := c.axisAttr(0, len(reduced))
	if along < 0 {
		return nil
	}
	reduced[along] = true
	from := keptAxis(reduced, c.Int("keepdims", 1) != 0, axis)
	cut := c.cut(axis)
	cut.In[0] = Same(from, c.length(0, from))
	return cut
}

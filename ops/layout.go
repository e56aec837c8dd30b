package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// rearrange lists the operators that change the shape or the order of elements.
var rearrange = family{"", []Op{
	{Name: "Reshape", Class: View, Infer: inferReshape, Cut: cutReshape, Fold: foldReshaped, Views: firstView, Moves: true, Lengths: []int{1}},
	{Name: "Flatten", Class: View, Infer: inferFlatten, Cut: cutFlatten, Fold: foldReshaped, Views: firstView, Moves: true},
	{Name: "Squeeze", Class: View, Infer: inferSqueeze, Cut: cutSqueeze, Fold: foldReshaped, Views: firstView, Moves: true, Lengths: []int{1}},
	{Name: "Unsqueeze", Class: View, Infer: inferUnsqueeze, Cut: cutFlatten, Fold: foldReshaped, Views: firstView, Moves: true, Lengths: []int{1}},
	{Name: "Transpose", Class: Move, Permutes: true, Infer: inferTranspose, Cut: cutTranspose, Fold: foldTranspose, Views: viewTranspose, OnWeights: true, Moves: true},
	{Name: "DepthToSpace", Class: Move, Infer: inferDepthToSpace, Cut: cutDepthToSpace, Views: viewBlocks},
	{Name: "SpaceToDepth", Class: Move, Infer: inferSpaceToDepth, Cut: cutSpaceToDepth, Views: viewBlocks},
}}

// foldReshaped: output 0 has the elements of input 0 in the same order.
func foldReshaped(c *Call) {
	if shape, ok := c.outShape(0); ok {
		c.SetValue(0, c.Arg(0).Value.Reshaped(shape))
	}
}

// inferReshape takes the shape from an attribute (opset 1) or an input.
func inferReshape(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	to, err := c.list("shape", 1)
	if err != nil {
		return err
	}
	if !to.stated {
		return c.Errf("input 1 is missing: expected the shape")
	}
	if !to.counted {
		c.SetUnranked(0, c.In[0].Elem)
		return nil
	}
	shape, err := reshape(c, c.In[0].Type, to.elems, c.Int("allowzero", 0) != 0)
	if err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, shape)
	return nil
}

// reshape computes the output lengths of a Reshape. A length that is copied from
// the input (0) is removed on both sides before the open ones are solved for, so
// it may itself be unknown. An unknown element may turn out to be -1 or 0; if it
// is the only open one, the number of elements still determines it.
func reshape(c *Call, in graph.Type, to []Scalar, allowZero bool) ([]graph.Dim, error) {
	shape := unknowns(len(to))
	free := -1
	var open []int
	var stated, copied, rest []graph.Dim
	kept := make([]bool, len(in.Shape)) // axes of the input that are copied
	for i, e := range to {
		if j := sameLength(e, in.Shape, kept); j >= 0 {
			kept[j] = true
			shape[i] = in.Shape[j]
			copied = append(copied, shape[i])
			continue
		}
		switch {
		case e.State != Known:
			open = append(open, i)
		case e.I == 0 && !allowZero:
			if !in.Ranked {
				break
			}
			if i >= len(in.Shape) {
				return nil, c.Errf("shape has 0 (copy from the input) for axis %d, but input 0 has shape %s", i, graph.ShapeString(in.Shape))
			}
			shape[i] = in.Shape[i]
			copied = append(copied, shape[i])
		case e.I == -1 && free >= 0:
			return nil, c.Errf("shape has -1 for axes %d and %d, expected it once", free, i)
		case e.I == -1:
			free = i
			open = append(open, i)
		case e.I < 0:
			return nil, c.Errf("shape has %d for axis %d, expected a length, 0 or -1", e.I, i)
		default:
			shape[i] = graph.Dim(e.I)
			stated = append(stated, shape[i])
		}
	}
	if free >= 0 && slices.Contains(stated, 0) {
		return nil, c.Errf("shape has both 0 and -1: with allowzero the length for -1 is undetermined")
	}
	if !in.Ranked {
		return shape, nil
	}
	for i, d := range in.Shape {
		if !kept[i] && (i >= len(to) || to[i] != (Scalar{}) || allowZero) {
			rest = append(rest, d)
		}
	}
	have, err := c.product(rest)
	if err != nil {
		return nil, err
	}
	want, err := c.product(stated)
	if err != nil {
		return nil, err
	}
	if err := checkCount(c, in.Shape, shape, have, want, copied, len(open)); err != nil {
		return nil, err
	}
	divided := c.divides(in.Shape, to, open, rest, stated, copied, allowZero)
	most, bounded := have.Max()
	if want > 0 {
		most /= int64(want)
	} else {
		bounded = false
	}
	for _, i := range open {
		switch {
		case len(open) == 1 && i == free && c.quotient(rest, stated) != graph.Unknown:
			shape[i] = c.quotient(rest, stated)
			continue
		case divided:
			shape[i] = to[i].Dim()
			continue
		case !bounded:
		case len(open) == 1 && (i == free || !slices.Contains(copied, 0)):
			shape[i] = upTo(graph.Dim(most))
			if have.Exact() {
				shape[i] = graph.Dim(most)
			}
		case i == free || have > 0 && allPositive(copied):
			shape[i] = upTo(graph.Dim(most))
		}
		if to[i].State != Bounded || shape[i].Exact() {
			continue
		}
		// 0 at run time would mean the length of the input.
		d := graph.AtMost(to[i].I)
		if !allowZero && i < len(in.Shape) {
			d = unionDim(d, upTo(in.Shape[i]))
		}
		if len(open) > 1 || !bounded {
			shape[i] = TakeDim(shape[i], d)
		}
	}
	return shape, nil
}

// divides reports whether the open elements of a shape and the stated ones are, as a product,
// the rest of the input's lengths: then each open element is the length that it says. An
// element of 0 at run time would mean the length of the input, so it must be above 0, or 0 only
// where that length is. If it alone is 0, it contradicts the rest.
func (c *Call) divides(in []graph.Dim, to []Scalar, open []int, rest, stated, copied []graph.Dim, allowZero bool) bool {
	if c.inf == nil || len(open) == 0 {
		return false
	}
	by := slices.Clone(stated)
	for _, i := range open {
		e := to[i]
		if e.State != Bounded || e.Of == 0 {
			return false
		}
		by = append(by, e.Dim())
		if !allowZero && i < len(in) && !c.inf.monomials.isPositive(e.Of) && !c.zeroWith(e, in[i]) && !(len(open) == 1 && allPositive(copied)) {
			return false
		}
	}
	return c.quotient(rest, by) == 1
}

// zeroWith reports whether a length is 0 wherever the element is.
func (c *Call) zeroWith(e Scalar, d graph.Dim) bool {
	p, okP := c.inf.monomials.of(e.Dim())
	q, okQ := c.inf.monomials.of(d)
	return okP && okQ && !slices.ContainsFunc(p.of, func(id int64) bool { return !slices.Contains(q.of, id) })
}

// sameLength finds an axis, not taken yet, that at run time has the length of the
// element, whatever it is; -1 if there is none.
func sameLength(e Scalar, shape []graph.Dim, taken []bool) int {
	if e.State != Bounded || e.Of == 0 {
		return -1
	}
	for j, d := range shape {
		if !taken[j] && d.Identity() == e.Of {
			return j
		}
	}
	return -1
}

// checkCount refuses a shape with a different number of elements. have and want
// are the numbers of elements of the input and of the given lengths, without
// copied ones.
func checkCount(c *Call, in, shape []graph.Dim, have, want graph.Dim, copied []graph.Dim, open int) error {
	if !have.Exact() || !allPositive(copied) || have == want {
		return nil
	}
	n, m := countOf(in), countOf(shape)
	switch {
	case open == 0:
		return c.Errf("cannot reshape %s to %s: expected %v elements, found %v", graph.ShapeString(in), graph.ShapeString(shape), n, m)
	case want == 0 || have%want != 0:
		return c.Errf("cannot reshape %s to %s: expected a divisor of %v elements, found %v", graph.ShapeString(in), graph.ShapeString(shape), have, want)
	}
	return nil
}

// allPositive reports whether every length is exact and not 0.
func allPositive(shape []graph.Dim) bool {
	return !slices.ContainsFunc(shape, func(d graph.Dim) bool { return d <= 0 })
}

// inferFlatten merges the axes before axis into one, and the others into a
// second.
func inferFlatten(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	if !in.Ranked {
		c.Set(0, in.Elem, unknowns(2))
		return nil
	}
	rank := int64(len(in.Shape))
	axis := c.Int("axis", 1)
	if axis < -rank || axis > rank {
		return c.Errf("axis is %d, expected one of [%d, %d] for rank %d", axis, -rank, rank, rank)
	}
	if axis < 0 {
		axis += rank
	}
	outer, err := c.product(in.Shape[:axis])
	if err != nil {
		return err
	}
	inner, err := c.product(in.Shape[axis:])
	if err != nil {
		return err
	}
	c.Set(0, in.Elem, []graph.Dim{outer, inner})
	return nil
}

// inferSqueeze takes the axes from an attribute (before opset 13) or an input;
// without them it removes every axis of length 1.
func inferSqueeze(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	list, err := c.list("axes", 1)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	ones := func(d graph.Dim) bool { return d == 1 }
	axes, known := list.ints()
	switch {
	case list.stated && known:
		dropped, err := attr.AxisSet("axes", axes, len(in.Shape))
		if err != nil {
			return err
		}
		for k, d := range in.Shape {
			if dropped[k] && d.Exact() && d != 1 {
				return c.BadInput(0, "length 1 on axis %d, which is squeezed", k)
			}
		}
		c.Set(0, in.Elem, reduceShape(in.Shape, dropped, false))
	case in.Exact() && (!list.stated || list.counted && len(list.elems) == countDims(in.Shape, ones)):
		c.Set(0, in.Elem, slices.DeleteFunc(slices.Clone(in.Shape), ones))
	case list.stated && list.counted && len(list.elems) <= len(in.Shape):
		c.Set(0, in.Elem, span(in.Shape, len(in.Shape)-len(list.elems)))
	case list.stated && list.counted:
		return c.Errf("%d axes are squeezed, but input 0 has shape %s", len(list.elems), graph.ShapeString(in.Shape))
	default:
		c.SetUnranked(0, in.Elem)
	}
	return nil
}

func countDims(shape []graph.Dim, is func(graph.Dim) bool) int {
	n := 0
	for _, d := range shape {
		if is(d) {
			n++
		}
	}
	return n
}

// inferUnsqueeze takes the axes from an attribute (before opset 13) or an input.
// They are axes of the output.
func inferUnsqueeze(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	list, err := c.list("axes", 1)
	if err != nil {
		return err
	}
	if !list.stated {
		return c.Errf("axes are missing: expected the axes to insert")
	}
	if !in.Ranked || !list.counted {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	rank := len(in.Shape) + len(list.elems)
	axes, known := list.ints()
	if !known {
		// Each axis is inserted or one of the input's.
		ones := slices.Repeat([]graph.Dim{1}, len(list.elems))
		c.Set(0, in.Elem, span(slices.Concat(ones, in.Shape, ones), rank))
		return nil
	}
	inserted, err := attr.Axes("axes", axes, rank)
	if err != nil {
		return err
	}
	shape := unknowns(rank)
	for _, k := range inserted {
		shape[k] = 1
	}
	from := 0
	for k, d := range shape {
		if d != 1 {
			shape[k] = in.Shape[from]
			from++
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// inferTranspose permutes the axes; without perm it reverses them.
func inferTranspose(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	perm, err := permutation(c)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	shape := make([]graph.Dim, len(perm))
	for k, from := range perm {
		shape[k] = in.Shape[from]
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// permutation returns perm for the rank of input 0.
func permutation(c *Call) ([]int, error) {
	list, err := c.list("perm", -1)
	if err != nil || !c.In[0].Ranked {
		return nil, err
	}
	rank := len(c.In[0].Shape)
	if list.stated && len(list.elems) != rank {
		return nil, c.Errf("perm has %d axes, expected %d to match input 0 %s", len(list.elems), rank, graph.ShapeString(c.In[0].Shape))
	}
	return attr.Permutation(c.Node, rank)
}

func foldTranspose(c *Call) {
	v := c.Arg(0).Value
	perm, err := permutation(c)
	if v == nil || err != nil || len(perm) != len(v.Shape) {
		return
	}
	from := make([]int64, len(perm))
	c.fill(0, func(at []int64) Scalar {
		for k, p := range perm {
			from[p] = at[k]
		}
		return v.at(from)
	})
}

// viewTranspose: a Transpose is a view if the axes that may be longer than 1 keep
// their order.
func viewTranspose(c *Call) []graph.Alias {
	perm, err := permutation(c)
	if err != nil || !c.In[0].Ranked {
		return nil
	}
	last := -1
	for _, from := range perm {
		if c.In[0].Shape[from] == 1 {
			continue
		}
		if from < last {
			return nil
		}
		last = from
	}
	return firstView(c)
}

// inferDepthToSpace moves blocks of channels to height and width.
func inferDepthToSpace(c *Call) error {
	block, err := blockSize(c)
	if err != nil || !c.In[0].Ranked {
		return err
	}
	s := c.In[0].Shape
	if s[1].Exact() && int64(s[1])%block != 0 || s[1].Exact() && int64(s[1])/block%block != 0 {
		return c.BadInput(0, "a multiple of blocksize² (%d × %d) channels", block, block)
	}
	shape := []graph.Dim{s[0], Mono(s[1], func(n int64) int64 { return n / block / block }), 0, 0}
	for k := 2; k < 4; k++ {
		if shape[k], err = c.times(s[k], graph.Dim(block)); err != nil {
			return err
		}
	}
	c.Set(0, c.In[0].Elem, shape)
	return nil
}

// inferSpaceToDepth is the inverse of inferDepthToSpace.
func inferSpaceToDepth(c *Call) error {
	block, err := blockSize(c)
	if err != nil || !c.In[0].Ranked {
		return err
	}
	s := c.In[0].Shape
	shape := []graph.Dim{s[0], s[1], 0, 0}
	for k := 2; k < 4; k++ {
		if s[k].Exact() && int64(s[k])%block != 0 {
			return c.BadInput(0, "a multiple of blocksize %d on axis %d", block, k)
		}
		shape[k] = Mono(s[k], func(n int64) int64 { return n / block })
		if shape[1], err = c.times(shape[1], graph.Dim(block)); err != nil {
			return err
		}
	}
	c.Set(0, c.In[0].Elem, shape)
	return nil
}

// blockSize checks the input and the attributes of both operators; an input of
// unknown rank gives four unknown lengths.
func blockSize(c *Call) (int64, error) {
	if err := c.Tensors(1); err != nil {
		return 0, err
	}
	block := c.Int("blocksize", 0)
	if block < 1 {
		return 0, c.Errf("blocksize is %d, expected 1 or more", block)
	}
	if _, err := c.OneOf("mode", "DCR", "DCR", "CRD"); err != nil {
		return 0, err
	}
	if !c.In[0].Ranked {
		c.Set(0, c.In[0].Elem, unknowns(4))
	}
	return block, c.WantRank(0, 4)
}

func viewBlocks(c *Call) []graph.Alias {
	if c.Int("blocksize", 0) != 1 {
		return nil
	}
	return firstView(c)
}

// cutFlatten is the column Cut of operators that keep the order of the elements and whose
// attributes suit a copy. Rows of an axis of the output are contiguous in each of the
// blocks that the axes before it divide the elements into. So they are rows of the axis
// of the input that divides the elements into the same blocks, if there is one. Take
// [2 6 5] -> [2 3 2 5]: rows of axis 1 are twice as many of the input's axis 1, and rows
// of axis 2 are in no axis.
func cutFlatten(c *Call, axis int) *Cut {
	x, y := exactLengths(c.In[0].Shape), exactLengths(c.Out[0].Shape)
	from := axisBehind(x, count(y[:axis]))
	if from < 0 {
		return nil
	}
	shared := gcd(x[from], y[axis])
	cut := c.cut(axis)
	cut.In[0] = Rows{Axis: from, Length: x[from], Scale: x[from] / shared, Divide: y[axis] / shared}
	return cut
}

// axisBehind is the first axis longer than 1 behind axes whose lengths have the given
// product; -1 if there is none.
func axisBehind(shape []int64, product int64) int {
	before := int64(1)
	for k, n := range shape {
		if before == product && n > 1 {
			return k
		}
		before *= n
	}
	return -1
}

// gcd is the greatest common divisor of two positive numbers.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// cutReshape: a copy states its own shape.
func cutReshape(c *Call, axis int) *Cut {
	cut := cutFlatten(c, axis)
	if cut != nil {
		cut.Change = func(lo, hi int64) Change {
			change := c.restate("shape", 1, c.lengths(axis, hi-lo))
			change.Drop = []string{"allowzero"}
			return change
		}
	}
	return cut
}

// cutSqueeze: a copy states the axes, as it may have a single row on its own.
func cutSqueeze(c *Call, axis int) *Cut {
	list, err := c.list("axes", 1)
	cut := cutFlatten(c, axis)
	if err != nil || cut == nil || list.stated {
		return cut
	}
	var axes []int64
	for k, d := range c.In[0].Shape {
		if d == 1 {
			axes = append(axes, int64(k))
		}
	}
	cut.Change = func(lo, hi int64) Change {
		if c.before(13) {
			return Change{Attrs: []*graph.Attr{intsAttr("axes", axes)}}
		}
		return Change{Inputs: map[int][]int64{1: axes}}
	}
	return cut
}

// cutTranspose: the axis that becomes this one.
func cutTranspose(c *Call, axis int) *Cut {
	perm, err := permutation(c)
	if err != nil {
		return nil
	}
	cut := c.cut(axis)
	cut.In[0] = Same(perm[axis], c.length(0, perm[axis]))
	return cut
}

// cutDepthToSpace: of images, rows and columns; of channels if the blocks of a channel
// are beside each other.
func cutDepthToSpace(c *Call, axis int) *Cut {
	block := c.Int("blocksize", 0)
	cut := c.same(axis)
	switch {
	case axis > 1:
		cut.In[0].Divide = block
	case axis == 1 && c.Str("mode", "DCR") != "CRD":
		return nil
	case axis == 1:
		cut.In[0].Scale = block * block
	}
	return cut
}

// cutSpaceToDepth: of images, rows and columns.
func cutSpaceToDepth(c *Call, axis int) *Cut {
	if axis == 1 {
		return nil
	}
	cut := c.same(axis)
	if axis > 1 {
		cut.In[0].Scale = c.Int("blocksize", 0)
	}
	return cut
}

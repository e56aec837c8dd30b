package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// sampling lists the operators that resample an image.
var sampling = family{"", []Op{
	{Name: "Resize", Class: Window, Precision: Full, Infer: inferResize, Cut: cutResize, Views: viewResize, Check: checkResize, Rounds: always},
	{Name: "Upsample", Class: Window, Precision: Full, Infer: inferUpsample, Cut: cutResize, Views: viewUpsample, Check: checkResize, Rounds: always},
}}

// resizing is what the inputs of Resize and Upsample state for each axis of the
// image, as far as that is known.
type resizing struct {
	*attr.Resize
	scales []Scalar // in F; nil if sizes are stated
	sizes  []Scalar // in I; nil if scales are stated; of an axis without a size: F is 1
	roi    []Scalar // start and end of each axis in turn; nil if it is the whole image
}

// inferResize: scales are input 1 in opset 10. From opset 11 on, inputs 1 to 3
// are roi, scales and sizes, of which one of the last two is stated (an empty
// tensor is not); from opset 18 on, they may be for some axes only.
func inferResize(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	r, err := readResize(c)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	shape := make([]graph.Dim, len(in.Shape))
	for k, d := range in.Shape {
		if r.scales != nil {
			shape[k], err = r.scaled(c, d, k)
		} else {
			shape[k] = r.statedLength(d, k)
		}
		if err != nil {
			return err
		}
	}
	if r.scales == nil && !r.Stretches() {
		if err := keepAspect(c, r.Resize, shape); err != nil {
			return err
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// checkResize: the modes are known, and an axis that gets elements has some to
// interpolate.
func checkResize(c *Call) error {
	r, err := attr.ReadResize(c.Node, c.Version, len(c.In[0].Shape))
	if err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	for k, d := range c.OutType(0).Shape {
		if d > 0 && c.DimOf(0, k) == 0 {
			return c.BadInput(0, "elements on axis %d, which is resized to %v", k, d)
		}
	}
	return nil
}

// readResize reads what is stated for each axis of input 0; if its rank is not
// known, only the attributes.
func readResize(c *Call) (*resizing, error) {
	if attr.IsUpsample(c.Node, c.Version) {
		if err := c.Need(2); err != nil {
			return nil, err
		}
		return perAxis(c, c.In[1], "scales")
	}
	// Without a region, the whole image is meant.
	region := c.Str("coordinate_transformation_mode", "") == "tf_crop_and_resize" && c.Has(1) && c.DimOf(1, 0) != 0
	if region && c.In[0].Ranked {
		axes, err := attr.AxesOrAll(c.Node, "axes", len(c.In[0].Shape))
		if err != nil {
			return nil, err
		}
		if err := c.WantShape(1, "the starts, then the ends of the region", graph.Dim(2*len(axes))); err != nil {
			return nil, err
		}
	}
	scales, sizes := c.Arg(2), c.Arg(3)
	hasScales, hasSizes := scales.Present && c.DimOf(2, 0) != 0, sizes.Present && c.DimOf(3, 0) != 0
	switch {
	case hasScales && hasSizes && c.DimOf(2, 0).Exact() && c.DimOf(3, 0).Exact():
		return nil, c.Errf("both scales and sizes are stated, expected one of them")
	case hasSizes:
		return perAxis(c, sizes, "sizes")
	case !hasScales:
		return nil, c.Errf("neither scales nor sizes are stated, expected one of them")
	}
	r, err := perAxis(c, scales, "scales")
	if err == nil && c.In[0].Ranked && region {
		r.takeRegion(c)
	}
	return r, err
}

// perAxis spreads a list of scales or sizes over the axes of input 0.
func perAxis(c *Call, list Arg, what string) (*resizing, error) {
	if list.Ranked && len(list.Shape) != 1 {
		return nil, c.Errf("%s has shape %s, expected a list (rank 1)", what, graph.ShapeString(list.Shape))
	}
	if what == "sizes" && list.Elem != graph.Int64 && list.Elem != graph.Undefined {
		return nil, c.Errf("sizes has elements of type %v, expected int64", list.Elem)
	}
	if !c.In[0].Ranked {
		return &resizing{Resize: &attr.Resize{}}, nil
	}
	rank := len(c.In[0].Shape)
	attrs, err := attr.ReadResize(c.Node, c.Version, rank)
	if err != nil {
		return nil, err
	}
	r, axes := &resizing{Resize: attrs}, attrs.Axes
	if list.Ranked && list.Shape[0].Exact() && int64(list.Shape[0]) != int64(len(axes)) {
		return nil, c.Errf("%s has %v elements, expected %d: one for each axis", what, list.Shape[0], len(axes))
	}
	spread := make([]Scalar, rank)
	for k := range spread {
		spread[k] = Scalar{F: 1}
	}
	for i, k := range axes {
		spread[k] = hiddenScalar
		if list.Value != nil && i < len(list.Value.Elems) {
			spread[k] = list.Value.Elems[i]
		}
		switch e := spread[k]; {
		case e.State != Known:
		case what == "scales" && !(e.F > 0 && e.F <= math.MaxInt64):
			return nil, c.Errf("scale of axis %d is %v, expected one above 0", k, e.F)
		case what == "sizes" && e.I < 0:
			return nil, c.Errf("size of axis %d is %d, expected 0 or more", k, e.I)
		}
	}
	if what == "scales" {
		r.scales = spread
	} else {
		r.sizes = spread
	}
	return r, nil
}

// takeRegion reads the region of interest: the starts of the axes, then their
// ends. The scales apply to its extent.
func (r *resizing) takeRegion(c *Call) {
	r.roi = make([]Scalar, 2*len(c.In[0].Shape))
	for k := range c.In[0].Shape {
		r.roi[2*k+1].F = 1
	}
	v := c.Arg(1).Value
	for i, k := range r.Axes {
		r.roi[2*k], r.roi[2*k+1] = hiddenScalar, hiddenScalar
		if v != nil && len(v.Elems) == 2*len(r.Axes) {
			r.roi[2*k], r.roi[2*k+1] = v.Elems[i], v.Elems[len(r.Axes)+i]
		}
	}
}

// scaled is floor(d × extent of the region × scale), in float32 as runtimes
// compute it.
func (r *resizing) scaled(c *Call, d graph.Dim, axis int) (graph.Dim, error) {
	by := r.scales[axis]
	extent := float32(1)
	if r.roi != nil {
		start, end := r.roi[2*axis], r.roi[2*axis+1]
		if start.State != Known || end.State != Known {
			return graph.Unknown, nil
		}
		extent = float32(end.F) - float32(start.F)
	}
	if by.State == Hidden {
		return graph.Unknown, nil
	}
	n, ok := d.Max()
	if !ok {
		return graph.Unknown, nil
	}
	x := float32(float32(n)*extent) * float32(by.F)
	switch {
	case by.F == 1 && extent == 1 && by.State == Known:
		return d, nil
	case !(x >= 0):
		return 0, c.Errf("axis %d of length %v is resized by %v over a region of %v, expected a length", axis, d, by.F, extent)
	case x >= 1<<62:
		return 0, c.Errf("axis %d of length %v is resized by %v: %w", axis, d, by.F, graph.ErrTooLarge)
	case d.Exact() && by.State == Known:
		return graph.Dim(x), nil
	}
	return upTo(graph.Dim(x)), nil
}

// statedLength is the stated size; if none is stated, the length of the image.
func (r *resizing) statedLength(d graph.Dim, axis int) graph.Dim {
	if e := r.sizes[axis]; e != (Scalar{F: 1}) {
		return e.Dim()
	}
	return d
}

// keepAspect gives all axes of r the scale of one of them (attr.Resize.Leading).
// shape holds the stated sizes. Halves are rounded up (opset 18 on).
func keepAspect(c *Call, r *attr.Resize, shape []graph.Dim) error {
	if err := r.CheckPolicy(); err != nil {
		return err
	}
	in := c.In[0].Shape
	sizes := make([]int64, 0, len(r.Axes))
	for _, k := range r.Axes {
		if !shape[k].Exact() || !in[k].Exact() {
			for _, j := range r.Axes {
				if shape[j] = upTo(shape[j]); r.Policy == "not_smaller" {
					shape[j] = graph.Unknown
				}
			}
			return nil
		}
		if in[k] == 0 {
			return c.BadInput(0, "a length above 0 on axis %d to keep the aspect ratio", k)
		}
		sizes = append(sizes, int64(shape[k]))
	}
	if len(sizes) == 0 {
		return nil
	}
	from := r.Leading(exactLengths(in), sizes)
	num, den := sizes[from], int64(in[r.Axes[from]])
	for _, k := range r.Axes {
		double, ok := mulChecked(num, int64(in[k]))
		if ok {
			double, ok = mulChecked(double, 2)
		}
		if ok {
			double, ok = addChecked(double, den)
		}
		if !ok || den > math.MaxInt64/2 {
			return c.Errf("size of axis %d: %w", k, graph.ErrTooLarge)
		}
		shape[k] = graph.Dim(double / (2 * den))
	}
	return nil
}

// viewResize: the result is a view if every length stays and its coordinates are
// those of the image.
func viewResize(c *Call) []graph.Alias {
	r, err := readResize(c)
	if err != nil || r.scales == nil && !r.Stretches() {
		return nil
	}
	switch r.Transform {
	case "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric":
		return r.view(c)
	}
	return nil // regions, and tf_half_pixel_for_nn, which is half a pixel off
}

// view: the result is a view if all scales are 1, or all sizes those of the image.
func (r *resizing) view(c *Call) []graph.Alias {
	for _, e := range r.scales {
		if e.State != Known || e.F != 1 {
			return nil
		}
	}
	if r.scales == nil {
		return viewIfSameShape(c)
	}
	return firstView(c)
}

// viewIfSameShape makes output 0 a view of input 0 if their shapes are exact and
// equal.
func viewIfSameShape(c *Call) []graph.Alias {
	if len(c.Out) > 0 && c.Out[0].Exact() && c.sameShapeAndSize(0, 0) {
		return firstView(c)
	}
	return nil
}

// inferUpsample: the scales are the attributes height_scale and width_scale in
// opset 1, a list attribute in opset 7, and an input from opset 9 on.
func inferUpsample(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	in := c.In[0]
	r, err := readUpsample(c)
	if err != nil {
		return err
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	shape := make([]graph.Dim, len(in.Shape))
	for k, d := range in.Shape {
		if shape[k], err = r.scaled(c, d, k); err != nil {
			return err
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

func readUpsample(c *Call) (*resizing, error) {
	if c.Has(1) {
		return perAxis(c, c.In[1], "scales")
	}
	scales, err := attr.UpsampleScales(c.Node)
	if err != nil {
		return nil, err
	}
	if !c.HasAttr("scales") {
		if err := c.WantRank(0, 4); err != nil {
			return nil, err
		}
	}
	v := &Value{Shape: []int64{int64(len(scales))}, Elems: make([]Scalar, len(scales))}
	for i, s := range scales {
		v.Elems[i].F = float64(s)
	}
	return perAxis(c, Arg{true, graph.TensorOf(graph.Float32, graph.Dim(len(scales))), v}, "scales")
}

func viewUpsample(c *Call) []graph.Alias {
	r, err := readUpsample(c)
	if err != nil || r.scales == nil {
		return nil
	}
	return r.view(c)
}

// cutResize: an axis that keeps its length. Elements stay at their places, unless linear
// interpolation moves them by half an element.
func cutResize(c *Call, axis int) *Cut {
	read := readResize
	if c.Node.Op == "Upsample" {
		read = readUpsample
	}
	r, err := read(c)
	if err != nil || r.Transform == "tf_crop_and_resize" || r.Transform == "tf_half_pixel_for_nn" && r.Mode != "nearest" {
		return nil
	}
	cut := c.same(axis)
	if r.scales != nil {
		if r.scales[axis] != (Scalar{F: 1}) {
			return nil
		}
		return cut
	}
	sizes, known := []int64(nil), c.In[0].Shape[axis] == c.Out[0].Shape[axis] && r.Stretches()
	at := slices.Index(r.Axes, axis)
	if at < 0 || !known {
		if known {
			return cut
		}
		return nil
	}
	for _, k := range r.Axes {
		if r.sizes[k].State != Known {
			return nil
		}
		sizes = append(sizes, r.sizes[k].I)
	}
	cut.Change = func(lo, hi int64) Change {
		own := slices.Clone(sizes)
		own[at] = hi - lo
		return Change{Inputs: map[int][]int64{3: own}}
	}
	return cut
}

package ops

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// sampling resample an image.
var sampling = family{"", []Op{
	{Name: "Resize", Infer: inferResize, Views: viewResize, Check: checkResize},
	{Name: "Upsample", Infer: inferUpsample, Views: viewUpsample, Check: checkResize},
}}

// resizing is what Resize and Upsample do to each axis.
type resizing struct {
	scales []Scalar // of each axis, in F; nil when sizes are stated
	sizes  []Scalar // of each axis, in I
	roi    []Scalar // start and end of each axis in turn, with tf_crop_and_resize
	axes   []int    // those that sizes are stated for
}

// inferResize: scales are input 1 in opset 10; since, roi, scales and sizes
// are inputs 1 to 3, one of the last two stated (an empty tensor is not), from
// opset 18 on for some axes only.
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
			shape[k], err = r.sized(c, d, k)
		}
		if err != nil {
			return err
		}
	}
	if policy := c.Str("keep_aspect_ratio_policy", "stretch"); r.scales == nil && policy != "stretch" {
		if err := keepAspect(c, policy, shape, r.axes); err != nil {
			return err
		}
	}
	c.Set(0, in.Elem, shape)
	return nil
}

// checkResize: elements are interpolated between those that are there.
func checkResize(c *Call) error {
	mode, err := c.OneOf("mode", "nearest", "nearest", "linear", "bilinear", "cubic")
	if err != nil {
		return err
	}
	if _, err := c.OneOf("coordinate_transformation_mode", "half_pixel", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"); err != nil {
		return err
	}
	if _, err := c.OneOf("nearest_mode", "round_prefer_floor", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"); err != nil && mode == "nearest" {
		return err
	}
	for k, d := range c.OutType(0).Shape {
		if d > 0 && c.DimOf(0, k) == 0 {
			return c.BadInput(0, "elements on axis %d, which is resized to %v", k, d)
		}
	}
	return nil
}

// readResize gives what is stated for each axis of input 0; nothing when its
// rank is not known.
func readResize(c *Call) (*resizing, error) {
	if c.before(11) {
		if err := c.Need(2); err != nil {
			return nil, err
		}
		return perAxis(c, c.In[1], "scales")
	}
	// Without a region all of the input is meant.
	region := c.Str("coordinate_transformation_mode", "") == "tf_crop_and_resize" && c.Has(1) && c.DimOf(1, 0) != 0
	if region && c.In[0].Ranked {
		axes, err := statedAxes(c, len(c.In[0].Shape))
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
	if err == nil && r.axes != nil && region {
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
	r := &resizing{}
	if !c.In[0].Ranked {
		return r, nil
	}
	rank := len(c.In[0].Shape)
	axes, err := statedAxes(c, rank)
	if err != nil {
		return nil, err
	}
	if list.Ranked && list.Shape[0].Exact() && int64(list.Shape[0]) != int64(len(axes)) {
		return nil, c.Errf("%s has %v elements, expected %d: one for each axis", what, list.Shape[0], len(axes))
	}
	r.axes = axes
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

// statedAxes is the attribute axes, by default all.
func statedAxes(c *Call, rank int) ([]int, error) {
	list, err := c.list("axes", -1)
	if err != nil {
		return nil, err
	}
	if list.stated {
		axes, _ := list.ints()
		return c.Axes("axes", axes, rank)
	}
	axes := make([]int, rank)
	for k := range axes {
		axes[k] = k
	}
	return axes, nil
}

// takeRegion reads the region of interest: the starts of the axes, then their
// ends. It scales the output.
func (r *resizing) takeRegion(c *Call) {
	r.roi = make([]Scalar, 2*len(c.In[0].Shape))
	for k := range c.In[0].Shape {
		r.roi[2*k+1].F = 1
	}
	v := c.Arg(1).Value
	for i, k := range r.axes {
		r.roi[2*k], r.roi[2*k+1] = hiddenScalar, hiddenScalar
		if v != nil && len(v.Elems) == 2*len(r.axes) {
			r.roi[2*k], r.roi[2*k+1] = v.Elems[i], v.Elems[len(r.axes)+i]
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

// sized is the stated size, without one the input's length.
func (r *resizing) sized(_ *Call, d graph.Dim, axis int) (graph.Dim, error) {
	if e := r.sizes[axis]; e != (Scalar{F: 1}) {
		return e.Dim(), nil
	}
	return d, nil
}

// keepAspect makes the sizes of some axes follow one scale, the least or the
// largest of them; halves are rounded up (opset 18 on).
func keepAspect(c *Call, policy string, shape []graph.Dim, axes []int) error {
	if policy != "not_larger" && policy != "not_smaller" {
		return c.Errf("keep_aspect_ratio_policy is %q, expected stretch, not_larger or not_smaller", graph.Short(policy))
	}
	in := c.In[0].Shape
	from := -1
	for _, k := range axes {
		if !shape[k].Exact() || !in[k].Exact() {
			for _, j := range axes {
				if shape[j] = upTo(shape[j]); policy == "not_smaller" {
					shape[j] = graph.Unknown
				}
			}
			return nil
		}
		if in[k] == 0 {
			return c.BadInput(0, "a length above 0 on axis %d to keep the aspect ratio", k)
		}
		// shape[k] / in[k] against the best so far
		if from < 0 || policy == "not_larger" == (float64(shape[k])/float64(in[k]) < float64(shape[from])/float64(in[from])) {
			from = k
		}
	}
	if from < 0 {
		return nil
	}
	num, den := int64(shape[from]), int64(in[from])
	for _, k := range axes {
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

// viewResize: nothing is resampled when every length stays and the coordinates
// of the output are those of the input.
func viewResize(c *Call) []graph.Alias {
	r, err := readResize(c)
	if err != nil || r.scales == nil && c.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
		return nil
	}
	switch c.Str("coordinate_transformation_mode", "half_pixel") {
	case "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric":
		return r.view(c)
	}
	return nil // regions, and half a pixel between the grids (tf_half_pixel_for_nn)
}

// view: all scales are 1, or all sizes those of the input.
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

// viewIfSameShape: output 0 is input 0 if both are exact and equal in shape.
func viewIfSameShape(c *Call) []graph.Alias {
	if len(c.Out) > 0 && c.Out[0].Exact() && c.fits(0, 0) {
		return firstView(c)
	}
	return nil
}

// inferUpsample: scales are attributes, height_scale and width_scale of an
// image in opset 1, and an input from opset 9 on.
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
	var scales []float32
	if a := c.Node.Attr("scales"); a != nil {
		scales = a.Floats
	} else if c.HasAttr("height_scale") && c.HasAttr("width_scale") {
		if err := c.WantRank(0, 4); err != nil {
			return nil, err
		}
		scales = []float32{1, 1, c.Float("height_scale", 1), c.Float("width_scale", 1)}
	} else {
		return nil, c.Errf("scales are missing: expected input 1 (opset 9), scales (7), or height_scale and width_scale (1)")
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

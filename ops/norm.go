package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// normalization lists the operators that shift and scale an input by its own
// statistics. All but LRN, which reads neighbouring channels, may overwrite it:
// the statistics are computed before the first element is written.
var normalization = family{"", []Op{
	{Name: "BatchNormalization", Class: Norm, Beside: []int{1, 2, 3, 4}, Form: Planes, Applies: true, Infer: batchNorm, Cut: cutBatchNorm, Inplace: overStatistics, FLOPs: perElement(2), Check: checkBatchNorm, Depends: dependsOnStatistics, Weights: []int{1, 2}, Kinds: []string{"normalization"}, Biases: []int{1, 2}},
	{Name: "InstanceNormalization", Class: Norm, Beside: []int{1, 2}, Form: Planes, Infer: instanceNorm, Cut: cutInstanceNorm, Inplace: overFirst, FLOPs: perElement(6), Weights: []int{1, 2}, Kinds: []string{"normalization"}, Biases: []int{1, 2}},
	{Name: "LayerNormalization", Class: Norm, Precision: Full, Infer: layerNorm(1, 2), Cut: cutLayerNorm, Inplace: overFirst, FLOPs: perElement(6), Optional: afterFirst, Weights: []int{1, 2}, Kinds: []string{"normalization"}, Biases: []int{1, 2}},
	{Name: "SimplifiedLayerNormalization", Class: Norm, Precision: Full, Infer: layerNorm(1), Cut: cutLayerNorm, Inplace: overFirst, FLOPs: perElement(4), Weights: []int{1}, Kinds: []string{"normalization"}, Biases: []int{1}},
	{Name: "RMSNormalization", Class: Norm, Precision: Full, Infer: layerNorm(), Cut: cutLayerNorm, Inplace: overFirst, FLOPs: perElement(4), Weights: []int{1}, Kinds: []string{"normalization"}, Biases: []int{1}},
	{Name: "GroupNormalization", Class: Norm, Precision: Full, Infer: groupNorm, Cut: cutGroupNorm, Inplace: overFirst, FLOPs: perElement(6), Weights: []int{1, 2}, Kinds: []string{"normalization"}, Biases: []int{1, 2}},
	{Name: "MeanVarianceNormalization", Class: Norm, Precision: Full, Infer: meanVarianceNorm, Cut: cutMeanVariance, Inplace: overFirst, FLOPs: perElement(5)},
	{Name: "LRN", Class: Norm, Infer: lrn, Cut: cutLRN},
	{Name: "LpNormalization", Class: Norm, Precision: Full, Infer: inferLpNormalization, Cut: cutBut(-1), Inplace: overFirst, FLOPs: perElement(3)},
}}

// batchNorm covers BatchNormalization in all versions: 1 to 13 have up to five
// outputs (running and saved statistics), later ones three. Statistics have one
// element per channel; up to version 8, spatial=0 asks for one per channel and
// position.
func batchNorm(c *Call) error {
	if err := c.Tensors(5); err != nil {
		return err
	}
	if err := c.MinRank(0, 1); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	statistics := []graph.Dim{graph.Unknown}
	switch a := c.In[0]; {
	case a.Ranked && c.Version < 9 && c.Int("spatial", 1) == 0:
		statistics = a.Shape[1:]
	case len(a.Shape) > 1:
		statistics = a.Shape[1:2]
	case a.Ranked:
		statistics[0] = 1
	case c.Version < 9:
		for k := 1; k < len(c.Out); k++ {
			c.SetType(k, c.In[min(2+k, 4)].Type)
		}
		return nil
	}
	for i := 1; i < 5; i++ {
		if err := c.WantShape(i, "one element per channel of input 0", statistics...); err != nil {
			return err
		}
		if len(statistics) == 1 {
			statistics = []graph.Dim{TakeDim(statistics[0], c.DimOf(i, 0))}
		}
	}
	for k := 1; k < len(c.Out); k++ {
		c.Set(k, c.In[3].Elem, statistics)
	}
	return nil
}

// dependsOnStatistics: in training, BatchNormalization does not normalise by the
// running statistics (inputs 3 and 4); it only updates them.
func dependsOnStatistics(n *graph.Node, out, in int) bool {
	training := n.Attr("training_mode")
	return out > 0 || in < 3 || training == nil || training.Int == 0
}

// checkBatchNorm: only training has statistics as outputs, and opset 14 made that
// an attribute; statistics of each position (spatial=0) are not supported.
func checkBatchNorm(c *Call) error {
	if c.Version < 9 && c.Int("spatial", 1) == 0 && len(c.In[0].Shape) > 2 {
		return c.Errf("spatial is 0, expected statistics of channels")
	}
	for k := 1; k < len(c.Out); k++ {
		if c.Out[k].Present && (c.Version < 14 || c.Int("training_mode", 0) == 0) {
			return c.Errf("output %d%s is made in training alone, expected training_mode 1 (opset 14)", k, c.outputName(k))
		}
	}
	return nil
}

// overStatistics: the result may overwrite the input, and the new running mean
// and variance the old ones.
func overStatistics(c *Call) []graph.Alias {
	var pairs []graph.Alias
	for _, p := range []graph.Alias{{Out: 0, In: 0}, {Out: 1, In: 3}, {Out: 2, In: 4}} {
		if c.sameShapeAndSize(p.Out, p.In) {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func instanceNorm(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	for i := 1; i < 3; i++ {
		if err := c.WantShape(i, "one element per channel of input 0", c.DimOf(0, 1)); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// layerNorm covers LayerNormalization, RMSNormalization and ONNX Runtime's
// SimplifiedLayerNormalization: the axes from axis on are normalised, scale and
// bias broadcast to the input. The result has the element type of the scale if
// the types may differ. The outputs in statistics have length 1 along the
// normalised axes and the type stash_type.
func layerNorm(statistics ...int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(2); err != nil {
			return err
		}
		a := c.In[0]
		elem := a.Elem
		if c.Node.Op != "LayerNormalization" {
			elem = c.In[1].Elem
		}
		stash := graph.DType(c.Int("stash_type", int64(graph.Float32)))
		if !stash.Floating() {
			return c.Errf("stash_type is %d, expected a floating-point type", int64(stash))
		}
		if !a.Ranked {
			c.SetUnranked(0, elem)
			for _, k := range statistics {
				c.SetUnranked(k, stash)
			}
			return nil
		}
		axis, err := attr.Axis("axis", c.Int("axis", -1), len(a.Shape))
		if err != nil {
			return err
		}
		for i := 1; i < 3 && i < len(c.In); i++ {
			if err := c.needBroadcast(i, 0); err != nil {
				return err
			}
		}
		c.Set(0, elem, a.Shape)
		kept := append([]graph.Dim{}, a.Shape[:axis]...)
		for range a.Shape[axis:] {
			kept = append(kept, 1)
		}
		for _, k := range statistics {
			c.Set(k, stash, kept)
		}
		return nil
	}
}

// needBroadcast fails if input i is present and does not broadcast to the shape
// of input to.
func (c *Call) needBroadcast(i, to int) error {
	if !c.Has(i) || !c.In[i].Ranked || !c.In[to].Ranked {
		return nil
	}
	have, want := c.In[i].Shape, c.In[to].Shape
	fits := len(have) <= len(want)
	for k := 1; fits && k <= len(have); k++ {
		d := have[len(have)-k]
		fits = d == 1 || !differ(d, want[len(want)-k])
	}
	if !fits {
		return c.BadInput(i, "one that broadcasts to input %d %s", to, graph.ShapeString(want))
	}
	return nil
}

// groupNorm covers GroupNormalization: scale and bias have one element per
// group in version 18, one per channel from 21 on.
func groupNorm(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	groups, err := c.Positive("num_groups", 0)
	if err != nil {
		return err
	}
	channels := c.DimOf(0, 1)
	if channels.Exact() && int64(channels)%groups != 0 {
		return c.BadInput(0, "a multiple of num_groups %d as channels", groups)
	}
	each, why := channels, "one element per channel of input 0"
	if c.Version < 21 {
		each, why = graph.Dim(groups), "one element per group"
	}
	for i := 1; i < 3; i++ {
		if err := c.WantShape(i, why, each); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

func meanVarianceNorm(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if axes := c.Ints("axes"); c.In[0].Ranked && len(axes) > 0 {
		if _, err := attr.Axes("axes", axes, len(c.In[0].Shape)); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

func lrn(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	if _, err := c.Positive("size", 0); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// inferLpNormalization: the output is like the input.
func inferLpNormalization(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if p := c.Int("p", 2); p != 1 && p != 2 {
		return c.Errf("p is %d, expected 1 or 2", p)
	}
	return alongAxis(c, c.Int("axis", -1), 0)
}

// cutBatchNorm: in inference any axis, in training channels alone. Along channels,
// statistics are cut, too.
func cutBatchNorm(c *Call, axis int) *Cut {
	training := !c.before(14) && c.Int("training_mode", 0) != 0
	if c.before(7) || c.before(9) && c.Int("spatial", 1) == 0 || training && axis != 1 {
		return nil
	}
	cut := c.same(axis)
	for k := 1; k < len(c.Out); k++ {
		if c.Out[k].Present && !training {
			return nil
		}
		cut.Out[k] = 0
	}
	if axis == 1 {
		for i := 1; i < 5; i++ {
			cut.In[i] = Same(0, c.length(i, 0))
		}
	}
	return cut
}

// cutInstanceNorm: images and channels.
func cutInstanceNorm(c *Call, axis int) *Cut {
	if axis > 1 {
		return nil
	}
	cut := c.same(axis)
	if axis == 1 {
		cut.In[1], cut.In[2] = Same(0, c.length(1, 0)), Same(0, c.length(2, 0))
	}
	return cut
}

// cutLayerNorm: the axes before those that are normalised. Scale and bias may have them,
// too.
func cutLayerNorm(c *Call, axis int) *Cut {
	rank := len(c.In[0].Shape)
	if axis >= c.axisAttr(-1, rank) {
		return nil
	}
	cut := c.cut(axis)
	for i := range c.In {
		cut.In[i] = c.broadcastRows(i, axis, rank)
	}
	return cut
}

// cutGroupNorm: images, and whole groups of channels.
func cutGroupNorm(c *Call, axis int) *Cut {
	if axis > 1 {
		return nil
	}
	cut := c.same(axis)
	if axis == 0 {
		return cut
	}
	groups := c.Int("num_groups", 1)
	each := c.length(0, 1) / groups
	cut.In[0].Scale, cut.In[0].Divide = each, each
	for i := 1; i < 3; i++ {
		cut.In[i] = Rows{Axis: 0, Length: c.length(i, 0), Scale: c.length(i, 0) / groups, Divide: each}
	}
	cut.Change = func(lo, hi int64) Change {
		return Change{Attrs: []*graph.Attr{intAttr("num_groups", (hi-lo)/each)}}
	}
	return cut
}

// cutMeanVariance: the axes that are not normalised.
func cutMeanVariance(c *Call, axis int) *Cut {
	along, err := attr.AxesOr(c.Node, "axes", len(c.In[0].Shape), 0, 2, 3)
	if err != nil || slices.Contains(along, axis) {
		return nil
	}
	return c.same(axis)
}

// cutLRN: any axis but that of the channels, of which neighbours are read.
func cutLRN(c *Call, axis int) *Cut {
	if axis == 1 {
		return nil
	}
	return c.same(axis)
}

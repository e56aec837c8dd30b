package ops

import "github.com/onnxmem/onnxmem/graph"

// flashAttentions lists attention that keeps no scores, and its gradient. In a model they are
// functions (graph.FlashAttention).
var flashAttentions = family{graph.SwapDomain, []Op{
	{Name: graph.FlashAttention, Class: Product, Infer: inferFlashAttention, Check: checkFlashAttention, FLOPs: flashAttentionFLOPs(1, 1)},
	{Name: graph.FlashAttentionGrad, Class: Product, Infer: inferFlashAttentionGrad, Check: checkFlashAttention, FLOPs: flashAttentionFLOPs(3, 2)},
}}

// flashAxes checks inputs 0 to 4 and returns the shapes of the result and of the scores:
// q [B H Q D], k [B G D K], v [B G K E], bias and keep.
func flashAxes(c *Call) (result, scores []graph.Dim, err error) {
	for i := range 3 {
		if err := c.WantRank(i, 4); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range []string{"fill", "safe", "scale"} {
		if !c.HasAttr(name) {
			return nil, nil, c.Errf("attribute %s is missing", name)
		}
	}
	if err := c.sameElem(0, 1, 2); err != nil {
		return nil, nil, err
	}
	batch, heads, queries, size := c.DimOf(0, 0), c.DimOf(0, 1), c.DimOf(0, 2), c.DimOf(0, 3)
	groups, keys := c.DimOf(1, 1), c.DimOf(1, 3)
	if err := c.WantShape(1, "the batch and the size of a head of input 0", batch, graph.Unknown, size, graph.Unknown); err != nil {
		return nil, nil, err
	}
	if err := c.WantShape(2, "the batch, heads and keys of input 1", batch, groups, keys, graph.Unknown); err != nil {
		return nil, nil, err
	}
	if heads.Exact() && groups > 0 && heads%groups != 0 {
		return nil, nil, c.BadInput(0, "a multiple of the %s heads of input 1, not %s", groups, heads)
	}
	return []graph.Dim{batch, heads, queries, c.DimOf(2, 3)}, []graph.Dim{batch, heads, queries, keys}, nil
}

// inferFlashAttention: the result, and two numbers for each row of scores.
func inferFlashAttention(c *Call) error {
	if err := c.takes(5, 5); err != nil {
		return err
	}
	y, scores, err := flashAxes(c)
	if err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, y)
	c.Set(1, graph.Float32, append(scores[:3:3], 2))
	return nil
}

// inferFlashAttentionGrad: the gradients of inputs 0 to 2.
func inferFlashAttentionGrad(c *Call) error {
	if err := c.takes(7, 7); err != nil {
		return err
	}
	y, scores, err := flashAxes(c)
	if err != nil {
		return err
	}
	if err := c.WantShape(5, "two numbers for each row of scores", append(scores[:3:3], 2)...); err != nil {
		return err
	}
	if err := c.sameElem(0, 6); err != nil {
		return err
	}
	if err := c.WantShape(6, "the shape of the result", y...); err != nil {
		return err
	}
	for i := range 3 {
		c.setLike(i, i, c.In[0].Elem)
	}
	return nil
}

// checkFlashAttention: bias and keep broadcast to the scores, and there are heads of keys.
func checkFlashAttention(c *Call) error {
	_, scores, err := flashAxes(c)
	if err != nil {
		return err
	}
	if c.DimOf(1, 1) == 0 {
		return c.BadInput(1, "at least 1 head for the %v of input 0", c.DimOf(0, 1))
	}
	for i := 3; i < 5; i++ {
		have := c.In[i].Shape
		fits := len(have) <= len(scores)
		for a := 1; fits && a <= len(have); a++ {
			d := have[len(have)-a]
			fits = d == 1 || d == scores[len(scores)-a]
		}
		if !fits {
			return c.BadInput(i, "one that broadcasts to the scores %s", graph.ShapeString(scores))
		}
	}
	return nil
}

// flashAttentionFLOPs counts the multiply-adds of products over the size of keys and over the
// size of values, for each score.
func flashAttentionFLOPs(overKeys, overValues graph.Dim) func(c *Call) int64 {
	return func(c *Call) int64 {
		each := AddDims(MulDims(overKeys, c.DimOf(0, 3)), MulDims(overValues, c.DimOf(2, 3)))
		return opCount(2, c.DimOf(0, 0), c.DimOf(0, 1), c.DimOf(0, 2), c.DimOf(1, 3), each)
	}
}

package form

// ExpandMoves repeats axes of length 1 by reading them with stride 0.
func ExpandMoves(c *Call) ([]Move, error) {
	in, out := c.In[0], c.Out[0]
	from := make([]int, out.Rank())
	s := Strides(in.Shape)
	lead := out.Rank() - in.Rank()
	for a, n := range in.Shape {
		if n == out.Shape[lead+a] {
			from[lead+a] = s[a]
		}
	}
	return moveOf(out.Shape, from, 0), nil
}

// TileMoves treats each axis as two: the repeats, with stride 0, and the input's axis.
func TileMoves(c *Call) ([]Move, error) {
	var shape, from []int
	s := Strides(c.In[0].Shape)
	for a, n := range c.In[0].Shape {
		shape = append(shape, c.Out[0].Shape[a]/n, n)
		from = append(from, 0, s[a])
	}
	return moveOf(shape, from, 0), nil
}

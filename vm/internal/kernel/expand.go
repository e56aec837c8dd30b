package kernel

// expansion lists the operators that repeat elements along axes.
var expansion = family{"", []Kernel{
	{Name: "Expand", Make: moving(ExpandMoves), Half: true, Moves: true},
	{Name: "Tile", Make: moving(TileMoves), Half: true, Moves: true},
}}

// ExpandMoves repeats axes of length 1 by reading them with stride 0.
func ExpandMoves(c *Invocation) ([]Move, error) {
	in, out := c.In[0], c.Out[0]
	from := make([]int, out.rank())
	s := strides(in.Shape)
	lead := out.rank() - in.rank()
	for a, n := range in.Shape {
		if n == out.Shape[lead+a] {
			from[lead+a] = s[a]
		}
	}
	return moveOf(out.Shape, from, 0), nil
}

// TileMoves treats each axis as two: the repeats, with stride 0, and the input's axis.
func TileMoves(c *Invocation) ([]Move, error) {
	var shape, from []int
	s := strides(c.In[0].Shape)
	for a, n := range c.In[0].Shape {
		shape = append(shape, c.Out[0].Shape[a]/n, n)
		from = append(from, 0, s[a])
	}
	return moveOf(shape, from, 0), nil
}

package kernel

// expansion lists the operators that repeat elements along axes.
var expansion = family{"", []Kernel{
	{Name: "Expand", Make: makeExpand, Half: true},
	{Name: "Tile", Make: makeTile, Half: true},
}}

// makeExpand repeats axes of length 1 by reading them with stride 0.
func makeExpand(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	from := make([]int, out.rank())
	s := strides(in.Shape)
	lead := out.rank() - in.rank()
	for a, n := range in.Shape {
		if n == out.Shape[lead+a] {
			from[lead+a] = s[a]
		}
	}
	return unlessView(out, in, newMover(width, out.Shape, from, strides(out.Shape)).run(out, in, 0, 0)), nil
}

// makeTile treats each axis as two: the repeats, with stride 0, and the input's axis.
func makeTile(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	var shape, from []int
	s := strides(in.Shape)
	for a, n := range in.Shape {
		shape = append(shape, out.Shape[a]/n, n)
		from = append(from, 0, s[a])
	}
	return unlessView(out, in, newMover(width, shape, from, strides(shape)).run(out, in, 0, 0)), nil
}

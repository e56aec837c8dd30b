package form

// ConcatMoves has a copy for each input.
func ConcatMoves(c *Call) ([]Move, error) {
	out := c.Out[0]
	k, err := c.Axis(1, out.Rank())
	if err != nil {
		return nil, err
	}
	var list []Move
	off, to := 0, Strides(out.Shape)
	for i, in := range c.In {
		list = append(list, Move{In: i, Shape: in.Shape, From: Strides(in.Shape), To: to, ToOff: off})
		off += in.Shape[k] * to[k]
	}
	return list, nil
}

// SplitMoves has a copy for each output.
func SplitMoves(c *Call) ([]Move, error) {
	in := c.In[0]
	k, err := c.Axis(0, in.Rank())
	if err != nil {
		return nil, err
	}
	var list []Move
	off, from := 0, Strides(in.Shape)
	for i, out := range c.Out {
		if out == nil {
			return nil, Unsupportedf("an output that is left out")
		}
		list = append(list, Move{Out: i, Shape: out.Shape, From: from, To: Strides(out.Shape), FromOff: off})
		off += out.Shape[k] * from[k]
	}
	return list, nil
}

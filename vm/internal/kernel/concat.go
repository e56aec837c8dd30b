package kernel

// joining lists the operators that join tensors along an axis or split one.
var joining = family{"", []Kernel{
	{Name: "Concat", Make: moving(ConcatMoves), Half: true, Moves: true},
	{Name: "Split", Make: moving(SplitMoves), Half: true, Moves: true},
}}

// ConcatMoves has a copy for each input.
func ConcatMoves(c *Invocation) ([]Move, error) {
	out := c.Out[0]
	k, err := c.axis(1, out.rank())
	if err != nil {
		return nil, err
	}
	var list []Move
	off, to := 0, strides(out.Shape)
	for i, in := range c.In {
		list = append(list, Move{In: i, Shape: in.Shape, From: strides(in.Shape), To: to, ToOff: off})
		off += in.Shape[k] * to[k]
	}
	return list, nil
}

// SplitMoves has a copy for each output.
func SplitMoves(c *Invocation) ([]Move, error) {
	in := c.In[0]
	k, err := c.axis(0, in.rank())
	if err != nil {
		return nil, err
	}
	var list []Move
	off, from := 0, strides(in.Shape)
	for i, out := range c.Out {
		if out == nil {
			return nil, unsupportedf("an output that is left out")
		}
		list = append(list, Move{Out: i, Shape: out.Shape, From: from, To: strides(out.Shape), FromOff: off})
		off += out.Shape[k] * from[k]
	}
	return list, nil
}

package form

// PutRowsMoves copies the rows of input 0 around those of input 1. In place, the
// former stay.
func PutRowsMoves(c *Call) ([]Move, error) {
	base, part := c.In[0], c.In[1]
	at, err := c.Value(2)
	if err != nil {
		return nil, err
	}
	k, err := c.Axis(0, base.Rank())
	if err != nil {
		return nil, err
	}
	s := Strides(base.Shape)
	rows := func(in, from, n int) Move {
		shape := append([]int{}, base.Shape...)
		shape[k] = n
		m := Move{In: in, Shape: shape, From: s, To: s, FromOff: from * s[k], ToOff: from * s[k]}
		if in == 1 {
			m.From, m.FromOff = Strides(part.Shape), 0
		}
		return m
	}
	var list []Move
	first := at[0]
	behind := first + part.Shape[k]
	for _, m := range []Move{rows(0, 0, first), rows(1, first, part.Shape[k]), rows(0, behind, base.Shape[k]-behind)} {
		if m.Shape[k] > 0 {
			list = append(list, m)
		}
	}
	return list, nil
}

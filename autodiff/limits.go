package autodiff

// exceeds reports whether a product of lengths is above a limit; it does not overflow.
func exceeds(limit int64, factors ...int64) bool {
	p := int64(1)
	for _, f := range factors {
		if f == 0 {
			return false
		}
		if p <= limit/f {
			p *= f
		} else {
			p = limit + 1
		}
	}
	return p > limit
}

// Length returns the only element of integer input i, which must be known.
func (c *Backward) Length(i int) int64 {
	list := c.Lengths(i)
	if c.err == nil && len(list) != 1 {
		c.Failf("input %d has %d elements: expected one", i, len(list))
	}
	if c.err != nil {
		return 0
	}
	return list[0]
}

// numbered lists the numbers from 0 on, one for each place on an axis.
func (c *Backward) numbered(n int64) []int64 {
	if n > maxMask {
		c.Failf("an axis of %d places: expected at most %d on a path to the loss", n, maxMask)
		return nil
	}
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

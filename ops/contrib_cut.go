package ops

// cutFusedConv: as Conv; the tensor that is added, input 3, has the shape of the output.
func cutFusedConv(c *Call, axis int) *Cut {
	cut := cutConv(0, 1, channelsFirst, 2)(c, axis)
	if cut != nil && c.Has(3) {
		cut.In[3] = Same(axis, c.length(3, axis))
	}
	return cut
}

// cutFusedMatMul: as MatMul, unless an operand is transposed.
func cutFusedMatMul(c *Call, axis int) *Cut {
	for _, name := range []string{"transA", "transB", "transBatchA", "transBatchB"} {
		if c.Int(name, 0) != 0 {
			return nil
		}
	}
	return cutMatMul(c, axis)
}

// cutSkipNorm: all axes but the last. Inputs of one axis are read whole.
func cutSkipNorm(c *Call, axis int) *Cut {
	rank := len(c.In[0].Shape)
	if axis >= rank-1 {
		return nil
	}
	cut := c.cut(axis)
	for i := range c.In {
		cut.In[i] = c.broadcastRows(i, axis, rank)
	}
	return cut
}

// cutPackedProduct: the rows of input 0. Its packed weights are read whole.
func cutPackedProduct(c *Call, axis int) *Cut {
	rank := len(c.Out[0].Shape)
	if axis >= rank-1 || len(c.In[0].Shape) != rank {
		return nil
	}
	cut := c.cut(axis)
	cut.In[0] = Same(axis, c.length(0, axis))
	return cut
}

// cutIntegerProduct returns the column Cut of a product of integers a and b: as MatMul.
// Scales and zero points of a, ofA, have one element or one for each of its rows, those
// of b, ofB, one for each of its columns. Any other shape keeps the product whole.
func cutIntegerProduct(a, b int, ofA, ofB []int) func(c *Call, axis int) *Cut {
	return func(c *Call, axis int) *Cut {
		two := *c
		two.In = []Arg{c.In[a], c.In[b]}
		of := cutMatMul(&two, axis)
		if of == nil {
			return nil
		}
		cut, rank := c.cut(axis), len(c.Out[0].Shape)
		cut.In[a], cut.In[b] = of.In[0], of.In[1]
		for i, list := range [][]int{ofA, ofB} {
			for _, scale := range list {
				if !c.Has(scale) || isOne(c.In[scale].Shape) {
					continue
				}
				if len(c.In[scale].Shape) != 1 {
					return nil
				}
				if axis == rank-2+i {
					cut.In[scale] = Same(0, c.length(scale, 0))
				}
			}
		}
		return cut
	}
}

// cutDeformConv: images, each of which has its own offsets and factors.
func cutDeformConv(c *Call, axis int) *Cut {
	if axis != 0 {
		return nil
	}
	cut := c.cut(axis)
	for _, i := range []int{0, 2, 4} {
		if c.Has(i) {
			cut.In[i] = Same(0, c.length(i, 0))
		}
	}
	return cut
}

// cutBiased: input 1, if there is one, is a row that is added to the last axis.
func cutBiased(c *Call, axis int) *Cut {
	rank, cut := len(c.Out[0].Shape), c.cut(axis)
	for i := range c.In {
		cut.In[i] = c.broadcastRows(i, axis, rank)
	}
	return cut
}

package autodiff

// detGrad is the matrix of cofactors, each the determinant of a minor: unlike det · A⁻ᵀ,
// it exists for singular matrices, too, and Det is all that it needs. A matrix of n rows
// has n² minors.
func detGrad(c *Backward) {
	shape := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	batch, n := shape[:len(shape)-2], shape[len(shape)-1]
	d := c.reshape(c.D(0), concat(batch, []int64{1, 1}))
	if n < 2 {
		c.Set(0, c.expand(d, shape))
		return
	}
	if exceeds(maxMask, elements(batch), n, n, n, n) {
		c.Failf("the minors of matrices of shape %v have %d times the elements: expected at most %d elements", shape, n*n, maxMask)
		return
	}
	others, signs := make([]int64, 0, n*(n-1)), make([]float64, 0, n*n)
	for i := range n {
		for j := range n {
			if j != i {
				others = append(others, j)
			}
			signs = append(signs, float64(1-2*((i+j)%2)))
		}
	}
	but := c.reshape(c.list(others...), []int64{n, n - 1})
	k := len(batch)
	// [..., row left out, other rows, column left out, other columns]
	t := c.with("Gather", attrs{"axis": k + 2}, c.with("Gather", attrs{"axis": k}, c.X(0), but), but)
	t = c.transpose(t, concat(axes(0, k), []int64{int64(k), int64(k + 2), int64(k + 1), int64(k + 3)})...)
	cofactors := c.mul(c.op("Det", t), c.reals(c.typeOf(d).Elem, []int64{n, n}, signs))
	c.Set(0, c.mul(d, cofactors))
}

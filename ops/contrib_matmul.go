package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// product returns the Infer of a matrix product by numpy's rules, of inputs a and
// b transposed by the attributes transA, transB, transBatchA and transBatchB. The
// result has the element type of input elem, or int32.
func product(a, b, elem int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(max(a, b, elem) + 1); err != nil {
			return err
		}
		result := graph.Int32
		if elem >= 0 {
			result = c.In[elem].Elem
		}
		for _, i := range []int{a, b} {
			if err := c.MinRank(i, 1); err != nil {
				return err
			}
		}
		if !c.In[a].Ranked || !c.In[b].Ranked {
			c.SetUnranked(0, result)
			return nil
		}
		x := transposed(c.In[a].Shape, c.Int("transA", 0) != 0, c.Int("transBatchA", 0) != 0)
		y := transposed(c.In[b].Shape, c.Int("transB", 0) != 0, c.Int("transBatchB", 0) != 0)
		shape, ok := productShape(x, y)
		if !ok {
			return c.BadInput(b, "one that can be multiplied with input %d %s", a, graph.ShapeString(c.In[a].Shape))
		}
		c.Set(0, result, shape)
		return nil
	}
}

// transposed is the shape of an operand of FusedMatMul: batch moves the first
// axis behind the other batch axes, then last swaps the last two axes.
func transposed(shape []graph.Dim, last, batch bool) []graph.Dim {
	s := slices.Clone(shape)
	n := len(s)
	if n < 2 {
		return s
	}
	if batch {
		s = slices.Concat(s[1:n-1], s[:1], s[n-1:])
	}
	if last {
		s[n-1], s[n-2] = s[n-2], s[n-1]
	}
	return s
}

// productShape is the shape of a product of two stacks of matrices; a vector
// is a row on the left, a column on the right. Neither is a scalar.
func productShape(x, y []graph.Dim) ([]graph.Dim, bool) {
	row, column := len(x) == 1, len(y) == 1
	if row {
		x = []graph.Dim{1, x[0]}
	}
	if column {
		y = []graph.Dim{y[0], 1}
	}
	nx, ny := len(x), len(y)
	shape, _, ok := Broadcast(x[:nx-2], y[:ny-2])
	if !ok || differ(x[nx-1], y[ny-2]) {
		return nil, false
	}
	shape = slices.Clip(shape)
	if !row {
		shape = append(shape, x[nx-2])
	}
	if !column {
		shape = append(shape, y[ny-1])
	}
	return shape, true
}

// productFLOPs counts a multiply-add for each output element and each element of
// the contracted axis.
func productFLOPs(c *Call) int64 {
	summed := c.DimOf(0, -1)
	if c.Int("transA", 0) != 0 {
		summed = c.DimOf(0, -2)
	}
	return opCount(2, elements(c.OutType(0)), summed)
}

// gemmShape sets output 0 to the product of two matrices.
func gemmShape(c *Call, a, b, bias int, elem graph.DType) error {
	for _, i := range []int{a, b} {
		if err := c.WantRank(i, 2); err != nil {
			return err
		}
	}
	m, k := c.DimOf(a, 0), c.DimOf(a, 1)
	if c.Int("transA", 0) != 0 {
		m, k = k, m
	}
	j, n := c.DimOf(b, 0), c.DimOf(b, 1)
	if c.Int("transB", 0) != 0 {
		j, n = n, j
	}
	if differ(k, j) {
		return c.BadInput(b, "one that can be multiplied with input %d %s", a, graph.ShapeString(c.In[a].Shape))
	}
	shape := []graph.Dim{m, n}
	if added := c.Arg(bias); added.Present && added.Ranked {
		whole, _, ok := Broadcast(shape, added.Shape)
		if !ok || len(whole) != 2 || differ(whole[0], m) || differ(whole[1], n) {
			return c.BadInput(bias, "one that broadcasts to %s", graph.ShapeString(shape))
		}
	}
	c.Set(0, elem, shape)
	return nil
}

func fusedGemm(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1, 2); err != nil {
		return err
	}
	return gemmShape(c, 0, 1, 2, c.In[0].Elem)
}

// quantizedGemm covers QGemm: a scale and zero point follow each matrix. The
// result is float32 unless the output's zero point is present.
func quantizedGemm(c *Call) error {
	if err := c.Tensors(6); err != nil {
		return err
	}
	elem := graph.Float32
	if c.Has(8) {
		elem = c.In[8].Elem
	}
	return gemmShape(c, 0, 3, 6, elem)
}

// checkQuantizedGemm: a and the output have one scale and zero point, b has one or one
// for each column.
func checkQuantizedGemm(c *Call) error {
	if c.Has(7) != c.Has(8) {
		return c.Errf("the scale and the zero point of the output are used together: expected both or none")
	}
	for _, i := range []int{1, 2, 7, 8} {
		if err := c.needOneElement(i, "scale or zero point"); err != nil {
			return err
		}
	}
	for i := 4; i < 6; i++ {
		if err := c.needOneElementOr(i, c.Out[0].Shape[1], "column"); err != nil {
			return err
		}
	}
	return nil
}

// checkScaledProduct returns the Check of a product of integers that is scaled to reals.
// The scale of the left side, input a (below 0: none), and its zero point, two inputs
// behind, have one element. Those of the right side, at input b and as far behind, have
// one, or one for each column. The bias has one for each column.
func checkScaledProduct(a, b, bias int) func(c *Call) error {
	return func(c *Call) error {
		for _, name := range []string{"transA", "transB", "transBatchA", "transBatchB"} {
			if c.HasAttr(name) {
				return c.Errf("attribute %s, expected none", name)
			}
		}
		zero := b + 1
		if a >= 0 {
			zero = b + 2
			for _, i := range []int{a, a + 2} {
				if err := c.needOneElement(i, "scale or zero point of input 0"); err != nil {
					return err
				}
			}
		}
		for _, i := range []int{b, zero} {
			if err := c.needPerLine(i, 1, 1, "column"); err != nil {
				return err
			}
		}
		return c.WantShape(bias, "one for each column of input 1", c.DimOf(1, -1))
	}
}

// packedProduct returns the Infer of a product with packed weights, whose shape
// only the attributes give: input [… K]. Along the last axis, output k has the
// length given by attribute widths[k]; if that is "", it has the input's shape.
func packedProduct(widths ...string) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(1); err != nil {
			return err
		}
		if err := c.MinRank(0, 1); err != nil {
			return err
		}
		k, err := c.Positive("K", 0)
		if err != nil {
			return err
		}
		a := c.In[0]
		if differ(c.DimOf(0, -1), graph.Dim(k)) {
			return c.BadInput(0, "length K %d along the last axis", k)
		}
		for o, attr := range widths {
			if attr == "" {
				c.SetType(o, a.Type)
				continue
			}
			n, err := c.Positive(attr, 0)
			if err != nil {
				return err
			}
			if a.Ranked {
				c.Set(o, a.Elem, with(a.Shape, len(a.Shape)-1, graph.Dim(n)))
			} else {
				c.SetUnranked(o, a.Elem)
			}
		}
		return nil
	}
}

// matMulFpQ4 covers MatMulFpQ4: the shape of the packed weights is an input.
func matMulFpQ4(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	if err := c.MinRank(0, 1); err != nil {
		return err
	}
	a := c.In[0]
	if !a.Ranked {
		c.SetUnranked(0, a.Elem)
		return nil
	}
	if differ(c.DimOf(0, -1), c.LengthOf(2, 0)) {
		return c.BadInput(0, "length %s along the last axis to match the weights", c.LengthOf(2, 0))
	}
	c.Set(0, a.Elem, with(a.Shape, len(a.Shape)-1, c.LengthOf(2, 1)))
	return nil
}

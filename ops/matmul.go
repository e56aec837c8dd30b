package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// products are the operators of linear algebra.
var products = family{"", []Op{
	{Name: "MatMul", Class: Product, Precision: Half, Form: Matrices, Applies: true, Infer: inferMatMul, Cut: cutMatMul, Sum: sumMatMul, FLOPs: flopsMatMul(1), Weights: []int{0, 1}, Kinds: []string{"product"}, Joins: true},
	{Name: "Gemm", Class: Product, Precision: Half, Form: Matrices, Applies: true, Infer: inferGemm, Inplace: overGemmAddend, Cut: cutGemm, Sum: sumGemm, FLOPs: flopsGemm, Weights: []int{0, 1, 2}, Kinds: []string{"product", "product", "bias"}, Biases: []int{2}, Joins: true},
	{Name: "Det", Class: Other, Infer: inferDet},
}}

func inferMatMul(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	return matMul(c, 0, 1, c.In[0].Elem)
}

// matMul sets output 0 to numpy's matmul of inputs a and b: a vector is a row on
// the left and a column on the right.
func matMul(c *Call, a, b int, elem graph.DType) error {
	for _, i := range []int{a, b} {
		if err := c.MinRank(i, 1); err != nil {
			return err
		}
	}
	if !c.In[a].Ranked || !c.In[b].Ranked {
		c.SetUnranked(0, elem)
		return nil
	}
	x, y := c.In[a].Shape, c.In[b].Shape
	if k, rows := c.DimOf(a, -1), y[max(len(y)-2, 0)]; differ(k, rows) {
		return c.BadInput(b, "%v rows to match input %d %s", k, a, graph.ShapeString(x))
	}
	shape, axis, ok := Broadcast(x[:max(len(x)-2, 0)], y[:max(len(y)-2, 0)])
	if !ok {
		return c.BadInput(b, "one that broadcasts with input %d %s (axis %d from the right)", a, graph.ShapeString(x), axis+2)
	}
	if len(x) > 1 {
		shape = append(shape, x[len(x)-2])
	}
	if len(y) > 1 {
		shape = append(shape, y[len(y)-1])
	}
	c.Set(0, elem, shape)
	return nil
}

// cutMatMul: rows come from input 0, columns from input 1, batches from both.
func cutMatMul(c *Call, axis int) *Cut {
	x, y, rank := c.In[0].Shape, c.In[1].Shape, len(c.Out[0].Shape)
	if len(x) < 2 || len(y) < 2 {
		return nil
	}
	cut := c.cut(axis)
	switch axis {
	case rank - 2:
		cut.In[0] = Same(len(x)-2, c.length(0, len(x)-2))
	case rank - 1:
		cut.In[1] = Same(len(y)-1, c.length(1, len(y)-1))
	default:
		cut.In[0], cut.In[1] = c.broadcastRows(0, axis, rank), c.broadcastRows(1, axis, rank)
	}
	return cut
}

// sumMatMul: the sum over columns of input 0 and rows of input 1.
func sumMatMul(c *Call, _ []int) *Sum {
	x, y := c.In[0].Shape, c.In[1].Shape
	if len(x) < 2 || len(y) < 2 {
		return nil
	}
	k := c.length(0, len(x)-1)
	return &Sum{By: "Add", In: []Rows{Same(len(x)-1, k), Same(len(y)-2, k)}, Length: k}
}

// cutGemm: rows come from inputs 0 and 2, columns from inputs 1 and 2.
func cutGemm(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	from := c.gemmAxis(axis)
	if axis == 1 {
		from = 1 - from
	}
	cut.In[axis] = Same(from, c.length(axis, from))
	if c.Has(2) {
		cut.In[2] = c.broadcastRows(2, axis, 2)
	}
	return cut
}

// gemmAxis is the axis of factor i (0 or 1) that is not summed over if the factor is
// input 0, and that is if it is input 1.
func (c *Call) gemmAxis(i int) int {
	if c.Int([]string{"transA", "transB"}[i], 0) != 0 {
		return 1
	}
	return 0
}

// sumGemm: the sum over columns of the first factor and rows of the second. A third
// input would be added by each copy.
func sumGemm(c *Call, _ []int) *Sum {
	if c.Has(2) {
		return nil
	}
	a, b := 1-c.gemmAxis(0), c.gemmAxis(1)
	k := c.length(0, a)
	sum := &Sum{By: "Add", In: []Rows{Same(a, k), Same(b, k)}, Length: k, Third: true}
	for len(sum.In) < len(c.In) {
		sum.In = append(sum.In, All())
	}
	return sum
}

// flopsMatMul counts two operations for each element of the output and of the
// contracted axis; b is the second factor.
func flopsMatMul(b int) func(c *Call) int64 {
	return func(c *Call) int64 {
		k := c.DimOf(0, -1)
		if !k.Exact() && c.Arg(b).Ranked {
			k = c.DimOf(b, max(len(c.In[b].Shape)-2, 0))
		}
		return opCount(2, elements(c.OutType(0)), k)
	}
}

// inferGemm: A and B may be transposed; C broadcasts to the output and is
// optional from opset 11 on.
func inferGemm(c *Call) error {
	inputs := 2
	if c.before(11) {
		inputs = 3
	}
	if err := c.Tensors(inputs); err != nil {
		return err
	}
	if err := c.sameElem(0, 1, 2); err != nil {
		return err
	}
	for i := range 2 {
		if err := c.WantRank(i, 2); err != nil {
			return err
		}
	}
	m, k := gemmDims(c, 0, "transA")
	rows, n := gemmDims(c, 1, "transB")
	if differ(k, rows) {
		return c.BadInput(1, "%v on the axis summed over to match input 0 %s (transA %d, transB %d)", k,
			graph.ShapeString(c.In[0].Shape), c.Int("transA", 0), c.Int("transB", 0))
	}
	shape := []graph.Dim{m, n}
	if c.Has(2) && c.In[2].Ranked {
		wide, _, ok := Broadcast(shape, c.In[2].Shape)
		if !ok || len(wide) > 2 || differ(wide[0], m) || differ(wide[1], n) {
			return c.BadInput(2, "one that broadcasts to %s", graph.ShapeString(shape))
		}
	}
	c.Set(0, c.In[0].Elem, shape)
	return nil
}

// gemmDims returns the rows and columns of a factor after transposition.
func gemmDims(c *Call, i int, transposed string) (rows, columns graph.Dim) {
	rows, columns = c.DimOf(i, 0), c.DimOf(i, 1)
	if c.Int(transposed, 0) != 0 {
		return columns, rows
	}
	return rows, columns
}

// overGemmAddend: kernels of float32 add to what the output holds.
func overGemmAddend(c *Call) []graph.Alias {
	if len(c.Out) == 0 || c.Out[0].Elem != graph.Float32 {
		return nil
	}
	return overAddend2(c)
}

func flopsGemm(c *Call) int64 {
	_, k := gemmDims(c, 0, "transA")
	if !k.Exact() {
		k, _ = gemmDims(c, 1, "transB")
	}
	return opCount(2, elements(c.OutType(0)), k)
}

// inferDet: one number for each square matrix in the last two axes.
func inferDet(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	in := c.In[0]
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	if differ(c.DimOf(0, -1), c.DimOf(0, -2)) {
		return c.BadInput(0, "square matrices on the last two axes")
	}
	c.Set(0, in.Elem, slices.Clone(in.Shape[:len(in.Shape)-2]))
	return nil
}

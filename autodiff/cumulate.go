package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// cumulateRules cover running sums and products along an axis.
var cumulateRules = []Rule{
	{Op: "CumSum", Inputs: []int{0}, Grad: func(c *Backward) {
		a := attrs{"exclusive": c.Int("exclusive", 0), "reverse": 1 - c.Int("reverse", 0)}
		c.Set(0, c.with("CumSum", a, c.D(0), c.X(1)))
	}},
	{Op: "CumProd", Inputs: []int{0}, Grad: cumProdGrad},
}

// cumProdGrad: let P[k] be the product of the elements before k. Element k has the gradient
// P[k] · R[k]. R[k] = d[k] + x[k+1] · R[k+1] sums the gradients of all products that contain
// it, each without the elements up to k. So no element is divided by, and zeros are no
// exception. A Scan along the axis computes R from the end.
func cumProdGrad(c *Backward) {
	x, d := c.X(0), c.D(0)
	shape, at := c.shape(x), c.Length(1)
	if c.err != nil {
		return
	}
	axis, err := attr.Axis("axis", at, len(shape))
	if err != nil {
		c.Failf("%w", err)
		return
	}
	reverse, n := c.Int("reverse", 0), shape[axis]
	if elements(shape) == 0 {
		c.Set(0, d)
		return
	}
	// moved shifts t by one element along the axis: towards the end of the products, or
	// towards their beginning. The free place becomes 0.
	moved := func(t ID, later bool) ID {
		pads := make([]int64, 2*len(shape))
		end := int64(1)
		if later == (reverse == 0) {
			pads[axis], end = 1, -1
		} else {
			pads[len(shape)+axis], end = 1, 1
		}
		return c.op("Pad", c.slice(t, []int64{int64(axis)}, []int64{max(end, 0)}, []int64{min(n, n-max(-end, 0))}), c.list(pads...))
	}
	if c.Int("exclusive", 0) != 0 {
		d = moved(d, false) // each result stands for the product up to the element before it
	}
	front := concat([]int64{int64(axis)}, axes(0, axis), axes(axis+1, len(shape)-axis-1))
	back := concat(axes(1, axis), []int64{0}, axes(axis+1, len(shape)-axis-1))
	sums := c.recurrence(c.transpose(moved(x, false), front...), c.transpose(d, front...), 1-reverse)
	before := c.with("CumProd", attrs{"exclusive": 1, "reverse": reverse}, x, c.X(1))
	c.Set(0, c.mul(before, c.transpose(sums, back...)))
}

// recurrence returns r[k] = b[k] + a[k] · r of the place before it, along axis 0; in
// reverse, of the place behind it.
func (c *Backward) recurrence(a, b ID, reverse int64) ID {
	shape := c.shape(b)
	if c.err != nil {
		return graph.None
	}
	row := c.typeOf(b)
	row.Shape = toDims(shape[1:])
	body := c.newBody("recurrence")
	state, factor, term := body.input("state", row), body.input("factor", row), body.input("term", row)
	next := body.add(term, body.mul(factor, state))
	body.finish([]ID{next, body.op("Identity", next)})
	list := attrs{"num_scan_inputs": 2, "scan_input_directions": []int64{reverse, reverse}, "scan_output_directions": []int64{reverse}}
	types := []graph.Type{row, c.typeOf(b)}
	return c.emitBody("Scan", list.list(), map[string]*graph.Graph{"body": body.g}, types, c.zeros(b, shape[1:]...), a, b)[1]
}

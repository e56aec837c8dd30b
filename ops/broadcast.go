package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// broadcastBinary: two inputs of one element type, broadcast.
func broadcastBinary(c *Call) error {
	if err := c.takes(2, 2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	elem := c.In[0].Elem
	if elem == graph.Undefined {
		elem = c.In[1].Elem
	}
	return broadcastPair(c, elem)
}

// broadcastPair sets output 0 to elem and the broadcast shape of both inputs.
// Before opset 7 only the second input is broadcast, and only if the node says
// so.
func broadcastPair(c *Call, elem graph.DType) error {
	if c.before(7) {
		return broadcastLegacy(c, elem)
	}
	return broadcastTo(c, elem, 0, 1)
}

// broadcastTo sets output 0 to elem and the broadcast shape of the inputs.
func broadcastTo(c *Call, elem graph.DType, inputs ...int) error {
	shape, ranked, err := c.BroadcastArgs(inputs...)
	if err != nil {
		return err
	}
	if !ranked {
		c.SetUnranked(0, elem)
		return nil
	}
	c.Set(0, elem, shape)
	return nil
}

// broadcastLegacy is the rule of opsets 1 to 6: both shapes are equal, or with
// broadcast=1 the second is one element or a run of the first's axes that
// starts at axis (default: its last ones).
func broadcastLegacy(c *Call, elem graph.DType) error {
	a, b := c.In[0].Type, c.In[1].Type
	c.setLike(0, 0, elem)
	if !a.Ranked || !b.Ranked || c.Int("broadcast", 0) != 0 && mayBeOne(b.Shape) {
		return nil
	}
	from := len(a.Shape) - len(b.Shape)
	if c.Int("broadcast", 0) == 0 {
		if from != 0 {
			return c.BadInput(1, "%s as input 0 (opsets before 7 broadcast only with broadcast=1)", graph.ShapeString(a.Shape))
		}
	} else if axis := c.Node.Attr("axis"); axis != nil {
		if from < 0 || axis.Int < -int64(len(a.Shape)) || axis.Int > int64(from) {
			return c.BadInput(1, "axes of input 0 %s from axis %d on", graph.ShapeString(a.Shape), axis.Int)
		}
		from = int(axis.Int)
		if from < 0 {
			from += len(a.Shape)
		}
	}
	if from < 0 || from+len(b.Shape) > len(a.Shape) {
		return c.BadInput(1, "no more axes than input 0 %s", graph.ShapeString(a.Shape))
	}
	shape := slices.Clone(a.Shape)
	for i, d := range b.Shape {
		if !SameDim(shape[from+i], d) {
			return c.BadInput(1, "%s as axes %d to %d of input 0", graph.ShapeString(a.Shape[from:from+len(b.Shape)]), from, from+len(b.Shape)-1)
		}
		shape[from+i] = TakeDim(shape[from+i], d)
	}
	c.Set(0, elem, shape)
	return nil
}

// isOne reports whether a shape has exactly one element.
func isOne(shape []graph.Dim) bool {
	return !slices.ContainsFunc(shape, func(d graph.Dim) bool { return d != 1 })
}

// mayBeOne reports whether a shape has one element, or may have one at run time.
func mayBeOne(shape []graph.Dim) bool {
	return !slices.ContainsFunc(shape, func(d graph.Dim) bool { return !SameDim(d, 1) })
}

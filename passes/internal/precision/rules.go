package precision

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// noFloat is the reason why a node that reads no float32 stays as it is.
const noFloat = "it is made of no float32"

// lead is the first input that decides the type in which a node computes, -1 if there is none.
func (c *caster) lead(n *graph.Node) int {
	for i, t := range n.Inputs {
		if t >= 0 && c.was[t] && !ops.Stands(n, i) {
			return i
		}
	}
	return -1
}

// why says why a node computes in float32; "" if it computes in 16 bits.
func (c *caster) why(n *graph.Node, lead int, version int64) string {
	precision, what := ops.PrecisionOf(n), n.OpName()
	if m, grouped := c.groups[n]; grouped {
		precision, what = ops.Full, m.what
	}
	kept := c.keeps(n)
	switch {
	case lead < 0:
		return noFloat
	case kept:
		return "--keep matches it"
	case precision == ops.Full && len(n.Bodies()) > 0:
		return "bodies compute in float32"
	case precision == ops.Full:
		return what + " computes in float32"
	case !ops.Permits(n, version, lead, c.opt.Type):
		return fmt.Sprintf("opset %d does not permit %v for %s", version, c.opt.Type, what)
	}
	for i, t := range n.Inputs {
		if t >= 0 && !c.was[t] && ops.Alike(n, version, i, lead) {
			return fmt.Sprintf("input %d, %s, is %v", i, graph.Short(c.g.Tensors[t].Name), c.g.Tensors[t].Type)
		}
	}
	if precision == ops.Half {
		return ""
	}
	return c.widest(n, lead, version)
}

// keeps reports whether Options.Keep matches a node, what it makes or an initializer that it
// reads.
func (c *caster) keeps(n *graph.Node) bool {
	if c.opt.Keep == nil {
		return false
	}
	is := n.Name != "" && c.opt.Keep.MatchString(n.Name)
	for _, t := range n.Outputs {
		is = is || t >= 0 && c.opt.Keep.MatchString(c.g.Tensors[t].Name)
	}
	for _, t := range n.Inputs {
		is = is || t >= 0 && c.g.Tensors[t].Data != nil && c.opt.Keep.MatchString(c.g.Tensors[t].Name)
	}
	c.matched = c.matched || is
	return is
}

// widest says why the widest type of the inputs of a node is float32, "" if it is not.
func (c *caster) widest(n *graph.Node, lead int, version int64) string {
	strong := false
	var weak []graph.TensorID
	for i, t := range n.Inputs {
		switch {
		case t < 0 || !c.was[t] || !ops.Alike(n, version, i, lead):
		case ops.Stands(n, i), c.number(t), c.bias(n, i):
			weak = append(weak, t)
		case c.elem(t) == graph.Float32:
			return fmt.Sprintf("input %d, %s, is float32", i, graph.Short(c.g.Tensors[t].Name))
		default:
			strong = true
		}
	}
	for _, t := range weak {
		if !strong && c.elem(t) == graph.Float32 {
			return fmt.Sprintf("%s, a single number, is float32", graph.Short(c.g.Tensors[t].Name))
		}
		list, _ := c.values[t].Floats()
		for _, x := range list {
			if !Fits(x, c.opt.Type) {
				return fmt.Sprintf("%v cannot hold %s, %g", c.opt.Type, graph.Short(c.g.Tensors[t].Name), x)
			}
		}
	}
	return ""
}

// number reports whether a tensor takes the type of what it is computed with: one without
// axes, as in PyTorch, or a constant of one element, which a number of the program has become.
func (c *caster) number(t graph.TensorID) bool {
	typ := c.g.Tensors[t].Type
	if typ.Ranked && len(typ.Shape) == 0 {
		return true
	}
	list, known := c.values[t].Floats()
	return known && len(list) == 1
}

// bias reports whether input i of a node is added to a product as its bias: the two are one
// function in PyTorch.
func (c *caster) bias(n *graph.Node, i int) bool {
	op := ops.Lookup(n.Domain, n.Op)
	if len(n.Inputs) != 2 || op.Kind(i) != "bias" {
		return false
	}
	t, other := c.g.Tensors[n.Inputs[i]], n.Inputs[1-i]
	if t.Data == nil || other < 0 || !c.product[other] {
		return false
	}
	long := 0
	for _, d := range t.Type.Shape {
		if d != 1 {
			long++
		}
	}
	return long <= 1
}

// Fits reports whether a 16-bit type can hold a number: it is rounded, but neither to
// infinity nor, if it is not 0, to 0.
func Fits(x float64, elem graph.DType) bool {
	least, most := 0x1p-25, 65520.0 // half of the smallest number above 0; halfway to what follows the largest
	if elem == graph.BFloat16 {
		least, most = 0x1p-134, 0x1.ffp127
	}
	a := math.Abs(x)
	return a == 0 || math.IsInf(x, 0) || math.IsNaN(x) || a > least && a < most
}

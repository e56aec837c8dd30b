package regions

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// lengths: role shape. Shape reads the lengths of the first rows of T, and Add gives their axis
// its own length: the lengths of T, whatever the others are.
func (c *sliced) lengths(p *sliceNode, n *graph.Node) string {
	of, wrong := c.role(p)
	if wrong != "" {
		return wrong
	}
	next := contents{}
	switch n.Op {
	case "Shape":
		if wrong := plainNode(n, "", "Shape", 1, 0); wrong != "" {
			return wrong
		}
		part := c.b.relative(c.holds[n.Inputs[0]], of)
		switch {
		case part.kind == hasFault:
			return c.skipped(p, n)
		case part.kind != hasRows || part.of != of || part.axis == none:
			return fmt.Sprintf("input 0: expected rows of %q, found %s%s", graph.Short(p.tensor), c.b.text(part), c.made(n.Inputs[0]))
		}
		rows := part.hi
		if part.lo != anyRow {
			rows -= part.lo
		}
		next = contents{kind: hasLengths, of: of, axis: part.axis, hi: rows}
	default:
		if wrong := plainNode(n, "", "Add", 2, 0); wrong != "" {
			return wrong
		}
		rows := c.holds[n.Inputs[0]]
		if rows.kind == hasFault {
			return c.skipped(p, n)
		}
		shape := c.b.shape(of)
		if rows.kind != hasLengths || rows.of != of || rows.axis == none {
			return fmt.Sprintf("input 0: expected the lengths of rows of %q, found %s%s", graph.Short(p.tensor), c.b.text(rows), c.made(n.Inputs[0]))
		}
		want := make([]int64, len(shape))
		want[rows.axis] = shape[rows.axis] - rows.hi
		if list, _ := c.vector(n.Inputs[1]); !slices.Equal(list, want) {
			return fmt.Sprintf("input 1: expected %v, what %d rows of axis %d of %q lack, found %v%s", want, rows.hi, rows.axis, graph.Short(p.tensor), list, c.made(c.g.Nodes[c.g.Tensors[n.Inputs[0]].Maker].Inputs[0]))
		}
		next = contents{kind: hasLengths, of: of, axis: none}
	}
	if wrong := c.inSlice(p, n.Inputs[0], false); wrong != "" {
		return "input 0: " + wrong
	}
	c.holds[n.Outputs[0]] = next
	return ""
}

// lengthsOf says what is wrong with the lengths of T in a tensor: a constant, or what nodes of
// role shape make.
func (c *sliced) lengthsOf(p *sliceNode, t, of graph.TensorID) string {
	if c.holds[t].kind == hasFault {
		return "" // reported
	}
	if x := c.holds[t]; x.kind == hasLengths && x.of == of && x.axis == none {
		return c.inSlice(p, t, false)
	}
	list, _ := c.vector(t)
	if want := c.b.shape(of); !slices.Equal(list, want) {
		return fmt.Sprintf("expected the shape of %q, %v, found %v", graph.Short(p.tensor), want, list)
	}
	return ""
}

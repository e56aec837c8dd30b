package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// Tensors fails if one of the first n inputs is missing, or if a present input is
// known not to be a tensor.
func (c *Call) Tensors(n int) error {
	if err := c.Need(n); err != nil {
		return err
	}
	for i := range c.In {
		if k := c.In[i].Kind; c.In[i].Present && k != graph.KindTensor && k != graph.KindUnknown {
			return c.BadInput(i, "a tensor")
		}
	}
	return nil
}

// WantRank fails if input i is present and its rank is known, but is not one of
// ranks.
func (c *Call) WantRank(i int, ranks ...int) error {
	a := c.Arg(i)
	switch {
	case !a.Present || !a.Ranked || slices.Contains(ranks, len(a.Shape)):
		return nil
	case len(ranks) == 1:
		return c.BadInput(i, "rank %d", ranks[0])
	}
	return c.BadInput(i, "rank %d or %d", ranks[0], ranks[len(ranks)-1])
}

// MinRank fails if input i is present and its rank is known to be less than rank.
func (c *Call) MinRank(i, rank int) error {
	if a := c.Arg(i); a.Present && a.Ranked && len(a.Shape) < rank {
		return c.BadInput(i, "at least rank %d", rank)
	}
	return nil
}

// WantShape fails if input i is present and its shape contradicts want: another
// rank, or two exact lengths that differ. why describes the expected shape in the
// message.
func (c *Call) WantShape(i int, why string, want ...graph.Dim) error {
	a := c.Arg(i)
	if !a.Present || !a.Ranked {
		return nil
	}
	if len(a.Shape) != len(want) {
		return c.BadInput(i, "%s: %s", graph.ShapeString(want), why)
	}
	for k, d := range a.Shape {
		if differ(d, want[k]) {
			return c.BadInput(i, "%s: %s", graph.ShapeString(want), why)
		}
	}
	return nil
}

// differ reports whether two lengths are exact and different.
func differ(a, b graph.Dim) bool { return a.Exact() && b.Exact() && a != b }

// DimOf is the length of an axis of input i; negative axes count from the last.
// It is unknown if nothing is known of the axis.
func (c *Call) DimOf(i, axis int) graph.Dim {
	a := c.Arg(i)
	if axis < 0 {
		axis += len(a.Shape)
	}
	if !a.Ranked || axis < 0 || axis >= len(a.Shape) {
		return graph.Unknown
	}
	return a.Shape[axis]
}

// DivDim is the length of each of n equal parts of an axis. ok is false if n does
// not divide an exact length.
func DivDim(d graph.Dim, n int64) (part graph.Dim, ok bool) {
	if n <= 0 || d.Exact() && int64(d)%n != 0 {
		return graph.Unknown, false
	}
	return Mono(d, func(k int64) int64 { return k / n }), true
}

// LengthOf is element at of the value of input i as a length; unknown if the
// value is not known.
func (c *Call) LengthOf(i, at int) graph.Dim {
	v := c.Arg(i).Value
	if v == nil || at >= len(v.Elems) {
		return graph.Unknown
	}
	return v.Elems[at].Dim()
}

// OneOf is attr.OneOf of the node.
func (c *Call) OneOf(name, otherwise string, words ...string) (string, error) {
	return attr.OneOf(c.Node, name, otherwise, words...)
}

// Positive is attr.Positive of the node.
func (c *Call) Positive(name string, otherwise int64) (int64, error) {
	return attr.Positive(c.Node, name, otherwise)
}

// unknowns is a shape of unknown lengths.
func unknowns(rank int) []graph.Dim {
	return slices.Repeat([]graph.Dim{graph.Unknown}, rank)
}

// with is a copy of shape with other lengths from axis on.
func with(shape []graph.Dim, axis int, lengths ...graph.Dim) []graph.Dim {
	s := slices.Clone(shape)
	copy(s[axis:], lengths)
	return s
}

// perElement is n operations for each element of input 0.
func perElement(n int64) func(c *Call) int64 {
	return func(c *Call) int64 { return opCount(graph.Dim(n), elements(c.Arg(0).Type)) }
}

// OutType is the type of output i, the zero Type when the output is left out.
func (c *Call) OutType(i int) graph.Type {
	if i < len(c.Out) && c.Out[i].Present {
		return c.Out[i].Type
	}
	return graph.Type{}
}

// elements is the number of elements of a tensor as a length.
func elements(t graph.Type) graph.Dim {
	if !t.Ranked {
		return graph.Unknown
	}
	return countOf(t.Shape)
}

// opCount is the product of lengths as a number of operations, 0 when one of
// them is not exact or it overflows.
func opCount(lengths ...graph.Dim) int64 {
	if n := countOf(lengths); n.Exact() {
		return int64(n)
	}
	return 0
}

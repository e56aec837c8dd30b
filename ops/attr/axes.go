package attr

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Axis returns the axis of a tensor of the given rank that axis means: a
// negative one counts from the back. It fails unless axis is in [-rank, rank).
// name stands in the error.
func Axis(name string, axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, graph.Errorf("%s is %d, expected one of [%d, %d) for rank %d", name, axis, -rank, rank, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// Axes applies Axis to a list. It fails if an axis occurs twice.
func Axes(name string, axes []int64, rank int) ([]int, error) {
	out := make([]int, 0, len(axes))
	seen := make([]bool, rank)
	for _, a := range axes {
		k, err := Axis(name, a, rank)
		if err != nil {
			return nil, err
		}
		if seen[k] {
			return nil, graph.Errorf("%s names axis %d twice", name, k)
		}
		seen[k] = true
		out = append(out, k)
	}
	return out, nil
}

// AxisSet reports for each axis whether the list names it. As in runtimes, an
// axis may occur twice, and a scalar has an axis 0.
func AxisSet(name string, axes []int64, rank int) ([]bool, error) {
	set := make([]bool, rank)
	for _, a := range axes {
		k, err := Axis(name, a, max(rank, 1))
		if err != nil {
			return nil, err
		}
		if rank > 0 {
			set[k] = true
		}
	}
	return set, nil
}

// AxesOr returns the axes that a list attribute names, in its order; those of
// otherwise if the node does not have it.
func AxesOr(n *graph.Node, name string, rank int, otherwise ...int64) ([]int, error) {
	a := n.Attr(name)
	if a == nil {
		return Axes(name, otherwise, rank)
	}
	if a.Type != graph.AttrInts && a.Type != graph.AttrUndefined {
		return nil, graph.Errorf("attribute %s is of another type, expected a list of integers", name)
	}
	return Axes(name, a.Ints, rank)
}

// AxesOrAll is AxesOr with all axes as the default.
func AxesOrAll(n *graph.Node, name string, rank int) ([]int, error) {
	all := make([]int64, rank)
	for k := range all {
		all[k] = int64(k)
	}
	return AxesOr(n, name, rank, all...)
}

// Permutation returns the attribute perm of a Transpose, each axis in [0, rank); all
// axes in reverse if the node does not have it.
func Permutation(n *graph.Node, rank int) ([]int, error) {
	perm, err := AxesOrAll(n, "perm", rank)
	if n.Attr("perm") == nil {
		slices.Reverse(perm)
	}
	return perm, err
}

// Package attr decodes the attributes of ONNX nodes.
//
// Three readers need the same attributes: ops infers shapes from them, the
// kernels of vm compute with them, and the gradient rules of autodiff turn them
// into other nodes. Each attribute is decoded here, once, so that the three
// cannot disagree:
//
//   - axes: negative ones, defaults, duplicates (Axis, Axes, AxisSet);
//   - windows of convolutions and pools: strides, dilations, and how auto_pad
//     and output_shape become padding (Window);
//   - resized axes: scales, regions, and where an element of the output lies in
//     the input (Resize).
//
// The functions work on numbers. Lengths that are bounds or unknown
// (graph.Dim) are the concern of package ops.
package attr

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Most bounds attributes that enter a length: the product of two of them does
// not overflow.
const Most = 1<<31 - 1

// Int returns an integer attribute, or its default.
func Int(n *graph.Node, name string, otherwise int64) int64 {
	if a := n.Attr(name); a != nil {
		return a.Int
	}
	return otherwise
}

// Float returns a float attribute, or its default.
func Float(n *graph.Node, name string, otherwise float32) float32 {
	if a := n.Attr(name); a != nil {
		return a.Float
	}
	return otherwise
}

// String returns a string attribute, or its default.
func String(n *graph.Node, name, otherwise string) string {
	if a := n.Attr(name); a != nil {
		return a.String
	}
	return otherwise
}

// Ints returns a list attribute; nil if the node has none of that name. The
// caller must not change the list.
func Ints(n *graph.Node, name string) []int64 {
	if a := n.Attr(name); a != nil {
		return a.Ints
	}
	return nil
}

// OneOf returns a string attribute, or its default. It fails unless the string
// is one of the words.
func OneOf(n *graph.Node, name, otherwise string, words ...string) (string, error) {
	s := String(n, name, otherwise)
	return s, oneOf(name, s, words...)
}

func oneOf(name, s string, words ...string) error {
	if !slices.Contains(words, s) {
		return graph.Errorf("%s is %q, expected one of %q", name, graph.Short(s), words)
	}
	return nil
}

// Positive returns an integer attribute, or its default. It fails unless the
// number is in [1, Most].
func Positive(n *graph.Node, name string, otherwise int64) (int64, error) {
	v := Int(n, name, otherwise)
	if v < 1 || v > Most {
		return 0, graph.Errorf("%s is %d, expected 1 to %d", name, v, Most)
	}
	return v, nil
}

// List returns a copy of a list attribute that must have count numbers in
// [least, Most]. If it is absent or empty, the result repeats otherwise.
func List(n *graph.Node, name string, count int, least, otherwise int64) ([]int64, error) {
	list := Ints(n, name)
	if len(list) == 0 {
		return slices.Repeat([]int64{otherwise}, count), nil
	}
	if len(list) != count {
		return nil, graph.Errorf("%s has %d values, expected %d", name, len(list), count)
	}
	for i, v := range list {
		if v < least || v > Most {
			return nil, graph.Errorf("%s[%d] is %d, expected %d to %d", name, i, v, least, Most)
		}
	}
	return slices.Clone(list), nil
}

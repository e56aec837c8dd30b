package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() { cases = append(cases, padCases...) }

var single32 = []graph.DType{graph.Float32}

var padCases = []nodeCase{
	{op: "Pad", in: args(noise(2, 3, 5, 7), list(0, 0, 1, 2, 0, 0, 3, 0)), consts: []int{1}, types: allReals},
	{op: "Pad", in: args(noise(5, 7), list(1, -2, -1, 3), scalar(0.5)), consts: []int{1, 2}},
	{op: "Pad", in: args(noise(2, 3, 5, 4), list(1, 2, 1, 1), nil, list(1, -2)), consts: []int{1, 3}, types: single32},
	{op: "Pad", attrs: attrs(text("mode", "reflect")), in: args(noise(3, 5, 7), list(0, 4, 3, 0, 2, 6)), consts: []int{1}, types: single32},
	{op: "Pad", attrs: attrs(text("mode", "edge")), in: args(noise(3, 5, 7), list(2, 0, 3, 1, 0, 9)), consts: []int{1}, types: single32},
	{op: "Pad", version: 19, attrs: attrs(text("mode", "wrap")), in: args(noise(3, 5, 7), list(2, 0, 30, 1, 0, 9)), consts: []int{1}, types: single32},
	{op: "Pad", version: 19, attrs: attrs(text("mode", "wrap")), in: args(noise(4, 5, 9, 11), list(-2, 7, -1, 3, 5, -2, 4, -4)), consts: []int{1}, types: single32},
	{op: "Pad", in: args(noise(2, 3, 5), list(0, 0, -2, 0, 0, 0)), consts: []int{1}, types: single32},
	{op: "Pad", in: args(noise(2, 1, 2, 1, 2, 1, 2), list(1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1)), consts: []int{1}, types: single32},
	{op: "Pad", version: 10, attrs: attrs(ints("pads", 1, 0, 0, 2), real("value", 1.5)), in: args(noise(5, 7))},
	{op: "Trilu", in: args(noise(3, 5, 7))},
	{op: "Trilu", attrs: attrs(whole("upper", 0)), in: args(noise(7, 5), one(-2)), types: single32},
	{op: "Trilu", in: args(wholes(graph.Int64, 1, 9, 4, 4), one(100))},
	{op: "OneHot", in: args(below(6, 3, 4), list(6), noise(2))},
	{op: "OneHot", attrs: attrs(whole("axis", 1)), in: args(wholes(graph.Int32, -8, 9, 3, 4), list(6), wholes(graph.Uint8, 0, 9, 2))}, // some lie outside
	{op: "OneHot", attrs: attrs(whole("axis", 0)), in: args(noise(3, 4), list(2), noise(2)), types: single32},
}

// one returns a scalar of int64.
func one(v int64) *reference.Tensor { return reference.Ints([]int{}, v) }

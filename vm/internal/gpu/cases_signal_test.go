package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() { cases = append(cases, fourierCases...) }

var fourierTypes = []graph.DType{graph.Float32, graph.Float64}

var fourierCases = []nodeCase{
	{op: "STFT", tolerance: 5e-6, types: fourierTypes, in: args(noise(2, 2000), list(160), noise(400)), consts: []int{1}},
	{op: "STFT", tolerance: 5e-6, types: fourierTypes, attrs: attrs(whole("onesided", 0)), in: args(noise(2, 500, 2), list(7), nil, list(61)), consts: []int{1, 3}},
	{op: "STFT", tolerance: 5e-6, types: inSingle, in: args(noise(3, 300, 1), list(100), positive(100), list(100)), consts: []int{1, 3}},
	{op: "DFT", version: 20, tolerance: 5e-6, types: fourierTypes, attrs: attrs(whole("onesided", 1)), in: args(noise(3, 5, 360, 1))},
	{op: "DFT", version: 20, tolerance: 5e-6, types: inSingle, in: args(noise(3, 90, 2), list(128)), consts: []int{1}},
	{op: "DFT", version: 20, tolerance: 5e-6, types: inSingle, attrs: attrs(whole("inverse", 1)), in: args(noise(3, 97, 2), list(64), list(1)), consts: []int{1, 2}},
	{op: "DFT", version: 20, tolerance: 5e-6, types: fourierTypes, attrs: attrs(whole("inverse", 1), whole("onesided", 1)), in: args(noise(3, 33, 2))},
	{op: "DFT", version: 20, tolerance: 5e-6, types: inSingle, attrs: attrs(whole("inverse", 1), whole("onesided", 1)), in: args(noise(3, 20, 2), list(45)), consts: []int{1}},
	{op: "HannWindow", in: args(reference.Ints([]int{}, 25)), consts: []int{0}},
	{op: "HammingWindow", attrs: attrs(whole("periodic", 0)), in: args(reference.Ints([]int{}, 26)), consts: []int{0}},
	{op: "BlackmanWindow", attrs: attrs(whole("output_datatype", int64(graph.Float64))), in: args(reference.Ints([]int{}, 27)), consts: []int{0}, types: []graph.DType{graph.Float64}},
	{op: "DFT", version: 17, tolerance: 5e-6, types: inSingle, in: args(noise(2, 30, 1), list(21)), consts: []int{1}},
}

package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() {
	cases = append(cases, randomCases...)
	exactCases = append(exactCases, drawnCases...)
}

// randomCases leave nothing to chance: the evaluator draws other numbers.
var randomCases = []nodeCase{
	{op: "Bernoulli", in: args(reference.Reals([]int{2, 3}, 0, 1, 1, 0, 1, 0))},
	{op: "Bernoulli", attrs: attrs(whole("dtype", int64(graph.Bool))), in: args(reference.Reals([]int{2, 3}, 0, 1, 1, 0, 1, 0))},
	{op: "RandomNormal", attrs: attrs(ints("shape", 3, 5), real("mean", 2.5), real("scale", 0))},
	{op: "RandomNormalLike", attrs: attrs(real("mean", 2.5), real("scale", 0)), in: args(noise(3, 5))},
	{op: "RandomUniform", attrs: attrs(ints("shape", 3, 5), real("low", 2.5), real("high", 2.5))},
	{op: "RandomUniformLike", attrs: attrs(real("low", 2.5), real("high", 2.5)), in: args(noise(3, 5))},
	{op: "Multinomial", attrs: attrs(whole("sample_size", 9)), in: args(reference.Reals([]int{2, 3}, -1e4, 0, -1e4, 0.5, -1e4, -1e4)), types: float32s},
	{op: "Multinomial", attrs: attrs(whole("sample_size", 9), whole("dtype", int64(graph.Int64))), in: args(reference.Reals([]int{1, 1}, 5))},
}

// drawnCases are held against the host's numbers.
var drawnCases = []nodeCase{
	{op: "Bernoulli", in: args(positive(700)), types: allReals},
	{op: "Bernoulli", attrs: attrs(whole("dtype", int64(graph.Int64)), real("seed", 7.5)), in: args(positive(3, 100))},
	{op: "RandomNormal", attrs: attrs(ints("shape", 3, 500), real("mean", 2.5), real("scale", 3))},
	{op: "RandomNormalLike", attrs: attrs(real("seed", -2)), in: args(noise(3, 5)), types: float32s},
	{op: "RandomUniform", attrs: attrs(ints("shape", 3, 500), real("low", -2.5), real("high", 0.3)), types: allReals},
	{op: "RandomUniformLike", attrs: attrs(real("seed", 1)), in: args(noise(3, 5))},
	{op: "Multinomial", attrs: attrs(whole("sample_size", 300)), in: args(noise(5, 3))},
	{op: "Multinomial", attrs: attrs(whole("sample_size", 300), whole("dtype", int64(graph.Int64))), in: args(noise(3, 1000))},
	{op: "Multinomial", attrs: attrs(whole("sample_size", 700), real("seed", 3)), in: args(noise(1, 256))},
}

package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() { cases = append(cases, quantizedRecurrentCases...) }

// small are scales in [0.0005, 0.0015).
func small(shape ...int) *reference.Tensor {
	t := positive(shape...)
	for i := range t.F {
		t.F[i] = float64(float32(t.F[i] / 1000))
	}
	return t
}

var quantizedRecurrentCases = []nodeCase{
	{
		op: "com.microsoft.DynamicQuantizeLSTM", outputs: 3, tolerance: 2e-3, types: inSingle, attrs: attrs(whole("hidden_size", 33), text("direction", "bidirectional")),
		in: args(noise(5, 3, 21), signed8(2, 21, 132), signed8(2, 33, 132), noise(2, 264), nil, noise(2, 3, 33), noise(2, 3, 33), noise(2, 99),
			small(2, 132), wholes(graph.Int8, -9, 9, 2, 132), small(2, 132), wholes(graph.Int8, -9, 9, 2, 132)),
	},
	{
		op: "com.microsoft.DynamicQuantizeLSTM", outputs: 3, tolerance: 2e-3, types: inSingle, attrs: attrs(whole("hidden_size", 8), text("direction", "reverse"), whole("input_forget", 1)),
		in: args(noise(7, 2, 5), bytes8(1, 5, 32), bytes8(1, 8, 32), nil, nil, nil, nil, nil, small(1), wholes(graph.Uint8, 120, 121, 1), small(1), wholes(graph.Uint8, 120, 121, 1)),
	},
}

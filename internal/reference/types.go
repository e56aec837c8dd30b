package reference

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// alike lists the operators of ai.onnx whose inputs at certain positions must have the
// same element type; nil: at all positions.
var alike = map[string][]int{
	"Add": nil, "Sub": nil, "Mul": nil, "Div": nil, "Max": nil, "Min": nil, "Sum": nil, "Mean": nil, "Mod": nil,
	"Equal": nil, "Less": nil, "LessOrEqual": nil, "Greater": nil, "GreaterOrEqual": nil, "And": nil, "Or": nil, "Xor": nil,
	"BitShift": nil, "BitwiseAnd": nil, "BitwiseOr": nil, "BitwiseXor": nil,
	"MatMul": nil, "Gemm": nil, "Einsum": nil, "Conv": nil, "ConvTranspose": nil, "Concat": nil, "PRelu": nil, "Clip": nil, "Range": nil,
	"Where": {1, 2}, "Pad": {0, 2}, "ScatterElements": {0, 2}, "ScatterND": {0, 2},
	"LayerNormalization": nil, "InstanceNormalization": nil, "GroupNormalization": nil,
	"RNN": {0, 1, 2, 3, 5}, "GRU": {0, 1, 2, 3, 5}, "LSTM": {0, 1, 2, 3, 5, 6, 7},
}

// integers lists the inputs that must be int64, by operator; a gather or scatter along
// one axis also accepts int32.
var integers = map[string][]int{
	"Reshape": {1}, "Expand": {1}, "Tile": {1}, "ConstantOfShape": {0}, "Split": {1}, "Squeeze": {1}, "Unsqueeze": {1},
	"Pad": {1}, "TopK": {1}, "GatherND": {1}, "ScatterND": {1}, "ReduceSum": {1}, "ReduceMean": {1}, "ReduceMax": {1},
	"ReduceMin": {1}, "ReduceProd": {1}, "ReduceL1": {1}, "ReduceL2": {1}, "ReduceSumSquare": {1}, "ReduceLogSum": {1}, "ReduceLogSumExp": {1},
}

// checkTypes refuses inputs of types that the specification does not allow, even if the
// evaluator could compute with them.
func (c *evaluation) checkTypes() {
	if c.Domain != "" {
		return
	}
	if at, ok := alike[c.Op]; ok {
		first := graph.Undefined
		for i, x := range c.in {
			if x == nil || at != nil && !slices.Contains(at, i) {
				continue
			}
			if first == graph.Undefined {
				first = x.Type
			}
			if x.Type != first {
				fail("input %d has type %v, expected %v as the others", i, x.Type, first)
			}
		}
	}
	for _, i := range integers[c.Op] {
		if x := c.x(i); x != nil && x.Type != graph.Int64 {
			fail("input %d has type %v, expected %v", i, x.Type, graph.Int64)
		}
	}
}

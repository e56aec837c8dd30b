package cost

import "github.com/onnxmem/onnxmem/graph"

// functions says how many times as long as Exp an operator takes for each element that it
// makes, but for what it moves, where it takes longer than arithmetic: measured with
// onnxmem's kernels by bench/efficiency, one core with AVX2, 262,144 elements. Those not
// listed take no longer than what they move.
var functions = map[string]float64{
	"Exp": 1, "Sigmoid": 1.4, "Swish": 1.4, "QuickGelu": 1.4, "Tanh": 2.2, "Erf": 3, "Gelu": 3.5, "FastGelu": 3, "BiasGelu": 3.5,
	"Mish": 3, "Elu": 5, "Selu": 5, "Celu": 7, "Softplus": 7,
	"Softmax": 4, "LogSoftmax": 9,
	"Log": 1.6, "Sin": 4, "Cos": 4, "Tan": 5, "Asin": 1.5, "Acos": 1.5, "Atan": 1.5, "Sinh": 20, "Cosh": 20, "Asinh": 10, "Acosh": 10, "Atanh": 10,
	"Pow": 2, // by multiplication, as a rule
}

// functionsOf counts evaluations, in those of Exp, for a node that makes elements of these
// lengths; nil if they are unknown.
func functionsOf(n *graph.Node, made []graph.Dim) float64 {
	if each := functions[n.Op]; each > 0 && made != nil {
		return each * elements(made)
	}
	return 0
}

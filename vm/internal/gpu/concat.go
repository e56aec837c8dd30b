package gpu

import "github.com/onnxmem/onnxmem/vm/internal/kernel"

// joining lists the operators that join tensors along an axis, or cut one.
var joining = []Row{
	{Name: "Concat", Make: moving(kernel.ConcatMoves)},
	{Name: "Split", Make: moving(kernel.SplitMoves)},
}

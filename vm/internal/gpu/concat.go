package gpu

import "github.com/onnxmem/onnxmem/vm/internal/form"

// joining lists the operators that join tensors along an axis, or cut one.
var joining = []Row{
	{Name: "Concat", Make: moving(form.ConcatMoves)},
	{Name: "Split", Make: moving(form.SplitMoves)},
}

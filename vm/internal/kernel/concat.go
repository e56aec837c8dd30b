package kernel

import "github.com/onnxmem/onnxmem/vm/internal/form"

// joining lists the operators that join tensors along an axis or split one.
var joining = family{"", []Kernel{
	{Name: "Concat", Make: moving(form.ConcatMoves), Half: true, Moves: true},
	{Name: "Split", Make: moving(form.SplitMoves), Half: true, Moves: true},
}}

package kernel

import "github.com/onnxmem/onnxmem/vm/internal/form"

// cutting lists the operators that take a part of a tensor, possibly with steps.
var cutting = family{"", []Kernel{
	{Name: "Slice", Make: moving(form.SliceMoves), Half: true, Moves: true},
}}

package gpu

import "github.com/onnxmem/onnxmem/vm/internal/form"

// slicing lists the operator that takes a part of a tensor.
var slicing = []Row{{Name: "Slice", Make: moving(form.SliceMoves)}}

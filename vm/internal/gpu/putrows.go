package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// putting lists the operator that writes rows into a tensor.
var putting = []Row{{Name: graph.PutRows, Make: moving(form.PutRowsMoves)}}

package planner

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Binding says which lengths and values the inputs of a model have.
type Binding struct {
	Given   ops.Options
	Runtime string // that runs the plan; "": onnxmem
}

// Infer sets the types of a model, and what its nodes may share in the runtime.
func (b *Binding) Infer(m *graph.Model) (*ops.Inference, error) {
	found, err := ops.Infer(m, b.Given)
	if err != nil {
		return nil, err
	}
	restrict(m, b.Runtime)
	return found, nil
}

// At returns the binding with other lengths of dimensions.
func (b Binding) At(dims map[string]int64) Binding {
	b.Given.Dims = dims
	return b
}

// restrict leaves to the nodes of an inferred model what a runtime shares; "" is ours.
func restrict(m *graph.Model, runtime string) {
	if r := ops.LookupRuntime(runtime); r != nil {
		ops.Restrict(m, r)
	}
}

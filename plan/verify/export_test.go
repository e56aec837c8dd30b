package verify

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Listed is the number of tensors that Plan goes through to find those that the plan
// names.
func Listed(m *graph.Model, p *plan.Plan, opt Options) (int, *Report, error) {
	v := newVerifier(m, p, opt)
	r, err := v.run()
	return v.names.listed, r, err
}

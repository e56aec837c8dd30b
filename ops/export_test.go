package ops

import "github.com/onnxmem/onnxmem/graph"

// InferValues calls Infer and returns the folded values of the main graph's tensors, by
// TensorID.
func InferValues(m *graph.Model, opt Options) ([]*Value, error) {
	inf := &inferrer{model: m, opt: opt, result: &Inference{}, calls: map[callID]*instance{}}
	if err := inf.collectFunctions(); err != nil {
		return nil, err
	}
	if err := inf.bindInputs(); err != nil {
		return nil, err
	}
	s := &scope{g: m.Graph, opsets: m.Opsets, main: true}
	err := inf.graph(s, nil)
	return s.values, err
}

// ElementwiseCuts are the columns Cut of operators whose rows are those of all their operands.
var ElementwiseCuts = []any{cutUnary, cutBroadcast, cutBiased, cutQLinearBinary}

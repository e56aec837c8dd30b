package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

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

// Signature is what a link of a chain needs to know of an operator's last version.
type Signature struct {
	Links      bool // the first input and the result may be float32 or a truth value
	Repeats    bool // any number of inputs may follow
	Attributes bool // it has attributes, besides those of broadcasting before opset 7
}

// SignatureOf describes an operator.
func SignatureOf(domain, name string) (out Signature) {
	s, f := signatureOf(domain, name, 1<<30)
	if f == nil {
		return out
	}
	real := func(p parameter) bool {
		return slices.ContainsFunc([]graph.DType{graph.Float32, graph.Bool}, func(d graph.DType) bool {
			return p.elem == d || holds(s.symbols[p.symbol], d, 0)
		})
	}
	out.Links = len(f.in) > 0 && real(f.in[0]) && real(f.out[0])
	out.Repeats = slices.ContainsFunc(f.in, func(p parameter) bool { return p.repeats })
	for a := range s.attributes {
		out.Attributes = out.Attributes || !slices.Contains([]string{"axis", "broadcast", "consumed_inputs"}, a)
	}
	return out
}

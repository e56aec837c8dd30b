package ops

import "github.com/onnxmem/onnxmem/graph"

// DynamicProduct is a product of reals by a quantized matrix, whose other operand is quantized at
// every run, as ONNX Runtime's dynamic quantization writes it:
//
//	q, a, z = DynamicQuantizeLinear(X)
//	Result = Mul(Cast(MatMulInteger(q, Weight, z, Zero)), Mul(a, Scale))
type DynamicProduct struct {
	X            graph.TensorID
	Weight       graph.TensorID
	Scale        graph.TensorID // of the weight: one, or one for each column
	Zero         graph.TensorID // of the weight; graph.None: 0
	Product      *graph.Node    // MatMulInteger
	Cast, Scales *graph.Node
	Last         *graph.Node // it makes the result
}

// DynamicProductOf returns the dynamic product of which a MatMulInteger is part. maker returns the
// node that makes a tensor, or nil; reader the only node that reads it, or nil.
func DynamicProductOf(n *graph.Node, maker, reader func(graph.TensorID) *graph.Node) (p DynamicProduct, ok bool) {
	if !named(n, "MatMulInteger") || len(n.Inputs) < 3 {
		return p, false
	}
	quantizer := maker(n.Inputs[0])
	if !named(quantizer, "DynamicQuantizeLinear") || len(quantizer.Outputs) != 3 || quantizer.Outputs[0] != n.Inputs[0] || quantizer.Outputs[2] != n.Inputs[2] {
		return p, false
	}
	p = DynamicProduct{X: quantizer.Inputs[0], Weight: n.Inputs[1], Zero: graph.None, Product: n}
	if len(n.Inputs) > 3 {
		p.Zero = n.Inputs[3]
	}
	if p.Cast = reader(n.Outputs[0]); !named(p.Cast, "Cast") {
		return p, false
	}
	if p.Last = reader(p.Cast.Outputs[0]); !named(p.Last, "Mul") {
		return p, false
	}
	if p.Scales = maker(other(p.Last, p.Cast.Outputs[0])); !named(p.Scales, "Mul") || reader(p.Scales.Outputs[0]) != p.Last {
		return p, false
	}
	p.Scale = other(p.Scales, quantizer.Outputs[1])
	return p, p.Scale != graph.None
}

func named(n *graph.Node, op string) bool { return n != nil && n.Domain == "" && n.Op == op }

// other is the operand of a node with two that is not t; graph.None if neither is t.
func other(n *graph.Node, t graph.TensorID) graph.TensorID {
	switch {
	case len(n.Inputs) != 2:
	case n.Inputs[0] == t:
		return n.Inputs[1]
	case n.Inputs[1] == t:
		return n.Inputs[0]
	}
	return graph.None
}

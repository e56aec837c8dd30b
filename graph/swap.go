package graph

// SwapDomain is the domain of the operators that swap a tensor to host memory and
// back. SwapOut makes the copy on the host, SwapIn restores the tensor from it.
// Both are functions of the model whose body is Identity, so a runtime without
// support for swaps computes the same.
const (
	SwapDomain  = "onnxmem"
	SwapOut     = "SwapOut"
	SwapIn      = "SwapIn"
	swapVersion = 1
)

// leastSwapIR is the first version of ONNX's file format with functions.
const leastSwapIR = 8

// IsSwapOut reports whether a node of an inferred graph swaps a tensor out. A
// call of a function that has the name but another body does not count.
func (n *Node) IsSwapOut() bool { return n.isSwap(SwapOut) }

// IsSwapIn reports whether a node of an inferred graph swaps a tensor in.
func (n *Node) IsSwapIn() bool { return n.isSwap(SwapIn) }

// IsSwap reports whether a node is a SwapOut or a SwapIn.
func (n *Node) IsSwap() bool { return n.IsSwapOut() || n.IsSwapIn() }

func (n *Node) isSwap(op string) bool {
	return n.Domain == SwapDomain && n.Op == op && n.Semantics.Known && n.Semantics.Call == nil &&
		len(n.Inputs) == 1 && len(n.Outputs) == 1 && n.Inputs[0] >= 0 && n.Outputs[0] >= 0
}

// IsSwap reports whether a function is SwapOut or SwapIn by name, and its body is
// one Identity.
func (f *Function) IsSwap() bool {
	if f.Domain != SwapDomain || f.Overload != "" || f.Name != SwapOut && f.Name != SwapIn {
		return false
	}
	b := f.Body
	if len(b.Inputs) != 1 || len(b.Outputs) != 1 || len(b.Nodes) != 1 {
		return false
	}
	n := b.Nodes[0]
	return n.Domain == "" && n.Op == "Identity" && len(n.Inputs) == 1 && len(n.Outputs) == 1 &&
		n.Inputs[0] == b.Inputs[0] && n.Outputs[0] == b.Outputs[0]
}

// AddSwaps adds the functions SwapOut and SwapIn to a model, with the imports and
// the IR version that they need. It fails if the model has other functions with
// these names.
func (m *Model) AddSwaps() error {
	for _, name := range []string{SwapOut, SwapIn} {
		there := false
		for _, f := range m.Functions {
			if f.Domain == SwapDomain && f.Name == name && f.Overload == "" {
				if there = f.IsSwap(); !there {
					return Errorf("function %q of domain %s has another body: expected Identity, or no such function", name, SwapDomain)
				}
			}
		}
		if !there {
			m.Functions = append(m.Functions, swapFunction(name, m.Opset("")))
		}
	}
	if m.Opset(SwapDomain) == 0 {
		m.Opsets = append(m.Opsets, Opset{Domain: SwapDomain, Version: swapVersion})
	}
	m.IRVersion = max(m.IRVersion, leastSwapIR)
	return nil
}

func swapFunction(name string, version int64) *Function {
	if version == 0 {
		version = 13 // any version with Identity
	}
	b := &Graph{}
	x, y := b.NewTensor("x"), b.NewTensor("y")
	b.Inputs, b.Outputs = []TensorID{x}, []TensorID{y}
	b.Nodes = []*Node{{Op: "Identity", Inputs: []TensorID{x}, Outputs: []TensorID{y}}}
	b.Link()
	return &Function{Domain: SwapDomain, Name: name, Opsets: []Opset{{Version: version}}, Body: b}
}

//go:build !cuda

package exec

import "gorgonia.org/gorgonia"

// deviceMachine is what runs the nodes of a session with a device, for people.
const deviceMachine = "gorgonia's tape machine"

// operator returns the operator that gorgonia runs for an instruction. The ordinary build
// has one kind: gorgonia calls Do, and the kernels are launched from there.
func operator(o *instruction, _ bool) gorgonia.Op { return o }

// newMachine compiles the operators of a graph.
func newMachine(g *gorgonia.ExprGraph) (gorgonia.VM, error) { return gorgonia.NewTapeMachine(g), nil }

//go:build !cuda

package vm_test

import "github.com/onnxmem/onnxmem/vm"

// cudaMachine: gorgonia's CUDA machine runs the nodes of sessions with a device.
const cudaMachine = false

// calledByMachine is the number of nodes that gorgonia's CUDA machine called in the last run of a
// session: none here.
func calledByMachine(*vm.Session) int { return 0 }

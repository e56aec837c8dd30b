//go:build !cuda

package vm_test

// cudaMachine: gorgonia's CUDA machine runs the nodes of sessions with a device.
const cudaMachine = false

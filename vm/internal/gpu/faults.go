package gpu

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// A kernel cannot fail. One that finds an index outside of its axis reads and writes
// nothing there, and lowers a word in the device's memory, if the session has given one
// (Kernels.Faults), to the number of its node and the place of the index. The session
// sets the word to NoFault before a step, reads it behind the step, and so fails as it
// would on the host, only later.

// NoFault is the word while no kernel has found a fault.
const NoFault = ^uint64(0)

// faults are the parameters that tell a kernel where to report; as Faults in index.cuh.
type faults struct {
	at   driver.Ptr
	node uint64
}

// checked is a node whose indices its kernels check.
type checked struct {
	node   *graph.Node
	index  *kernel.Tensor
	length func(i int) int // of the axis that element i of the indices is for
}

// faults numbers a node with the indices that its kernels check.
func (n *Node) faults(index *kernel.Tensor, length func(i int) int) faults {
	number := uint64(len(n.k.checked))
	n.k.checked = append(n.k.checked, checked{n.Node, index, length})
	return faults{n.k.Faults, number << 32}
}

// Fault returns the node and the error that the word at Kernels.Faults stands for; nil
// for NoFault. The node is the first one that was prepared of those with a fault.
func (k *Kernels) Fault(word uint64) (*graph.Node, error) {
	if word == NoFault {
		return nil, nil
	}
	number, i := word>>32, int(word&(1<<32-1))
	if number >= uint64(len(k.checked)) {
		return nil, fmt.Errorf("a kernel reports %#x, expected the number of a node below %d", word, len(k.checked))
	}
	c := &k.checked[number]
	n := c.length(i)
	return c.node, fmt.Errorf("element %d of the indices, of shape %v: expected one in [%d, %d)", i, c.index.Shape, -n, n)
}

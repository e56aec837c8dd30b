package gpu

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// A kernel cannot fail. One that finds an index outside of its axis reads and writes
// nothing there, and lowers a word in the device's memory to the number of its node and
// the place of the index. A session clears the word before a step and looks at it
// afterwards, and so fails as it would on the host, only later.

// noFault is the word while no kernel has found a fault.
const noFault = math.MaxUint64

// faults are the parameters that tell a kernel where to report; as Faults in index.cuh.
type faults struct {
	at   driver.Ptr // 0: nowhere
	node uint64
}

// checked is a node whose indices, or other elements, its kernels check.
type checked struct {
	node   *graph.Node
	index  *form.Tensor
	length func(i int) int // of the axis that element i of the indices is for
	// fromZero is set if a negative index is wrong, too.
	fromZero bool
	// wrong describes element i of what is checked, if that is more than indices.
	wrong func(i int) error
}

// faults numbers a node with the indices that its kernels check.
func (n *Node) faults(index *form.Tensor, length func(i int) int) faults {
	return n.checks(checked{index: index, length: length})
}

// checks numbers a node with what its kernels check.
func (n *Node) checks(c checked) faults {
	c.node = n.Node
	number := uint64(len(n.k.checked))
	n.k.checked = append(n.k.checked, c)
	f := faults{node: number << 32}
	if n.k.word != nil {
		f.at = n.k.word.At
	}
	return f
}

// WatchFaults makes the kernels of the nodes that are prepared from now on report
// indices that lie outside of their axes. It needs the context.
func (k *Kernels) WatchFaults() (err error) {
	k.word, err = k.Queue.Device.Take(8, "the place of wrong indices")
	return err
}

// ClearFaults puts on the queue that no fault has been found. It needs the context.
func (k *Kernels) ClearFaults() error {
	if len(k.checked) == 0 || k.word == nil {
		return nil
	}
	return driver.Fill8(k.word.At, 0xff, 8, k.Queue.Stream)
}

// Fault waits for the queue and returns the error of the first wrong index that was found
// since ClearFaults, and its node: of the nodes with one, the one that was prepared
// first. Both are nil if there is none. It needs the context.
func (k *Kernels) Fault() (*graph.Node, error) {
	if len(k.checked) == 0 || k.word == nil {
		return nil, nil
	}
	word := uint64(noFault)
	err := errors.Join(driver.Download(unsafe.Pointer(&word), k.word.At, 8, k.Queue.Stream), k.Queue.Stream.Synchronize())
	if err != nil || word == noFault {
		return nil, err
	}
	number, i := word>>32, int(word&math.MaxUint32)
	if number >= uint64(len(k.checked)) {
		return nil, fmt.Errorf("a kernel reports %#x, expected the number of a node below %d", word, len(k.checked))
	}
	c := &k.checked[number]
	if c.wrong != nil {
		return c.node, c.wrong(i)
	}
	n := c.length(i)
	low := -n
	if c.fromZero {
		low = 0
	}
	return c.node, fmt.Errorf("element %d of the indices, of shape %v: expected one in [%d, %d)", i, c.index.Shape, low, n)
}

// Close frees the kernels' memory. It needs the context.
func (k *Kernels) Close() error { return errors.Join(k.word.Free(), k.seeds.block.Free()) }

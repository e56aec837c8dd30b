package gpu

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// seeds are the seeds of the nodes that draw random numbers, in a block on the device, so
// that a recorded step draws anew.
type seeds struct {
	block *cuda.Block
	nodes []*kernel.Invocation
	words []uint64                      // of the last step
	at    map[*kernel.Tensor]driver.Ptr // where each is
}

// mostSeeds bounds the nodes with seeds: a block is small.
const mostSeeds = 512

// seed returns a tensor of one element, on the device, which is the node's seed in each
// step.
func (n *Node) seed() (*kernel.Tensor, error) {
	s := &n.k.seeds
	if len(s.nodes) == mostSeeds {
		return nil, unsupportedf("more than %d nodes that draw random numbers", mostSeeds)
	}
	if s.block == nil {
		var err error
		if s.block, err = n.k.Queue.Device.Take(8*mostSeeds, "seeds"); err != nil {
			return nil, err
		}
		s.at = map[*kernel.Tensor]driver.Ptr{}
	}
	t := &kernel.Tensor{Type: graph.Uint64, Shape: []int{}}
	s.at[t] = s.block.At + driver.Ptr(8*len(s.nodes))
	s.nodes = append(s.nodes, n.Invocation)
	return t, nil
}

// Reseed puts the seeds of the next step on the queue, whose work must have been done. It
// needs the context.
func (k *Kernels) Reseed() error {
	s := &k.seeds
	if len(s.nodes) == 0 {
		return nil
	}
	s.words = s.words[:0]
	for _, n := range s.nodes {
		s.words = append(s.words, n.Runtime.Seed())
	}
	return driver.Upload(s.block.At, unsafe.Pointer(unsafe.SliceData(s.words)), int64(8*len(s.words)), k.Queue.Stream)
}

// seedOf returns the C expression of a node's seed: its attribute, or one that differs
// from step to step.
func seedOf(n *Node, e *expression) (string, error) {
	if a := n.Node.Attr("seed"); a != nil {
		return fmt.Sprintf("0x%xull", uint64(a.Int)), nil
	}
	t, err := n.seed()
	if err != nil {
		return "", err
	}
	return e.valueAs(t, []int{})
}

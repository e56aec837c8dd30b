package gpu

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// Arithmetic says how products and convolutions of some nodes were computed. Sums are float32
// for operands of at most 32 bits.
type Arithmetic struct {
	In string // what operands are rounded to: a dtype, or TF32
	By string // cuBLAS, cuDNN or onnxmem
}

// Computed is the number of nodes with an arithmetic.
type Computed struct {
	Arithmetic
	Nodes int
}

// TensorFloat is the name of the arithmetic with operands of 19 bits.
const TensorFloat = "TF32"

// leastTF32 is the first architecture whose tensor cores take TF32.
const leastTF32 = 80

// tf32 reports whether operands of a dtype are rounded to TF32.
func (k *Kernels) tf32(d graph.DType) bool {
	return k.TF32 && d == graph.Float32 && k.Queue.Device.Arch() >= leastTF32
}

// computes notes how the node's products or convolutions are computed.
func (n *Node) computes(by string, d graph.DType, rounded bool) {
	a := Arithmetic{d.String(), by}
	if rounded {
		a.In = TensorFloat
		n.Rounding = form.TF32Rounding
	}
	if n.k.computed == nil {
		n.k.computed = map[Arithmetic]int{}
	}
	n.k.computed[a]++
}

// Computed lists how products and convolutions were computed, that of most nodes first.
func (k *Kernels) Computed() (list []Computed) {
	for a, nodes := range k.computed {
		list = append(list, Computed{a, nodes})
	}
	slices.SortFunc(list, func(a, b Computed) int {
		return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.In, b.In), cmp.Compare(a.By, b.By))
	})
	return list
}

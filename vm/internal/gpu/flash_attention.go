package gpu

import (
	"math"
	"slices"
	"strconv"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// flashAttentions lists attention that keeps no scores, and its gradient.
var flashAttentions = []Row{
	{Name: graph.FlashAttention, Make: makeFlashAttention},
	{Name: graph.FlashAttentionGrad, Make: makeFlashAttentionGrad},
}

// flashed is the struct Flash of kernels/flash_attention.cuh.
type flashed struct {
	heads, shared                  int32
	queries, keys, size, valueSize int32
	safe, _                        int32
	scale, fill                    float32
	biasSteps, keepSteps           [4]int64
}

// flash is such a node, as its kernels take it.
type flash struct {
	*form.FlashAttention
	n           *Node
	p           flashed
	definitions []string
	in          []driver.Ptr // the inputs: q, k, v, bias and keep first
}

// newFlash reads a node. Its kernels run on tensor cores where they can.
func (n *Node) newFlash() (*flash, error) {
	if err := narrowReals(n.In[0], n.In[1], n.In[2]); err != nil {
		return nil, err
	}
	f := &flash{FlashAttention: n.FlashAttention(), n: n}
	if n.In[0].Len()*n.In[2].Len() == 0 {
		return nil, unsupportedf("attention without a key or a query")
	}
	if err := narrowReals(n.In[3]); err != nil {
		return nil, err
	}
	f.p = flashed{
		heads: int32(f.Heads), shared: int32(f.Heads / f.Groups), queries: int32(f.Queries), keys: int32(f.Keys), size: int32(f.Size), valueSize: int32(f.ValueSize),
		safe: flag(f.Safe), scale: f.Scale, fill: f.Fill,
	}
	for axis := range 4 {
		f.p.biasSteps[axis], f.p.keepSteps[axis] = int64(f.BiasSteps[axis]), int64(f.KeepSteps[axis])
	}
	element := n.In[0].Type
	f.definitions = []string{"ELEMENT=" + cType[element], "INDEX=" + indexOf(n.In[:3]...), "BIAS=" + cType[n.In[3].Type]}
	if !f.OneBias {
		f.definitions = append(f.definitions, "BIASED")
	}
	if !f.AllKept {
		f.definitions = append(f.definitions, "MASKED")
	}
	if n.k.tensor(element) {
		f.definitions = append(f.definitions, "TENSOR")
		n.Way = "on tensor cores"
	}
	n.computes("onnxmem", element, n.k.tf32(element))
	var err error
	f.in, err = n.addresses(n.In...)
	return f, err
}

// flashTile is the number of queries, or of keys, of a block.
const flashTile = 64

// launch appends a kernel for heads of that length, whose results have so many columns.
func (f *flash) launch(file, name string, heads, length, columns int, params ...any) error {
	across := 64
	if columns > across {
		across = 128
	}
	blocks, parts := cuts(length, flashTile)*heads*f.Batch, cuts(columns, across)
	if blocks > math.MaxInt32 || parts > math.MaxUint16 {
		return unsupportedf("attention of %d blocks and %d parts of heads", blocks, parts)
	}
	kernel := f.n.kernel(file, name, append(slices.Clone(f.definitions), "COLUMNS="+strconv.Itoa(across))...)
	return f.n.launch3(kernel, driver.Dim3{X: uint32(blocks), Y: uint32(parts), Z: 1}, driver.Dim3{X: 128, Y: 1, Z: 1}, 0, append(params, f.p)...)
}

func makeFlashAttention(n *Node) error {
	f, err := n.newFlash()
	if err != nil {
		return err
	}
	out, err := n.addresses(n.Out[0], n.Out[1])
	if err != nil {
		return err
	}
	return f.launch("flash_attention.cu", "attend", f.Heads, f.Queries, f.ValueSize, out[0], out[1], f.in[0], f.in[1], f.in[2], f.in[3], f.in[4])
}

// makeFlashAttentionGrad computes the gradient of queries first, and with it a number for each of
// them that those of keys and values read.
func makeFlashAttentionGrad(n *Node) error {
	f, err := n.newFlash()
	if err != nil {
		return err
	}
	out, err := n.addresses(n.Out[0], n.Out[1], n.Out[2])
	if err != nil {
		return err
	}
	means := n.scratch(4 * int64(f.Batch*f.Heads*f.Queries))
	q, k, v, bias, keep, rows, d := f.in[0], f.in[1], f.in[2], f.in[3], f.in[4], f.in[5], f.in[6]
	if err := f.launch("flash_gradient.cu", "queries", f.Heads, f.Queries, f.Size, out[0], means, q, k, v, bias, keep, rows, d); err != nil {
		return err
	}
	return f.launch("flash_gradient.cu", "keys", f.Groups, f.Keys, max(f.Size, f.ValueSize), out[1], out[2], means, q, k, v, bias, keep, rows, d)
}

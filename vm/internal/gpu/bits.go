package gpu

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// AsComputed is the node that the plain evaluator has to compute in the place of one that runs
// on a device: without accuracy_level, which permits the CPU to round rows to 8 bits.
func AsComputed(n *graph.Node) *graph.Node {
	if n.Op != "MatMulNBits" {
		return n
	}
	exact := *n
	exact.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a *graph.Attr) bool { return a.Name == "accuracy_level" })
	return &exact
}

// makeMatMulNBits multiplies by weights of few bits, in float32 whatever accuracy_level
// permits.
func makeMatMulNBits(n *Node) error {
	b, err := n.BitWeights()
	if err != nil {
		return refused(err)
	}
	a, y := n.In[0], n.Out[0]
	zero := b.Zero
	if zero != nil && zero.Type == graph.Uint8 {
		zero = nil
	}
	if err := narrowReals(a, b.Scale, zero, b.Bias, y); err != nil {
		return err
	}
	if b.Numbers.Type != graph.Uint8 || b.K == 0 || max(b.N, b.Blocks()*b.Block) > math.MaxInt32-1<<11 {
		return unsupportedf("weights of %v, %d rows of %d", b.Numbers.Type, b.N, b.K)
	}
	if y.Len() == 0 {
		return nil
	}
	if m := a.Len() / b.K; m <= mostRows {
		return n.multiplyRows(b, m)
	}
	return n.multiplyBits(b)
}

// Up to mostRows rows, numbers are widened in registers, once for rowsAtOnce rows; a block
// of threads has rowWarps warps. Beyond, tiles of widened numbers in shared memory serve more
// rows.
const (
	mostRows    = 16
	rowsAtOnce  = 8
	rowWarps    = 8
	leastBlocks = 128 // almost as many as a large GPU has multiprocessors
)

// bitDefinitions are the definitions of a file that reads such weights.
func bitDefinitions(b *form.BitWeights) []string {
	zero := "u8"
	if b.Zero != nil {
		zero = cType[b.Zero.Type]
	}
	return []string{"ELEMENT=" + cType[b.Scale.Type], "ZERO=" + zero, fmt.Sprintf("BITS=%d", b.Bits)}
}

// bitRows is the struct Rows of kernels/bits.cu.
type bitRows struct{ m, n, k, blocks, shift, together int32 }

// multiplyRows appends the launch of a product of m rows, which are few.
func (n *Node) multiplyRows(b *form.BitWeights, m int) error {
	at, err := n.addresses(n.Out[0], n.In[0], b.Numbers, b.Scale, b.Zero, b.Bias)
	if err != nil {
		return err
	}
	chunk := min(16, 4*b.Bits, b.Block*b.Bits/8) // bytes within a block, and at most 32 numbers
	for at[2]%driver.Ptr(chunk) != 0 {
		chunk /= 2
	}
	if chunk < 4 {
		return unsupportedf("weights at an odd address")
	}
	passes := cuts(m, rowsAtOnce)
	rows := atLeast(cuts(m, passes), rowsAtOnce)
	columns := 4
	for columns > 1 && (rows*columns > 16 || cuts(b.N, rowWarps*columns) < leastBlocks) {
		columns /= 2
	}
	s := bitRows{m: int32(m), n: int32(b.N), k: int32(b.K), blocks: int32(b.Blocks()), shift: int32(bits.TrailingZeros(uint(b.Block)))}
	if size := driver.Ptr(min(16, 4*n.In[0].Type.Bits()/8)); at[1]%size == 0 && b.K%4 == 0 {
		s.together = 1
	}
	k := n.kernel("bits.cu", "multiply_rows", append(bitDefinitions(b), fmt.Sprintf("CHUNK=%d", chunk), fmt.Sprintf("ROWS=%d", rows), fmt.Sprintf("COLUMNS=%d", columns))...)
	grid, block := driver.Dim3{X: uint32(cuts(b.N, rowWarps*columns)), Y: uint32(passes), Z: 1}, driver.Dim3{X: 32 * rowWarps, Y: 1, Z: 1}
	return n.launch3(k, grid, block, 0, at[0], at[1], at[2], at[3], at[4], at[5], s)
}

// bitProduct is the struct BitProduct of kernels/bits_product.cu.
type bitProduct struct {
	m, n, k, chunk int32
	total          int64
	blocks, shift  int32
	wide, _        int32
	scales, zeros  driver.Ptr
}

// multiplyBits appends the launches of a product of many rows.
func (n *Node) multiplyBits(b *form.BitWeights) error {
	a, y := n.In[0], n.Out[0]
	at, err := n.addresses(b.Numbers, b.Scale, b.Zero)
	if err != nil {
		return err
	}
	if at[0]%4 != 0 {
		return unsupportedf("weights at an odd address")
	}
	p := &matrices{m: a.Len() / b.K, n: b.N, k: b.K}
	if p.m > math.MaxInt32-128 {
		return unsupportedf("%d rows", p.m)
	}
	r := &result{y: y, bias: b.Bias, rows: p.m, columns: p.n, finish: noFinish()}
	r.finish.BiasColumn = 1
	s := splitProduct(tilesOf(computeBytes(y)), p.m, p.n, p.k, 1)
	v := bitProduct{
		m: int32(p.m), n: int32(p.n), k: int32(p.k), chunk: int32(s.chunk), total: int64(y.Len()),
		blocks: int32(b.Blocks()), shift: int32(bits.TrailingZeros(uint(b.Block))), scales: at[1], zeros: at[2],
	}
	if n.aligned(y) && p.n%4 == 0 {
		v.wide = 1
	}
	k := n.kernel("bits_product.cu", "bits", append(bitDefinitions(b), "INDEX="+indexOf(a))...)
	return n.launchProduct(k, s, r, a, b.Numbers, productPart{s.tiles, v})
}

// makeGatherBlockQuantized reads slices of a table of packed numbers as real ones.
func makeGatherBlockQuantized(n *Node) error {
	b, err := n.BlockTable()
	if err != nil {
		return refused(err)
	}
	index, y := n.In[1], n.Out[0]
	if err := narrowReals(b.Scale, y); err != nil {
		return err
	}
	name, err := indexType(index)
	if err != nil {
		return err
	}
	if max(count(b.Shape), y.Len()) > most {
		return unsupportedf("%d elements, more than %d", max(count(b.Shape), y.Len()), most)
	}
	if y.Len() == 0 {
		return nil
	}
	at, err := n.addresses(y, b.Numbers, index, b.Scale, b.Zero)
	if err != nil {
		return err
	}
	last := len(b.Shape) - 1
	padded, sign := b.Scale.Shape[last], 0
	if b.Zero != nil && b.Numbers.Type == graph.Uint8 {
		padded = b.Zero.Shape[last] * 8 / b.Bits
	}
	if b.Signed {
		sign = 8
	}
	numbers := slices.Concat(
		[]int{y.Len(), b.Shape[b.Slices]}, divider(count(b.Shape[b.Slices+1:])), divider(index.Len()),
		divider(count(b.Shape[b.Axis+1:])), divider(b.Shape[b.Axis]), divider(b.Scale.Shape[last]),
		[]int{b.Scale.Shape[b.Axis], bits.TrailingZeros(uint(b.Block)), sign, b.Middle, padded},
	)
	k := n.kernel("bits_gather.cu", "gather_numbers", "ELEMENT="+cType[y.Type], "INDEX="+name, fmt.Sprintf("BITS=%d", b.Bits))
	return n.launch(k, blocksFor(y.Len()), threadsPerBlock, at[0], at[1], at[2], at[3], at[4], unsigned(numbers, 4))
}

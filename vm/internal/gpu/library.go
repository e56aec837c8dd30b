package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// mostCalls bounds the calls of cuBLAS for one product: a batch lies along one axis of each
// call.
const mostCalls = 64

// blasTypes are the dtypes of products that cuBLAS computes.
var blasTypes = map[graph.DType]driver.BLASType{
	graph.Float32: driver.BLASFloat32, graph.Float16: driver.BLASFloat16, graph.BFloat16: driver.BLASBFloat16,
}

// blas returns cuBLAS; nil if the products stay in kernels of this package.
func (k *Kernels) blas() *cuda.BLAS {
	if k.OwnProducts {
		return nil
	}
	b, err := k.Queue.BLAS()
	if err != nil {
		k.noBLAS = err
		return nil
	}
	return b
}

// Library says which library computes products, and of how many nodes; "" if none does.
// missing is why it is not there, if it was looked for.
func (k *Kernels) Library() (name, path string, nodes int, missing error) {
	if k.served == 0 {
		return "", "", 0, k.noBLAS
	}
	b, err := k.Queue.BLAS()
	if err != nil {
		return "", "", 0, err
	}
	return "cuBLAS " + b.Version(), b.Path(), k.served, nil
}

// byLibrary appends the calls of cuBLAS for a batch of products, if it can compute it: for
// its layouts see columnMajor. A bias is copied to the result first, which cuBLAS then adds
// to; what follows a product is a launch of its own. It reports whether it did so.
func (p *matrices) byLibrary(n *Node, a, b driver.Ptr, r *result) (bool, error) {
	t, known := blasTypes[r.y.Type]
	follows := r.finish.Clamps != 0
	if !known || p.k == 0 || r.added != nil || r.room != nil || (r.bias != nil || follows) && r.y.Len() > math.MaxInt32 {
		return false, nil
	}
	call, first, second := p.columnMajor(a, b)
	if call == nil {
		return false, nil
	}
	axes := len(p.batch)
	outer := []int{}
	if axes > 0 {
		outer = p.batch[:axes-1]
		call.Batch = int32(p.batch[axes-1])
		call.A.Stride, call.B.Stride, call.C.Stride = int64(p.steps[first][axes-1]), int64(p.steps[second][axes-1]), int64(p.steps[2][axes-1])
	}
	blas := n.k.blas()
	if blas == nil || count(outer) > mostCalls {
		return false, nil
	}
	at, err := n.addresses(r.y, r.bias)
	if err != nil {
		return false, err
	}
	call.Type, call.C.At, call.TF32 = t, at[0], n.k.tf32(r.y.Type)
	beta := float32(0)
	if r.bias != nil {
		beta = r.finish.Beta
		if err := n.copyBias(r, at[0], at[1]); err != nil {
			return false, err
		}
	}
	if err := n.multiply(blas, call, r.finish.Alpha, beta, outer, [3][]int{p.steps[first], p.steps[second], p.steps[2]}); err != nil {
		return false, err
	}
	if follows {
		clamped := noFinish()
		clamped.Clamps, clamped.Low, clamped.High = 1, r.finish.Low, r.finish.High
		if err := n.finish(r, 0, at[0], clamped); err != nil {
			return false, err
		}
	}
	n.k.served++
	n.computes("cuBLAS", r.y.Type, call.TF32)
	n.Way = "cuBLAS"
	return true, n.activate(r)
}

// copyBias appends the copy of a bias, at from, to the whole of a result at to.
func (n *Node) copyBias(r *result, to, from driver.Ptr) error {
	if r.bias.Len() == r.y.Len() {
		n.copy(to, from, int64(r.y.Bytes()))
		return nil
	}
	f := noFinish()
	f.BiasRow, f.BiasColumn = r.finish.BiasRow, r.finish.BiasColumn
	return n.finish(r, from, 0, f)
}

// multiply appends a call of cuBLAS for each index of the outer axes of a batch.
func (n *Node) multiply(blas *cuda.BLAS, call *driver.BLASProduct, alpha, beta float32, outer []int, steps [3][]int) error {
	work := n.scratch(blas.WorkspaceBytes())
	size := driver.Ptr(n.Out[0].Type.Bits() / 8)
	for i := range count(outer) {
		c := *call
		rest := i
		for k := len(outer) - 1; k >= 0; k-- {
			at := rest % outer[k]
			rest /= outer[k]
			c.A.At += driver.Ptr(at*steps[0][k]) * size
			c.B.At += driver.Ptr(at*steps[1][k]) * size
			c.C.At += driver.Ptr(at*steps[2][k]) * size
		}
		product, err := blas.Product(&c, alpha, beta, work)
		if err != nil {
			return err
		}
		n.work = append(n.work, product.Run)
	}
	return nil
}

// finish appends a launch that writes the elements of a result from a bias, or from what
// was there, without any sums.
func (n *Node) finish(r *result, bias, added driver.Ptr, f finish) error {
	y, err := n.at(r.y)
	if err != nil {
		return err
	}
	k := n.kernel("finish.cu", "finish", "ELEMENT="+cType[r.y.Type])
	return n.launch(k, blocksFor(r.y.Len()), threadsPerBlock,
		y, driver.Ptr(0), bias, added, uint32(r.y.Len()), int32(0), uint32(r.rows), uint32(r.columns), f)
}

// columnMajor describes one product of the batch to cuBLAS, whose matrices lie column by
// column. A result whose columns are neighbours is the transposed one there, Yᵀ = Bᵀ·Aᵀ;
// one whose rows are neighbours is Y = A·B itself. first and second are the indices, in
// the order a, b, of the operands that become cuBLAS's A and B. It returns nil if a
// matrix has neighbours in neither direction.
func (p *matrices) columnMajor(a, b driver.Ptr) (call *driver.BLASProduct, first, second int) {
	type side struct{ length, step, deep int }
	sides := [2]side{{p.m, p.aRow, p.aDeep}, {p.n, p.bColumn, p.bDeep}}
	first, second = 1, 0
	step, lead := p.yColumn, p.yRow
	if p.n > 1 && p.yColumn != 1 {
		first, second = 0, 1
		step, lead = p.yRow, p.yColumn
	}
	x, y := sides[first], sides[second]
	call = &driver.BLASProduct{M: int32(x.length), N: int32(y.length), K: int32(p.k), Batch: 1}
	at := [2]driver.Ptr{a, b}
	call.A.At, call.B.At = at[first], at[second]
	var ok [3]bool
	if call.A.Lead, ok[0] = leading(x.step, x.length, x.deep, p.k); !ok[0] {
		call.A.Transpose = true
		call.A.Lead, ok[0] = leading(x.deep, p.k, x.step, x.length)
	}
	if call.B.Lead, ok[1] = leading(y.deep, p.k, y.step, y.length); !ok[1] {
		call.B.Transpose = true
		call.B.Lead, ok[1] = leading(y.step, y.length, y.deep, p.k)
	}
	call.C.Lead, ok[2] = leading(step, x.length, lead, y.length)
	if ok != [3]bool{true, true, true} {
		return nil, 0, 0
	}
	return call, first, second
}

// leading returns the leading dimension of a matrix whose columns have length elements,
// step apart, and lie apart elements from one another. ok is false if the elements of a
// column are no neighbours, or columns meet.
func leading(step, length, apart, columns int) (lead int32, ok bool) {
	if columns == 1 {
		apart = length
	}
	return int32(apart), (step == 1 || length == 1) && apart >= max(length, 1) && apart <= math.MaxInt32
}

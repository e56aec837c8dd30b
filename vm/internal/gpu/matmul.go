package gpu

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// products lists the products of matrices.
var products = []Row{
	{Name: "MatMul", Make: makeMatMul},
	{Name: "Gemm", Make: makeGemm},
}

// matrixBatch is the struct MatMul of kernels/matmul.cu.
type matrixBatch struct {
	M, N, K, Chunk              int32
	Total                       int64
	ARow, ADeep, BColumn, BDeep int64
	YRow, YColumn               int64
	Axes, Wide                  int32
	Length                      [6]int32
	AStep, BStep, YStep         [6]int64
}

// matrices is a batch of products.
type matrices struct {
	m, n, k                     int
	aRow, aDeep, bColumn, bDeep int
	yRow, yColumn               int
	batch                       []int    // lengths of its axes
	steps                       [3][]int // of a, b and y along the batch
}

// launch appends the launches of a batch of products of inputs.
func (p *matrices) launch(n *Node, a, b *form.Tensor, r *result) error {
	definitions, err := n.definitions(r.y, a, b)
	if err != nil {
		return err
	}
	p.merge()
	if len(p.batch) > 6 {
		return unsupportedf("a batch of products with %d axes", len(p.batch))
	}
	if max(p.m, p.n, p.k) > math.MaxInt32-128 {
		return unsupportedf("a product of %dx%d and %dx%d", p.m, p.k, p.k, p.n)
	}
	at, err := n.addresses(a, b)
	if err != nil {
		return err
	}
	if done, err := p.byLibrary(n, at[0], at[1], r); done || err != nil {
		return err
	}
	n.computes("onnxmem", r.y.Type, n.k.tf32(r.y.Type))
	s := splitProduct(n.tiles(r.y), p.m, p.n, p.k, count(p.batch))
	v := p.params(&s, r.y.Len(), r.room != nil || n.aligned(r.y))
	return n.launchProduct(n.kernel("matmul.cu", "product", definitions...), s, r, a, b, productPart{s.tiles, v})
}

// params is what the kernel takes. The result has total elements, and four columns of it
// lie at a multiple of their size if it is aligned and its steps allow it.
func (p *matrices) params(s *split, total int, aligned bool) matrixBatch {
	v := matrixBatch{
		M: int32(p.m), N: int32(p.n), K: int32(p.k), Chunk: int32(s.chunk), Total: int64(total),
		ARow: int64(p.aRow), ADeep: int64(p.aDeep), BColumn: int64(p.bColumn), BDeep: int64(p.bDeep),
		YRow: int64(p.yRow), YColumn: int64(p.yColumn), Axes: int32(len(p.batch)),
	}
	aligned = aligned && p.yColumn == 1 && p.yRow%4 == 0
	for i, length := range p.batch {
		v.Length[i] = int32(length)
		v.AStep[i], v.BStep[i], v.YStep[i] = int64(p.steps[0][i]), int64(p.steps[1][i]), int64(p.steps[2][i])
		aligned = aligned && p.steps[2][i]%4 == 0
	}
	if aligned {
		v.Wide = 1
	}
	return v
}

// launchSums appends a launch of a batch of products whose sums go to scratch, in the type
// that kernels compute in. a and b are addresses of elements of the tensor's dtype.
func (p *matrices) launchSums(n *Node, t *form.Tensor, definitions []string, room cuda.Room, a, b driver.Ptr) error {
	none := driver.Ptr(0)
	return p.launchAt(n, t, definitions, none, room, a, b, none, 0, true, noFinish())
}

// launchAt appends a launch of a batch of products whose sums are not divided. The places are
// parameters: y of total elements, or sums in scratch, the operands, and a bias. t has the dtype,
// and aligned is as for params.
func (p *matrices) launchAt(n *Node, t *form.Tensor, definitions []string, y, sums, a, b, bias any, total int, aligned bool, f finish) error {
	if max(p.m, p.n, p.k) > math.MaxInt32-128 {
		return unsupportedf("a product of %dx%d and %dx%d", p.m, p.k, p.k, p.n)
	}
	s := splitProduct(tilesOf(computeBytes(t)), p.m, p.n, p.k, count(p.batch))
	s.parts, s.chunk = 1, p.k
	if s.tiles > math.MaxInt32 {
		return unsupportedf("a product of %d tiles", s.tiles)
	}
	k := n.kernel("matmul.cu", "product"+s.tile.suffix, definitions...)
	return n.launch(k, s.tiles, s.tile.threads, y, sums, a, b, bias, driver.Ptr(0), p.params(&s, total, aligned), f)
}

// merge joins neighbouring axes of the batch, and the rows with an axis of the batch that
// b does not have.
func (p *matrices) merge() {
	var batch []int
	var steps [3][]int
	for i := len(p.batch) - 1; i >= 0; i-- {
		length := p.batch[i]
		if length == 1 {
			continue
		}
		joins := len(batch) > 0
		for k := range steps {
			joins = joins && p.steps[k][i] == steps[k][0]*batch[0]
		}
		if joins {
			batch[0] *= length
			continue
		}
		batch = slices.Insert(batch, 0, length)
		for k := range steps {
			steps[k] = slices.Insert(steps[k], 0, p.steps[k][i])
		}
	}
	p.batch, p.steps = batch, steps
	if last := len(batch) - 1; last >= 0 && steps[1][last] == 0 && steps[0][last] == p.m*p.aRow && steps[2][last] == p.m*p.yRow {
		p.m *= batch[last]
		p.batch = batch[:last]
		for k := range p.steps {
			p.steps[k] = p.steps[k][:last]
		}
	}
}

// matrixSide is an operand of a batch of products as rows x columns, whose elements are
// rowStep and columnStep apart.
type matrixSide struct {
	batch, steps                       []int
	rows, columns, rowStep, columnStep int
}

// newMatrixSide reads the shape of an operand. transBatch moves its first axis behind the
// other axes of the batch, and trans then swaps the last two axes.
func newMatrixSide(shape []int, trans, transBatch bool) *matrixSide {
	rank := len(shape)
	steps := make([]int, rank)
	step := 1
	for i := rank - 1; i >= 0; i-- {
		steps[i] = step
		step *= shape[i]
	}
	row, first := rank-2, 0
	if transBatch {
		row, first = 0, 1
	}
	s := &matrixSide{
		rows: shape[row], columns: shape[rank-1], rowStep: steps[row], columnStep: 1,
		batch: shape[first : first+rank-2], steps: steps[first : first+rank-2],
	}
	if trans {
		s.rows, s.columns, s.rowStep, s.columnStep = s.columns, s.rows, s.columnStep, s.rowStep
	}
	return s
}

// along returns the steps of a side along the axes of a batch that its own is broadcast
// to.
func (s *matrixSide) along(batch []int) []int {
	steps := make([]int, len(batch))
	for i, length := range s.batch {
		if length != 1 {
			steps[i+len(batch)-len(s.batch)] = s.steps[i]
		}
	}
	return steps
}

// newMatrices returns the batch of products of two operands; vectors are a row on the left
// and a column on the right. The flags are those of FusedMatMul.
func newMatrices(a, b []int, transA, transB, batchA, batchB bool) *matrices {
	row, column := len(a) == 1, len(b) == 1
	if row {
		a = []int{1, a[0]}
	}
	if column {
		b = []int{b[0], 1}
	}
	l, r := newMatrixSide(a, transA && !row, batchA && !row), newMatrixSide(b, transB && !column, batchB && !column)
	batch := slices.Clone(l.batch)
	if len(r.batch) > len(batch) {
		batch = append(slices.Repeat([]int{1}, len(r.batch)-len(batch)), batch...)
	}
	for i, length := range r.batch {
		if at := i + len(batch) - len(r.batch); batch[at] == 1 {
			batch[at] = length
		}
	}
	p := &matrices{
		m: l.rows, n: r.columns, k: l.columns, yRow: r.columns, yColumn: 1,
		aRow: l.rowStep, aDeep: l.columnStep, bColumn: r.columnStep, bDeep: r.rowStep, batch: batch,
	}
	to := make([]int, len(batch))
	step := p.m * p.n
	for i := len(batch) - 1; i >= 0; i-- {
		to[i] = step
		step *= batch[i]
	}
	p.steps = [3][]int{l.along(batch), r.along(batch), to}
	return p
}

func makeMatMul(n *Node) error {
	p := newMatrices(n.In[0].Shape, n.In[1].Shape, false, false, false, false)
	return p.launch(n, n.In[0], n.In[1], &result{y: n.Out[0], rows: p.m, columns: p.n, finish: noFinish()})
}

func makeFusedMatMul(n *Node) error {
	is := func(name string) bool { return n.Int(name, 0) != 0 }
	p := newMatrices(n.In[0].Shape, n.In[1].Shape, is("transA"), is("transB"), is("transBatchA"), is("transBatchB"))
	r := &result{y: n.Out[0], rows: p.m, columns: p.n, finish: noFinish()}
	r.finish.Alpha = n.Float("alpha", 1)
	return p.launch(n, n.In[0], n.In[1], r)
}

func makeGemm(n *Node) error { return gemm(n, &form.Activation{}) }

// makeFusedGemm is Gemm and an activation.
func makeFusedGemm(n *Node) error {
	return gemm(n, n.TitledActivation())
}

// gemm computes alpha·A'·B' + beta·C, where C broadcasts to the result, and an activation.
func gemm(n *Node, then *form.Activation) error {
	y := n.Out[0]
	p := newMatrices(n.In[0].Shape, n.In[1].Shape, n.Int("transA", 0) != 0, n.Int("transB", 0) != 0, false, false)
	r := &result{y: y, rows: p.m, columns: p.n, finish: noFinish()}
	r.finish.Alpha, r.finish.Beta = n.Float("alpha", 1), n.Float("beta", 1)
	if c := n.Input(2); c != nil && r.finish.Beta != 0 {
		r.bias = c
		steps := stridesIn(c.Shape, y.Shape)
		r.finish.BiasRow, r.finish.BiasColumn = int64(steps[0]), int64(steps[1])
	}
	if err := r.take(then); err != nil {
		return err
	}
	return p.launch(n, n.In[0], n.In[1], r)
}

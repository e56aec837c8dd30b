package lower

import (
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// QDQ fusion: a convolution or matrix product with constant weights between DequantizeLinear and
// QuantizeLinear is computed as a product of integers, whose exact sums are requantized once. The
// plan stays as it is, since each of the three steps reads and writes its own tensors only, or what
// the plan's places permit ([lowering.omitCopies]):
//
//	DequantizeLinear   x.q (bytes)          -> x  copies the bytes
//	Conv               x   (bytes)          -> y  computes bytes from bytes
//	QuantizeLinear     y   (bytes)          -> y.q copies the bytes
//
// The tensors x and y then hold bytes in the place of their reals ([quantized]). If x has
// other readers, it holds reals, and the product quantizes them again, which gives the
// same bytes. In the same way, the mean of each channel is computed from exact sums, an
// image is multiplied by a number for each channel, and two tensors are added, if all readers
// of what they read are computed so. The graph and its constants alone decide what is fused, so a
// run with separate tensors gives the same bits.

// joined is a node that is computed from and to bytes.
type joined struct {
	call kernel.Invocation
	from []*scaled // the DequantizeLinear of the first inputs, which are no weights
	To   *scaled   // QuantizeLinear
	real bool      // input 0 holds reals

	weights bool // it is a product by weights, which are the other inputs
}

// operand is the input of the call that stands for one of the inputs in from.
func (j *joined) operand(i int) *kernel.Tensor { return j.call.In[3*i] }

// weighted says how an operator multiplies its weights, input 1.
type weighted struct {
	op       string // of quantized tensors
	channels int    // of the output
	axis     int    // of the weights' channels
}

// weighted returns how a step multiplies weights of a shape, and false if it cannot be
// computed from and to bytes.
func (st *Step) weighted(shape []int) (w weighted, can bool) {
	op := st.Node().Op
	switch {
	case op == "Conv":
		return weighted{"QLinearConv", shape[0], 0}, true
	case len(shape) != 2:
	case op == "MatMul":
		return weighted{"QLinearMatMul", shape[1], 1}, true
	case op == "Gemm":
		w = weighted{"QGemm", shape[1], 1}
		if st.Call().Int("transB", 0) != 0 {
			w.channels, w.axis = shape[0], 0
		}
		can = st.Call().Float("alpha", 1) == 1
		if len(st.In) > 2 && st.In[2] != nil { // it must be a row
			c := st.In[2]
			can = can && st.Call().Float("beta", 1) == 1 && len(c.Shape) > 0 && c.Shape[len(c.Shape)-1] == w.channels && c.Len() == w.channels
		}
		return w, can
	}
	return w, false
}

// scaled is a tensor that a DequantizeLinear or QuantizeLinear with constant scale makes
// or reads.
type scaled struct {
	Step  *Step
	bytes *values.Tensor // the quantized tensor
	scale *values.Tensor
	zero  *values.Tensor // nil: 0
}

// The range of scales for which bytes can be recovered from reals: in it, no real
// overflows or loses a bit to underflow.
const (
	leastScale = 0x1p-100
	mostScale  = 0x1p100
)

// scaledBy returns the parts of a DequantizeLinear to float32, or a QuantizeLinear of
// float32, whose scale and zero point are constant.
func (st *Step) scaledBy(op string) *scaled {
	n := st.Node()
	if n.Op != op || n.Domain != "" || n.Semantics.Call != nil || !st.Exact() || len(st.In) < 2 || len(st.Out) != 1 || st.Out[0] == nil ||
		st.Call().Int("block_size", 0) != 0 || !st.In[1].Const || st.In[1].Type != graph.Float32 {
		return nil
	}
	if open, err := st.check(); open || err != nil {
		return nil // prepare reports it
	}
	q, reals := &scaled{Step: st, bytes: st.In[0], scale: st.In[1]}, st.Out[0]
	if op == "QuantizeLinear" {
		q.bytes, reals = st.Out[0], st.In[0]
	}
	if reals.Type != graph.Float32 { // the scale may have another type
		return nil
	}
	if len(st.In) > 2 && st.In[2] != nil {
		if q.zero = st.In[2]; !q.zero.Const {
			return nil
		}
	}
	scales, _ := q.scale.Tensor.Reals()
	for _, s := range scales {
		if !(s >= leastScale && s <= mostScale) {
			return nil
		}
	}
	return q
}

// whole reports whether one scale and zero point serve all elements of a tensor of bytes.
func (q *scaled) whole() bool {
	return q.bytes.Byte() && q.scale.Len() == 1 && (q.zero == nil || q.zero.Len() == 1)
}

// maker returns the node of this frame that makes input i of st as a DequantizeLinear. It
// looks through Identity, by which exporters share biases.
func (st *Step) maker(i int) *scaled {
	if i >= len(st.In) || st.In[i] == nil {
		return nil
	}
	for id := st.Node().Inputs[i]; id != graph.None; {
		t := st.Frame.Graph.Tensors[id]
		if t.Capture || t.Maker < 0 {
			return nil
		}
		m := st.Frame.Steps[t.Maker]
		n := m.Node()
		if i != 2 || !ops.Copies(n) || len(n.Inputs) != 1 || n.Semantics.Call != nil {
			return m.scaledBy("DequantizeLinear")
		}
		id = n.Inputs[0]
	}
	return nil
}

// alone returns the only reader of output 0 of st; nil if there are others.
func (st *Step) alone() *Step {
	t := st.Frame.Graph.Tensors[st.Node().Outputs[0]]
	if t.Output || len(t.Readers) != 1 {
		return nil
	}
	return st.Frame.Steps[t.Readers[0]]
}

// joiner is how the operator of a node is computed from and to bytes; nil if it is not.
func joiner(n *graph.Node) func(st *Step, x, y *scaled) *joined {
	op := ops.Lookup(n.Domain, n.Op)
	if op == nil || !op.Joins {
		return nil
	}
	switch op.Class {
	case ops.Product:
		return (*Step).joinProduct
	case ops.Reduce, ops.Window:
		return (*Step).joinMeans
	}
	return map[string]func(st *Step, x, y *scaled) *joined{"Add": (*Step).joinSum, "Mul": (*Step).joinFactors}[n.Op]
}

// join returns how a node is computed from and to bytes; nil if it is not.
func (st *Step) join() *joined {
	n := st.Node()
	join := joiner(n)
	if join == nil || n.Semantics.Call != nil || !st.Exact() || len(st.Out) != 1 || st.Out[0] == nil || st.Out[0].Len() == 0 {
		return nil
	}
	x, next := st.maker(0), st.alone()
	if x == nil || next == nil || next.Node().Inputs[0] != n.Outputs[0] {
		return nil
	}
	y := next.scaledBy("QuantizeLinear")
	if y == nil || !x.whole() || !y.whole() || x.bytes.Const {
		return nil
	}
	if open, err := st.check(); open || err != nil {
		return nil
	}
	return join(st, x, y)
}

// newJoined is a node computed by an operator on quantized tensors.
func (st *Step) newJoined(op string, y *scaled, from ...*scaled) *joined {
	n := st.Node()
	j := &joined{from: from, To: y}
	j.call = kernel.Invocation{
		Call: form.Call{
			Node:    &graph.Node{Name: n.Name, Op: op, Attrs: n.Attrs},
			Version: 10,
			Runtime: st,
			Out:     []*kernel.Tensor{{Type: y.bytes.Type, Shape: y.bytes.Shape}},
		},
		Walls:   st.Call().Walls,
		Workers: st.Call().Workers,
	}
	for _, x := range from {
		j.call.In = append(j.call.In, &kernel.Tensor{Type: x.bytes.Type, Shape: x.bytes.Shape}, of(x.scale), of(x.zero))
	}
	return j
}

// withResult adds the scale and the zero point of the result to the inputs.
func (j *joined) withResult() *joined {
	j.call.In = append(j.call.In, of(j.To.scale), of(j.To.zero))
	return j
}

// joinMeans is join for the mean of each channel.
func (st *Step) joinMeans(x, y *scaled) *joined {
	if ops.ClassOf(st.Node()) == ops.Reduce {
		drop, err := form.ReducedAxes(&st.Call().Call)
		if err != nil || len(drop) < 3 || drop[0] || drop[1] || slices.Contains(drop[2:], false) {
			return nil
		}
	}
	j := st.newJoined("QLinearGlobalAveragePool", y, x)
	j.call.Node.Attrs = nil
	return j.withResult()
}

// joinFactors is join for an image that is multiplied by a number for each channel.
func (st *Step) joinFactors(x, y *scaled) *joined {
	z := st.maker(1)
	if z == nil || !z.whole() || z.bytes.Const {
		return nil
	}
	image, factors := x.bytes, z.bytes
	if image.Len() < factors.Len() {
		image, factors = factors, image
	}
	if !slices.Equal(image.Shape, y.bytes.Shape) || !kernel.IsChannels(&factors.Tensor, &image.Tensor) {
		return nil
	}
	return st.newJoined("QLinearMul", y, x, z).withResult()
}

// joinSum is join for the sum of two tensors of one shape. It needs an operand that another
// node reads as well, or else a chain computes the sum without copies of the operands.
func (st *Step) joinSum(x, y *scaled) *joined {
	z := st.maker(1)
	if z == nil || !z.whole() || z.bytes.Const || x.Step == z.Step || !slices.Equal(x.bytes.Shape, z.bytes.Shape) {
		return nil
	}
	if !slices.ContainsFunc(st.Node().Inputs, func(t graph.TensorID) bool { return len(st.Frame.Graph.Tensors[t].Readers) > 1 }) {
		return nil
	}
	return st.newJoined("QLinearAdd", y, x, z).withResult()
}

// joinProduct is join for a convolution or matrix product.
func (st *Step) joinProduct(x, y *scaled) *joined {
	w := st.maker(1)
	if w == nil || !w.bytes.Byte() || !w.bytes.Const {
		return nil
	}
	how, can := st.weighted(w.bytes.Shape)
	if !can || how.channels == 0 {
		return nil
	}
	for _, t := range []*values.Tensor{w.scale, w.zero} {
		if t != nil && t.Len() != 1 && (t.Len() != how.channels || w.Step.Call().Int("axis", 1) != how.axis) {
			return nil
		}
	}
	bias, fits := st.wholeBias(x, w, how.channels)
	if !fits {
		return nil
	}
	j := st.newJoined(how.op, y, x)
	j.weights = true
	j.call.In = append(j.call.In, of(w.bytes), of(w.scale), of(w.zero))
	scale, zero := of(y.scale), of(y.zero)
	switch how.op {
	case "QLinearConv":
		j.call.In = append(j.call.In, scale, zero, bias)
	case "QGemm":
		j.call.In = append(j.call.In, bias, scale, zero)
	default:
		j.call.In = append(j.call.In, scale, zero)
	}
	return j
}

func of(t *values.Tensor) *kernel.Tensor {
	if t == nil {
		return nil
	}
	return &t.Tensor
}

// mostProduct is the largest product of two bytes less their zero points.
const mostProduct = 255 * 255

// wholeBias returns the bias of a product in units of the product of the scales of x
// and w; nil if it has none. It reports false if the bias has other units, or if a sum may
// exceed 32 bits.
func (st *Step) wholeBias(x, w *scaled, channels int) (bias *kernel.Tensor, fits bool) {
	largest := int64(w.bytes.Len()/channels) * mostProduct
	if len(st.In) < 3 || st.In[2] == nil {
		return nil, largest <= math.MaxInt32
	}
	b := st.maker(2)
	if b == nil || !b.bytes.Const || b.bytes.Type != graph.Int32 {
		return nil, false
	}
	if b.zero != nil {
		if list, ok := b.zero.Integers(); !ok || anyBut0(list) {
			return nil, false
		}
	}
	list, _ := b.bytes.Integers()
	if !anyBut0(list) { // 0 in any units
		return &b.bytes.Tensor, largest <= math.MaxInt32
	}
	units, _ := b.scale.Tensor.Reals()
	weights, _ := w.scale.Tensor.Reals()
	image, _ := x.scale.Tensor.Reals()
	for i, v := range list {
		if float32(units[i%len(units)]) != float32(image[0])*float32(weights[i%len(weights)]) {
			return nil, false
		}
		if largest+int64(max(v, -v)) > math.MaxInt32 {
			return nil, false
		}
	}
	return &b.bytes.Tensor, largest <= math.MaxInt32
}

func anyBut0(list []int) bool {
	for _, v := range list {
		if v != 0 {
			return true
		}
	}
	return false
}

// fuseQDQ computes from bytes to bytes between DequantizeLinear and QuantizeLinear.
func (l *lowering) fuseQDQ() error {
	if err := l.computeQuantized(l.f); err != nil {
		return err
	}
	l.f.joinQuantized()
	return nil
}

// joinQuantized finds the nodes of a frame that are computed from and to bytes, and what
// their neighbours do.
func (f *Frame) joinQuantized() {
	found := make([]*joined, len(f.Steps))
	for i, st := range f.Steps {
		found[i] = st.join()
	}
	for again := true; again; {
		again = false
		for i, j := range found {
			if j != nil && !j.weights && slices.ContainsFunc(j.from, func(q *scaled) bool { return !f.onlyJoined(found, q.Step, 0) }) {
				found[i], again = nil, true
			}
		}
	}
	for at, st := range f.Steps {
		j := found[at]
		if j == nil {
			continue
		}
		st.Out[0].Quantized = j.To.quantized()
		for i, from := range j.from {
			if j.real = !f.onlyJoined(found, from.Step, 0); !j.real {
				st.In[i].Quantized = from.quantized()
			}
		}
		// It reads the bytes of weights, which are constant.
		task := f.newTask(st, st.In[:len(j.from)], st.Out)
		task.joined = j
		for i := len(j.from); i < len(st.In) && j.weights; i++ {
			if st.In[i] == nil {
				continue
			}
			if m := f.Steps[f.Graph.Tensors[st.Node().Inputs[i]].Maker]; f.onlyJoined(found, m, i) {
				task.covers(m) // unless another product does, which reads it, too
				if f.Site.Compared != nil {
					f.Site.Compared.LeaveOut(m)
				}
			}
		}
	}
	for _, st := range f.Steps {
		if quantizes, dequantizes := ops.Converts(st.Node()); quantizes && st.holdsBytes(st.In[0]) || dequantizes && st.holdsBytes(st.Out[0]) {
			f.newTask(st, st.In[:1], st.Out).run = st.byteCopy()
		}
	}
}

// holdsBytes reports whether a QuantizeLinear or DequantizeLinear copies bytes, since its neighbour
// computes the reals of one side from or to bytes.
func (st *Step) holdsBytes(reals *values.Tensor) bool { return reals != nil && placeOf(reals).Bytes }

// byteCopy returns what copies the bytes of a tensor; the workers share many, which lie in the caches
// of all cores.
func (st *Step) byteCopy() func(*work.Pool) error {
	from, to := st.In[0], st.Out[0]
	n := to.Len()
	part := func(p, _ int) {
		i := p * work.PollEvery
		size := min(work.PollEvery, n-i)
		copy(unsafe.Slice((*byte)(unsafe.Add(to.At, i)), size), unsafe.Slice((*byte)(unsafe.Add(from.At, i)), size))
	}
	return func(w *work.Pool) error {
		w.For((n+work.PollEvery-1)/work.PollEvery, part)
		return nil
	}
}

// onlyJoined reports whether all readers of output 0 of st are joined and read it as input
// i, a weight or bias, or, for input 0, as one that is no weight.
func (f *Frame) onlyJoined(found []*joined, st *Step, i int) bool {
	id := st.Node().Outputs[0]
	t := f.Graph.Tensors[id]
	if t.Output {
		return false
	}
	for _, r := range t.Readers {
		reader := f.Steps[r]
		if found[r] == nil {
			return false
		}
		for k, in := range reader.Node().Inputs {
			if first := k < len(found[r].from); in == id && (first != (i == 0) || !first && k != i) {
				return false
			}
		}
	}
	return true
}

// quantized returns how the bytes represent reals.
func (q *scaled) quantized() *values.Quantized {
	as := &values.Quantized{Bytes: kernel.Tensor{Type: q.bytes.Type, Shape: q.bytes.Shape}}
	list, _ := q.scale.Tensor.Reals()
	as.Scale = list[0]
	if q.zero != nil {
		list, _ := q.zero.Tensor.Reals()
		as.Zero = list[0]
	}
	return as
}

// prepare prepares the kernel of a task that is computed from and to bytes.
func (j *joined) prepare(t *Task) (kernel.Run, error) {
	var real *kernel.Tensor
	if j.real {
		real = t.Reads[0].Of.Kernels()
	}
	j.call.Out[0].Layout = t.Writes[0].Layout
	for i := range j.from {
		j.operand(i).Layout = t.Reads[i].Layout
	}
	run, err := kernel.Quantized(&j.call, real)
	if err != nil {
		return nil, err
	}
	call := t.At.Call()
	call.SharedBytes, call.EachBytes = j.call.SharedBytes, j.call.EachBytes
	return func(w *work.Pool) error {
		j.call.Out[0].At = t.Writes[0].Of.At
		for i := range j.from {
			if !j.real {
				j.operand(i).At = t.Reads[i].Of.At
			}
		}
		return run(w)
	}, nil
}

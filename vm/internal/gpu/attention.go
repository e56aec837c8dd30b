package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// attentions lists the attention operators of ai.onnx.
var attentions = []Row{
	{Name: "Attention", Make: makeAttention},
	{Name: "RotaryEmbedding", Make: makeRotary},
}

// headSteps is the struct Heads of kernels/heads.cuh.
type headSteps struct{ batch, head, position int64 }

func stepsOf(h form.HeadLayout) headSteps {
	return headSteps{int64(h.Batch), int64(h.Head), int64(h.Position)}
}

// These are the enumerations of kernels/attention.cuh.
type (
	maskKind   int32 // Mask: what a mask holds
	causality  int32 // Causal: which later keys a query sees
	numberKind int32 // Numbers: what the numbers of keys are
	sinkKind   int32 // Sinks: the scores without a value
)

const (
	noMask maskKind = iota
	maskSeen
	maskLengths
	maskMarked
	maskSpans
)

const (
	seesLater causality = iota
	ownIsLast
	lastSeesAll
)

const (
	noNumbers numberKind = iota
	totals
	counted
)

const (
	noSinks sinkKind = iota
	zeroSinks
	sinkOfHead
)

// attending is the struct Attention there.
type attending struct {
	q, k, v, y                     headSteps
	heads, shared                  int32
	queries, keys, size, valueSize int32
	past                           int32
	causal                         causality
	left, right, window            int32
	mask                           maskKind
	maskWidth                      int32
	stage                          int32
	wide                           int32
	numbers                        numberKind
	sinks                          sinkKind
	filters                        int32
	filter, scale, cap             float32
	_                              int32
	maskSteps, addedSteps          [3]int64
}

// newAttending describes an attention in which each query sees all keys.
func newAttending(heads, shared, queries, keys, size, valueSize int) *attending {
	return &attending{
		heads: int32(heads), shared: int32(shared), queries: int32(queries), keys: int32(keys), size: int32(size), valueSize: int32(valueSize),
		left: -1, right: -1, maskWidth: int32(keys),
	}
}

// masks is the struct Masks there.
type masks struct{ added, mask, sinks driver.Ptr }

// attended are the addresses of what an attention reads, and of what it shows of the scores.
type attended struct {
	q, k, v, numbers any
	masks            masks
	shown            driver.Ptr
}

// addedOf are the steps of a tensor of scores [batch or 1, heads or 1, queries, keys].
func addedOf(t *form.Tensor) (steps [3]int64) {
	n := int64(t.Shape[3])
	steps[2] = n
	n *= int64(t.Shape[2])
	for axis := 1; axis >= 0; axis-- {
		if t.Shape[axis] != 1 {
			steps[axis] = n
		}
		n *= int64(t.Shape[axis])
	}
	return steps
}

// queriesPerBlock is the number of queries, and of keys, of a tile of scores.
const queriesPerBlock = 64

// attend appends the launches of an attention over a batch.
func (n *Node) attend(s *attending, batch int, element string, index string, a *attended, f faults) error {
	y := n.Out[0]
	at, err := n.at(y)
	if err != nil || y.Len() == 0 {
		return err
	}
	if a.shown == 0 && decodes(s) {
		return n.decode(s, batch, element, at, a, f)
	}
	name, columns := "attend64", 64
	if s.valueSize > 64 {
		name, columns = "attend128", 128
	}
	if n.aligned(y) && (s.y.batch|s.y.head|s.y.position)%4 == 0 {
		s.wide = 1
	}
	blocks := cuts(int(s.queries), queriesPerBlock) * int(s.heads) * batch
	across := cuts(int(s.valueSize), columns)
	if blocks > math.MaxInt32 || across > math.MaxUint16 {
		return unsupportedf("attention of %d blocks of queries and %d of values", blocks, across)
	}
	grid, block := driver.Dim3{X: uint32(blocks), Y: uint32(across), Z: 1}, driver.Dim3{X: 128, Y: 1, Z: 1}
	if a.shown == 0 && y.Type.Bits() == 16 && n.k.tensor(y.Type) {
		kernel := n.kernel("attention_tensor.cu", name, "ELEMENT="+element, "INDEX="+index, "TENSOR")
		n.Way = "on tensor cores"
		return n.launch3(kernel, grid, block, 0, at, a.q, a.k, a.v, a.masks, a.numbers, *s, f)
	}
	kernel := n.kernel("attention.cu", name, "ELEMENT="+element, "INDEX="+index)
	return n.launch3(kernel, grid, block, 0,
		at, a.q, a.k, a.v, a.masks, a.shown, a.numbers, *s, f)
}

// narrowReals refuses tensors that are not of one real dtype of at most 32 bits.
func narrowReals(list ...*form.Tensor) error {
	if err := sameReals(list[0], list[1:]...); err != nil {
		return err
	}
	if list[0].Type == graph.Float64 {
		return unsupportedf("dtype %v", list[0].Type)
	}
	return nil
}

// makeAttention concatenates past keys and values with the new ones where they are wanted
// as outputs.
func makeAttention(n *Node) error {
	x := n.In[0]
	if err := narrowReals(x, n.In[1], n.In[2], n.Input(4), n.Input(5), n.Out[0]); err != nil {
		return err
	}
	f := n.Attention()
	key, err := n.present(f, 1, 4, 1, f.Key, f.Size)
	if err != nil {
		return err
	}
	value, err := n.present(f, 2, 5, 2, f.Value, f.ValueSize)
	if err != nil {
		return err
	}
	s := newAttending(f.Heads, f.Heads/f.KVHeads, f.Queries, f.Keys(), f.Size, f.ValueSize)
	s.q, s.k, s.v, s.y = stepsOf(f.Q), stepsOf(key.layout), stepsOf(value.layout), stepsOf(f.Y)
	s.past, s.causal, s.left, s.right = int32(f.Past), causality(flag(f.Causal)), int32(f.Left), int32(f.Right)
	s.stage, s.scale, s.cap = int32(f.Stage), f.Scale, f.Cap
	valid, check := n.Input(6), faults{}
	if valid != nil {
		if valid.Type != graph.Int64 || valid.Len() != f.Batch {
			return unsupportedf("lengths of dtype %v and shape %v", valid.Type, valid.Shape)
		}
		s.numbers, check = totals, n.checks(checked{index: valid, length: always(f.Keys() + 1), fromZero: true})
	}
	mask := n.Input(3)
	at, err := n.addresses(x, key.t, value.t, mask, n.output(3), valid)
	if err != nil {
		return err
	}
	a := &attended{q: at[0], k: at[1], v: at[2], shown: at[4], numbers: at[5]}
	if mask != nil {
		s.maskWidth = int32(f.MaskWidth)
		steps := [3]int64{int64(f.MaskSteps[0]), int64(f.MaskSteps[1]), int64(f.MaskSteps[2])}
		switch mask.Type {
		case x.Type:
			s.addedSteps, a.masks.added = steps, at[3]
		case graph.Bool:
			s.mask, s.maskSteps, a.masks.mask = maskSeen, steps, at[3]
		default:
			return unsupportedf("a mask of dtype %v", mask.Type)
		}
	}
	return n.attend(s, f.Batch, cType[x.Type], indexOf(x, key.t, value.t), a, check)
}

// indexOf is the C type of the indices of the elements of tensors.
func indexOf(list ...*form.Tensor) string {
	for _, t := range list {
		if t.Len() > math.MaxInt32 {
			return "i64"
		}
	}
	return "int"
}

// cached are keys or values, with the past ones.
type cached struct {
	t      *form.Tensor
	layout form.HeadLayout
}

// present appends the copies of past and new keys, or values, to an output, if it is
// wanted, and returns where all of them are.
func (n *Node) present(f *form.Attention, fresh, past, out int, layout form.HeadLayout, size int) (c cached, err error) {
	c = cached{n.In[fresh], layout}
	if !n.HasOut(out) {
		if n.Has(past) {
			err = unsupportedf("past keys without the output of all keys")
		}
		return c, err
	}
	if n.Out[out].Type != n.In[fresh].Type {
		return c, unsupportedf("dtype %v beside %v", n.Out[out].Type, n.In[fresh].Type)
	}
	heads, before := f.Batch*f.KVHeads, 0
	total := f.Fresh
	if n.Has(past) {
		before = n.In[past].Shape[2]
		total += before
		err = n.move(&form.Move{In: past, Out: out, Shape: []int{heads, before * size}, From: []int{before * size, 1}, To: []int{total * size, 1}})
	}
	if err == nil {
		err = n.move(&form.Move{
			In: fresh, Out: out, ToOff: before * size, Shape: []int{f.Batch, f.KVHeads, f.Fresh, size},
			From: []int{layout.Batch, layout.Head, layout.Position, 1}, To: []int{f.KVHeads * total * size, total * size, size, 1},
		})
	}
	if n.Has(past) {
		c = cached{n.Out[out], form.HeadsFirst(f.KVHeads, total, size)}
	}
	return c, err
}

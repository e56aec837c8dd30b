package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// attentions lists the attention operators of ai.onnx.
var attentions = []Row{
	{Name: "Attention", Make: makeAttention},
	{Name: "RotaryEmbedding", Make: makeRotary},
}

// contribAttentions lists those of ONNX Runtime.
var contribAttentions = []Row{
	{Name: "Attention", Make: makePackedAttention},
	{Name: "RotaryEmbedding", Make: makeContribRotary},
}

// headSteps is the struct Heads of kernels/attention.cu.
type headSteps struct{ batch, head, position int64 }

func stepsOf(h kernel.HeadLayout) headSteps {
	return headSteps{int64(h.Batch), int64(h.Head), int64(h.Position)}
}

// maskKind says what a mask holds, as the enumeration Mask there.
type maskKind int32

const (
	noMask maskKind = iota
	maskAdded
	maskSeen
	maskLengths
	maskMarked
)

// attending is the struct Attention there.
type attending struct {
	q, k, v, y                     headSteps
	heads, shared                  int32
	queries, keys, size, valueSize int32
	past                           int32
	causal, left, right            int32
	mask                           maskKind
	maskWidth                      int32
	stage                          int32
	wide                           int32
	maskSteps                      [3]int64
	scale, cap                     float32
	filters                        int32
	filter                         float32
}

// queriesPerBlock is the number of queries, and of keys, of a tile of scores.
const queriesPerBlock = 64

// attend appends the launch of an attention over a batch. The operands are the addresses
// of queries, keys, values, mask, what is shown of the scores, and numbers of valid keys.
func (n *Node) attend(s *attending, batch int, element string, index string, q, k, v any, mask, shown, valid driver.Ptr, f faults) error {
	y := n.Out[0]
	at, err := n.at(y)
	if err != nil {
		return err
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
	kernel := n.kernel("attention.cu", name, "ELEMENT="+element, "INDEX="+index)
	return n.launch3(kernel, driver.Dim3{X: uint32(blocks), Y: uint32(across), Z: 1}, driver.Dim3{X: 128, Y: 1, Z: 1}, 0,
		at, q, k, v, mask, shown, valid, *s, f)
}

// narrowReals refuses tensors that are not of one real dtype of at most 32 bits.
func narrowReals(list ...*kernel.Tensor) error {
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
	if err := narrowReals(x, n.In[1], n.In[2], n.input(4), n.input(5), n.Out[0]); err != nil {
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
	s := &attending{
		q: stepsOf(f.Q), k: stepsOf(key.layout), v: stepsOf(value.layout), y: stepsOf(f.Y),
		heads: int32(f.Heads), shared: int32(f.Heads / f.KVHeads), queries: int32(f.Queries), keys: int32(f.Keys()),
		size: int32(f.Size), valueSize: int32(f.ValueSize), past: int32(f.Past), left: int32(f.Left), right: int32(f.Right),
		maskWidth: int32(f.MaskWidth), stage: int32(f.Stage), scale: f.Scale, cap: f.Cap, causal: flag(f.Causal),
	}
	for i, step := range f.MaskSteps {
		s.maskSteps[i] = int64(step)
	}
	mask := n.input(3)
	switch {
	case mask == nil:
	case mask.Type == x.Type:
		s.mask = maskAdded
	case mask.Type == graph.Bool:
		s.mask = maskSeen
	default:
		return unsupportedf("a mask of dtype %v", mask.Type)
	}
	valid, check := n.input(6), faults{}
	if valid != nil {
		if valid.Type != graph.Int64 || valid.Len() != f.Batch {
			return unsupportedf("lengths of dtype %v and shape %v", valid.Type, valid.Shape)
		}
		check = n.faults(valid, always(f.Keys()+1))
		n.k.checked[len(n.k.checked)-1].fromZero = true
	}
	at, err := n.addresses(x, key.t, value.t, mask, n.output(3), valid)
	if err != nil {
		return err
	}
	return n.attend(s, f.Batch, cType[x.Type], indexOf(x, key.t, value.t), at[0], at[1], at[2], at[3], at[4], at[5], check)
}

// indexOf is the C type of the indices of the elements of tensors.
func indexOf(list ...*kernel.Tensor) string {
	for _, t := range list {
		if t.Len() > math.MaxInt32 {
			return "i64"
		}
	}
	return "int"
}

// cached are keys or values, with the past ones.
type cached struct {
	t      *kernel.Tensor
	layout kernel.HeadLayout
}

// present appends the copies of past and new keys, or values, to an output, if it is
// wanted, and returns where all of them are.
func (n *Node) present(f *kernel.AttentionForm, fresh, past, out int, layout kernel.HeadLayout, size int) (c cached, err error) {
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
		err = n.move(&kernel.Move{In: past, Out: out, Shape: []int{heads, before * size}, From: []int{before * size, 1}, To: []int{total * size, 1}})
	}
	if err == nil {
		err = n.move(&kernel.Move{
			In: fresh, Out: out, ToOff: before * size, Shape: []int{f.Batch, f.KVHeads, f.Fresh, size},
			From: []int{layout.Batch, layout.Head, layout.Position, 1}, To: []int{f.KVHeads * total * size, total * size, size, 1},
		})
	}
	if n.Has(past) {
		c = cached{n.Out[out], kernel.HeadsFirst(f.KVHeads, total, size)}
	}
	return c, err
}

// makePackedAttention computes queries, keys and values by one product, in scratch.
func makePackedAttention(n *Node) error {
	x, weight, bias := n.In[0], n.In[1], n.input(2)
	if err := narrowReals(x, weight, bias, n.Out[0]); err != nil {
		return err
	}
	f, err := n.PackedAttention()
	if err != nil {
		return refused(err)
	}
	qkv := &kernel.Tensor{Type: x.Type, Shape: []int{f.Batch, f.Length, f.Wide}}
	room := n.scratch(int64(qkv.Bytes()))
	p := newMatrices(x.Shape, weight.Shape, false, false, false, false)
	r := &result{y: qkv, room: &room, bias: bias, rows: p.m, columns: p.n, finish: noFinish()}
	r.finish.BiasColumn = 1
	if err := p.launch(n, x, weight, r); err != nil {
		return err
	}
	layout := stepsOf(f.Layout())
	s := &attending{
		q: layout, k: layout, v: layout, y: stepsOf(kernel.PositionsFirst(f.Heads, f.Length, f.Size)),
		heads: int32(f.Heads), shared: 1, queries: int32(f.Length), keys: int32(f.Length), size: int32(f.Size), valueSize: int32(f.Size),
		left: -1, right: -1, scale: f.Scale, filters: 1, filter: f.Filter, causal: flag(f.Causal),
	}
	switch m := f.Mask; {
	case m == nil:
	case m.Type != graph.Int32:
		return unsupportedf("a mask of dtype %v", m.Type)
	case len(m.Shape) == 1:
		s.mask = maskLengths
	default:
		s.mask, s.maskSteps[0] = maskMarked, int64(f.Length)
	}
	mask, err := n.at(f.Mask)
	if err != nil {
		return err
	}
	part := func(i int) cuda.Room {
		off := int64(i * f.Hidden * qkv.Bytes() / qkv.Len())
		return cuda.Room{Base: room.Base, Off: room.Off + off, Bytes: room.Bytes - off}
	}
	return n.attend(s, f.Batch, cType[x.Type], indexOf(qkv), part(0), part(1), part(2), mask, 0, 0, faults{})
}

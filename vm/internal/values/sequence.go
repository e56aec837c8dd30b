package values

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Node is an operator on sequences, optionals and maps, ready to run.
type Node struct {
	*Space
	Call    *kernel.Invocation
	In, Out []*Tensor // nil for those that are left out
}

// Boxers lists the operators on sequences, optionals and maps. They are no kernels, since
// their values are no tensors.
var Boxers = map[[2]string]func(x *Node) error{
	{"", "SequenceEmpty"}:      (*Node).sequenceEmpty,
	{"", "SequenceConstruct"}:  (*Node).sequenceConstruct,
	{"", "SequenceInsert"}:     (*Node).sequenceInsert,
	{"", "SequenceErase"}:      (*Node).sequenceErase,
	{"", "SequenceAt"}:         (*Node).sequenceAt,
	{"", "SequenceLength"}:     (*Node).sequenceLength,
	{"", "SplitToSequence"}:    (*Node).splitToSequence,
	{"", "ConcatFromSequence"}: (*Node).concatFromSequence,
	{"", "Optional"}:           (*Node).optional,
	{"", "OptionalHasElement"}: (*Node).optionalHasElement,
	{"", "OptionalGetElement"}: (*Node).optionalGetElement,
	{"", "Constant"}:           (*Node).constantStrings,
	{"ai.onnx.ml", "ZipMap"}:   (*Node).zipMap,

	{"ai.onnx.ml", "CastMap"}:        (*Node).castMap,
	{"ai.onnx.ml", "DictVectorizer"}: (*Node).dictVectorizer,
}

// Arg describes a box for ops.Check.
func (b *Box) Arg() ops.Arg {
	a := ops.Arg{Present: true, Type: b.Typed()}
	if b.Kind == graph.KindMap || b.Kind == graph.KindTensor || len(b.Items) > ops.MostItems {
		return a
	}
	a.Value = &ops.Value{Items: make([]ops.Arg, len(b.Items))}
	for i, item := range b.Items {
		a.Value.Items[i] = item.Arg()
	}
	return a
}

// Sequence returns input i, which must be a sequence.
func (x *Node) Sequence(i int) (*Box, error) {
	if t := x.In[i]; t.Box == nil || t.Box.Kind != graph.KindSequence {
		return nil, fmt.Errorf("input %d %q is no sequence", i, graph.Short(t.Name))
	}
	return x.In[i].Box, nil
}

// position returns the position that input i gives in a sequence of n items, or otherwise
// if it is left out. A position below 0 counts from the end.
func (x *Node) position(i, n, most, otherwise int) (int, error) {
	if i >= len(x.In) || x.In[i] == nil {
		return otherwise, nil
	}
	list, ok := x.In[i].Integers()
	if !ok || len(list) != 1 {
		return 0, fmt.Errorf("input %d %q is %v, expected one integer", i, graph.Short(x.In[i].Name), TypeOf(x.In[i]))
	}
	at := list[0]
	if at < -n || at > most {
		return 0, fmt.Errorf("position is %d, expected one of [%d, %d] in a sequence of %d items", at, -n, most, n)
	}
	if at < 0 {
		at += n
	}
	return at, nil
}

// shareAll returns references to items.
func shareAll(items []*Box) []*Box {
	list := make([]*Box, len(items), len(items)+1)
	for i, b := range items {
		list[i] = b.Shared()
	}
	return list
}

// sets makes a sequence of items, to which it takes over the references, the value of
// output 0.
func (x *Node) sets(elem graph.DType, items []*Box) error {
	s := x.Space
	for i, b := range items {
		if b.Kind != graph.KindTensor || b.Tensor.Type != elem {
			what := b.Typed()
			s.UnboxEach(items)
			return fmt.Errorf("item %d of the sequence is %v, expected a tensor of %v", i, what, elem)
		}
	}
	b, err := s.Box(graph.KindSequence, elem, items)
	if err != nil {
		return err
	}
	return s.Put(x.Out[0], b)
}

// elemOf is the element type of a sequence to which an item of type d is added.
func (b *Box) elemOf(d graph.DType) graph.DType {
	if b.elem == graph.Undefined {
		return d
	}
	return b.elem
}

func (x *Node) sequenceEmpty() error {
	return x.sets(graph.DType(x.Call.Int("dtype", int(graph.Float32))), nil)
}

func (x *Node) sequenceConstruct() error {
	var items []*Box
	for _, t := range x.In {
		b, err := x.ItemOf(t)
		if err != nil {
			x.UnboxEach(items)
			return err
		}
		items = append(items, b)
	}
	return x.sets(x.In[0].Type, items)
}

func (x *Node) sequenceInsert() error {
	from, err := x.Sequence(0)
	if err != nil {
		return err
	}
	n := len(from.Items)
	at, err := x.position(2, n, n, n)
	if err != nil {
		return err
	}
	b, err := x.ItemOf(x.In[1])
	if err != nil {
		return err
	}
	return x.sets(from.elemOf(x.In[1].Type), slices.Insert(shareAll(from.Items), at, b))
}

func (x *Node) sequenceErase() error {
	from, err := x.Sequence(0)
	if err != nil {
		return err
	}
	n := len(from.Items)
	if n == 0 {
		return fmt.Errorf("erases an item of an empty sequence")
	}
	at, err := x.position(1, n, n-1, n-1)
	if err != nil {
		return err
	}
	return x.sets(from.elem, shareAll(append(slices.Clone(from.Items[:at]), from.Items[at+1:]...)))
}

func (x *Node) sequenceAt() error {
	from, err := x.Sequence(0)
	if err != nil {
		return err
	}
	n := len(from.Items)
	at, err := x.position(1, n, n-1, -1)
	if err != nil {
		return err
	}
	return x.Put(x.Out[0], from.Items[at].Shared())
}

func (x *Node) sequenceLength() error {
	from, err := x.Sequence(0)
	if err != nil {
		return err
	}
	n := int64(len(from.Items))
	return x.Assign(x.Out[0], scalarAt(unsafe.Pointer(&n), graph.Int64))
}

// scalarAt is a scalar tensor.
func scalarAt(at unsafe.Pointer, d graph.DType) *Tensor {
	return &Tensor{Tensor: kernel.Tensor{Type: d, Shape: []int{}, At: at}}
}

// parts returns the lengths of the parts of a SplitToSequence.
func (x *Node) parts(length int) ([]int, error) {
	size := 1
	if len(x.In) > 1 && x.In[1] != nil {
		t := x.In[1]
		list, ok := t.Integers()
		if !ok || len(t.Shape) > 1 || len(t.Shape) == 0 && (len(list) != 1 || list[0] < 1) {
			return nil, fmt.Errorf("split is %v, expected lengths", TypeOf(t))
		}
		if len(t.Shape) == 1 {
			sum := 0
			for _, n := range list {
				if n < 0 || n > length-sum {
					return nil, fmt.Errorf("split has a part of %d, expected lengths that add up to %d", n, length)
				}
				sum += n
			}
			if sum != length {
				return nil, fmt.Errorf("split adds up to %d, expected %d", sum, length)
			}
			return list, nil
		}
		size = list[0]
	}
	n := length / size
	if length%size != 0 {
		n++
	}
	if err := x.Mem.Take(8 * int64(n)); err != nil { // the list
		return nil, err
	}
	defer x.Mem.Give(8 * int64(n))
	list := make([]int, n)
	for i := range list {
		list[i] = min(size, length-i*size)
	}
	return list, nil
}

func (x *Node) splitToSequence() error {
	s, in := x.Space, x.In[0]
	axis, err := attr.Axis("axis", int64(x.Call.Int("axis", 0)), len(in.Shape))
	if err != nil {
		return err
	}
	if form.ElementBits(in.Type) < 8 {
		return fmt.Errorf("%w for dtype %v", form.ErrUnsupported, in.Type)
	}
	list, err := x.parts(in.Shape[axis])
	if err != nil {
		return err
	}
	drop := (len(x.In) < 2 || x.In[1] == nil) && x.Call.Int("keepdims", 1) == 0
	inner, outer := form.ElementBits(in.Type)/8, 1
	for _, n := range in.Shape[axis+1:] {
		inner *= n
	}
	for _, n := range in.Shape[:axis] {
		outer *= n
	}
	whole, off := BytesOf(in), 0
	items := make([]*Box, 0, len(list))
	for _, n := range list {
		s.Pool.Poll()
		shape := slices.Clone(in.Shape)
		if shape[axis] = n; drop {
			shape = slices.Delete(shape, axis, axis+1)
		}
		b, err := s.item("an item", in.Type, shape)
		if err != nil {
			s.UnboxEach(items)
			return err
		}
		items = append(items, b)
		to, width := b.Data(), n*inner
		for o := 0; o < outer && width > 0; o++ {
			s.CopyBytes(to[o*width:(o+1)*width], whole[o*in.Shape[axis]*inner+off:])
		}
		off += width
	}
	return x.sets(in.Type, items)
}

func (x *Node) concatFromSequence() error {
	from, err := x.Sequence(0)
	if err != nil {
		return err
	}
	if len(from.Items) == 0 {
		return fmt.Errorf("input 0 %q is an empty sequence, expected at least one item", graph.Short(x.In[0].Name))
	}
	s, first := x.Space, &from.Items[0].Tensor
	fresh := x.Call.Int("new_axis", 0) != 0
	rank := len(first.Shape)
	if fresh {
		rank++
	}
	axis, err := attr.Axis("axis", int64(x.Call.Int("axis", 0)), rank)
	if err != nil {
		return err
	}
	length := 0
	for i, b := range from.Items {
		t, fits := &b.Tensor, len(b.Tensor.Shape) == len(first.Shape) && b.Tensor.Type == first.Type
		for k := 0; fits && k < len(t.Shape); k++ {
			fits = t.Shape[k] == first.Shape[k] || !fresh && k == axis
		}
		if !fits {
			return fmt.Errorf("item %d of the sequence is %v, expected one that joins item 0 %v along axis %d", i, b.Typed(), from.Items[0].Typed(), axis)
		}
		n := 1
		if !fresh {
			n = t.Shape[axis]
		}
		if n > math.MaxInt-length {
			return fmt.Errorf("%w", graph.ErrTooLarge)
		}
		length += n
	}
	shape := slices.Clone(first.Shape)
	if fresh {
		shape = slices.Insert(shape, axis, length)
	} else {
		shape[axis] = length
	}
	out := x.Out[0]
	if err := out.Takes(&Tensor{Tensor: *first}); err != nil {
		return err
	}
	if err := s.Resize(out, shape); err != nil {
		return err
	}
	outer, off, whole := 1, 0, BytesOf(out)
	for _, n := range shape[:axis] {
		outer *= n
	}
	if outer == 0 {
		return nil
	}
	row := len(whole) / outer
	for _, b := range from.Items {
		s.Pool.Poll()
		data := b.Data()
		width := len(data) / outer
		for o := range outer {
			s.CopyBytes(whole[o*row+off:o*row+off+width], data[o*width:])
		}
		off += width
	}
	return nil
}

func (x *Node) optional() error {
	var items []*Box
	elem := graph.Undefined
	if len(x.In) > 0 && x.In[0] != nil {
		b, err := x.ItemOf(x.In[0])
		if err != nil {
			return err
		}
		items = []*Box{b}
	}
	b, err := x.Box(graph.KindOptional, elem, items)
	if err != nil {
		return err
	}
	return x.Put(x.Out[0], b)
}

func (x *Node) optionalHasElement() error {
	has := len(x.In) > 0 && x.In[0] != nil
	if has {
		if b := x.In[0].Box; b != nil && b.Kind == graph.KindOptional {
			has = len(b.Items) > 0
		}
	}
	return x.Assign(x.Out[0], scalarAt(unsafe.Pointer(&has), graph.Bool))
}

func (x *Node) optionalGetElement() error {
	b := x.In[0].Box
	if b == nil || b.Kind != graph.KindOptional {
		return x.Same()
	}
	if len(b.Items) == 0 {
		return fmt.Errorf("input 0 %q is an empty optional, expected one that holds an element", graph.Short(x.In[0].Name))
	}
	return x.Put(x.Out[0], b.Items[0].Shared())
}

// Same copies the value of input 0.
func (x *Node) Same() error { return x.Assign(x.Out[0], x.In[0]) }

// constantStrings writes the strings of a Constant node. Its numbers are no step's work.
func (x *Node) constantStrings() error {
	for _, a := range x.Call.Node.Attrs {
		shape, list := []int{}, []string{a.String}
		switch a.Name {
		case "value_strings":
			list = a.Strings
			shape = []int{len(list)}
		case "value_string":
		default:
			continue
		}
		out := x.Out[0]
		if err := out.Takes(&Tensor{Tensor: kernel.Tensor{Type: graph.String}}); err != nil {
			return err
		}
		if err := x.Resize(out, shape); err != nil {
			return err
		}
		return x.StoreTexts(BytesOf(out), list)
	}
	return fmt.Errorf("%w for its attributes", form.ErrUnsupported)
}

// zipMap makes a map of the names of the columns and the scores of all rows: it stands
// for a sequence of maps, one per row, all of which have the same keys.
func (x *Node) zipMap() error {
	s, in := x.Space, x.In[0]
	if in.Type != graph.Float32 || len(in.Shape) != 1 && len(in.Shape) != 2 {
		return fmt.Errorf("input 0 %q is %v, expected float32 [rows columns]", graph.Short(in.Name), TypeOf(in))
	}
	n := in.Shape[len(in.Shape)-1]
	numbers, words := x.Call.Ints("classlabels_int64s"), x.Call.Strings("classlabels_strings")
	if len(words) > 0 && len(numbers) > 0 || len(words)+len(numbers) != n {
		return fmt.Errorf("classlabels_strings and classlabels_int64s have %d and %d labels, expected %d of one kind, as columns", len(words), len(numbers), n)
	}
	keys := graph.Int64
	if len(words) > 0 {
		keys = graph.String
	}
	k, err := s.item("the keys of a map", keys, []int{n})
	if err != nil {
		return err
	}
	if keys == graph.String {
		if err := s.StoreTexts(k.Data(), words); err != nil {
			s.Unbox(k)
			return err
		}
	} else {
		for i, v := range numbers {
			binary.LittleEndian.PutUint64(k.Data()[8*i:], uint64(v))
		}
	}
	v, err := s.ItemOf(in)
	if err != nil {
		s.Unbox(k)
		return err
	}
	if len(v.Tensor.Shape) == 1 {
		v.Tensor.Shape = []int{1, n}
	}
	b, err := s.Box(graph.KindMap, keys, []*Box{k, v})
	if err != nil {
		return err
	}
	return s.Put(x.Out[0], b)
}

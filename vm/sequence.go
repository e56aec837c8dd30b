package vm

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// boxers lists the operators on sequences, optionals and maps. They are no kernels, since
// their values are no tensors.
var boxers = map[[2]string]func(st *step) error{
	{"", "SequenceEmpty"}:      (*step).sequenceEmpty,
	{"", "SequenceConstruct"}:  (*step).sequenceConstruct,
	{"", "SequenceInsert"}:     (*step).sequenceInsert,
	{"", "SequenceErase"}:      (*step).sequenceErase,
	{"", "SequenceAt"}:         (*step).sequenceAt,
	{"", "SequenceLength"}:     (*step).sequenceLength,
	{"", "SplitToSequence"}:    (*step).splitToSequence,
	{"", "ConcatFromSequence"}: (*step).concatFromSequence,
	{"", "Optional"}:           (*step).optional,
	{"", "OptionalHasElement"}: (*step).optionalHasElement,
	{"", "OptionalGetElement"}: (*step).optionalGetElement,
	{"", "Constant"}:           (*step).constantStrings,
	{"ai.onnx.ml", "ZipMap"}:   (*step).zipMap,

	{"ai.onnx.ml", "CastMap"}:        (*step).castMap,
	{"ai.onnx.ml", "DictVectorizer"}: (*step).dictVectorizer,
}

// boxer returns the function of a node whose values are not all tensors; nil if they are.
func (st *step) boxer() func(*step) error {
	n := st.n()
	if f := boxers[[2]string{n.Domain, n.Op}]; f != nil {
		return f
	}
	if ops.Copies(n) && len(st.in) == 1 && st.in[0] != nil && len(st.out) == 1 {
		if k := st.f.g.Tensors[n.Inputs[0]].Type.Kind; k != graph.KindTensor && k != graph.KindSparse {
			return (*step).same
		}
	}
	return nil
}

// runBoxer checks the inputs of a node (ops.Check) and runs it.
func (st *step) runBoxer(do func(*step) error) kernel.Run {
	return func(*work.Pool) error {
		c := &ops.Call{Node: st.n(), Version: st.version(), Graph: st.f.g, In: make([]ops.Arg, len(st.in)), Out: make([]ops.Arg, len(st.out))}
		st.live = true
		defer func() { st.live = false }()
		for i, t := range st.in {
			switch {
			case t == nil:
			case t.box != nil:
				c.In[i] = t.box.arg()
			case t.Type == graph.Undefined || t.Shape == nil:
				return fmt.Errorf("input %d %q has no value", i, graph.Short(t.name))
			default:
				c.In[i] = st.argOf(i, t)
			}
		}
		for i, t := range st.out {
			if t == nil {
				continue
			}
			c.Out[i].Present = true
			if t.exact {
				c.Out[i].Type = typeOf(t)
			}
		}
		if _, err := ops.Check(c); err != nil {
			return err
		}
		if len(st.out) == 0 || st.out[0] == nil {
			return nil
		}
		return do(st)
	}
}

// arg describes a box for ops.Check.
func (b *box) arg() ops.Arg {
	a := ops.Arg{Present: true, Type: b.typed()}
	if b.kind == graph.KindMap || b.kind == graph.KindTensor || len(b.items) > ops.MostItems {
		return a
	}
	a.Value = &ops.Value{Items: make([]ops.Arg, len(b.items))}
	for i, item := range b.items {
		a.Value.Items[i] = item.arg()
	}
	return a
}

// sequence returns input i, which must be a sequence.
func (st *step) sequence(i int) (*box, error) {
	if t := st.in[i]; t.box == nil || t.box.kind != graph.KindSequence {
		return nil, fmt.Errorf("input %d %q is no sequence", i, graph.Short(t.name))
	}
	return st.in[i].box, nil
}

// position returns the position that input i gives in a sequence of n items, or otherwise
// if it is left out. A position below 0 counts from the end.
func (st *step) position(i, n, most, otherwise int) (int, error) {
	if i >= len(st.in) || st.in[i] == nil {
		return otherwise, nil
	}
	list, ok := st.in[i].Integers()
	if !ok || len(list) != 1 {
		return 0, fmt.Errorf("input %d %q is %v, expected one integer", i, graph.Short(st.in[i].name), typeOf(st.in[i]))
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
func shareAll(items []*box) []*box {
	list := make([]*box, len(items), len(items)+1)
	for i, b := range items {
		list[i] = b.shared()
	}
	return list
}

// sets makes a sequence of items, to which it takes over the references, the value of
// output 0.
func (st *step) sets(elem graph.DType, items []*box) error {
	s := st.f.s
	for i, b := range items {
		if b.kind != graph.KindTensor || b.tensor.Type != elem {
			what := b.typed()
			s.unboxEach(items)
			return fmt.Errorf("item %d of the sequence is %v, expected a tensor of %v", i, what, elem)
		}
	}
	b, err := s.box(graph.KindSequence, elem, items)
	if err != nil {
		return err
	}
	return s.put(st.out[0], b)
}

// elemOf is the element type of a sequence to which an item of type d is added.
func (b *box) elemOf(d graph.DType) graph.DType {
	if b.elem == graph.Undefined {
		return d
	}
	return b.elem
}

func (st *step) sequenceEmpty() error {
	return st.sets(graph.DType(st.call().Int("dtype", int(graph.Float32))), nil)
}

func (st *step) sequenceConstruct() error {
	var items []*box
	for _, t := range st.in {
		b, err := st.f.s.itemOf(t)
		if err != nil {
			st.f.s.unboxEach(items)
			return err
		}
		items = append(items, b)
	}
	return st.sets(st.in[0].Type, items)
}

func (st *step) sequenceInsert() error {
	from, err := st.sequence(0)
	if err != nil {
		return err
	}
	n := len(from.items)
	at, err := st.position(2, n, n, n)
	if err != nil {
		return err
	}
	b, err := st.f.s.itemOf(st.in[1])
	if err != nil {
		return err
	}
	return st.sets(from.elemOf(st.in[1].Type), slices.Insert(shareAll(from.items), at, b))
}

func (st *step) sequenceErase() error {
	from, err := st.sequence(0)
	if err != nil {
		return err
	}
	n := len(from.items)
	if n == 0 {
		return fmt.Errorf("erases an item of an empty sequence")
	}
	at, err := st.position(1, n, n-1, n-1)
	if err != nil {
		return err
	}
	return st.sets(from.elem, shareAll(append(slices.Clone(from.items[:at]), from.items[at+1:]...)))
}

func (st *step) sequenceAt() error {
	from, err := st.sequence(0)
	if err != nil {
		return err
	}
	n := len(from.items)
	at, err := st.position(1, n, n-1, -1)
	if err != nil {
		return err
	}
	return st.f.s.put(st.out[0], from.items[at].shared())
}

func (st *step) sequenceLength() error {
	from, err := st.sequence(0)
	if err != nil {
		return err
	}
	n := int64(len(from.items))
	return st.f.s.assign(st.out[0], scalarAt(unsafe.Pointer(&n), graph.Int64))
}

// scalarAt is a scalar tensor.
func scalarAt(at unsafe.Pointer, d graph.DType) *tensor {
	return &tensor{Tensor: kernel.Tensor{Type: d, Shape: []int{}, At: at}}
}

// parts returns the lengths of the parts of a SplitToSequence.
func (st *step) parts(length int) ([]int, error) {
	size := 1
	if len(st.in) > 1 && st.in[1] != nil {
		t := st.in[1]
		list, ok := t.Integers()
		if !ok || len(t.Shape) > 1 || len(t.Shape) == 0 && (len(list) != 1 || list[0] < 1) {
			return nil, fmt.Errorf("split is %v, expected lengths", typeOf(t))
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
	if err := st.f.s.mem.Take(8 * int64(n)); err != nil { // the list
		return nil, err
	}
	defer st.f.s.mem.Give(8 * int64(n))
	list := make([]int, n)
	for i := range list {
		list[i] = min(size, length-i*size)
	}
	return list, nil
}

func (st *step) splitToSequence() error {
	s, in := st.f.s, st.in[0]
	axis, err := attr.Axis("axis", int64(st.call().Int("axis", 0)), len(in.Shape))
	if err != nil {
		return err
	}
	if form.ElementBits(in.Type) < 8 {
		return fmt.Errorf("%w for dtype %v", ErrUnsupported, in.Type)
	}
	list, err := st.parts(in.Shape[axis])
	if err != nil {
		return err
	}
	drop := (len(st.in) < 2 || st.in[1] == nil) && st.call().Int("keepdims", 1) == 0
	inner, outer := form.ElementBits(in.Type)/8, 1
	for _, n := range in.Shape[axis+1:] {
		inner *= n
	}
	for _, n := range in.Shape[:axis] {
		outer *= n
	}
	whole, off := bytesOf(in), 0
	items := make([]*box, 0, len(list))
	for _, n := range list {
		s.pool.Poll()
		shape := slices.Clone(in.Shape)
		if shape[axis] = n; drop {
			shape = slices.Delete(shape, axis, axis+1)
		}
		b, err := s.item("an item", in.Type, shape)
		if err != nil {
			s.unboxEach(items)
			return err
		}
		items = append(items, b)
		to, width := b.data(), n*inner
		for o := 0; o < outer && width > 0; o++ {
			s.copyBytes(to[o*width:(o+1)*width], whole[o*in.Shape[axis]*inner+off:])
		}
		off += width
	}
	return st.sets(in.Type, items)
}

func (st *step) concatFromSequence() error {
	from, err := st.sequence(0)
	if err != nil {
		return err
	}
	if len(from.items) == 0 {
		return fmt.Errorf("input 0 %q is an empty sequence, expected at least one item", graph.Short(st.in[0].name))
	}
	s, first := st.f.s, &from.items[0].tensor
	fresh := st.call().Int("new_axis", 0) != 0
	rank := len(first.Shape)
	if fresh {
		rank++
	}
	axis, err := attr.Axis("axis", int64(st.call().Int("axis", 0)), rank)
	if err != nil {
		return err
	}
	length := 0
	for i, b := range from.items {
		t, fits := &b.tensor, len(b.tensor.Shape) == len(first.Shape) && b.tensor.Type == first.Type
		for k := 0; fits && k < len(t.Shape); k++ {
			fits = t.Shape[k] == first.Shape[k] || !fresh && k == axis
		}
		if !fits {
			return fmt.Errorf("item %d of the sequence is %v, expected one that joins item 0 %v along axis %d", i, b.typed(), from.items[0].typed(), axis)
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
	out := st.out[0]
	if err := out.takes(&tensor{Tensor: *first}); err != nil {
		return err
	}
	if err := s.resize(out, shape); err != nil {
		return err
	}
	outer, off, whole := 1, 0, bytesOf(out)
	for _, n := range shape[:axis] {
		outer *= n
	}
	if outer == 0 {
		return nil
	}
	row := len(whole) / outer
	for _, b := range from.items {
		s.pool.Poll()
		data := b.data()
		width := len(data) / outer
		for o := range outer {
			s.copyBytes(whole[o*row+off:o*row+off+width], data[o*width:])
		}
		off += width
	}
	return nil
}

func (st *step) optional() error {
	var items []*box
	elem := graph.Undefined
	if len(st.in) > 0 && st.in[0] != nil {
		b, err := st.f.s.itemOf(st.in[0])
		if err != nil {
			return err
		}
		items = []*box{b}
	}
	b, err := st.f.s.box(graph.KindOptional, elem, items)
	if err != nil {
		return err
	}
	return st.f.s.put(st.out[0], b)
}

func (st *step) optionalHasElement() error {
	has := len(st.in) > 0 && st.in[0] != nil
	if has {
		if b := st.in[0].box; b != nil && b.kind == graph.KindOptional {
			has = len(b.items) > 0
		}
	}
	return st.f.s.assign(st.out[0], scalarAt(unsafe.Pointer(&has), graph.Bool))
}

func (st *step) optionalGetElement() error {
	b := st.in[0].box
	if b == nil || b.kind != graph.KindOptional {
		return st.same()
	}
	if len(b.items) == 0 {
		return fmt.Errorf("input 0 %q is an empty optional, expected one that holds an element", graph.Short(st.in[0].name))
	}
	return st.f.s.put(st.out[0], b.items[0].shared())
}

// same copies the value of input 0.
func (st *step) same() error { return st.f.s.assign(st.out[0], st.in[0]) }

// constantStrings writes the strings of a Constant node. Its numbers are no step's work.
func (st *step) constantStrings() error {
	for _, a := range st.n().Attrs {
		shape, list := []int{}, []string{a.String}
		switch a.Name {
		case "value_strings":
			list = a.Strings
			shape = []int{len(list)}
		case "value_string":
		default:
			continue
		}
		out := st.out[0]
		if err := out.takes(&tensor{Tensor: kernel.Tensor{Type: graph.String}}); err != nil {
			return err
		}
		if err := st.f.s.resize(out, shape); err != nil {
			return err
		}
		return st.f.s.store(bytesOf(out), list)
	}
	return fmt.Errorf("%w for its attributes", ErrUnsupported)
}

// zipMap makes a map of the names of the columns and the scores of all rows: it stands
// for a sequence of maps, one per row, all of which have the same keys.
func (st *step) zipMap() error {
	s, in := st.f.s, st.in[0]
	if in.Type != graph.Float32 || len(in.Shape) != 1 && len(in.Shape) != 2 {
		return fmt.Errorf("input 0 %q is %v, expected float32 [rows columns]", graph.Short(in.name), typeOf(in))
	}
	n := in.Shape[len(in.Shape)-1]
	numbers, words := st.call().Ints("classlabels_int64s"), st.call().Strings("classlabels_strings")
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
		if err := s.store(k.data(), words); err != nil {
			s.unbox(k)
			return err
		}
	} else {
		for i, v := range numbers {
			copy(k.data()[8*i:], binaryInt(v))
		}
	}
	v, err := s.itemOf(in)
	if err != nil {
		s.unbox(k)
		return err
	}
	if len(v.tensor.Shape) == 1 {
		v.tensor.Shape = []int{1, n}
	}
	b, err := s.box(graph.KindMap, keys, []*box{k, v})
	if err != nil {
		return err
	}
	return s.put(st.out[0], b)
}

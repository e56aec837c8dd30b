package gpu

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// indexing lists the operators that read elements at given indices.
var indexing = []Row{
	{Name: "Gather", Make: makeGather},
	{Name: "GatherElements", Make: makeGatherElements},
	{Name: "GatherND", Make: makeGatherND},
	{Name: "ReverseSequence", Make: makeReverseSequence},
}

// indexType returns the name of the dtype of indices in the kernels.
func indexType(t *form.Tensor) (string, error) {
	if t.Type != graph.Int64 && t.Type != graph.Int32 {
		return "", unsupportedf("indices of dtype %v", t.Type)
	}
	return cType[t.Type], nil
}

// axis returns the attribute axis, or its default, in [0, rank).
func (n *Node) axis(otherwise, rank int) (int, error) {
	return attr.Axis("axis", int64(n.Int("axis", otherwise)), rank)
}

// always returns a function that returns a length.
func always(n int) func(int) int { return func(int) int { return n } }

// tooLarge refuses tensors whose elements 32 bits cannot count.
func tooLarge(list ...*form.Tensor) error {
	for _, t := range list {
		if t.Len() > most {
			return unsupportedf("a tensor of %d elements, more than %d", t.Len(), most)
		}
	}
	return nil
}

// makeGather copies the slice at each index along an axis.
func makeGather(n *Node) error {
	in, index := n.In[0], n.In[1]
	k, err := n.axis(0, len(in.Shape))
	if err != nil {
		return err
	}
	width, err := widthOf(in)
	if err != nil {
		return err
	}
	name, err := indexType(index)
	if err != nil {
		return err
	}
	at, err := n.addresses(index)
	if err != nil {
		return err
	}
	length := in.Shape[k]
	return n.gather(&gathering{
		width: width, inner: count(in.Shape[k+1:]), many: index.Len(), n: length,
		index: at[0], indexType: name, faults: n.faults(index, always(length)),
	})
}

// gathering is a copy of slices of inner elements, of width bytes each, from input 0 to
// output 0: many indices choose from n slices.
type gathering struct {
	width, inner, many, n int
	index                 any // the parameter that points to the indices
	indexType             string
	faults                faults
}

func (n *Node) gather(g *gathering) error {
	at, err := n.addresses(n.Out[0], n.In[0])
	if err != nil {
		return err
	}
	g.width, g.inner = widened(g.width, g.inner, at[0], at[1])
	total := n.Out[0].Bytes() / g.width
	if max(total, g.n) > most {
		return unsupportedf("%d elements, more than %d", max(total, g.n), most)
	}
	f := n.kernel("gather.cu", "gather", "ELEMENT="+unitOf[g.width], "INDEX="+g.indexType)
	return n.launch(f, blocksFor(total), threadsPerBlock, at[0], at[1], g.index, uint32(total),
		unsigned(divider(g.inner), 4), unsigned(divider(g.many), 4), uint32(g.n), g.faults)
}

// widened returns the width and the number of the elements of slices when neighbours are taken
// as one, of up to 16 bytes, where the addresses of the slices allow it.
func widened(width, inner int, at ...driver.Ptr) (int, int) {
	for width < 16 && inner%2 == 0 && !slices.ContainsFunc(at, func(p driver.Ptr) bool { return p%driver.Ptr(2*width) != 0 }) {
		width, inner = 2*width, inner/2
	}
	return width, inner
}

// makeReverseSequence turns round the first slices of each sequence, as many as its length
// says.
func makeReverseSequence(n *Node) error {
	in, lengths := n.In[0], n.In[1]
	width, err := widthOf(in)
	if err != nil {
		return err
	}
	if err := needTypes(graph.Int64, lengths); err != nil {
		return err
	}
	if in.Len() == 0 {
		return nil
	}
	at, err := n.addresses(n.Out[0], in, lengths)
	if err != nil {
		return err
	}
	rows, columns, across := in.Shape[0], in.Shape[1], n.Int("batch_axis", 1)
	if (across != 0 && across != 1) || lengths.Len() != in.Shape[across] {
		return unsupportedf("%d lengths of sequences along axis %d of %v", lengths.Len(), across, in.Shape)
	}
	long := in.Shape[1-across]
	width, inner := widened(width, count(in.Shape[2:]), at[0], at[1])
	total := in.Bytes() / width
	if total > most {
		return unsupportedf("%d elements, more than %d", total, most)
	}
	report := n.checks(checked{wrong: func(i int) error {
		return fmt.Errorf("the length of sequence %d: expected one in [0, %d]", i, long)
	}})
	return n.launch(n.kernel("gather.cu", "reverse", "ELEMENT="+unitOf[width], "INDEX=i64"), blocksFor(total), threadsPerBlock,
		at[0], at[1], at[2], uint32(total), unsigned(divider(inner), 4), unsigned(divider(columns), 4), uint32(rows), int32(across), report)
}

// makeGatherElements copies, for each output element, the input element at the same
// coordinates, except for the coordinate along an axis, which is the index.
func makeGatherElements(n *Node) error {
	in, index, out := n.In[0], n.In[1], n.Out[0]
	k, err := n.axis(0, len(in.Shape))
	if err != nil {
		return err
	}
	width, err := widthOf(in)
	if err != nil {
		return err
	}
	name, err := indexType(index)
	if err != nil {
		return err
	}
	if err := tooLarge(in, out); err != nil {
		return err
	}
	at, err := n.addresses(out, in, index)
	if err != nil {
		return err
	}
	from := stridesOf(in.Shape)
	step := from[k]
	from[k] = 0
	m := (&form.Move{Shape: index.Shape, From: from, To: stridesOf(index.Shape)}).Merged()
	suffix, axes, err := axesFor(&m)
	if err != nil {
		return err
	}
	total := out.Len()
	f := n.kernel("gather.cu", "gather_along"+suffix, "ELEMENT="+unitOf[width], "INDEX="+name)
	return n.launch(f, blocksFor(total), threadsPerBlock, at[0], at[1], at[2], uint32(total), uint32(in.Shape[k]), uint32(step), axes,
		n.faults(index, always(in.Shape[k])))
}

// tuples appends the launch that finds the slice of t that each tuple of indices means,
// behind batch leading axes. It returns where the numbers of the slices are, the number
// of tuples, and the elements of a slice.
func (n *Node) tuples(t, index *form.Tensor, batch int) (slice cuda.Room, many, inner int, err error) {
	name, err := indexType(index)
	if err != nil {
		return slice, 0, 0, err
	}
	depth := index.Shape[len(index.Shape)-1]
	if depth > mostAxes {
		return slice, 0, 0, unsupportedf("tuples of %d indices, more than %d", depth, mostAxes)
	}
	if err := tooLarge(t, index); err != nil {
		return slice, 0, 0, err
	}
	lengths := slices.Clone(t.Shape[batch : batch+depth])
	inner, many = count(t.Shape[batch+depth:]), count(index.Shape[:len(index.Shape)-1])
	steps := stridesOf(lengths)
	numbers := make([]int, 2*mostAxes)
	copy(numbers, lengths)
	copy(numbers[mostAxes:], steps)
	at, err := n.addresses(index)
	if err != nil {
		return slice, 0, 0, err
	}
	slice = n.scratch(int64(4 * many))
	f := n.kernel("tuple.cu", "tuples", "INDEX="+name)
	return slice, many, inner, n.launch(f, blocksFor(many), threadsPerBlock, slice, at[0], uint32(many), uint32(depth), unsigned(numbers, 4),
		unsigned(divider(many/max(count(index.Shape[:batch]), 1)), 4), uint32(count(lengths)),
		n.faults(index, func(i int) int { return lengths[i%max(depth, 1)] }))
}

// makeGatherND copies the slice that each tuple of indices means.
func makeGatherND(n *Node) error {
	in := n.In[0]
	width, err := widthOf(in)
	if err != nil {
		return err
	}
	slice, many, inner, err := n.tuples(in, n.In[1], n.Int("batch_dims", 0))
	if err != nil {
		return err
	}
	return n.gather(&gathering{width: width, inner: inner, many: many, n: in.Len() / inner, index: slice, indexType: "int"})
}

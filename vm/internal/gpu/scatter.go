package gpu

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// scattering lists the operators that write elements at given indices. Updates of one
// element happen in the order of the indices, as on the host.
var scattering = []Row{
	{Name: "Scatter", Make: makeScatterElements},
	{Name: "ScatterElements", Make: makeScatterElements},
	{Name: "ScatterND", Make: makeScatterND},
	{Name: "TensorScatter", Make: makeTensorScatter},
}

// joins maps the attribute reduction to what an update does, in scatter.cu.
var joins = map[string]string{"none": "Replace", "add": "Plus", "mul": "Times", "min": "Smaller", "max": "Larger"}

// scattered copies input 0 to the output and returns a kernel that updates it.
func (n *Node) scattered() (func(name, indexType string) cuda.Kernel, error) {
	out := n.Out[0]
	join, ok := joins[n.Str("reduction", "none")]
	if !ok {
		return nil, unsupportedf("reduction %q", n.Str("reduction", "none"))
	}
	element, err := typeOf(out)
	if join == "Replace" {
		var width int
		width, err = widthOf(out)
		element = unitOf[width]
		if width > 8 {
			err = unsupportedf("dtype %v", out.Type)
		}
	} else if out.Type == graph.Bool {
		err = unsupportedf("dtype %v", out.Type)
	}
	if err != nil {
		return nil, err
	}
	at, err := n.addresses(out, n.In[0])
	if err != nil {
		return nil, err
	}
	n.copy(at[0], at[1], int64(out.Bytes()))
	return func(name, indexType string) cuda.Kernel {
		return n.kernel("scatter.cu", name, "ELEMENT="+element, "INDEX="+indexType, "JOIN="+join)
	}, nil
}

// lines is how updates lie that belong to lines, which are independent of each other:
// as Lines in scatter.cu.
type lines struct {
	lines, updates, n   int
	istep, ustep, ystep int
	shared              bool
	over                form.Move // finds the first update (From) and the first element (To) of a line
}

// launchLines appends the launch that updates lines. More than one warp or thread works
// on a line where there are few.
func (n *Node) launchLines(f func(name, indexType string) cuda.Kernel, l *lines, index any, indexType string, report faults) error {
	over := l.over.Merged()
	if len(over.Shape) > mostAxes {
		return unsupportedf("%d axes, more than %d", len(over.Shape), mostAxes)
	}
	at, err := n.addresses(n.Out[0], n.In[2])
	if err != nil {
		return err
	}
	last := len(over.Shape) - 1
	columns := l.updates < 8 || over.Shape[last] >= 32 && over.From[last] == 1
	name, threads, wanted := "scatter_lines", 32, 1<<12
	if columns {
		name, threads, wanted = "scatter_columns", 1, 1<<15
	}
	parts := max(1, min(wanted/l.lines, l.updates/32, l.n))
	span := (l.n + parts - 1) / parts
	shared := 0
	if l.shared {
		shared = 1
	}
	if l.lines*parts > most/threads {
		return unsupportedf("%d lines of updates", l.lines)
	}
	numbers := append([]int{l.lines, parts, l.updates, l.n, span, l.istep, l.ustep, l.ystep, shared}, axesOf(mostAxes, over.Shape, over.From, over.To)...)
	blocks := (l.lines*parts*threads + threadsPerBlock - 1) / threadsPerBlock
	return n.launch(f(name, indexType), blocks, threadsPerBlock, at[0], at[1], index, unsigned(numbers, 4), report)
}

// makeScatterElements updates the element at the coordinates of each update, except for
// the coordinate along an axis, which is the index.
func makeScatterElements(n *Node) error {
	out, index := n.Out[0], n.In[1]
	k, err := n.axis(0, len(out.Shape))
	if err != nil {
		return err
	}
	name, err := indexType(index)
	if err != nil {
		return err
	}
	if err := tooLarge(out, index); err != nil {
		return err
	}
	f, err := n.scattered()
	if err != nil || index.Len() == 0 {
		return err
	}
	at, err := n.addresses(index)
	if err != nil {
		return err
	}
	from, to := stridesOf(index.Shape), stridesOf(out.Shape)
	l := lines{lines: index.Len() / index.Shape[k], updates: index.Shape[k], n: out.Shape[k], istep: from[k], ustep: from[k], ystep: to[k]}
	for a := range index.Shape {
		if a != k {
			l.over.Shape, l.over.From, l.over.To = append(l.over.Shape, index.Shape[a]), append(l.over.From, from[a]), append(l.over.To, to[a])
		}
	}
	return n.launchLines(f, &l, at[0], name, n.faults(index, always(l.n)))
}

// makeScatterND updates the slice that each tuple of indices means.
func makeScatterND(n *Node) error {
	out, index, updates := n.Out[0], n.In[1], n.In[2]
	if err := tooLarge(out, updates); err != nil {
		return err
	}
	f, err := n.scattered()
	if err != nil || updates.Len() == 0 {
		return err
	}
	slice, many, inner, err := n.tuples(out, index, 0)
	if err != nil {
		return err
	}
	if inner < 32 {
		return n.launchLines(f, &lines{
			lines: inner, updates: many, n: out.Len() / inner, istep: 1, ustep: inner, ystep: inner, shared: true,
			over: form.Move{Shape: []int{inner}, From: []int{1}, To: []int{1}},
		}, slice, "int", faults{})
	}
	at, err := n.addresses(out, updates)
	if err != nil {
		return err
	}
	across := (inner + threadsPerBlock - 1) / threadsPerBlock
	classes := max(1, min(1024/across, many, out.Len()/inner))
	return n.launch3(f("scatter_slices", "int"), driver.Dim3{X: uint32(across), Y: uint32(classes), Z: 1}, driver.Dim3{X: threadsPerBlock, Y: 1, Z: 1}, 0,
		at[0], at[1], slice, uint32(many), uint32(inner))
}

// makeTensorScatter writes new positions of a cache over old ones, from a first position on
// that each of the batch has. In mode circular they go on at the beginning of the axis.
func makeTensorScatter(n *Node) error {
	past, fresh, first, out := n.In[0], n.In[1], n.Input(2), n.Out[0]
	k, err := n.axis(-2, len(past.Shape))
	if err != nil {
		return err
	}
	width, err := widthOf(past)
	if err != nil {
		return err
	}
	if first != nil && first.Type != graph.Int64 {
		return unsupportedf("indices of dtype %v", first.Type)
	}
	if err := tooLarge(out, fresh); err != nil {
		return err
	}
	at, err := n.addresses(out, past, fresh, first)
	if err != nil {
		return err
	}
	n.copy(at[0], at[1], int64(out.Bytes()))
	length, added, inner := past.Shape[k], fresh.Shape[k], count(past.Shape[k+1:])
	if fresh.Len() == 0 {
		return nil
	}
	for width < 16 && inner%2 == 0 && (at[0]|at[2])%driver.Ptr(2*width) == 0 {
		inner, width = inner/2, 2*width
	}
	circular, check := n.Str("mode", "linear") == "circular", faults{}
	if first != nil && !circular {
		check = n.checks(checked{index: first, length: always(length - added + 1), fromZero: true})
	}
	total := count(past.Shape[:k]) * added * inner
	numbers := slices.Concat([]int{total, length, int(flag(circular))}, divider(inner), divider(added), divider(count(past.Shape[1:k])))
	return n.launch(n.kernel("window.cu", "write_window", "ELEMENT="+unitOf[width]), blocksFor(total), threadsPerBlock,
		at[0], at[2], at[3], unsigned(numbers, 4), check)
}

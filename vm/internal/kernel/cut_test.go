package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/nodetests"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// cutNode is a node with its inputs, and the whole results.
type cutNode struct {
	node    *graph.Node
	version int64
	in      []*Tensor
	outs    []bool // which outputs are present
	whole   []*Tensor
}

// call returns the node as package ops sees it. Elements of small constants are known.
func (k *cutNode) call() *ops.Call {
	c := &ops.Call{Node: k.node, Version: k.version, In: make([]ops.Arg, len(k.in)), Out: make([]ops.Arg, len(k.outs))}
	for i, t := range k.in {
		if t != nil {
			c.In[i] = ops.Arg{Present: true, Type: typeOf(t), Value: valueOf(t)}
		}
	}
	for i, there := range k.outs {
		c.Out[i].Present = there
	}
	return c
}

func typeOf(t *Tensor) graph.Type {
	shape := make([]graph.Dim, len(t.Shape))
	for i, n := range t.Shape {
		shape[i] = graph.Dim(n)
	}
	return graph.TensorOf(t.Type, shape...)
}

// valueOf returns the elements of a small constant of numbers, else nil.
func valueOf(t *Tensor) *ops.Value {
	if !t.Const || t.Len() > 64 || len(t.Shape) > 1 || t.Type == graph.String {
		return nil
	}
	get, ok := form.Reader(t.Type)
	if !ok {
		return nil
	}
	v := &ops.Value{Shape: []int64{}, Elems: make([]ops.Scalar, t.Len())}
	for _, n := range t.Shape {
		v.Shape = append(v.Shape, int64(n))
	}
	for i := range v.Elems {
		if x := get(t.At, i); t.Type.Floating() {
			v.Elems[i].F = x
		} else {
			v.Elems[i].I = int64(x)
		}
	}
	if t.Type == graph.Int64 {
		for i, n := range data[int64](t) {
			v.Elems[i].I = n
		}
	}
	return v
}

// errNoKernel is the error of a node that no kernel runs.
var errNoKernel = errors.New("no kernel")

// run checks the node as a session does and computes it.
func (k *cutNode) run() ([]*Tensor, error) {
	c := k.call()
	open, err := ops.Check(c)
	if err != nil {
		return nil, err
	}
	kernel := Lookup(k.node.Domain, k.node.Op)
	if open || kernel == nil {
		return nil, errNoKernel
	}
	out := make([]*Tensor, len(k.outs))
	want := make([]*Tensor, 0, len(k.outs))
	for i, a := range c.Out {
		if !a.Present {
			continue
		}
		shape := make([]int, len(a.Shape))
		for j, d := range a.Shape {
			shape[j] = int(d)
		}
		if form.ElementBits(a.Elem)%8 != 0 {
			return nil, errNoKernel
		}
		out[i] = blank(a.Elem, shape)
		want = append(want, out[i])
	}
	if len(want) == 0 {
		return nil, errNoKernel
	}
	inv := &Invocation{Call: form.Call{Node: k.node, Version: k.version, In: k.in, Out: out, Runtime: alone{pack: true}}}
	return out, prepareAndRun(inv, kernel, 1)
}

// rowsOf returns rows [from, to) of an axis.
func rowsOf(t *Tensor, axis, from, to int) *Tensor {
	shape := slices.Clone(t.Shape)
	shape[axis] = to - from
	part := blank(t.Type, shape)
	part.Const = t.Const
	inner := count(t.Shape[axis+1:]) * t.Width()
	src, dst := raw(t), raw(part)
	for o := range count(t.Shape[:axis]) {
		copy(dst[o*(to-from)*inner:], src[(o*t.Shape[axis]+from)*inner:][:(to-from)*inner])
	}
	return part
}

// vector returns a constant.
func vector(list []int64) *Tensor {
	t := blank(graph.Int64, []int{len(list)})
	t.Const = true
	copy(data[int64](t), list)
	return t
}

// copy makes the copy of the node for rows [lo, hi); false if the map permits none.
func (k *cutNode) copy(in []ops.Rows, change func(lo, hi int64) ops.Change, lo, hi int64) (*cutNode, bool) {
	n := &graph.Node{Op: k.node.Op, Domain: k.node.Domain, Attrs: k.node.Attrs}
	part := &cutNode{node: n, version: k.version, outs: slices.Clone(k.outs)}
	for i, t := range k.in {
		if t == nil || in[i].Axis == ops.Whole {
			part.in = append(part.in, t)
			continue
		}
		from, to, ok := in[i].Of(lo, hi)
		switch {
		case !ok:
			return nil, false
		case from < to:
			part.in = append(part.in, rowsOf(t, in[i].Axis, int(from), int(to)))
		}
	}
	if change != nil {
		c := change(lo, hi)
		if c.Op != "" {
			n.Op = c.Op
		}
		n.Attrs = slices.DeleteFunc(slices.Clone(n.Attrs), func(a *graph.Attr) bool {
			return slices.Contains(c.Drop, a.Name) || slices.ContainsFunc(c.Attrs, func(b *graph.Attr) bool { return a.Name == b.Name })
		})
		n.Attrs = append(n.Attrs, c.Attrs...)
		for _, i := range slices.Sorted(maps.Keys(c.Inputs)) {
			for len(part.in) <= i {
				part.in = append(part.in, nil)
			}
			part.in[i] = vector(c.Inputs[i])
		}
	}
	return part, true
}

// partitions are ways to divide a length into parts whose ends are multiples of unit.
func partitions(length, unit int64) [][]int64 {
	n := length / unit
	var list [][]int64
	for _, k := range []int64{2, 3} {
		if k > n {
			continue
		}
		cut := []int64{0}
		for i := range k {
			cut = append(cut, n*(i+1)/k*unit)
		}
		list = append(list, cut)
	}
	if n > 3 {
		list = append(list, []int64{0, unit, n * unit}, []int64{0, (n - 1) * unit, n * unit})
	}
	for _, cut := range list {
		cut[len(cut)-1] = length
	}
	return list
}

// unit is what the ends of slices must be multiples of.
func unit(in []ops.Rows) int64 {
	u := int64(1)
	for _, r := range in {
		if r.Axis != ops.Whole && u%r.Divide != 0 {
			u *= r.Divide
		}
	}
	return u
}

// checkCuts compares every cut of the node with the rows of the whole, bit by bit. It
// returns the number of copies that it ran.
func (k *cutNode) checkCuts() (copies int, err error) {
	op := ops.Lookup(k.node.Domain, k.node.Op)
	if op.Cut == nil || len(k.outs) == 0 || !k.outs[0] {
		return 0, nil
	}
	for axis, n := range k.whole[0].Shape {
		if n < 2 {
			continue
		}
		c := k.call()
		if _, err := ops.Check(c); err != nil {
			return copies, err
		}
		cut := op.Cut(c, axis)
		if cut == nil {
			continue
		}
		for _, ends := range partitions(int64(n), unit(cut.In)) {
			for i := range len(ends) - 1 {
				lo, hi := ends[i], ends[i+1]
				part, ok := k.copy(cut.In, cut.Change, lo, hi)
				if !ok {
					continue
				}
				for o := range part.outs {
					part.outs[o] = part.outs[o] && cut.Out[o] != ops.Whole
				}
				got, err := part.run()
				if err != nil {
					return copies, fmt.Errorf("rows %d to %d of axis %d: %w", lo, hi, axis, err)
				}
				copies++
				for o, t := range got {
					if t == nil {
						continue
					}
					want := rowsOf(k.whole[o], cut.Out[o], int(lo), int(hi))
					if !slices.Equal(t.Shape, want.Shape) {
						return copies, fmt.Errorf("rows %d to %d of axis %d: output %d has shape %v, expected %v", lo, hi, axis, o, t.Shape, want.Shape)
					}
					if cut.Modulo != nil && cut.Modulo[o] != 0 {
						t, want = remainders(t, cut.Modulo[o]), remainders(want, cut.Modulo[o])
					}
					if !bytes.Equal(raw(t), raw(want)) {
						return copies, fmt.Errorf("rows %d to %d of axis %d: output %d has other bits%s", lo, hi, axis, o, firstOther(t, want))
					}
				}
			}
		}
	}
	return copies, nil
}

// remainders returns those of int64 elements on division.
func remainders(t *Tensor, by int64) *Tensor {
	x := blank(t.Type, t.Shape)
	for i, v := range data[int64](t) {
		data[int64](x)[i] = v % by
	}
	return x
}

// firstOther describes the first element in which two tensors differ.
func firstOther(a, b *Tensor) string {
	get, ok := form.Reader(a.Type)
	if !ok {
		return ""
	}
	for i := range a.Len() {
		if x, y := get(a.At, i), get(b.At, i); x != y {
			return fmt.Sprintf(": element %d is %v, expected %v", i, x, y)
		}
	}
	return " of zeros or NaN"
}

// checkSums compares the combined results of copies that each read a part of the rows
// with the whole.
func (k *cutNode) checkSums() (copies int, err error) {
	op := ops.Lookup(k.node.Domain, k.node.Op)
	if op.Sum == nil || k.whole[0].Len() == 0 {
		return 0, nil
	}
	for i, t := range k.in {
		if t == nil {
			continue
		}
		for axis, n := range t.Shape {
			axes := slices.Repeat([]int{ops.Whole}, len(k.in))
			axes[i] = axis
			c := k.call()
			if _, err := ops.Check(c); err != nil {
				return copies, err
			}
			sum := op.Sum(c, axes)
			if sum == nil || sum.In[i].Axis != axis || n < 2 {
				continue
			}
			for _, ends := range partitions(sum.Length, unit(sum.In)) {
				if err := k.checkSum(sum, ends); err != nil {
					return copies, fmt.Errorf("axis %d of input %d in parts %v: %w", axis, i, ends, err)
				}
				copies += len(ends) - 1
			}
		}
	}
	return copies, nil
}

func (k *cutNode) checkSum(sum *ops.Sum, ends []int64) error {
	get, ok := form.Reader(k.whole[0].Type)
	if !ok {
		return fmt.Errorf("elements of %v cannot be read", k.whole[0].Type)
	}
	var total []float64
	for i := range len(ends) - 1 {
		part, ok := k.copy(sum.In, sum.Change, ends[i], ends[i+1])
		if !ok {
			return fmt.Errorf("no copy for rows %d to %d", ends[i], ends[i+1])
		}
		got, err := part.run()
		if err != nil {
			return err
		}
		if !slices.Equal(got[0].Shape, k.whole[0].Shape) {
			return fmt.Errorf("a copy has shape %v, expected %v", got[0].Shape, k.whole[0].Shape)
		}
		for e := range got[0].Len() {
			x := get(got[0].At, e)
			switch {
			case i == 0:
				total = append(total, x)
			case sum.By == "Add":
				total[e] += x
			case sum.By == "Max":
				total[e] = max(total[e], x)
			case sum.By == "Min":
				total[e] = min(total[e], x)
			default:
				return fmt.Errorf("results are combined by %q", sum.By)
			}
		}
	}
	size := 1.0
	for e := range total {
		size = max(size, math.Abs(get(k.whole[0].At, e)))
	}
	tolerance := 1e-5 * size
	if k.whole[0].Type == graph.Float16 {
		tolerance = 4e-3 * size
	}
	if sum.By != "Add" || k.whole[0].Type.Integer() {
		tolerance = 0
	}
	for e, x := range total {
		if sum.Mean {
			x /= float64(sum.Count)
		}
		if want := get(k.whole[0].At, e); !(math.Abs(x-want) <= tolerance) && x != want && !(x != x && want != want) {
			return fmt.Errorf("element %d is %v, expected %v", e, x, want)
		}
	}
	return nil
}

// check runs the whole node and all of its copies. ran is false if no kernel runs it.
func (k *cutNode) check() (cuts, sums int, err error) {
	if k.whole, err = k.run(); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errNoKernel, err)
	}
	if k.whole[0] == nil || slices.ContainsFunc(k.in, func(t *Tensor) bool { return t != nil && form.ElementBits(t.Type)%8 != 0 }) {
		return 0, 0, nil
	}
	if cuts, err = k.checkCuts(); err != nil {
		return cuts, 0, err
	}
	sums, err = k.checkSums()
	return cuts, sums, err
}

// cutNode returns the case as a node. Inputs from the first constant one on are
// constants; lists of lengths always are.
func (k *nodeCase) cutNode(d graph.DType, constant bool) *cutNode {
	n := &graph.Node{Op: k.op, Attrs: k.attrs}
	if i := strings.LastIndex(k.op, "."); i >= 0 {
		n.Domain, n.Op = k.op[:i], k.op[i+1:]
	}
	c := &cutNode{node: n, version: k.opset(), outs: slices.Repeat([]bool{true}, max(k.outputs, 1))}
	for i, x := range k.in {
		if x == nil {
			c.in = append(c.in, nil)
			continue
		}
		t := store(x, d)
		t.Const = constant && i > 0 || len(t.Shape) < 2 && t.Len() <= 16 && i > 0 || k.op == "ConstantOfShape"
		c.in = append(c.in, t)
	}
	return c
}

// TestCuts: every copy that a dimension map describes makes the same bits as the whole
// node, and copies that sum over a part of the rows add up to its result. Every operator
// with a map that a kernel runs has a case.
func TestCuts(t *testing.T) {
	cuts, sums := map[string]int{}, map[string]int{}
	list := slices.Concat(nodeCases, cutCasesOf())
	for i := range list {
		k := &list[i]
		if op := lookupNamed(k.op); op == nil || op.Cut == nil && op.Sum == nil {
			continue
		}
		for _, d := range []graph.DType{graph.Float32, graph.Float16} {
			for _, constant := range []bool{false, true} {
				c, s, err := k.cutNode(d, constant).check()
				if errors.Is(err, errNoKernel) && d == graph.Float16 {
					continue
				}
				if err != nil {
					t.Errorf("case %d, %s, %v, constants %v: %v", i, k.op, d, constant, err)
				}
				cuts[k.op] += c
				sums[k.op] += s
			}
		}
	}
	if testing.Verbose() {
		for _, op := range slices.Sorted(maps.Keys(cuts)) {
			t.Logf("%-40s %4d copies of cuts, %4d of sums", op, cuts[op], sums[op])
		}
	}
	for _, domain := range []string{"", "com.microsoft"} {
		for _, name := range ops.Names(domain) {
			op, full := ops.Lookup(domain, name), strings.TrimPrefix(domain+"."+name, ".")
			if Lookup(domain, name) == nil {
				continue
			}
			if op.Cut != nil && cuts[full] == 0 {
				t.Errorf("%s has a Cut but no case: write one in cut_cases_test.go or cases_test.go", full)
			}
			if op.Sum != nil && sums[full] == 0 {
				t.Errorf("%s has a Sum but no case: write one in cut_cases_test.go or cases_test.go", full)
			}
		}
	}
}

func lookupNamed(name string) *ops.Op {
	if i := strings.LastIndex(name, "."); i >= 0 {
		return ops.Lookup(name[:i], name[i+1:])
	}
	return ops.Lookup("", name)
}

// TestCutsOfNodeTests does the same for ONNX's operator tests that are a single node.
func TestCutsOfNodeTests(t *testing.T) {
	tests, err := nodetests.Read(filepath.Dir(datafolder.Path(t, "node-tests.tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	ran, cuts, sums := 0, 0, 0
	for _, k := range tests {
		c, err := nodeTestCut(k)
		if c == nil {
			if err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
			continue
		}
		n, s, err := c.check()
		switch {
		case errors.Is(err, errNoKernel):
			continue
		case err != nil:
			t.Errorf("%s: %s: %v", k.Name, c.node.Op, err)
		}
		if n+s > 0 {
			ran++
		}
		cuts, sums = cuts+n, sums+s
	}
	t.Logf("%d tests in %d copies of cuts and %d of sums", ran, cuts, sums)
}

// nodeTestCut returns a test whose model is one node with a dimension map; nil if it is
// another.
func nodeTestCut(k *nodetests.Test) (*cutNode, error) {
	m, err := onnx.Parse(k.Name, k.Model())
	if err != nil {
		return nil, err
	}
	if len(m.Graph.Nodes) != 1 || len(m.Graph.Nodes[0].Bodies()) > 0 {
		return nil, nil
	}
	n := m.Graph.Nodes[0]
	op := ops.Lookup(n.Domain, n.Op)
	if op == nil || op.Cut == nil && op.Sum == nil {
		return nil, nil
	}
	c := &cutNode{node: &graph.Node{Op: n.Op, Domain: n.Domain, Attrs: n.Attrs}, version: m.Opset(n.Domain)}
	for _, o := range n.Outputs {
		c.outs = append(c.outs, o != graph.None)
	}
	for i, id := range n.Inputs {
		if id == graph.None {
			c.in = append(c.in, nil)
			continue
		}
		at := slices.Index(m.Graph.Inputs, id)
		if at < 0 {
			return nil, nil
		}
		d, err := onnx.ParseTensor(m.Graph.Tensors[id].Name, k.Input(at))
		if err != nil || form.ElementBits(d.Type)%8 != 0 || d.Type == graph.String {
			return nil, nil // a sequence, or elements that have no address
		}
		shape := make([]int, len(d.Dims))
		for j, v := range d.Dims {
			shape[j] = int(v)
		}
		t := blank(d.Type, shape)
		if len(d.Raw) != t.Bytes() {
			return nil, nil
		}
		copy(raw(t), d.Raw)
		t.Const = i > 0 || n.Op == "ConstantOfShape"
		c.in = append(c.in, t)
	}
	return c, nil
}

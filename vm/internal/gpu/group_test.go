package gpu

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// chain is a list of elementwise nodes that grows, with the tensors that they can read.
type chain struct {
	r       *rand.Rand
	shape   []int
	tensors []*form.Tensor
	inputs  int // number of the tensors that no node makes
	nodes   []*form.Call
}

// input adds a tensor with numbers in [-2, 2) or [0, 7).
func (c *chain) input(d graph.DType, shape ...int) *form.Tensor {
	t := blank(d, shape...)
	for i := range t.Len() {
		v := 4*c.r.Float64() - 2
		if !isReal(d) {
			v = float64(c.r.IntN(7))
		}
		one := form.Tensor{Type: d, Shape: []int{}, At: unsafe.Add(t.At, i*t.Bytes()/t.Len())}
		if err := one.Fill(v); err != nil {
			panic(err)
		}
	}
	c.tensors = append(c.tensors, t)
	c.inputs++
	return t
}

// node adds a node with one output, whose shape its inputs broadcast to.
func (c *chain) node(op string, to graph.DType, in ...*form.Tensor) *form.Tensor {
	var shape []int
	for _, t := range in {
		for len(shape) < len(t.Shape) {
			shape = slices.Insert(shape, 0, 1)
		}
		for i, d := range t.Shape {
			if k := i + len(shape) - len(t.Shape); d != 1 {
				shape[k] = d
			}
		}
	}
	y := blank(to, shape...)
	n := &graph.Node{Op: op}
	if op == "Cast" {
		n.Attrs = attrs(whole("to", int64(to)))
	}
	c.nodes = append(c.nodes, &form.Call{Node: n, Version: 18, In: in, Out: []*form.Tensor{y}, Runtime: alone{}})
	c.tensors = append(c.tensors, y)
	return y
}

// draw returns a tensor of a set of dtypes, often one of the last; nil if there is none.
func (c *chain) draw(accepts func(graph.DType) bool) *form.Tensor {
	var list []*form.Tensor
	for _, t := range c.tensors {
		if accepts(t.Type) {
			list = append(list, t)
		}
	}
	switch {
	case len(list) == 0:
		return nil
	case c.r.IntN(4) > 0:
		return list[len(list)-1-c.r.IntN(min(3, len(list)))]
	}
	return list[c.r.IntN(len(list))]
}

// grow adds a random node.
func (c *chain) grow() {
	x := c.draw(isAny)
	same := func(d graph.DType) bool { return d == x.Type }
	pick := func(list ...string) string { return list[c.r.IntN(len(list))] }
	switch k := c.r.IntN(10); {
	case k < 2:
		to := []graph.DType{graph.Float32, graph.Float16, graph.BFloat16, graph.Float64, graph.Int32, graph.Uint8, graph.Int64, graph.Bool}
		c.node("Cast", to[c.r.IntN(len(to))], x)
	case x.Type == graph.Bool && k < 5:
		c.node(pick("And", "Or", "Xor"), graph.Bool, x, c.draw(same))
	case x.Type == graph.Bool:
		a := c.draw(isNumber)
		c.node("Where", a.Type, x, a, c.draw(func(d graph.DType) bool { return d == a.Type }))
	case k < 3:
		c.node(pick("Less", "GreaterOrEqual", "Equal"), graph.Bool, x, c.draw(same))
	case k < 7 || !isReal(x.Type):
		c.node(pick("Add", "Sub", "Mul", "Max", "Div"), x.Type, x, c.draw(same))
	default:
		c.node(pick("Sqrt", "Exp", "Tanh", "Gelu", "Neg", "Reciprocal", "Relu", "Round"), x.Type, x)
	}
}

// stores returns the outputs of the full shape that no node reads, and some others.
func (c *chain) stores() []*form.Tensor {
	var list []*form.Tensor
	for _, n := range c.nodes {
		y := n.Out[0]
		read := slices.ContainsFunc(c.nodes, func(n *form.Call) bool { return slices.Contains(n.In, y) })
		if slices.Equal(y.Shape, c.shape) && (!read || c.r.IntN(4) == 0) {
			list = append(list, y)
		}
	}
	return list
}

// randomChain makes some nodes on inputs of several dtypes, some of them broadcast.
func randomChain(r *rand.Rand, nodes int) *chain {
	shapes := [][]int{{333}, {6, 8}, {3, 5, 7}, {2, 3, 4, 4}, {1}}
	c := &chain{r: r, shape: shapes[r.IntN(len(shapes))]}
	for _, d := range []graph.DType{graph.Float32, graph.Float32, graph.Float16, graph.Float32, graph.Int32, graph.Bool} {
		c.input(d, c.shape...)
		part := slices.Clone(c.shape)
		for i := range part {
			if r.IntN(2) == 0 {
				part[i] = 1
			}
		}
		if r.IntN(2) == 0 {
			c.input(d, part[r.IntN(len(part)):]...)
		}
	}
	for len(c.nodes) < nodes-1 {
		c.grow()
	}
	last := c.tensors[len(c.tensors)-1]
	if slices.Equal(last.Shape, c.shape) {
		c.node("Cast", graph.Float32, last)
	} else {
		full := c.tensors[slices.IndexFunc(c.tensors, func(t *form.Tensor) bool { return slices.Equal(t.Shape, c.shape) && t.Type == graph.Bool })]
		c.node("Where", last.Type, full, last, last)
	}
	return c
}

// adamW is an update of parameters as training graphs have it.
func adamW(r *rand.Rand) (c *chain, stores, over []*form.Tensor) {
	c = &chain{r: r, shape: []int{7, 61}}
	p, g, m, v := c.input(graph.Float32, 7, 61), c.input(graph.Float32, 7, 61), c.input(graph.Float32, 7, 61), c.input(graph.Float32, 7, 61)
	v.Fill(0.3)
	constant := func(x float64) *form.Tensor {
		t := c.input(graph.Float32)
		t.Fill(x)
		return t
	}
	node := func(op string, in ...*form.Tensor) *form.Tensor { return c.node(op, graph.Float32, in...) }
	m2 := node("Add", node("Mul", m, constant(0.9)), node("Mul", g, constant(0.1)))
	v2 := node("Add", node("Mul", v, constant(0.999)), node("Mul", node("Mul", g, g), constant(0.001)))
	step := node("Div", node("Mul", m2, constant(10)), node("Add", node("Sqrt", node("Mul", v2, constant(1000))), constant(1e-8)))
	p2 := node("Sub", node("Mul", p, constant(0.99999)), node("Mul", step, constant(0.001)))
	return c, []*form.Tensor{m2, v2, p2}, []*form.Tensor{m, v, p}
}

// download returns the bytes of a tensor on the device.
func (b *bench) download(t *form.Tensor) []byte {
	b.t.Helper()
	b.must(b.kernels.Queue.Stream.Synchronize())
	b.must(driver.DownloadNow(t.At, b.at[t], int64(t.Bytes())))
	return slices.Clone(content(t))
}

// sameBits fails unless a tensor has the given bytes on the device. One NaN is as good
// as another.
func (b *bench) sameBits(what string, y *form.Tensor, want []byte) {
	b.t.Helper()
	b.download(y)
	other := *y
	other.At = unsafe.Pointer(&want[0])
	width := y.Bytes() / y.Len()
	got, _ := y.Reals()
	expected, _ := other.Reals()
	for i, v := range got {
		if !slices.Equal(content(y)[i*width:(i+1)*width], want[i*width:(i+1)*width]) && (v == v || expected[i] == expected[i]) {
			b.t.Fatalf("%s: a tensor of %v and shape %v, element %d: got %v, want %v", what, y.Type, y.Shape, i, v, expected[i])
		}
	}
}

// TestGroups: nodes in one kernel have the bits of nodes in kernels of their own, and
// write nothing but what is stored.
func TestGroups(t *testing.T) {
	b := newBench(t)
	type trial struct {
		name   string
		c      *chain
		stores []*form.Tensor
		over   []*form.Tensor // inputs on which the stores may lie
		runs   []form.Run
		group  form.Run
	}
	var list []*trial
	r := rand.New(rand.NewPCG(3, 4))
	for n := 2; n <= 20; n += 2 {
		c := randomChain(r, n)
		list = append(list, &trial{name: fmt.Sprintf("chain of %d", len(c.nodes)), c: c, stores: c.stores()})
	}
	c, stores, over := adamW(r)
	list = append(list, &trial{name: "AdamW", c: c, stores: stores, over: over})
	for _, x := range list {
		for _, y := range x.c.tensors {
			b.upload(y)
		}
		for _, n := range x.c.nodes {
			run, err := b.kernels.Prepare(n)
			b.must(err)
			x.runs = append(x.runs, run)
		}
		var err error
		if x.group, err = b.kernels.PrepareGroup(x.c.nodes, x.stores); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
	}
	var inPlace form.Run
	last := list[len(list)-1]
	home := map[*form.Tensor]driver.Ptr{}
	for i, y := range last.stores {
		home[y], b.at[y] = b.at[y], b.at[last.over[i]]
	}
	inPlace, err := b.kernels.PrepareGroup(last.c.nodes, last.stores)
	b.must(err)
	for y, p := range home {
		b.at[y] = p
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))

	for _, x := range list {
		for _, run := range x.runs {
			b.must(run(nil))
		}
		want := map[*form.Tensor][]byte{}
		for _, n := range x.c.nodes {
			y := n.Out[0]
			want[y] = b.download(y)
			b.must(driver.Fill8(b.at[y], 0xa5, int64(y.Bytes()), b.kernels.Queue.Stream))
		}
		b.must(x.group(nil))
		for y, bits := range want {
			if !slices.Contains(x.stores, y) {
				bits = slices.Repeat([]byte{0xa5}, y.Bytes())
			}
			b.sameBits(x.name, y, bits)
		}
		if x == last {
			b.must(inPlace(nil))
			for i, y := range x.stores {
				b.at[y] = b.at[x.over[i]]
				b.sameBits("AdamW in place", y, want[y])
			}
		}
	}
}

// TestGroupsThatAreRefused: what cannot be one kernel says why.
func TestGroupsThatAreRefused(t *testing.T) {
	k := &Kernels{}
	c := &chain{r: rand.New(rand.NewPCG(1, 1)), shape: []int{4}}
	x, y := c.input(graph.Float32, 4), c.input(graph.Float32, 3, 4)
	small := c.node("Exp", graph.Float32, x)
	large := c.node("Add", graph.Float32, small, y)
	soft := c.node("Softmax", graph.Float32, x)
	for name, stores := range map[string][]*form.Tensor{
		"two shapes":        {large, small},
		"a larger output":   {small},
		"an input":          {y},
		"nothing is stored": nil,
	} {
		if _, err := k.PrepareGroup(c.nodes[:2], stores); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := k.PrepareGroup(c.nodes[2:], []*form.Tensor{soft}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Softmax in a group: got %v, want ErrUnsupported", err)
	}
	if !Elementwise("", "Where") || Elementwise("", "Softmax") || Elementwise("", "Nothing") {
		t.Error("Elementwise does not know the operators")
	}
}

// TestParts: a tensor that is a part of another one may begin at any of its elements.
func TestParts(t *testing.T) {
	b := newBench(t)
	c := &chain{r: rand.New(rand.NewPCG(5, 6)), shape: []int{6, 8}}
	x, row := c.input(graph.Float32, 6, 8), c.input(graph.Float32, 8)
	for _, in := range []*form.Tensor{x, row} {
		c.node("Add", graph.Float32, in, x)
		c.node("Cast", graph.Float16, c.node("Mul", graph.Float32, x, in))
	}
	var want [][]byte
	for shift := range 5 { // in elements; 0 and 4 are whole fours
		for _, y := range c.tensors {
			width := y.Bytes() / y.Len()
			block, err := b.device.Take(int64(y.Bytes()+4*width), "a tensor")
			b.must(err)
			b.blocks = append(b.blocks, block)
			b.at[y] = block.At + driver.Ptr(shift*width)
			b.must(driver.UploadNow(b.at[y], y.At, int64(y.Bytes())))
		}
		var runs []form.Run
		for _, n := range c.nodes {
			run, err := b.kernels.Prepare(n)
			b.must(err)
			runs = append(runs, run)
		}
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		for i, n := range c.nodes {
			b.must(runs[i](nil))
			if shift == 0 {
				want = append(want, b.download(n.Out[0]))
			} else {
				b.sameBits(fmt.Sprintf("%d elements on", shift), n.Out[0], want[i])
			}
		}
	}
}

// TestOverAnInputOfAnotherType: a group may overwrite an input that all of its nodes read,
// also with numbers of another type.
func TestOverAnInputOfAnotherType(t *testing.T) {
	b := newBench(t)
	c := &chain{r: rand.New(rand.NewPCG(7, 8)), shape: []int{5, 31}}
	x, row := c.input(graph.Float32, 5, 31), c.input(graph.Float32, 31)
	whole := c.node("Cast", graph.Int32, x)
	sum := c.node("Add", graph.Float32, x, row)
	for _, y := range c.tensors {
		b.upload(y)
	}
	b.at[whole] = b.at[x]
	run, err := b.kernels.PrepareGroup(c.nodes, []*form.Tensor{whole, sum})
	b.must(err)
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	b.must(run(nil))
	b.download(whole)
	b.download(sum)
	from, _ := x.Reals()
	add, _ := row.Reals()
	wholes, _ := whole.Reals()
	sums, _ := sum.Reals()
	for i, v := range from {
		if wholes[i] != math.Trunc(v) || sums[i] != float64(float32(v)+float32(add[i%31])) {
			t.Fatalf("element %d, of %v: got %v and %v", i, v, wholes[i], sums[i])
		}
	}
}

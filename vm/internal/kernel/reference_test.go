package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// nodeCase is a node that is large enough for the kernels' code for large tensors: ONNX's
// own tests are small.
type nodeCase struct {
	op        string // with its domain, if it has one: "com.microsoft.Attention"
	version   int64  // 0: 18
	attrs     []*graph.Attr
	in        []*reference.Tensor // nil for an omitted input
	outputs   int                 // 0: 1
	tolerance float64             // of the largest element; 0: 2e-6
	fresh     bool                // no input is a constant
}

// nthInput counts the tensors of the case at hand that are drawn. Function args, which ends
// the inputs of a case, begins again.
var nthInput uint64

// draws returns the generator of a tensor's elements: what it draws follows from the shape
// and from the tensor's place among those of its case. So a case that is added or goes
// changes the elements of no other.
func draws(shape []int) *rand.Rand {
	nthInput++
	seed := nthInput
	for _, n := range shape {
		seed = seed*1_000_003 + uint64(n)
	}
	return rand.New(rand.NewPCG(seed, 2))
}

// noise returns float32 numbers in [-2, 2).
func noise(shape ...int) *reference.Tensor {
	list, r := make([]float64, count(shape)), draws(shape)
	for i := range list {
		list[i] = float64(4*r.Float32() - 2)
	}
	return reference.Reals(shape, list...)
}

// rounded returns whole numbers in [-2, 2], many of which are equal.
func rounded(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] = math.Round(t.F[i])
	}
	return t
}

// positive returns numbers in [0.5, 1.5).
func positive(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] = float64(float32(t.F[i]/4 + 1))
	}
	return t
}

// faint returns numbers whose squares are about 1e-6.
func faint(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] = float64(float32(t.F[i] / 1000))
	}
	return t
}

func wholes(shape []int, list ...int64) *reference.Tensor { return reference.Ints(shape, list...) }

// quants returns integers of an 8-bit type.
func quants(d graph.DType, shape ...int) *reference.Tensor {
	list, r := make([]int64, count(shape)), draws(shape)
	for i := range list {
		if list[i] = int64(r.IntN(256)); d == graph.Int8 {
			list[i] -= 128
		}
	}
	return &reference.Tensor{Type: d, Shape: shape, I: list}
}

// points returns equal zero points.
func points(d graph.DType, v int64, shape ...int) *reference.Tensor {
	t := quants(d, shape...)
	for i := range t.I {
		t.I[i] = v
	}
	return t
}

// tiny returns scales in [0.0005, 0.0015).
func tiny(shape ...int) *reference.Tensor {
	t := positive(shape...)
	for i := range t.F {
		t.F[i] = float64(float32(t.F[i] / 1000))
	}
	return t
}

func wholes32(shape []int, list ...int64) *reference.Tensor {
	return &reference.Tensor{Type: graph.Int32, Shape: shape, I: list}
}

// words returns int32 numbers.
func words(shape ...int) *reference.Tensor {
	t := quants(graph.Int8, shape...)
	for i := range t.I {
		t.I[i] *= 100
	}
	t.Type = graph.Int32
	return t
}

// flags returns booleans.
func flags(shape ...int) *reference.Tensor {
	t := quants(graph.Uint8, shape...)
	for i := range t.I {
		t.I[i] &= 1
	}
	t.Type = graph.Bool
	return t
}

// point returns a zero point.
func point(d graph.DType, v int64) *reference.Tensor {
	return &reference.Tensor{Type: d, Shape: []int{}, I: []int64{v}}
}

func realList(list ...float64) *reference.Tensor { return reference.Reals([]int{len(list)}, list...) }

func scalar(v float64) *reference.Tensor { return reference.Reals([]int{}, v) }

func ints(name string, list ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}

func whole1(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

func float1(name string, v float32) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrFloat, Float: v}
}

func floats1(name string, list ...float32) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrFloats, Floats: list}
}

func text(name, v string) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrString, String: v}
}

func attrs(list ...*graph.Attr) []*graph.Attr { return list }

// args ends the inputs of a case.
func args(list ...*reference.Tensor) []*reference.Tensor {
	nthInput = 0
	return list
}

// store converts a reference tensor to a kernel's tensor; reals get dtype d.
func store(t *reference.Tensor, d graph.DType) *Tensor {
	if t.F == nil || d.Integer() {
		d = t.Type
	}
	x := blank(d, t.Shape)
	set, _ := form.Writer(d)
	for i := range x.Len() {
		if t.F != nil {
			set(x.At, i, t.F[i])
		} else {
			set(x.At, i, float64(t.I[i]))
		}
	}
	return x
}

// blank returns a tensor filled and surrounded with NaN, which must not reach a result.
func blank(d graph.DType, shape []int) *Tensor {
	x := &Tensor{Type: d, Shape: append([]int{}, shape...)}
	list := make([]uint64, x.Bytes()/8+17)
	fill(list, 0x7ff4_beef_7fa1_beef)
	x.At = unsafe.Pointer(&list[8])
	return x
}

// alone is the runtime of one node.
type alone struct{ pack bool }

func (alone) Known(int) ([]int64, bool) { return nil, false }
func (alone) Live() bool                { return true }
func (alone) Resize(int, []int) error   { return fmt.Errorf("the shape is known") }
func (alone) Seed() uint64              { return 1 }
func (alone) Repeats() bool             { return false }
func (alone) Stopping() bool            { return false }
func (alone) Heap(int64) error          { return nil }
func (alone) Table(n int64) (unsafe.Pointer, error) {
	return unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8+1))), nil
}

func (alone) Constant(d *graph.Data) (*Tensor, error) {
	list := d.Raw
	at := make([]uint64, len(list)/8+1)
	copy(span[byte](unsafe.Pointer(&at[0]), len(list)), list)
	t := &Tensor{Type: d.Type, Const: true, At: unsafe.Pointer(&at[0])}
	for _, n := range d.Dims {
		t.Shape = append(t.Shape, int(n))
	}
	return t, nil
}

// spoken are the strings of all tests.
var spoken = []string{""}

func (alone) Text(element uint64) (string, error) {
	if element >= uint64(len(spoken)) {
		return "", fmt.Errorf("no string")
	}
	return spoken[element], nil
}

func (alone) Keep(int, int) bool { return false }

func (alone) Kept() (unsafe.Pointer, bool) { return nil, false }

func (alone) Element(text string) (uint64, error) {
	if i := slices.Index(spoken, text); i >= 0 {
		return uint64(i), nil
	}
	spoken = append(spoken, text)
	return uint64(len(spoken) - 1), nil
}

func (a alone) Compose(_ int, make func() string) (uint64, error) { return a.Element(make()) }

func (a alone) Release(unsafe.Pointer, int) {}
func (a alone) Pack(_ form.PackKey, n int, fill func(unsafe.Pointer)) (unsafe.Pointer, bool) {
	if !a.pack {
		return nil, false
	}
	at := unsafe.Pointer(unsafe.SliceData(make([]uint64, n/8+1)))
	fill(at)
	return at, true
}

// node returns the case as a node of its own graph, and the expected outputs.
func (k *nodeCase) node(in []*reference.Tensor) (*graph.Node, []*reference.Tensor, error) {
	domain, op := "", k.op
	if i := strings.LastIndex(k.op, "."); i >= 0 {
		domain, op = k.op[:i], k.op[i+1:]
	}
	g := &graph.Graph{}
	n := &graph.Node{Op: op, Domain: domain, Attrs: k.attrs}
	feeds := map[string]*reference.Tensor{}
	for i, t := range in {
		if t == nil {
			n.Inputs = append(n.Inputs, graph.None)
			continue
		}
		name := fmt.Sprintf("x%d", i)
		feeds[name] = t
		n.Inputs = append(n.Inputs, g.NewTensor(name))
	}
	for i := range max(k.outputs, 1) {
		n.Outputs = append(n.Outputs, g.NewTensor(fmt.Sprintf("y%d", i)))
	}
	g.Nodes, g.Outputs = []*graph.Node{n}, n.Outputs
	got, err := reference.Eval(&graph.Model{Graph: g, Opsets: []graph.Opset{{Version: k.opset()}, {Domain: domain, Version: k.opset()}}}, feeds)
	if err != nil {
		return nil, nil, err
	}
	var want []*reference.Tensor
	for i := range n.Outputs {
		want = append(want, got[fmt.Sprintf("y%d", i)])
	}
	return n, want, nil
}

func (k *nodeCase) opset() int64 {
	if k.version == 0 {
		return 18
	}
	return k.version
}

// run computes the node with the given number of workers.
func (k *nodeCase) run(n *graph.Node, in []*Tensor, want []*reference.Tensor, d graph.DType, workers int, r alone) ([]*Tensor, error) {
	c := &Invocation{Call: form.Call{Node: n, Version: k.opset(), In: in, Runtime: r}}
	return k.call(c, want, d, workers)
}

// call allocates the outputs of an invocation and computes them.
func (k *nodeCase) call(c *Invocation, want []*reference.Tensor, d graph.DType, workers int) ([]*Tensor, error) {
	for _, w := range want {
		e := w.Type
		if w.F != nil {
			e = d
		}
		c.Out = append(c.Out, blank(e, w.Shape))
	}
	kernel := Lookup(c.Node.Domain, c.Node.Op)
	if kernel == nil {
		return nil, fmt.Errorf("no kernel")
	}
	return c.Out, prepareAndRun(c, kernel, workers)
}

// prepareAndRun runs the kernel of an invocation that has its outputs.
func prepareAndRun(c *Invocation, kernel *Kernel, workers int) error {
	c.Workers = workers
	f, err := kernel.Prepare(c)
	if err != nil {
		return err
	}
	pool := work.New(workers)
	defer pool.Close()
	stride := (c.EachBytes + 63) &^ 63
	// Scratch holds NaN, which must not reach a result.
	nan := func(n int) unsafe.Pointer {
		list := make([]float32, n/4+16)
		fill(list, float32(math.NaN()))
		return unsafe.Pointer(unsafe.SliceData(list))
	}
	pool.SetScratch(nan(c.SharedBytes), nan(workers*stride), stride)
	for range 2 { // a prepared kernel runs many times
		if err := f(pool); err != nil {
			return err
		}
	}
	return nil
}

// TestCasesDrawAlone: a case has the same inputs wherever it stands, and no two of them alike.
func TestCasesDrawAlone(t *testing.T) {
	args() // what other tests drew is no input of these
	first := args(noise(9), noise(9), flags(70))
	second := args(noise(9), noise(9), flags(70))
	if !reflect.DeepEqual(first, second) {
		t.Error("the same case has other inputs at another place")
	}
	if slices.Equal(first[0].F, first[1].F) {
		t.Error("two inputs of a case have the same elements")
	}
}

// TestAgainstReference: kernels on larger tensors agree with the plain float64 evaluator,
// in float32 and (within its precision) in float16, with constants packed or not, and give
// the same bits for any number of workers.
func TestAgainstReference(t *testing.T) {
	for i := range nodeCases {
		k := &nodeCases[i]
		t.Run(fmt.Sprintf("%03d-%s", i, k.op), func(t *testing.T) {
			for _, d := range []graph.DType{graph.Float32, graph.Float16} {
				k.check(t, d)
			}
		})
	}
}

func (k *nodeCase) check(t *testing.T, d graph.DType) {
	t.Helper()
	tolerance := k.tolerance
	if tolerance == 0 {
		tolerance = 2e-6
	}
	in := make([]*reference.Tensor, len(k.in))
	for i, x := range k.in {
		in[i] = x
		if x != nil && x.F != nil && d == graph.Float16 {
			in[i] = reference.Reals(x.Shape, make([]float64, len(x.F))...)
			for j, v := range x.F {
				in[i].F[j] = float64(simd.FromHalf(simd.ToHalf(float32(v))))
			}
			tolerance = max(k.tolerance, 2e-3)
		}
	}
	n, want, err := k.node(in)
	if err != nil {
		t.Fatal(err)
	}
	given := make([]*Tensor, len(in))
	for i, x := range in {
		if x != nil {
			given[i] = store(x, d)
			given[i].Const = i > 0 && !k.fresh
		}
	}
	got, err := k.run(n, given, want, d, 1, alone{pack: true})
	if err != nil {
		t.Fatalf("%v: %v", d, err)
	}
	for o, w := range want {
		size := 0.0
		for _, v := range w.F {
			if !math.IsInf(v, 0) {
				size = max(size, math.Abs(v))
			}
		}
		get, _ := form.Reader(got[o].Type)
		for i := range got[o].Len() {
			v, expected := get(got[o].At, i), 0.0
			if w.F != nil {
				expected = w.F[i]
			} else {
				expected = float64(w.I[i])
			}
			if v != expected && !(math.Abs(v-expected) <= tolerance*size) && !(v != v && expected != expected) {
				t.Fatalf("%v: output %d of shape %v, element %d: got %v, want %v", d, o, w.Shape, i, v, expected)
			}
		}
	}
	for _, r := range []alone{{pack: true}, {pack: false}} {
		again, err := k.run(n, given, want, d, 3, r)
		if err != nil {
			t.Fatal(err)
		}
		for o := range got {
			if string(raw(again[o])) != string(raw(got[o])) {
				t.Fatalf("%v: output %d: other bits with three workers, constants packed: %v", d, o, r.pack)
			}
		}
	}
}

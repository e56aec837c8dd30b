package gpu

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// nodeCase is a node with its inputs.
type nodeCase struct {
	op        string // with its domain, if it has one: "com.microsoft.Attention"
	version   int64  // 0: 18
	attrs     []*graph.Attr
	in        []*reference.Tensor // nil for an omitted input
	outputs   int                 // 0: 1
	tolerance float64             // of the largest element; 0: 2e-6
	onHost    float64             // by how much of it the host's kernel may differ; 0: twice the tolerance
	types     []graph.DType       // of the reals; nil: float32 and float16
	single    bool                // of the reals, the first input and the first output have a dtype; the others are float32
	wide      []int               // inputs that are float32 whatever the dtype
	wideOut   []int               // outputs that are
	consts    []int               // inputs that are constants; others are only known at run time
	extreme   bool                // it is not for the evaluator
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

// noise returns reals in [-2, 2).
func noise(shape ...int) *reference.Tensor {
	list, r := make([]float64, count(shape)), draws(shape)
	for i := range list {
		list[i] = float64(4*r.Float32() - 2)
	}
	return reference.Reals(shape, list...)
}

// positive returns reals in [0.5, 1.5).
func positive(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] = float64(float32(t.F[i]/4 + 1))
	}
	return t
}

// wholes returns integers of a type, in [low, high).
func wholes(d graph.DType, low, high int64, shape ...int) *reference.Tensor {
	list, r := make([]int64, count(shape)), draws(shape)
	for i := range list {
		list[i] = low + r.Int64N(high-low)
	}
	return &reference.Tensor{Type: d, Shape: shape, I: list}
}

// flags returns booleans.
func flags(shape ...int) *reference.Tensor { return wholes(graph.Bool, 0, 2, shape...) }

// list returns int64 numbers.
func list(v ...int64) *reference.Tensor { return reference.Ints([]int{len(v)}, v...) }

func scalar(v float64) *reference.Tensor { return reference.Reals([]int{}, v) }

func ints(name string, list ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}

func whole(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

func real(name string, v float32) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrFloat, Float: v}
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

// alone is the runtime of one node.
type alone struct{ form.Runtime }

func (alone) Known(int) ([]int64, bool) { return nil, false }
func (alone) Live() bool                { return false }
func (alone) Seed() uint64              { return 1 }
func (alone) Repeats() bool             { return false }

// bench is a device with the tensors of many cases.
type bench struct {
	t       testing.TB
	device  *cuda.Device
	kernels *Kernels
	at      map[*form.Tensor]driver.Ptr
	blocks  []*cuda.Block
	skip    int64      // bytes before each tensor in its block
	fake    *fake.Fake // nil on a GPU
}

func newBench(t testing.TB) *bench {
	t.Helper()
	var f *fake.Fake
	if os.Getenv("ONNXMEM_TEST_GPU") == "" { // else the tests run on the GPU
		f = fake.Use(t)
	}
	d, err := cuda.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, fake: f, device: d, at: map[*form.Tensor]driver.Ptr{}}
	b.must(d.Enter())
	q, err := d.NewQueue()
	b.must(err)
	b.kernels = &Kernels{Queue: q, OwnProducts: true, OwnConvolutions: true, At: func(t *form.Tensor) (driver.Ptr, error) {
		if p, ok := b.at[t]; ok {
			return p, nil
		}
		return 0, fmt.Errorf("a tensor has no place on the device")
	}}
	t.Cleanup(func() {
		b.must(q.Close())
		for _, block := range b.blocks {
			b.must(block.Free())
		}
		d.Leave()
		b.must(d.Close())
	})
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// tensor makes a tensor with the elements of a reference tensor, or, if blank, with none.
func (b *bench) tensor(from *reference.Tensor, d graph.DType, constant, blank bool) *form.Tensor {
	b.t.Helper()
	if from.F == nil {
		d = from.Type
	}
	x := &form.Tensor{Type: d, Shape: append([]int{}, from.Shape...), Const: constant}
	words := make([]uint64, x.Bytes()/8+1)
	x.At = unsafe.Pointer(&words[0])
	block, err := b.device.Take(int64(x.Bytes())+b.skip, "a tensor")
	b.must(err)
	b.blocks = append(b.blocks, block)
	b.at[x] = block.At + driver.Ptr(b.skip)
	if blank || x.Bytes() == 0 {
		return x
	}
	b.must(form.Store(x, from.F, from.I))
	b.must(driver.UploadNow(b.at[x], x.At, int64(x.Bytes())))
	return x
}

// prepared is a case that is ready to run.
type prepared struct {
	c    *nodeCase
	d    graph.DType
	n    *form.Call
	want []*reference.Tensor
	run  form.Run
}

// prepare puts a case on the device with reals of a dtype.
func (b *bench) prepare(c *nodeCase, d graph.DType) *prepared {
	b.t.Helper()
	domain, op := "", c.op
	if i := strings.LastIndex(c.op, "."); i >= 0 {
		domain, op = c.op[:i], c.op[i+1:]
	}
	version := c.version
	if version == 0 {
		version = 18
	}
	g := &graph.Graph{}
	n := &graph.Node{Op: op, Domain: domain, Attrs: c.attrs}
	feeds := map[string]*reference.Tensor{}
	p := &prepared{c: c, d: d, n: &form.Call{Node: n, Version: version, Runtime: alone{}}}
	for i, t := range c.in {
		if t == nil {
			n.Inputs, p.n.In = append(n.Inputs, graph.None), append(p.n.In, nil)
			continue
		}
		of := d
		if c.single && i > 0 || slices.Contains(c.wide, i) {
			of = graph.Float32
		}
		x := b.tensor(t, of, slices.Contains(c.consts, i), false)
		rounded := *t
		if t.F != nil { // the evaluator must see the rounded elements
			rounded.F, _ = x.Reals()
		}
		name := fmt.Sprintf("x%d", i)
		feeds[name] = &rounded
		n.Inputs, p.n.In = append(n.Inputs, g.NewTensor(name)), append(p.n.In, x)
	}
	for i := range max(c.outputs, 1) {
		n.Outputs = append(n.Outputs, g.NewTensor(fmt.Sprintf("y%d", i)))
	}
	g.Nodes, g.Outputs = []*graph.Node{AsComputed(n)}, n.Outputs
	got, err := reference.Eval(&graph.Model{Graph: g, Opsets: []graph.Opset{{Version: version}, {Domain: domain, Version: version}}}, feeds)
	if err != nil {
		b.t.Fatalf("%s: %v", c.op, err)
	}
	for i := range n.Outputs {
		w := got[fmt.Sprintf("y%d", i)]
		p.want = append(p.want, w)
		of := d
		if c.single && i > 0 || slices.Contains(c.wideOut, i) {
			of = graph.Float32
		}
		p.n.Out = append(p.n.Out, b.tensor(w, of, false, true))
	}
	if p.run, err = b.kernels.Prepare(p.n); err != nil {
		b.t.Errorf("%s of %v: %v", c.op, d, err)
		return nil
	}
	return p
}

// onHost runs a node by the host's kernel, and returns its outputs.
func (b *bench) onHost(n *form.Call) ([]*form.Tensor, error) {
	host := kernel.Invocation{Call: *n}
	host.Out = nil
	for _, y := range n.Out {
		host.Out = append(host.Out, blank(y.Type, y.Shape...))
	}
	run, err := kernel.Lookup(host.Node.Domain, host.Node.Op).Prepare(&host)
	if err != nil {
		return nil, err
	}
	pool := work.New(1)
	defer pool.Close()
	shared, each := blank(graph.Uint8, host.SharedBytes+64), blank(graph.Uint8, host.EachBytes+64)
	pool.SetScratch(shared.At, each.At, host.EachBytes)
	return host.Out, run(pool)
}

// check runs a case and compares its outputs.
func (b *bench) check(t *testing.T, p *prepared) {
	b.t = t
	b.must(b.device.Enter()) // a subtest has a goroutine of its own
	defer b.device.Leave()
	for range 2 { // a prepared node runs many times
		b.must(p.run((*work.Pool)(nil)))
	}
	tolerance := p.c.tolerance
	if tolerance == 0 {
		tolerance = 2e-6
	}
	switch p.d {
	case graph.Float16:
		tolerance = max(tolerance, 2e-3)
	case graph.BFloat16:
		tolerance = max(tolerance, 1.6e-2)
	}
	host, err := b.onHost(p.n)
	if err != nil {
		t.Errorf("on the host: %v", err)
	}
	for o, w := range p.want {
		y := p.n.Out[o]
		b.must(b.kernels.Queue.Stream.Synchronize())
		if y.Bytes() > 0 {
			b.must(driver.DownloadNow(y.At, b.at[y], int64(y.Bytes())))
		}
		got, _ := y.Reals()
		want := w.F
		if want == nil {
			for _, v := range w.I {
				want = append(want, float64(v))
			}
		}
		size := 0.0
		for _, v := range w.F {
			if !math.IsInf(v, 0) && v == v {
				size = max(size, math.Abs(v))
			}
		}
		near := func(whose string, want []float64, bar float64) {
			for i, v := range got {
				if v != want[i] && !(math.Abs(v-want[i]) <= bar) && !(v != v && want[i] != want[i]) {
					t.Fatalf("%v: output %d of shape %v, element %d: got %v, want %v (%s)", p.d, o, w.Shape, i, v, want[i], whose)
				}
			}
		}
		near("by the evaluator", want, tolerance*size)
		if host != nil {
			want, _ = host[o].Reals()
			near("by the host's kernel", want, max(2*tolerance, p.c.onHost)*size)
		}
	}
}

// every reports whether a case runs in all of its dtypes: on the fake, which takes a second to
// compile a kernel for each, make test does so for every third operator, and make sweeps for all.
func (b *bench) every(c *nodeCase) bool {
	h := fnv.New32a()
	h.Write([]byte(c.op))
	return b.fake == nil || sweep.On() || h.Sum32()%3 == 0
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

// TestAgainstReference: device kernels agree with the plain float64 evaluator and with the
// host's kernels, in float32 and, within its precision, in float16. None sums up reals by
// atomic operations, whose order depends on timing.
func TestAgainstReference(t *testing.T) {
	b := newBench(t)
	var list []*prepared
	for i := range cases {
		c := &cases[i]
		types := c.types
		if types == nil {
			types = []graph.DType{graph.Float32, graph.Float16}
		}
		for k, d := range types {
			if k > 0 && !b.every(c) {
				break
			}
			if p := b.prepare(c, d); p != nil {
				list = append(list, p)
			}
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for i, p := range list {
		t.Run(fmt.Sprintf("%03d-%s-%v", i, p.c.op, p.d), func(t *testing.T) { b.check(t, p) })
	}
	b.t = t
	if b.fake != nil {
		if n := b.fake.Counters().FloatAtomics; n > 0 {
			t.Errorf("%d atomic sums of reals", n)
		}
	}
}

// TestEveryRowHasACase: no row of a table is without a case, and no operator has two rows.
func TestEveryRowHasACase(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range families {
		for _, r := range f.rows {
			name := r.Name
			if f.domain != "" {
				name = f.domain + "." + name
			}
			if seen[name] {
				t.Errorf("%s has two rows", name)
			}
			seen[name] = true
			if !slices.ContainsFunc(cases, func(c nodeCase) bool { return c.op == name }) {
				t.Errorf("%s has no case, and its signature gives none: write one in a file cases_*_test.go", name)
			}
		}
	}
}

// onlyOnHost are the operators with a kernel of the host and none of the device. docs/gpu.md
// says so of each kind.
var onlyOnHost = []string{
	"Shape", "Size", // of a shape alone
	"Compress", "NonMaxSuppression", "NonZero", "Unique", // the shape of the output depends on data
	"Det", "MelWeightMatrix",
	"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer", "com.microsoft.Tokenizer",
	"ai.onnx.ml.ArrayFeatureExtractor", "ai.onnx.ml.Binarizer", "ai.onnx.ml.CategoryMapper", "ai.onnx.ml.FeatureVectorizer", "ai.onnx.ml.Imputer",
	"ai.onnx.ml.LabelEncoder", "ai.onnx.ml.LinearClassifier", "ai.onnx.ml.LinearRegressor", "ai.onnx.ml.Normalizer", "ai.onnx.ml.OneHotEncoder",
	"ai.onnx.ml.SVMClassifier", "ai.onnx.ml.SVMRegressor", "ai.onnx.ml.Scaler", "ai.onnx.ml.TreeEnsemble", "ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.TreeEnsembleRegressor",
	"com.microsoft.nchwc.AveragePool", "com.microsoft.nchwc.Conv", "com.microsoft.nchwc.GlobalAveragePool", "com.microsoft.nchwc.GlobalMaxPool",
	"com.microsoft.nchwc.MaxPool", "com.microsoft.nchwc.ReorderInput", "com.microsoft.nchwc.ReorderOutput", "com.microsoft.nchwc.Upsample",
	graph.SwapDomain + ".SwapIn", graph.SwapDomain + ".SwapOut", // copies, which the session makes
}

// TestRowsOfAllKernels: every operator with a kernel of the host has a row, but for those that
// are listed here.
func TestRowsOfAllKernels(t *testing.T) {
	for _, domain := range ops.Domains() {
		for _, op := range ops.Names(domain) {
			name := op
			if domain != "" {
				name = domain + "." + op
			}
			onHost, onDevice := kernel.Lookup(domain, op) != nil, Lookup(domain, op) != nil
			if listed := slices.Contains(onlyOnHost, name); onHost && onDevice == listed || listed && !onHost {
				t.Errorf("%s: on the host: %t, on the device: %t, listed as missing there: %t", name, onHost, onDevice, listed)
			}
		}
	}
}

// TestUnsupported: a node without a row is refused with ErrUnsupported.
func TestUnsupported(t *testing.T) {
	k := &Kernels{}
	if _, err := k.Prepare(&form.Call{Node: &graph.Node{Op: "Nothing"}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}

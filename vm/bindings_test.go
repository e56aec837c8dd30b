package vm_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// rangeNets are networks with ranges of their dimensions.
var rangeNets = []struct {
	name   string
	build  func(testing.TB) *graph.Model
	ranges map[string]string

	aliases bool
}{
	{"bert", smallBERT, map[string]string{"batch": "1..3", "sequence": "1..16"}, false},
	{"resnet18", func(t testing.TB) *graph.Model {
		return network(t, "resnet18", map[string]string{"size": "32", "width": "0.125", "classes": "10"})
	}, map[string]string{"batch": "1..6"}, false},
	{"unet", smallUNet, map[string]string{"batch": "1..2", "height": "8..24", "width": "8,12,13,16"}, false},
	{"unet with aliases", func(t testing.TB) *graph.Model { return smallUNetOf(t, 1, graph.Unknown, graph.Unknown) }, map[string]string{"height": "8..24", "width": "8,12,13,16"}, true},
	{"decoder with past", smallDecoder, map[string]string{"batch": "1..3", "past": "0..9"}, false},
	{"weights that are transposed", transposedWeights, map[string]string{"batch": "1,2,63,64,65,17000"}, false},
}

func network(t testing.TB, name string, set map[string]string) *graph.Model {
	t.Helper()
	m, err := models.Build(name, models.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// smallBERT has a table of 16 positions: at 16, Slice gives all of it, and is no copy.
func smallBERT(t testing.TB) *graph.Model {
	return network(t, "bert", map[string]string{"layers": "1", "hidden": "32", "heads": "2", "ff": "64", "vocab": "64", "positions": "16"})
}

func modelOf(t testing.TB, b *graph.Builder) *graph.Model {
	t.Helper()
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// smallUNet halves an image twice and doubles it twice, so that heights and widths are
// multiples of 4: others do not fit what was cut off on the way.
func smallUNet(t testing.TB) *graph.Model {
	return smallUNetOf(t, graph.Unknown, graph.Unknown, graph.Unknown)
}

func smallUNetOf(t testing.TB, batch, height, width graph.Dim) *graph.Model {
	b := graph.NewBuilder("unet", 17)
	x := b.Input("image", graph.TensorOf(graph.Float32, batch, 2, height, width), "batch", "", "height", "width")
	conv := func(name string, x graph.TensorID, in, out int64) graph.TensorID {
		return b.Node("Relu", name+".relu", conv(b, name, x, in, out, 3))
	}
	half := func(name string, x graph.TensorID) graph.TensorID {
		return b.Add(&graph.Node{Op: "MaxPool", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 2)}}, name)[0]
	}
	double := func(name string, x graph.TensorID, in, out int64) graph.TensorID {
		return b.Add(&graph.Node{Op: "ConvTranspose", Inputs: []graph.TensorID{x, wave(b, name+".w", in, out, 2, 2)}, Attrs: []*graph.Attr{ints("strides", 2, 2)}}, name)[0]
	}
	join := func(name string, x, y graph.TensorID) graph.TensorID {
		return b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{x, y}, Attrs: []*graph.Attr{integer("axis", 1)}}, name)[0]
	}
	one := conv("one", x, 2, 4)
	two := conv("two", half("half", one), 4, 8)
	deep := conv("deep", half("quarter", two), 8, 8)
	up := conv("up", join("join2", two, double("double2", deep, 8, 8)), 16, 8)
	b.Output(conv("last", join("join1", one, double("double1", up, 8, 4)), 8, 2))
	return modelOf(t, b)
}

// smallDecoder is attention over the tokens that a cache has and two more.
func smallDecoder(t testing.TB) *graph.Model {
	b := graph.NewBuilder("decoder", 17)
	const heads, width, tokens = 2, 8, 2
	open := graph.Unknown
	now := graph.TensorOf(graph.Float32, open, heads, tokens, width)
	q, k, v := b.Input("q", now, "batch"), b.Input("k", now, "batch"), b.Input("v", now, "batch")
	past := graph.TensorOf(graph.Float32, open, heads, open, width)
	pastK, pastV := b.Input("past_k", past, "batch", "", "past"), b.Input("past_v", past, "batch", "", "past")
	mask := b.Input("mask", graph.TensorOf(graph.Float32, open, 1, tokens, open), "batch", "", "", "past + 2")
	grow := func(name string, past, now graph.TensorID) graph.TensorID {
		return b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{past, now}, Attrs: []*graph.Attr{integer("axis", 2)}}, name)[0]
	}
	keys, values := grow("present_k", pastK, k), grow("present_v", pastV, v)
	turned := b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{keys}, Attrs: []*graph.Attr{ints("perm", 0, 1, 3, 2)}}, "turned")[0]
	scores := b.Node("Add", "masked", b.Node("MatMul", "scores", q, turned), mask)
	y := b.Node("MatMul", "mixed", b.Node("Softmax", "attention", scores), values)
	b.Output(b.Node("Tanh", "y", y), keys, values)
	return modelOf(t, b)
}

// transposedWeights has a convolution whose weights a node rearranges: they are packed
// for small batches, and read as they are for large ones.
func transposedWeights(t testing.TB) *graph.Model {
	b := graph.NewBuilder("transposed", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 2, 3, 3), "batch")
	w := b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{wave(b, "w", 3, 3, 2, 4)}, Attrs: []*graph.Attr{ints("perm", 3, 2, 0, 1)}}, "turned")[0]
	y := b.Node("Conv", "conv", x, w)
	flat := b.Node("Flatten", "flat", y)
	v := b.Node("Transpose", "turned2", wave(b, "v", 7, 4))
	b.Output(b.Node("MatMul", "y", flat, v))
	return modelOf(t, b)
}

// rangedProgram plans a model for ranges of dimensions.
func rangedProgram(t testing.TB, m *graph.Model, ranges map[string]string) *vm.Program {
	t.Helper()
	return rangedProgramOf(t, m, passes.Options{Ranges: ranges, Fold: passes.FoldOff})
}

func rangedProgramOf(t testing.TB, m *graph.Model, opt passes.Options) *vm.Program {
	t.Helper()
	r, err := passes.Optimize(t.Context(), m, opt)
	if err != nil {
		t.Fatal(err)
	}
	p, err := vm.New(r.Model, r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// alone runs a model with a plan of one point alone, in a session of its own.
func alone(t testing.TB, m *graph.Model, dims map[string]int64, inputs map[string]vm.Value) map[string]vm.Value {
	t.Helper()
	r, err := passes.Optimize(t.Context(), m, passes.Options{Dims: dims, Fold: passes.FoldOff})
	if err != nil {
		t.Fatal(err)
	}
	p, err := vm.New(r.Model, r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.NewSession(vm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]vm.Value{}
	for name, v := range out {
		kept[name] = v.Clone()
	}
	return kept
}

// inputsAt returns random inputs for a point.
func inputsAt(t testing.TB, p *vm.Program, dims map[string]int64, seed uint64) map[string]vm.Value {
	t.Helper()
	at, err := p.At(dims)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]vm.Value{}
	for i, tensor := range at.Inputs() {
		if in[tensor.Name], err = vm.Random(tensor, seed+uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// randomPoint draws a point that the model does not refuse.
func randomPoint(draw *rand.Rand, p *vm.Program) map[string]int64 {
	names, lengths := p.Plan().Box()
	for {
		dims := map[string]int64{}
		for i, name := range names {
			dims[name] = lengths[i][draw.IntN(len(lengths[i]))]
		}
		if p.Plan().CheckPoint(dims) == nil {
			return dims
		}
	}
}

// randomShapes is the number of random shapes that each network runs with, which
// ONNXMEM_RANDOM_SHAPES can raise.
func randomShapes(t testing.TB) int {
	s := os.Getenv("ONNXMEM_RANDOM_SHAPES")
	if s == "" {
		return 12
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("ONNXMEM_RANDOM_SHAPES is %q: expected a number above 0", s)
	}
	return n
}

// sameOutputs fails if outputs differ in a bit.
func sameOutputs(t testing.TB, dims map[string]int64, got, want map[string]vm.Value) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("at %v: expected %d outputs, found %d", dims, len(want), len(got))
	}
	for name, v := range want {
		if fmt.Sprint(got[name].Shape) != fmt.Sprint(v.Shape) || !bytes.Equal(got[name].Data, v.Data) {
			t.Fatalf("at %v: output %q, %v: expected the bits of a plan of that point alone, %v", dims, name, got[name], v)
		}
	}
}

// TestRandomShapes: a session of a plan for ranges gives, at each point, the bits of a
// plan of that point alone, and writes no dead bytes.
func TestRandomShapes(t *testing.T) {
	for _, c := range rangeNets {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			p := rangedProgramOf(t, c.build(t), passes.Options{Ranges: c.ranges, Fold: passes.FoldOff})
			if p.Plan().Sharing.Aliases != c.aliases {
				t.Fatalf("expected aliases: %t", c.aliases)
			}
			s := newSession(t, p, vm.Options{Poison: true})
			draw := rand.New(rand.NewPCG(1, uint64(len(c.name))))
			for i := range randomShapes(t) {
				dims := randomPoint(draw, p)
				in := inputsAt(t, p, dims, uint64(i))
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Fatalf("at %v: %v", dims, err)
				}
				sameOutputs(t, dims, out, alone(t, c.build(t), dims, in))
			}
		})
	}
}

// BenchmarkBind measures how long a session of a plan for ranges takes to prepare a point,
// for BERT with weights in $ONNXMEM_ZOO. best-ms is the fastest point: the machine may have
// other work.
func BenchmarkBind(b *testing.B) {
	dir := os.Getenv("ONNXMEM_ZOO")
	if dir == "" {
		b.Skip("set ONNXMEM_ZOO to a folder of models and their weights")
	}
	f := open(b, filepath.Join(dir, "bert_base-dyn.onnx"))
	p := rangedProgram(b, f.Model, map[string]string{"batch": "1..8", "sequence": "1,2,17,32,64,100,128,200,256,512"})
	s := newSession(b, p, vm.Options{})
	var points []map[string]vm.Value
	names, lengths := p.Plan().Box()
	for batch := int64(1); batch <= 8; batch++ {
		for _, n := range lengths[1] {
			points = append(points, inputsAt(b, p, map[string]int64{names[0]: batch, names[1]: n}, 1))
		}
	}
	if err := s.Bind(points[0]); err != nil { // packs the weights
		b.Fatal(err)
	}
	best, i := time.Duration(math.MaxInt64), 0
	for b.Loop() {
		i++
		start := time.Now()
		if err := s.Bind(points[i%len(points)]); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(best.Seconds()*1e3, "best-ms")
	if s.Bound() < i {
		b.Errorf("%d of %d points were prepared anew", s.Bound(), i)
	}
}

package vm_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

// slicedGraph is a graph that asks something of slices that the small networks do not.
type slicedGraph struct {
	name  string
	build func(b *graph.Builder)
	below int64 // the peak is smaller; 0: than that of the whole graph
}

// wave adds an initializer of that shape.
func wave(b *graph.Builder, name string, dims ...int64) graph.TensorID {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(math.Sin(float64(3*i)+float64(n))) / 4
	}
	return b.Floats(name, dims, list)
}

// conv adds a convolution with a square kernel that keeps rows and columns.
func conv(b *graph.Builder, name string, x graph.TensorID, in, out, kernel int64) graph.TensorID {
	p := kernel / 2
	n := &graph.Node{Name: name, Op: "Conv", Inputs: []graph.TensorID{x, wave(b, name+".w", out, in, kernel, kernel)}, Attrs: []*graph.Attr{ints("pads", p, p, p, p)}}
	return b.Add(n, name)[0]
}

func ints(name string, list ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}

func integer(name string, n int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: n}
}

var slicedGraphs = []slicedGraph{
	{"blocks of rows under a halo", func(b *graph.Builder) {
		// A slice of the last convolution needs an odd number of rows of the
		// upsampled image, of which only pairs can be made.
		x := b.Input("x", graph.TensorOf(graph.Float32, 1, 4, 32, 32))
		wide := b.Node("Relu", "wide", conv(b, "c1", x, 4, 16, 3))
		small := b.Add(&graph.Node{Op: "MaxPool", Inputs: []graph.TensorID{wide}, Attrs: []*graph.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 2)}}, "small")[0]
		low := b.Node("Relu", "low", conv(b, "c2", small, 16, 32, 3))
		up := b.Add(&graph.Node{Op: "ConvTranspose", Inputs: []graph.TensorID{low, wave(b, "up.w", 32, 16, 2, 2)}, Attrs: []*graph.Attr{ints("strides", 2, 2)}}, "up")[0]
		both := b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{up, wide}, Attrs: []*graph.Attr{integer("axis", 1)}}, "both")[0]
		b.Output(conv(b, "y", b.Node("Relu", "r", both), 32, 1, 3))
	}, 0},
	{"an output that the region reads with a halo", func(b *graph.Builder) {
		// Slices read more rows of x than they write of y, so y cannot be written over x.
		x := b.Node("Exp", "e", b.Input("x", graph.TensorOf(graph.Float32, 1, 8, 32, 32)))
		y := b.Node("Sin", "y", x)
		b.Output(y, conv(b, "z", b.Node("Relu", "r", conv(b, "c", y, 8, 32, 3)), 32, 1, 3))
	}, 0},
	{"a bias of relative positions that layers share", func(b *graph.Builder) {
		// As in T5: nodes compute buckets from distances, which are constant, and the bias
		// of each head is taken from a table. Each layer makes its rows of the bias.
		const rows, heads, width, layers = 32, 8, 8, 2
		distances := make([]int64, rows*rows)
		for i := range distances {
			distances[i] = int64(i%rows - i/rows)
		}
		abs := b.Node("Abs", "abs", b.Ints("distances", []int64{rows, rows}, distances))
		far := b.Add(&graph.Node{Op: "Cast", Inputs: []graph.TensorID{abs}, Attrs: []*graph.Attr{integer("to", 1)}}, "far")[0]
		far = b.Node("Log", "log", b.Node("Add", "next", far, b.Floats("one", nil, []float32{1}))) // whose bits differ between runtimes: it is not folded
		for k := range 4 {
			far = b.Node("Mul", fmt.Sprintf("far%d", k), far, b.Floats(fmt.Sprintf("f%d", k), nil, []float32{0.9}))
		}
		buckets := b.Add(&graph.Node{Op: "Cast", Inputs: []graph.TensorID{far}, Attrs: []*graph.Attr{integer("to", 7)}}, "buckets")[0]
		bias := b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{b.Node("Gather", "taken", wave(b, "table", 8, heads), buckets)}, Attrs: []*graph.Attr{ints("perm", 2, 0, 1)}}, "bias")[0]
		x := b.Input("x", graph.TensorOf(graph.Float32, heads, rows, width))
		for k := range layers {
			name := func(s string) string { return fmt.Sprintf("%s%d", s, k) }
			keys := b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{ints("perm", 0, 2, 1)}}, name("keys"))[0]
			scores := b.Node("Add", name("scores"), b.Node("MatMul", name("products"), x, keys), bias)
			shares := b.Add(&graph.Node{Op: "Softmax", Inputs: []graph.TensorID{scores}, Attrs: []*graph.Attr{integer("axis", -1)}}, name("shares"))[0]
			values := b.Node("MatMul", name("values"), shares, x)
			// What mixes the heads keeps slices of heads from going through all layers.
			mixed := b.Add(&graph.Node{Op: "ReduceMean", Inputs: []graph.TensorID{values}, Attrs: []*graph.Attr{ints("axes", 0)}}, name("mixed"))[0]
			x = b.Node("Add", name("x"), x, mixed)
		}
		b.Output(x)
	}, 4 * 8 * 32 * 32}, // the bias is never there whole
}

// Graphs whose regions run in slices need less memory than any order of their nodes, and
// give the same bits.
func TestSlicedGraphs(t *testing.T) {
	for _, c := range slicedGraphs {
		t.Run(c.name, func(t *testing.T) {
			p := checkSliced(t, c, 17, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000})
			for _, r := range p.Slices.Regions {
				if !r.Exact {
					t.Errorf("a region of %d nodes sums over slices", len(r.Nodes))
				}
			}
		})
	}
}

// checkSliced plans a graph in slices and compares its results with those of the whole
// graph.
func checkSliced(t *testing.T, c slicedGraph, opset int64, opt passes.Options) *plan.Plan {
	t.Helper()
	file := func() string {
		b := graph.NewBuilder("g", opset)
		c.build(b)
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		return write(t, m, "g.onnx")
	}()
	whole, _ := program(t, file, passes.Options{})
	want, _ := runSteps(t, whole, vm.Options{}, nil, 1)
	sliced, r := program(t, file, opt)
	s := r.Plan.Summary
	if r.Plan.Slices == nil || s.PeakBytes >= s.UnslicedPeakBytes {
		t.Fatalf("no slices, or a peak of %d that is not below that of the whole graph", s.PeakBytes)
	}
	if c.below > 0 && s.PeakBytes >= c.below {
		t.Errorf("peak: expected less than %d B, found %d B", c.below, s.PeakBytes)
	}
	got, _ := runSteps(t, sliced, vm.Options{}, nil, 1)
	if exact := opt.Slices == passes.SlicesExact; exact {
		sameBits(t, "in slices", got, want)
	} else {
		nearly(t, got, want, 1e-5)
	}
	check, err := sliced.CheckRun(t.Context(), []map[string]vm.Value{inputsOf(whole)}, vm.Options{Poison: true})
	if err != nil || !check.Identical() {
		t.Errorf("planned and apart: %+v, %v", check, err)
	}
	t.Logf("peak %d of %d B in %d regions", s.PeakBytes, s.UnslicedPeakBytes, len(r.Plan.Slices.Regions))
	return r.Plan
}

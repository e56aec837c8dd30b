package autodiff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestTables: what a formula made is told from weights by its elements.
func TestTables(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const rows, width = 9, 8
	at := func(f func(p, j float64) float64) []float64 {
		var v []float64
		for p := range rows {
			for j := range width {
				v = append(v, f(float64(p), float64(j)))
			}
		}
		return v
	}
	angle := func(p, j float64) float64 { return p / math.Pow(100, math.Floor(j/2)/4) }
	interleaved := at(func(p, j float64) float64 { return math.Sin(angle(p, j) + math.Mod(j, 2)*math.Pi/2) })
	padded := slices.Clone(interleaved)
	clear(padded[2*width : 3*width])
	trained := slices.Clone(interleaved)
	for i := range trained {
		trained[i] += 0.01 * rnd.NormFloat64()
	}
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rnd.NormFloat64()
		}
		return v
	}
	first := draw(rows * width)
	clear(first[:width])
	eye := at(func(p, j float64) float64 {
		if p == j {
			return 1
		}
		return 0
	})
	for _, c := range []struct {
		name  string
		shape []int
		v     []float64
		table bool
	}{
		{"sines and cosines", []int{rows, width}, interleaved, true},
		{"the same of a batch", []int{1, rows, width}, interleaved, true},
		{"sines, then cosines", []int{rows, width}, at(func(p, j float64) float64 {
			return math.Cos(p/math.Pow(100, math.Mod(j, 4)/4) - math.Pi/2*(1-math.Floor(j/4)))
		}), true},
		{"a row for padding", []int{rows, width}, padded, true},
		{"cosines of rotary embeddings", []int{rows, width}, at(func(p, j float64) float64 { return math.Cos(p / math.Pow(100, math.Mod(j, 4)/4)) }), true},
		{"three positions", []int{3, width}, interleaved[:3*width], true},
		{"whole numbers", []int{1, 8, 1, 1}, []float64{0, 1, 2, 3, 4, 5, 6, 7}, true},
		{"frequencies", []int{6}, []float64{1, 0.5, 0.25, 0.125, 0.0625, 0.03125}, true},
		{"biases by distance", []int{2, 5, 5}, repeated(2, func(h, i, j float64) float64 { return (j - i) / (h + 2) }), true},
		{"a grid of anchors", []int{1, 2, 5, 5}, repeated(2, func(h, i, j float64) float64 { return i*h + j*(1-h) }), true},
		{"a Fourier basis", []int{4, 1, 9}, basis(), true},

		{"weights", []int{rows, width}, draw(rows * width), false},
		{"few weights", []int{5}, draw(5), false},
		{"scales near one", []int{64}, littleTrained(draw(64)), false},
		{"rows of scales near one", []int{rows, width}, littleTrained(draw(rows * width)), false},
		{"sines that were trained", []int{rows, width}, trained, false},
		{"an embedding with padding", []int{rows, width}, first, false},
		{"ones", []int{rows, width}, at(func(_, _ float64) float64 { return 1 }), false},
		{"zeros", []int{rows, width}, make([]float64, rows*width), false},
		{"an identity", []int{rows, width}, eye, false},
		{"one element that differs", []int{8}, []float64{1, 1, 1, 1, 1, 1, 1, 2}, false},
		{"four numbers", []int{4}, []float64{1, 2, 3, 4}, false},
		{"nearly whole numbers", []int{6}, []float64{0, 1.01, 2, 3, 4, 5}, false},
		{"logarithms", []int{1, 6}, []float64{0, 0.6931, 1.0986, 1.3863, 1.6094, 1.7918}, false},
	} {
		for _, elem := range []graph.DType{graph.Float32, graph.Float64} {
			b := newBuilder(c.name, 18)
			id := b.initializer("x", b.value(operand{elem: elem, shape: c.shape, reals: c.v}))
			s := &trainer{emitter: newEmitter(b.m.Graph, nil, nil), files: constant.NewFiles(b.m)}
			x, ok := s.contents(id)
			if !ok || x.table() != c.table {
				t.Errorf("%s, %v: a table: %v (read: %v), expected %v", c.name, elem, x.table(), ok, c.table)
			}
		}
	}
}

// littleTrained is what a few steps of training make of the scales of a normalization.
func littleTrained(v []float64) []float64 {
	for i := range v {
		v[i] = 1 + 3e-4*v[i]
	}
	return v
}

func repeated(n int, f func(h, i, j float64) float64) (v []float64) {
	for h := range n {
		for i := range 5 {
			for j := range 5 {
				v = append(v, f(float64(h), float64(i), float64(j)))
			}
		}
	}
	return v
}

func basis() (v []float64) {
	for k := range 4 {
		for n := range 9 {
			v = append(v, math.Sin(2*math.Pi*float64(k*n)/8)) // that of k = 4 were zeros, but for rounding
		}
	}
	return v
}

// normalized is x of [2,8,3,3], in groups of two channels, scaled and shifted.
func normalized(b *builder, ones, zeros, scale, shift ID) ID {
	shape := func(name string, v ...int64) ID { return b.initializer(name, reference.Ints([]int{len(v)}, v...)) }
	x := b.op("h", "Conv", nil, b.input("x", b.real(2, 3, 3, 3)), b.weights("c.weight", 8, 3, 1, 1))
	h := b.op("grouped", "Reshape", nil, x, shape("val_1", 0, 4, -1))
	h = b.op("normed", "InstanceNormalization", nil, h, ones, zeros)
	h = b.op("back", "Reshape", nil, h, shape("val_2", 2, 8, 3, 3))
	return b.op("shifted", "Add", nil, b.op("scaled", "Mul", nil, h, scale), shift)
}

// TestGroupNormalization: as PyTorch's exporters write it, its weight and bias are trained,
// and the ones and zeros of the InstanceNormalization are not.
func TestGroupNormalization(t *testing.T) {
	filled := func(v float64, shape ...int) operand {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return operand{elem: graph.Float32, shape: shape, reals: slices.Repeat([]float64{v}, n)}
	}
	names := [][4]string{ // the ones and zeros, the weight and bias
		{"val_8", "val_11", "val_20", "val_22"},
		{"/1/Constant_1_output_0", "/1/Constant_2_output_0", "onnx::Mul_53", "onnx::Add_54"},
		{"/1/Constant_1_output_0", "/1/Constant_2_output_0", "1.weight", "1.bias"},
	}
	for _, called := range names {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, fresh: %v", called[2], fresh), func(t *testing.T) {
				b := newBuilder("groups", 18)
				b.m.Producer = "pytorch"
				init := func(k int, o operand) ID { return b.initializer(called[k], b.value(o)) }
				scale, shift := filled(1, 8, 1, 1), filled(0, 8, 1, 1)
				if !fresh {
					scale.reals, shift.reals = nil, nil
				}
				y := normalized(b, init(0, filled(1, 4)), init(1, filled(0, 4)), init(2, scale), init(3, shift))
				step := train(t, b.finish(y), Options{Loss: "mse"})
				if want := []string{"c.weight", called[2], called[3]}; !sameSet(step.Parameters, want) {
					t.Errorf("trains %v, expected %v", step.Parameters, want)
				}
			})
		}
	}
	t.Run("merged", func(t *testing.T) {
		b := newBuilder("merged", 18)
		ones := b.initializer("norm.weight", b.value(filled(1, 4)))
		zeros := b.initializer("norm.bias", b.value(filled(0, 4)))
		y := normalized(b, ones, zeros, b.weights("val_20", 8, 1, 1), b.weights("val_22", 8, 1, 1))
		y = b.op("rows", "Reshape", nil, y, b.initializer("val_30", reference.Ints([]int{2}, 36, 4)))
		step := train(t, b.finish(b.op("y", "LayerNormalization", nil, y, ones, zeros)), Options{Loss: "mse"})
		if want := []string{"norm.weight", "norm.bias", "c.weight", "val_20", "val_22"}; !sameSet(step.Parameters, want) {
			t.Errorf("trains %v, expected %v", step.Parameters, want)
		}
		if len(step.Tied) > 0 || len(step.Copies) != 2 || !strings.Contains(strings.Join(step.Warnings, "\n"), "norm.weight is a parameter, and the scale or bias by which an exporter writes GroupNormalization: norm.weight_2 is a copy for the latter") {
			t.Errorf("tied %v, copies %v, warnings %q", step.Tied, step.Copies, step.Warnings)
		}
	})
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestOrigins: what PyTorch's exporter says in the file comes before names and elements. The
// file is a GroupNorm of one channel a group, a Linear and two LayerNorms, exported before any
// training, so that the exporter merged ones and zeros.
func TestOrigins(t *testing.T) {
	f, err := onnx.Open("../testdata/light/groupnorm.onnx", onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	step := train(t, f.Model, Options{Loss: "mse"})
	want := []string{"0.weight", "0.bias", "val_20", "val_22", "val_28", "3.bias", "4.weight", "4.bias", "5.weight", "5.bias"}
	if !sameSet(step.Parameters, want) {
		t.Errorf("trains %v, expected %v", step.Parameters, want)
	}
	if len(step.Tied) > 0 {
		t.Errorf("tied: %v", step.Tied)
	}
}

// TestNamesInPyTorch: in a file of PyTorch, an author's name is that of a parameter or a
// buffer, whatever reads it.
func TestNamesInPyTorch(t *testing.T) {
	for _, c := range []struct {
		called  string
		shape   []int
		op      string // between the initializer and a product
		trained bool
		without bool // in a file of another exporter
	}{
		{"A_log", []int{4}, "Exp", true, false},
		{"logit_scale", []int{}, "Exp", true, false},
		{"block.resweight", []int{}, "", true, false},
		{"exp", []int{}, "", false, false},
		{"val_3", []int{}, "", false, false},
		{"onnx::Exp_12", []int{4}, "Exp", true, true},
		{"onnx::Mul_12", []int{4}, "", true, true},
		{"/Constant_3_output_0", []int{4}, "", false, false},
		{"pixel_mean", []int{4}, "", false, false},
		{"rotary_emb.inv_freq", []int{4}, "Cos", false, false},
		{"blur.filt", []int{4}, "Sqrt", false, false},
	} {
		for _, producer := range []string{"pytorch", "someone"} {
			b := newBuilder(c.called, 18)
			b.m.Producer = producer
			h := b.op("h", "MatMul", nil, b.input("x", b.real(3, 4)), b.weights("w.weight", 4, 4))
			v := b.initializer(c.called, b.value(operand{elem: graph.Float32, shape: c.shape, low: 0.5, high: 2}))
			if c.op != "" {
				v = b.op("made", c.op, nil, v)
			}
			step := train(t, b.finish(b.op("y", "Mul", nil, h, v)), Options{Loss: "mse"})
			want := c.trained
			if producer != "pytorch" {
				want = c.without
			}
			if got := slices.Contains(step.Parameters, c.called); got != want {
				t.Errorf("%s by %s: trained: %v, expected %v", c.called, producer, got, want)
			}
		}
	}
}

// TestUniformResults: in a file of PyTorch, what has equal elements and the name of an operator
// that fills is no bias of zeros: a mask that hides nothing, say. A parameter may have that of
// one which returns what it is given.
func TestUniformResults(t *testing.T) {
	for _, c := range []struct {
		called, producer string
		uniform, trained bool
	}{
		{"where", "pytorch", true, false},
		{"zeros_1", "pytorch", true, false},
		{"where", "pytorch", false, true},
		{"bias", "pytorch", true, true},
		{"unsqueeze_15", "pytorch", true, true},
		{"where", "someone", true, true},
	} {
		b := newBuilder(c.called, 18)
		b.m.Producer = c.producer
		h := b.op("h", "MatMul", nil, b.input("x", b.real(3, 4)), b.weights("w.weight", 4, 4))
		o := operand{elem: graph.Float32, shape: []int{3, 4}}
		if c.uniform {
			o.reals = make([]float64, 12)
		}
		step := train(t, b.finish(b.op("y", "Add", nil, h, b.initializer(c.called, b.value(o)))), Options{Loss: "mse"})
		if got := slices.Contains(step.Parameters, c.called); got != c.trained {
			t.Errorf("%s by %s, equal elements: %v: trained: %v, expected %v", c.called, c.producer, c.uniform, got, c.trained)
		}
	}
}

// TestFirstStates: the zeros with which an exporter fills the first state of a recurrent node
// are not trained, and a learned first state is.
func TestFirstStates(t *testing.T) {
	for _, c := range []struct {
		called  string
		zeros   bool
		trained bool
	}{
		{"/body/Constant_output_0", true, false},
		{"val_14", true, false},
		{"val_14", false, true},
		{"h0", true, true},
		{"h0", false, true},
	} {
		b := newBuilder(c.called, 18)
		b.m.Producer = "pytorch"
		o := operand{elem: graph.Float32, shape: []int{1, 2, 3}}
		if c.zeros {
			o.reals = make([]float64, 6)
		}
		in := []ID{b.input("x", b.real(4, 2, 5)), b.weights("w", 1, 9, 5), b.weights("r", 1, 9, 3), b.weights("b", 1, 18), graph.None, b.initializer(c.called, b.value(o))}
		step := train(t, b.finish(b.node("", "GRU", attrs{"hidden_size": 3}, in, "y")[0]), Options{Loss: "mse"})
		if got := slices.Contains(step.Parameters, c.called); got != c.trained || !slices.Contains(step.Parameters, "r") {
			t.Errorf("%s, zeros: %v: trains %v, expected it: %v", c.called, c.zeros, step.Parameters, c.trained)
		}
	}
}

// TestFilters: a convolution by one filter for each channel is no layer.
func TestFilters(t *testing.T) {
	for _, c := range []struct {
		name    string
		v       []float64
		trained bool
	}{
		{"a blur", slices.Repeat([]float64{1, 2, 1, 2, 4, 2, 1, 2, 1}, 4), false},
		{"all alike", slices.Repeat([]float64{0.1}, 36), true},
		{"weights", nil, true},
	} {
		b := newBuilder(c.name, 18)
		h := b.op("h", "Conv", nil, b.input("x", b.real(2, 3, 4, 4)), b.weights("w", 4, 3, 1, 1))
		v := b.initializer("kernel", b.value(operand{elem: graph.Float32, shape: []int{4, 1, 3, 3}, reals: c.v}))
		b.m.Graph.Tensors[v].Origin = graph.OriginParameter // which its author may have frozen
		step := train(t, b.finish(b.op("y", "Conv", attrs{"group": 4}, h, v)), Options{Loss: "mse"})
		if got := slices.Contains(step.Parameters, "kernel"); got != c.trained {
			t.Errorf("%s: trained: %v, expected %v", c.name, got, c.trained)
		}
	}
}

// TestTwins: a weight and its transpose, which an exporter computed, are named.
func TestTwins(t *testing.T) {
	for _, c := range []struct {
		name string
		head []float64
		want string
	}{
		{"transposed", []float64{1, 4, 2, 5, 3, 6}, "val_7 is words.weight transposed: an exporter wrote one parameter twice"},
		{"another", []float64{1, 4, 2, 5, 3, 7}, ""},
	} {
		b := newBuilder(c.name, 18)
		words := b.initializer("words.weight", b.value(operand{elem: graph.Float32, shape: []int{2, 3}, reals: []float64{1, 2, 3, 4, 5, 6}}))
		head := b.initializer("val_7", b.value(operand{elem: graph.Float32, shape: []int{3, 2}, reals: c.head}))
		h := b.op("h", "Gather", nil, words, b.input("ids", reference.Ints([]int{4}, 0, 1, 1, 0)))
		step := train(t, b.finish(b.op("y", "MatMul", nil, h, head)), Options{Loss: "mse"})
		if got := strings.Join(step.Warnings, "\n"); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: warnings %q, expected %q", c.name, got, c.want)
		}
	}
}

// TestParametersInBodies: weights that the body of a Scan captures are trained, and its
// constants are not.
func TestParametersInBodies(t *testing.T) {
	b := newBuilder("captured", 18)
	b.m.Producer = "tf2onnx"
	w := b.weights("cell.w", 3, 3)
	bias := b.weights("cell.b", 3)
	ones := b.initializer("val_3", b.value(operand{elem: graph.Float32, shape: []int{3}, reals: []float64{1, 1, 1}}))
	half := b.initializer("half", b.value(operand{elem: graph.Float32, shape: []int{}, reals: []float64{0.5}}))
	body := &graph.Graph{Name: "body"}
	names := []string{"h", "x", "w", "b", "ones", "half", "p", "q", "r", "next", "out"}
	ids := map[string]ID{}
	for _, name := range names {
		ids[name] = body.NewTensor(name)
	}
	node := func(op, a, c, out string) {
		in := []ID{ids[a]}
		if c != "" {
			in = append(in, ids[c])
		}
		body.Nodes = append(body.Nodes, &graph.Node{Op: op, Inputs: in, Outputs: []ID{ids[out]}})
	}
	node("MatMul", "h", "w", "p")
	node("Add", "p", "b", "q")
	node("Mul", "q", "ones", "r")
	node("Mul", "r", "half", "next")
	node("Add", "next", "x", "out")
	body.Inputs, body.Outputs = []ID{ids["h"], ids["x"]}, []ID{ids["next"], ids["out"]}
	for inner, outer := range map[string]ID{"w": w, "b": bias, "ones": ones, "half": half} {
		body.Captures = append(body.Captures, graph.Capture{Inner: ids[inner], Outer: outer})
		body.Tensors[ids[inner]].Capture = true
	}
	slices.SortFunc(body.Captures, func(a, b graph.Capture) int { return int(a.Inner - b.Inner) })
	body.Link()
	h := b.op("h0", "MatMul", nil, b.input("x", b.real(2, 3)), b.weights("in.w", 3, 3))
	steps := b.input("steps", b.real(4, 2, 3))
	y := b.node("", "Scan", attrs{"num_scan_inputs": 1}, []ID{h, steps}, "last", "all")
	scan := b.m.Graph.Nodes[len(b.m.Graph.Nodes)-1]
	scan.Attrs = append(scan.Attrs, &graph.Attr{Name: "body", Type: graph.AttrGraph, Graph: body})
	scan.SetCaptures()
	step := train(t, b.finish(y[1]), Options{Loss: "mse"})
	if want := []string{"cell.w", "cell.b", "in.w"}; !sameSet(step.Parameters, want) {
		t.Errorf("trains %v, expected %v; left out %v", step.Parameters, want, step.LeftOut)
	}
}

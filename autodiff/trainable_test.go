package autodiff

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// TestMasksAreNotTrained: a mask that is added in an attention looks like a bias, except
// for its values.
func TestMasksAreNotTrained(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		mask   bool
	}{
		{"weights", []float64{0.5, -3, 0, 90}, false},
		{"a large number", []float64{0, -10000, 0, 0}, true},
		{"infinity", []float64{0, math.Inf(-1), 0, 0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(c.name, 18)
			x := b.input("x", b.value(operand{elem: graph.Float32, shape: []int{2, 2}}))
			w := b.initializer("w", b.value(operand{elem: graph.Float32, shape: []int{2, 2}}))
			m := b.initializer("m", b.value(operand{elem: graph.Float32, shape: []int{2, 2}, reals: c.values}))
			y := b.node("", "MatMul", nil, []ID{x, w}, "p")
			b.m.Graph.Outputs = b.node("", "Add", nil, []ID{y[0], m}, "y")
			b.m.Graph.Tensors[b.m.Graph.Outputs[0]].Output = true
			b.m.Graph.Link()
			step := train(t, b.m, Options{})
			want := []string{"w", "m"}
			if c.mask {
				want = want[:1]
			}
			if !slices.Equal(step.Parameters, want) {
				t.Errorf("parameters %v, expected %v", step.Parameters, want)
			}
		})
	}
}

// TestWhatIsTrainedByDefault: names, readers and values select the parameters that
// PyTorch would train.
func TestWhatIsTrainedByDefault(t *testing.T) {
	sines := make([]float64, 0, 24)
	for place := range 6 {
		for k := range 2 {
			angle := float64(place) / math.Pow(10, float64(k))
			sines = append(sines, math.Sin(angle), math.Cos(angle))
		}
	}
	const places, width = 6, 4
	for _, c := range []struct {
		name    string
		table   operand
		called  string
		use     func(b *builder, x, table ID) ID // x is [2, 3, 4]
		trained bool
	}{
		{"a class token", operand{shape: []int{1, 1, width}}, "class_token", classToken, true},
		{"a class token that an exporter computed", operand{shape: []int{1, 1, width}}, "val_3", classToken, true},
		{"ones that an exporter made", operand{shape: []int{1, 1, width}, reals: []float64{1, 1, 1, 1}}, "val_3", classToken, false},
		{"a table of positions, cut", operand{shape: []int{1, places, width}}, "positions", positions, true},
		{"positions that start at zero", operand{shape: []int{1, places, width}, reals: make([]float64, places*width)}, "positions", positions, true},
		{"sines", operand{shape: []int{1, places, width}, reals: sines}, "pe", positions, false},
		{"a mask of 0 and 1, cut", operand{shape: []int{1, places, width}, reals: append(make([]float64, 23), 1)}, "causal", positions, false},
		{"a mask whose values are not there", operand{shape: []int{1, places, width}, absent: true}, "t.mask", positions, false},
		{"rotary frequencies", operand{shape: []int{width, width}}, "rotary_emb.inv_freq", func(b *builder, x, table ID) ID {
			return b.op("y", "Cos", nil, b.op("angles", "MatMul", nil, x, table))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(c.name, 18)
			c.table.elem = graph.Float32
			x := b.op("h", "MatMul", nil, b.input("x", b.real(2, 3, width)), b.weights("w", width, width))
			table := b.initializer(c.called, b.value(c.table))
			if c.table.absent {
				d := b.m.Graph.Tensors[table].Data
				d.Raw, d.External = nil, &graph.External{Location: "nowhere", Length: d.Bytes}
			}
			y := c.use(b, x, table)
			m := b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, y))
			step := train(t, m, Options{Loss: "none:objective"})
			if got := slices.Contains(step.Parameters, c.called); got != c.trained {
				t.Errorf("trained: %v, expected %v", got, c.trained)
			}
		})
	}
}

func classToken(b *builder, x, table ID) ID {
	each := b.op("val_9", "Expand", nil, table, b.initializer("val_8", reference.Ints([]int{3}, 2, 1, 4)))
	return b.op("y", "Concat", attrs{"axis": 1}, each, x)
}

func positions(b *builder, x, table ID) ID {
	at := func(name string, v int64) ID { return b.initializer(name, reference.Ints([]int{1}, v)) }
	return b.op("y", "Add", nil, x, b.op("val_9", "Slice", nil, table, at("val_5", 0), at("val_6", 3), at("val_7", 1)))
}

// TestLiterals: a number that is added or multiplied is a literal, unless it is the bias
// of a product with one column; it is counted, and --trainable trains it.
func TestLiterals(t *testing.T) {
	model := func() (*graph.Model, *builder) {
		b := newBuilder("literals", 18)
		one := func(name string, shape ...int) ID { return b.weights(name, shape...) }
		h := b.op("h", "MatMul", nil, b.input("x", b.real(3, 4)), b.weights("w", 4, 4))
		h = b.op("scaled", "Mul", nil, h, one("const_fold_opt__7", 1))
		h = b.op("shifted", "Add", nil, b.op("erf", "Erf", nil, h), one("gelu.one", 1, 1))
		h = b.op("halved", "Mul", nil, h, one("half"))
		h = b.op("normed", "LayerNormalization", nil, h, b.weights("ln.weight", 4), b.weights("ln.bias", 4))
		h = b.op("wide", "Mul", nil, h, b.weights("layer_scale", 4))
		y := b.op("y", "Add", nil, b.op("head", "MatMul", nil, h, b.weights("head.weight", 4, 1)), one("head.bias", 1))
		b.feeds[labelsName] = b.real(3, 1)
		return b.finish(y), b
	}
	m, _ := model()
	step := train(t, m, Options{Loss: "mse"})
	if want := []string{"w", "ln.weight", "ln.bias", "layer_scale", "head.weight", "head.bias"}; !slices.Equal(step.Parameters, want) {
		t.Errorf("parameters %v, expected %v", step.Parameters, want)
	}
	if want := []Count{{"product", 2, 20}, {"normalization", 2, 8}, {"scale", 1, 4}, {"bias", 1, 1}}; !slices.Equal(step.Trained, want) {
		t.Errorf("trained %v, expected %v", step.Trained, want)
	}
	if want := []Count{{kindLiteral, 3, 3}}; !slices.Equal(step.NotTrained, want) || len(step.LeftOut) > 0 {
		t.Errorf("not trained %v, %v, expected %v", step.NotTrained, step.LeftOut, want)
	}
	m, b := model()
	step = train(t, m, Options{Loss: "mse", Trainable: everything, KeepGradients: true})
	if len(step.Parameters) != 9 {
		t.Errorf("parameters %v, expected all nine", step.Parameters)
	}
	checkGradients(t, step, b.feeds, math.MaxInt)
}

// TestCapturesThatAreTrained: an initializer that a body captures is a parameter if an
// output of the body depends on it through operators that pass gradients, as in the graph.
// The scales of a Resize are none, nor is what no output needs.
func TestCapturesThatAreTrained(t *testing.T) {
	for _, nested := range []bool{false, true} {
		b := newBuilder("captures", 18)
		x, flag := b.input("x", b.real(1, 1, 2, 3)), b.input("flag", &reference.Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{1}})
		given := []ID{x, flag, b.weights("w", 3), b.initializer("scales", &reference.Tensor{Type: graph.Float32, Shape: []int{4}, F: []float64{1, 1, 2, 2}}), b.weights("unread", 3)}
		// branch makes the body of an If; the outer one of two holds an If with the same body.
		var branch func(name string, outer *builder, given []ID, deep bool) *graph.Attr
		choose := func(b *builder, name string, given []ID, deep bool) ID {
			out := b.op(name, "If", nil, given[1])
			n := b.m.Graph.Nodes[len(b.m.Graph.Nodes)-1]
			n.Attrs = []*graph.Attr{branch("then_branch", b, given, deep), branch("else_branch", b, given, deep)}
			n.SetCaptures()
			return out
		}
		branch = func(name string, outer *builder, given []ID, deep bool) *graph.Attr {
			in := newBuilder(name, 18)
			g := in.m.Graph
			var inner []ID
			for _, t := range given {
				id := g.NewTensor(outer.m.Graph.Tensors[t].Name)
				g.Tensors[id].Capture = true
				g.Captures = append(g.Captures, graph.Capture{Inner: id, Outer: t})
				inner = append(inner, id)
			}
			if deep {
				in.finish(choose(in, name+".inner", inner, false))
			} else {
				in.op(name+".unused", "Mul", nil, inner[0], inner[4])
				h := in.op(name+".h", "Mul", nil, inner[0], inner[2])
				in.finish(in.op(name+".y", "Resize", attrs{"mode": "nearest"}, h, graph.None, inner[3]))
			}
			return &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: g}
		}
		y := choose(b, "y", given, nested)
		m := b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, y))
		step := train(t, m, Options{Loss: "none:objective", KeepGradients: true})
		if want := []string{"w"}; !slices.Equal(step.Parameters, want) {
			t.Errorf("nested %t: parameters %v, expected %v", nested, step.Parameters, want)
		}
		checkGradients(t, step, b.feeds, math.MaxInt)
	}
}

// TestTrainableStatistics: running statistics that --trainable matches are left out, with
// a message.
func TestTrainableStatistics(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		m, _ := convolutional()
		step := train(t, m, Options{Trainable: everything, FreezeStatistics: frozen})
		if i := slices.IndexFunc(step.Parameters, func(name string) bool { return strings.Contains(name, "running") }); i >= 0 {
			t.Errorf("%s is trained", step.Parameters[i])
		}
		if n := len(step.LeftOut); n != 4 || !strings.HasPrefix(step.LeftOut[0], "bn1.running_mean: matches --trainable, but it is running statistics") {
			t.Errorf("left out %q", step.LeftOut)
		}
	}
}

package models_test

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
)

// small returns settings with which a network takes at most a few megabytes.
var small = map[string]map[string]string{
	"alexnet":          {"width": "0.1", "size": "64", "classes": "10"},
	"bert":             transformer("vocab", "99", "positions", "16"),
	"efficientnet_b0":  {"width": "0.25", "depth": "0.5", "size": "32", "classes": "10"},
	"googlenet":        {"width": "0.1", "size": "32", "classes": "10"},
	"mnasnet":          {"width": "0.25", "size": "32", "classes": "10"},
	"mobilenet_v1":     {"width": "0.25", "size": "32", "classes": "10"},
	"mobilenet_v2":     {"width": "0.25", "size": "32", "classes": "10"},
	"r3d_18":           {"width": "0.1", "size": "16", "frames": "4", "classes": "10"},
	"resnet18":         {"width": "0.1", "size": "32", "classes": "10"},
	"resnet50":         {"width": "0.1", "size": "32", "classes": "10"},
	"tiny_autoencoder": {"features": "40", "hidden": "16"},
	"tiny_ds_cnn":      {"width": "0.125", "classes": "3", "frames": "21", "coefficients": "6"},
	"tiny_mobilenet":   {"size": "32"},
	"tiny_resnet8":     {"size": "8", "classes": "3"},
	"transformer":      transformer("vocab", "99", "positions", "16"),
	"vgg16":            {"width": "0.1", "size": "32", "classes": "10"},
	"vit_b_16":         transformer("size", "16", "patch", "4", "classes", "10"),
	"xlmr":             transformer("vocab", "99", "positions", "16"),
}

func transformer(more ...string) map[string]string {
	set := map[string]string{"layers": "2", "hidden": "24", "heads": "3", "ff": "40"}
	for i := 0; i < len(more); i += 2 {
		set[more[i]] = more[i+1]
	}
	return set
}

// build makes a network or fails the test.
func build(t testing.TB, name string, opt models.Options) *graph.Model {
	t.Helper()
	m, err := models.Build(name, opt)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// encode returns a model's file.
func encode(t testing.TB, m *graph.Model) []byte {
	t.Helper()
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != im.Size {
		t.Fatalf("wrote %d bytes, announced %d", len(b), im.Size)
	}
	return b
}

func TestParameters(t *testing.T) {
	// As in torchvision and the papers.
	want := map[string]int64{
		"alexnet":          61_100_840,
		"bert":             109_482_240, // with pooler, without the heads of pre-training
		"efficientnet_b0":  5_288_548,
		"googlenet":        6_624_904, // without auxiliary classifiers
		"mnasnet":          4_383_312,
		"mobilenet_v1":     4_231_976,
		"mobilenet_v2":     3_504_872,
		"r3d_18":           33_371_472,
		"resnet18":         11_689_512,
		"resnet50":         25_557_032,
		"tiny_autoencoder": 267_928,
		"tiny_ds_cnn":      23_756,
		"tiny_mobilenet":   216_322,
		"tiny_resnet8":     78_186,
		"transformer":      63_045_632, // embeddings counted once; the paper rounds to 65 million
		"vgg16":            138_357_544,
		"vit_b_16":         86_567_656,
		"xlmr":             278_043_648, // with pooler
	}
	var names []string
	for _, n := range models.Networks() {
		names = append(names, n.Name)
		if got := n.Parameters(); got != want[n.Name] {
			t.Errorf("%s has %d parameters, expected %d", n.Name, got, want[n.Name])
		}
		// The same from the initializers of the model.
		got := int64(0)
		for _, tensor := range build(t, n.Name, models.Options{}).Graph.Tensors {
			name := tensor.Name
			if d := tensor.Data; d != nil && d.Type == graph.Float32 && len(d.Dims) > 0 && name != "sinusoids" &&
				!strings.HasSuffix(name, ".running_mean") && !strings.HasSuffix(name, ".running_var") {
				got += d.Elements()
			}
		}
		if got != want[n.Name] {
			t.Errorf("%s has initializers of %d elements, expected %d", n.Name, got, want[n.Name])
		}
	}
	if sorted := slices.Sorted(maps.Keys(want)); !slices.Equal(names, sorted) {
		t.Errorf("networks %v, expected %v", names, sorted)
	}
}

func TestVariantParameters(t *testing.T) {
	for _, c := range []struct {
		name string
		set  map[string]string
		want int64
	}{
		{"mobilenet_v2", map[string]string{"width": "0.5"}, 1_968_680},
		{"mobilenet_v1", map[string]string{"width": "0.5"}, 1_331_592},
		{"mnasnet", map[string]string{"width": "0.5"}, 2_218_512},
		{"efficientnet_b0", map[string]string{"depth": "1.1", "size": "240"}, 7_794_184},
		{"vit_b_16", map[string]string{"patch": "32"}, 88_224_232},
		{"bert", map[string]string{"layers": "24", "hidden": "1024", "heads": "16", "ff": "4096"}, 335_141_888},
	} {
		m := build(t, c.name, models.Options{Set: c.set})
		got := int64(0)
		for _, tensor := range m.Graph.Tensors {
			if d := tensor.Data; d != nil && d.Type == graph.Float32 && len(d.Dims) > 0 && !strings.Contains(tensor.Name, ".running_") {
				got += d.Elements()
			}
		}
		if got != c.want {
			t.Errorf("%s %v has %d parameters, expected %d", c.name, c.set, got, c.want)
		}
	}
}

// The networks of MLPerf Tiny have as many parameters as the trained models of the reference
// (github.com/mlcommons/tiny). These are all arrays of ad01.h5, vww_96.h5 and
// pretrainedResnet.h5, with the running statistics of BatchNorm. Of kws_ref_model.tflite, in
// which BatchNorm is folded, they are the weights and biases.
func TestTinyParameters(t *testing.T) {
	for _, c := range []struct {
		name                 string
		all, weights, biases int64 // weights and biases: of convolutions and dense layers
	}{
		{"tiny_autoencoder", 269_992, 264_192, 1_672},
		{"tiny_ds_cnn", 24_908, 22_016, 588},
		{"tiny_mobilenet", 221_794, 208_112, 2_738},
		{"tiny_resnet8", 78_666, 77_360, 346},
	} {
		var all, weights, biases int64
		m := build(t, c.name, models.Options{})
		for _, n := range m.Graph.Nodes {
			for j, id := range n.Inputs {
				d := m.Graph.Tensors[id].Data
				if d == nil || d.Type != graph.Float32 {
					continue
				}
				all += d.Elements()
				switch {
				case n.Op == "BatchNormalization":
				case j == 1:
					weights += d.Elements()
				case j == 2:
					biases += d.Elements()
				}
			}
		}
		if all != c.all || weights != c.weights || biases != c.biases {
			t.Errorf("%s has %d parameters, %d weights and %d biases, expected %d, %d and %d", c.name, all, weights, biases, c.all, c.weights, c.biases)
		}
	}
}

// The tensors of the networks of MLPerf Tiny have the shapes of the reference models.
func TestTinyShapes(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"tiny_autoencoder", "1x640 1x128 1x128 1x128 1x128 1x8 1x128 1x128 1x128 1x128 1x640"},
		{"tiny_ds_cnn", "1x1x49x10 1x64x25x5 1x64x25x5 1x64x25x5 1x64x25x5 1x64x25x5 1x64x25x5 1x64x25x5 1x64x25x5 1x64x25x5 1x64x1x1 1x12"},
		{"tiny_mobilenet", "1x3x96x96 1x8x48x48 1x8x48x48 1x16x48x48 1x16x24x24 1x32x24x24 1x32x24x24 1x32x24x24 1x32x12x12 1x64x12x12 1x64x12x12 1x64x12x12 " +
			"1x64x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x6x6 1x128x3x3 1x256x3x3 1x256x3x3 1x256x3x3 1x256x1x1 1x2"},
		{"tiny_resnet8", "1x3x32x32 1x16x32x32 1x16x32x32 1x16x32x32 1x32x16x16 1x32x16x16 1x32x16x16 1x64x8x8 1x64x8x8 1x64x8x8 1x64x1x1 1x10"},
	} {
		m := build(t, c.name, models.Options{Dims: map[string]int64{"batch": 1}})
		if _, err := ops.Infer(m, ops.Options{}); err != nil {
			t.Fatal(err)
		}
		shapes := []string{}
		show := func(id graph.TensorID) {
			var lengths []string
			for _, n := range m.Graph.Tensors[id].Type.Shape {
				lengths = append(lengths, strconv.Itoa(int(n)))
			}
			shapes = append(shapes, strings.Join(lengths, "x"))
		}
		show(m.Graph.Inputs[0])
		for _, n := range m.Graph.Nodes {
			if slices.Contains([]string{"Conv", "Gemm", "AveragePool", "GlobalAveragePool"}, n.Op) {
				show(n.Outputs[0])
			}
		}
		if got := strings.Join(shapes, " "); got != c.want {
			t.Errorf("%s has tensors of %s, expected %s", c.name, got, c.want)
		}
	}
}

func TestFile(t *testing.T) {
	for _, n := range models.Networks() {
		t.Run(n.Name, func(t *testing.T) {
			opt := models.Options{Set: small[n.Name], Seed: 7}
			m := build(t, n.Name, opt)
			file := encode(t, m)
			if !bytes.Equal(file, encode(t, build(t, n.Name, opt))) {
				t.Error("the same options give other bytes")
			}
			read, err := onnx.Parse(n.Name, file)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(read.Graph.Nodes), len(m.Graph.Nodes); got != want {
				t.Errorf("the file has %d nodes, expected %d", got, want)
			}
			for i, id := range read.Graph.Outputs {
				got, want := read.Graph.Tensors[id], m.Graph.Tensors[m.Graph.Outputs[i]]
				if got.Name != want.Name || got.Declared.Type.String() != want.Declared.Type.String() {
					t.Errorf("output %s %s, expected %s %s", got.Name, got.Declared.Type, want.Name, want.Declared.Type)
				}
			}
			for _, tensor := range m.Graph.Tensors {
				if tensor.Maker < 0 && len(tensor.Readers) == 0 {
					t.Errorf("nothing reads %q", tensor.Name)
				}
			}
			distinct(t, read.Graph)

			opt.Seed = 8
			other, err := onnx.Parse(n.Name, encode(t, build(t, n.Name, opt)))
			if err != nil {
				t.Fatal(err)
			}
			for i, tensor := range read.Graph.Tensors {
				if d := tensor.Data; d != nil && d.Type == graph.Float32 && len(d.Dims) > 0 && tensor.Name != "sinusoids" &&
					bytes.Equal(d.Raw, other.Graph.Tensors[i].Data.Raw) {
					t.Errorf("%q is the same with another seed", tensor.Name)
				}
			}
			if got, want := onnx.GraphSHA256(other), onnx.GraphSHA256(read); got != want {
				t.Error("another seed gives another graph")
			}
		})
	}
}

// distinct fails if two initializers are equal.
func distinct(t *testing.T, g *graph.Graph) {
	t.Helper()
	seen := map[string]string{}
	for _, tensor := range g.Tensors {
		d := tensor.Data
		if d == nil {
			continue
		}
		key := d.TensorType().String() + string(d.Raw)
		if old, ok := seen[key]; ok {
			t.Errorf("initializers %q and %q are equal", old, tensor.Name)
		}
		seen[key] = tensor.Name
	}
}

func TestDims(t *testing.T) {
	for _, c := range []struct {
		name string
		dims map[string]int64
		want string
	}{
		{"resnet50", nil, "float32[?,1000] batch"},
		{"resnet50", map[string]int64{"batch": 32}, "float32[32,1000]"},
		{"bert", map[string]int64{"sequence": 128}, "float32[?,128,768] batch"},
		{"transformer", nil, "float32[?,?,37000] batch target"},
		{"transformer", map[string]int64{"batch": 8, "target": 20}, "float32[8,20,37000]"},
	} {
		m := build(t, c.name, models.Options{Dims: c.dims})
		d := m.Graph.Tensors[m.Graph.Outputs[0]].Declared
		got := strings.TrimRight(d.Type.String()+" "+strings.Join(d.Symbols, " "), " ")
		if got != c.want {
			t.Errorf("%s %v: output %s, expected %s", c.name, c.dims, got, c.want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		name, dims string
		length     int64
		set, value string
		want       string
	}{
		{name: "resnet51", want: `network "resnet51" is unknown: expected one of alexnet, bert,`},
		{name: "resnet50", dims: "sequence", length: 3, want: `network "resnet50": dimension "sequence" is unknown: expected one of batch`},
		{name: "resnet50", dims: "batch", length: 0, want: `network "resnet50": dimension "batch" is 0, expected a whole number from 1 to 1048576`},
		{name: "resnet50", dims: "batch", length: -1, want: `dimension "batch" is -1, expected`},
		{name: "resnet50", dims: "batch", length: 1 << 62, want: `dimension "batch" is 4611686018427387904, expected`},
		{name: "resnet50", set: "heads", value: "3", want: `setting "heads" is unknown: expected one of classes, size, width`},
		{name: "resnet50", set: "width", value: "0", want: `setting "width" is "0", expected a number from 0.01 to 16`},
		{name: "resnet50", set: "width", value: "NaN", want: `setting "width" is "NaN", expected`},
		{name: "resnet50", set: "width", value: "", want: `setting "width" is "", expected`},
		{name: "resnet50", set: "classes", value: "1e300", want: `setting "classes" is "1e300", expected`},
		{name: "resnet50", set: "classes", value: "2.5", want: `setting "classes" is "2.5", expected a whole number from 1 to`},
		{name: "resnet50", set: "classes", value: "ten", want: `setting "classes" is "ten", expected a whole number from 1 to`},
		{name: "alexnet", set: "size", value: "20", want: `the input is too small: "features.pool2" needs 3 elements along an axis, it has 1`},
		{name: "alexnet", set: "size", value: "4096", want: `expected at most 2130706432, which one ONNX file can hold: choose smaller settings`},
		{name: "bert", set: "heads", value: "7", want: `setting "hidden" is 768, expected a multiple of heads, which is 7`},
		{name: "bert", set: "layers", value: "1000", want: `choose smaller settings`},
		{name: "bert", dims: "sequence", length: 513, want: `dimension "sequence" is 513, expected at most 512, the positions there are`},
		{name: "xlmr", set: "positions", value: "2", want: `setting "positions" is 2, expected more than 2`},
		{name: "xlmr", dims: "sequence", length: 513, want: `dimension "sequence" is 513, expected at most 512`},
		{name: "vit_b_16", set: "size", value: "100", want: `setting "size" is 100, expected a multiple of patch, which is 16`},
	} {
		opt := models.Options{Dims: map[string]int64{}, Set: map[string]string{}}
		if c.dims != "" {
			opt.Dims[c.dims] = c.length
		}
		if c.set != "" {
			opt.Set[c.set] = c.value
		}
		if _, err := models.Build(c.name, opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v %v: %v, expected %s", c.name, opt.Dims, opt.Set, err, c.want)
		}
	}
}

// The limits of every setting lead to a model or an error, never to a panic.
func TestExtremes(t *testing.T) {
	for _, n := range models.Networks() {
		for _, p := range n.Settings {
			for _, v := range []float64{p.Min, p.Max} {
				set := maps.Clone(small[n.Name])
				set[p.Name] = text(v)
				if _, err := models.Build(n.Name, models.Options{Set: set}); err != nil {
					t.Logf("%s %s=%s: %v", n.Name, p.Name, set[p.Name], err)
				}
			}
		}
		all := map[string]string{}
		dims := map[string]int64{}
		for _, p := range n.Settings {
			all[p.Name] = text(p.Max)
		}
		for _, p := range n.Dims {
			dims[p.Name] = int64(p.Max)
		}
		if _, err := models.Build(n.Name, models.Options{Set: all, Dims: dims}); err == nil {
			t.Errorf("%s can be built with all settings at their limits", n.Name)
		}
	}
}

func text(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func BenchmarkWrite(b *testing.B) {
	for _, name := range []string{"resnet50", "vgg16"} {
		b.Run("network="+name, func(b *testing.B) {
			im, err := onnx.Encode(build(b, name, models.Options{}))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(im.Size)
			for b.Loop() {
				im.WriteTo(io.Discard)
			}
		})
	}
}

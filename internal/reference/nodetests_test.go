package reference

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
)

// leftOut lists operator tests that the evaluator does not claim to pass, although it
// implements their operators.
var leftOut = []struct{ tests, reason string }{
	{`training_dropout(_default)?(_mask)?`, "the mask is drawn at random"},
	{`bernoulli.*`, "the result is drawn at random"},
	{`dft_inverse(_opset19)?`, "the expected zeros are rounding errors of a float32 transform"},
	{`resize_downsample_scales_(linear|cubic)_align_corners`, "the length is not rounded before it divides, as it is in the text of ONNX and in ONNX Runtime"},
	{`dynamicquantizelinear_expanded`, "a quotient rounds to a tie in float32"},
}

// TestNodeTests compares the evaluator with all operator tests of ONNX whose operators
// and element types it supports.
func TestNodeTests(t *testing.T) {
	files := readTar(t, datafolder.Path(t, "node-tests.tar.gz"))
	table, err := os.ReadFile(datafolder.Path(t, "node-tests.csv"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var patterns []*regexp.Regexp
	for _, x := range leftOut {
		patterns = append(patterns, regexp.MustCompile(`^test_(`+x.tests+`)$`))
	}
	right, used, covered := 0, map[int]bool{}, map[key]bool{}
	for _, row := range tests[1:] {
		name := row[0]
		m, err := onnx.Parse(name+".onnx", files[name+"/model.onnx"])
		if err != nil {
			t.Fatal(err)
		}
		if !claimed(m) {
			continue
		}
		err = runNodeTest(m, name, files)
		if i := slices.IndexFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) }); i >= 0 {
			used[i] = true
			if err == nil {
				t.Errorf("%s: right, but left out", name)
			}
			continue
		}
		if errors.Is(err, errNotHeld) {
			continue
		}
		if err != nil {
			t.Errorf("%s (ONNX Runtime: %s): %v", name, row[4], err)
			continue
		}
		right++
		for _, n := range m.Graph.Nodes {
			covered[key{n.Domain, n.Op}] = true
		}
	}
	for i, x := range leftOut {
		if !used[i] {
			t.Errorf("left out %q: no test needs it", x.tests)
		}
	}
	t.Logf("%d tests are right", right)
	const atLeast = 1275
	if right < atLeast {
		t.Errorf("%d tests are right: expected at least %d", right, atLeast)
	}
	for _, x := range slices.Concat(byHand, byRuntime, inBlocks) {
		covered[key{x.domain, x.op}] = true
	}
	var unchecked []string
	for _, f := range families {
		for _, op := range f.operators {
			random := slices.ContainsFunc(randomOperators, func(r operator) bool { return r.name == op.name })
			if !random && !covered[key{f.domain, op.name}] {
				unchecked = append(unchecked, strings.TrimPrefix(f.domain+"."+op.name, "."))
			}
		}
	}
	if len(unchecked) > 0 {
		t.Errorf("operators without a test: %v: ONNX has none for them: write what ONNX Runtime makes of a few numbers (byRuntime in contrib_test.go), or what you computed by hand (byHand here)", unchecked)
	}
}

// handCase is a node and its first output.
type handCase struct {
	domain, op string
	attrs      []*graph.Attr
	in         []*Tensor // nil where one is left out
	out        *Tensor
}

// flashAttrs are the attributes of attention that keeps no scores.
var flashAttrs = []*graph.Attr{{Name: "scale", Type: graph.AttrFloat, Float: 0.5}, {Name: "fill", Type: graph.AttrFloat, Float: -1e30}, {Name: "safe", Type: graph.AttrInt}}

// flag is a vector of truth values.
func flag(list ...int64) *Tensor {
	return &Tensor{Type: graph.Bool, Shape: []int{len(list)}, I: list}
}

// byHand lists operators that no test of ONNX covers, with results computed by hand.
var byHand = []handCase{
	{graph.SwapDomain, graph.SwapOut, nil, []*Tensor{row(-2, 0, 3)}, row(-2, 0, 3)},
	{graph.SwapDomain, graph.SwapIn, nil, []*Tensor{row(-2, 0, 3)}, row(-2, 0, 3)},
	{
		graph.SwapDomain, graph.PutRows,
		[]*graph.Attr{{Name: "axis", Int: 1}},
		[]*Tensor{Reals([]int{2, 3}, 1, 2, 3, 4, 5, 6), Reals([]int{2, 1}, 7, 8), {Type: graph.Int64, Shape: []int{1}, I: []int64{1}}, {Type: graph.Int64, Shape: []int{1}, I: []int64{1}}},
		Reals([]int{2, 3}, 1, 7, 3, 4, 8, 6),
	},
	{ // both keys have the same score, so each weighs a half
		graph.SwapDomain, graph.FlashAttention, flashAttrs,
		[]*Tensor{Reals([]int{1, 1, 1, 1}, 3), Reals([]int{1, 1, 1, 2}, 1, 1), Reals([]int{1, 1, 2, 1}, 4, 6), Reals(nil, 0), flag(1)},
		Reals([]int{1, 1, 1, 1}, 5),
	},
	{ // the second key is left out
		graph.SwapDomain, graph.FlashAttention, flashAttrs,
		[]*Tensor{Reals([]int{1, 1, 1, 1}, 3), Reals([]int{1, 1, 1, 2}, 1, 1), Reals([]int{1, 1, 2, 1}, 4, 6), Reals(nil, 0), flag(1, 0)},
		Reals([]int{1, 1, 1, 1}, 4),
	},
	{ // the gradients of the weights are 8 and 12, their mean 10; those of the scores -1 and 1, and of the products half of it
		graph.SwapDomain, graph.FlashAttentionGrad, flashAttrs,
		[]*Tensor{Reals([]int{1, 1, 1, 1}, 3), Reals([]int{1, 1, 1, 2}, 1, 1), Reals([]int{1, 1, 2, 1}, 4, 6), Reals([]int{2}, 0, 0), flag(1), Reals([]int{1, 1, 1, 2}, 1.5, 0.5), Reals([]int{1, 1, 1, 1}, 2)},
		Reals([]int{1, 1, 1, 1}, 0),
	},
	{ // keys 1 and 3 with the same product by the bias
		graph.SwapDomain, graph.FlashAttentionGrad, flashAttrs,
		[]*Tensor{Reals([]int{1, 1, 1, 1}, 2), Reals([]int{1, 1, 1, 2}, 1, 3), Reals([]int{1, 1, 2, 1}, 4, 6), Reals([]int{2}, 2, 0), flag(1), Reals([]int{1, 1, 1, 2}, 3, 0.5), Reals([]int{1, 1, 1, 1}, 2)},
		Reals([]int{1, 1, 1, 1}, 1),
	},
	{ // weight 0 meets the padding and element 1 of each image, weight 1 elements 0 and 2
		graph.SwapDomain, graph.ConvWeightGrad,
		[]*graph.Attr{{Name: "kernel_shape", Ints: []int64{2}}, {Name: "strides", Ints: []int64{2}}, {Name: "dilations", Ints: []int64{1}}, {Name: "pads", Ints: []int64{1, 0}}, {Name: "group", Int: 1}},
		[]*Tensor{Reals([]int{2, 1, 4}, 1, 2, 3, 4, 5, 6, 7, 8), Reals([]int{2, 1, 2}, 1, 10, 100, 1000)},
		Reals([]int{1, 1, 2}, 2*10+6*1000, 1*1+3*10+5*100+7*1000),
	},
	{"", "Sign", nil, []*Tensor{row(-2, 0, 3)}, row(-1, 0, 1)},
	{"", "HardSwish", nil, []*Tensor{row(-4, -1, 0, 1, 4)}, row(0, -1.0/3, 0, 2.0/3, 4)},
	{"", "GlobalLpPool", nil, []*Tensor{Reals([]int{1, 1, 2}, 3, -4)}, Reals([]int{1, 1, 1}, 5)},
	// The root of the mean square of 3 and 4 is 3.5355.
	{"", "SimplifiedLayerNormalization", nil, []*Tensor{row(3, 4), row(1, 2)}, row(0.848528, 2*1.131371)},
	{"com.microsoft", "SimplifiedLayerNormalization", nil, []*Tensor{row(3, 4), row(1, 2)}, row(0.848528, 2*1.131371)},
	{"ai.onnx.ml", "Scaler", []*graph.Attr{{Name: "offset", Floats: []float32{1}}, {Name: "scale", Floats: []float32{2, 3}}}, []*Tensor{Reals([]int{2, 2}, 1, 2, 3, 4)}, &Tensor{Type: graph.Float32, Shape: []int{2, 2}, F: []float64{0, 3, 4, 9}}},
	{"ai.onnx.ml", "Normalizer", []*graph.Attr{{Name: "norm", String: "L2"}}, []*Tensor{Reals([]int{2, 2}, 3, -4, 0, 0)}, &Tensor{Type: graph.Float32, Shape: []int{2, 2}, F: []float64{0.6, -0.8, 0, 0}}},
	{"ai.onnx.ml", "LinearRegressor", []*graph.Attr{{Name: "targets", Int: 2}, {Name: "coefficients", Floats: []float32{1, 2, 3, 4}}, {Name: "intercepts", Floats: []float32{0.5, 0}}}, []*Tensor{Reals([]int{1, 2}, 1, -1)}, &Tensor{Type: graph.Float32, Shape: []int{1, 2}, F: []float64{-0.5, -1}}},
	{"ai.onnx.ml", "LinearClassifier", []*graph.Attr{{Name: "coefficients", Floats: []float32{1, 2, 3, 4}}, {Name: "intercepts", Floats: []float32{0.5, 0}}, {Name: "classlabels_ints", Ints: []int64{5, 7}}}, []*Tensor{Reals([]int{3, 2}, 1, -1, 1, 1, -1, 1)}, Ints([]int{3}, 5, 7, 5)},
	{
		"ai.onnx.ml", "TreeEnsembleRegressor", slices.Concat(stump, []*graph.Attr{{Name: "target_treeids", Ints: []int64{0, 0}}, {Name: "target_nodeids", Ints: []int64{1, 2}}, {Name: "target_ids", Ints: []int64{0, 0}}, {Name: "target_weights", Floats: []float32{10, 20}}, {Name: "n_targets", Int: 1}, {Name: "base_values", Floats: []float32{0.5}}}),
		[]*Tensor{Reals([]int{3, 2}, 0, 2.5, 0, 2.6, 9, math.NaN())},
		&Tensor{Type: graph.Float32, Shape: []int{3, 1}, F: []float64{10.5, 20.5, 20.5}},
	},
	{
		"ai.onnx.ml", "TreeEnsembleClassifier", slices.Concat(stump, []*graph.Attr{{Name: "class_treeids", Ints: []int64{0, 0}}, {Name: "class_nodeids", Ints: []int64{1, 2}}, {Name: "class_ids", Ints: []int64{0, 2}}, {Name: "class_weights", Floats: []float32{10, 20}}, {Name: "classlabels_int64s", Ints: []int64{4, 6, 9}}}),
		[]*Tensor{Reals([]int{2, 2}, 0, 2.5, 0, 2.6)},
		Ints([]int{2}, 4, 9),
	},
	{"ai.onnx.ml", "LabelEncoder", []*graph.Attr{{Name: "keys_int64s", Ints: []int64{4, 9, 4}}, {Name: "values_floats", Floats: []float32{1, 2, 3}}, {Name: "default_float", Float: -1}}, []*Tensor{Ints([]int{3}, 9, 5, 4)}, &Tensor{Type: graph.Float32, Shape: []int{3}, F: []float64{2, -1, 1}}},
	{"ai.onnx.ml", "Imputer", []*graph.Attr{{Name: "imputed_value_floats", Floats: []float32{7, 8}}, {Name: "replaced_value_float", Float: float32(math.NaN())}}, []*Tensor{Reals([]int{2, 2}, math.NaN(), 1, 2, math.NaN())}, Reals([]int{2, 2}, 7, 1, 2, 8)},
	{"ai.onnx.ml", "FeatureVectorizer", []*graph.Attr{{Name: "inputdimensions", Ints: []int64{3, 1}}}, []*Tensor{Reals([]int{2, 2}, 1, 2, 3, 4), Ints([]int{2, 2}, 5, 6, 7, 8)}, &Tensor{Type: graph.Float32, Shape: []int{2, 4}, F: []float64{1, 2, 0, 5, 3, 4, 0, 7}}},
	{"ai.onnx.ml", "OneHotEncoder", []*graph.Attr{{Name: "cats_int64s", Ints: []int64{3, -1}}}, []*Tensor{Reals([]int{3}, -1.5, 3, 0)}, &Tensor{Type: graph.Float32, Shape: []int{3, 2}, F: []float64{0, 1, 1, 0, 0, 0}}},
	{ // the region has two columns of three rows, one for each bin
		"", "MaxRoiPool",
		[]*graph.Attr{{Name: "pooled_shape", Ints: []int64{1, 2}}},
		[]*Tensor{Reals([]int{1, 1, 3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9), Reals([]int{1, 5}, 0, 0, 0, 1, 2)},
		Reals([]int{1, 1, 1, 2}, 7, 8),
	},
	{"com.microsoft", "CDist", nil, []*Tensor{Reals([]int{2, 2}, 0, 0, 1, 2), Reals([]int{1, 2}, 3, 4)}, Reals([]int{2, 1}, 25, 8)},
	{ // one element in the middle of four
		"com.microsoft", "CropAndResize", nil,
		[]*Tensor{Reals([]int{1, 1, 2, 2}, 1, 2, 3, 4), Reals([]int{1, 4}, 0.25, 0.25, 0.75, 0.75), {Type: graph.Int32, Shape: []int{1}, I: []int64{0}}, {Type: graph.Int32, Shape: []int{2}, I: []int64{1, 1}}},
		Reals([]int{1, 1, 1, 1}, 2.5),
	},
	{ // the weights are 9 and 6 in a byte, less 8, times 0.5
		"com.microsoft", "MatMulNBits",
		[]*graph.Attr{{Name: "K", Int: 2}, {Name: "N", Int: 1}, {Name: "bits", Int: 4}, {Name: "block_size", Int: 2}},
		[]*Tensor{Reals([]int{1, 2}, 3, 4), {Type: graph.Uint8, Shape: []int{1, 1, 1}, I: []int64{0x69}}, row(0.5)},
		Reals([]int{1, 1}, 3*0.5-4),
	},
	{"com.microsoft", "Gelu", nil, []*Tensor{row(-1, 0, 2)}, row(-0.158655, 0, 1.954500)},
	{"com.microsoft", "BiasGelu", nil, []*Tensor{row(-2, 1, 2), row(1, -1, 0)}, row(-0.158655, 0, 1.954500)},
	{"com.microsoft", "FastGelu", nil, []*Tensor{row(-2, 1, 2), row(1, -1, 0)}, row(-0.158808, 0, 1.954598)},
	{"com.microsoft", "QuickGelu", nil, []*Tensor{row(-1, 0, 2)}, row(-0.154202, 0, 1.935653)},
	{"com.microsoft", "BiasAdd", nil, []*Tensor{row(1, 2), row(0.5, 1), row(3, 4)}, row(4.5, 7)},
	{"com.microsoft", "BiasSoftmax", []*graph.Attr{{Name: "axis", Int: 1}}, []*Tensor{Reals([]int{1, 2}, 1, 1), Reals([]int{1, 2}, 0, math.Log(3))}, Reals([]int{1, 2}, 0.25, 0.75)},
	{"com.microsoft", "GemmFastGelu", nil, []*Tensor{Reals([]int{1, 1}, 2), Reals([]int{1, 1}, -1), row(1)}, Reals([]int{1, 1}, -0.158808)},
	{"com.microsoft", "Inverse", nil, []*Tensor{Reals([]int{2, 2}, 4, 7, 2, 6)}, Reals([]int{2, 2}, 0.6, -0.7, -0.2, 0.4)},
	{
		"com.microsoft", "FusedMatMul",
		[]*graph.Attr{{Name: "alpha", Float: 0.5}, {Name: "transA", Int: 1}},
		[]*Tensor{Reals([]int{2, 1}, 1, 2), Reals([]int{2, 1}, 3, 4)},
		Reals([]int{1, 1}, 5.5),
	},
	{
		"com.microsoft", "TransposeMatMul",
		[]*graph.Attr{{Name: "transB", Int: 1}},
		[]*Tensor{Reals([]int{1, 2}, 1, 2), Reals([]int{1, 2}, 3, 4)},
		Reals([]int{1, 1}, 11),
	},
}

// stump is a tree of one decision, feature 1 <= 2.5, and two leaves.
var stump = []*graph.Attr{
	{Name: "nodes_treeids", Ints: []int64{0, 0, 0}},
	{Name: "nodes_nodeids", Ints: []int64{0, 1, 2}},
	{Name: "nodes_featureids", Ints: []int64{1, 0, 0}},
	{Name: "nodes_modes", Strings: []string{"BRANCH_LEQ", "LEAF", "LEAF"}},
	{Name: "nodes_values", Floats: []float32{2.5, 0, 0}},
	{Name: "nodes_truenodeids", Ints: []int64{1, 0, 0}},
	{Name: "nodes_falsenodeids", Ints: []int64{2, 0, 0}},
}

func row(v ...float64) *Tensor { return Reals([]int{len(v)}, v...) }

func TestByHand(t *testing.T) {
	for _, x := range slices.Concat(byHand, byRuntime) {
		g := &graph.Graph{}
		feeds := map[string]*Tensor{}
		n := &graph.Node{Op: x.op, Domain: x.domain, Attrs: x.attrs}
		for i, in := range x.in {
			if in == nil {
				n.Inputs = append(n.Inputs, graph.None)
				continue
			}
			name := fmt.Sprintf("x%d", i)
			feeds[name] = in
			n.Inputs = append(n.Inputs, g.NewTensor(name))
		}
		y := g.NewTensor("y")
		n.Outputs = []graph.TensorID{y}
		g.Nodes, g.Outputs = []*graph.Node{n}, []graph.TensorID{y}
		got, err := Eval(&graph.Model{Graph: g, Opsets: []graph.Opset{{Version: 18}}}, feeds)
		if err != nil {
			t.Fatal(err)
		}
		if err := near(got["y"], x.out); err != nil {
			t.Errorf("%s: %v", x.op, err)
		}
	}
}

func readTar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[strings.TrimPrefix(h.Name, "node-tests/")], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// claimed reports whether the evaluator implements all operators of a model.
func claimed(m *graph.Model) bool {
	for _, n := range m.Graph.Nodes {
		local := slices.ContainsFunc(m.Functions, func(f *graph.Function) bool { return f.Domain == n.Domain && f.Name == n.Op })
		if !local && !Knows(n.Domain, n.Op) {
			return false
		}
	}
	return true
}

var errNotHeld = errors.New("type not held")

// runNodeTest compares with the tolerance of ONNX's own tests: rtol 1e-3, atol 1e-7; for
// types of 16 bits, one or two units in the last place.
func runNodeTest(m *graph.Model, name string, files map[string][]byte) error {
	read := func(kind string, i int) (*Tensor, bool, error) {
		b, ok := files[fmt.Sprintf("%s/test_data_set_0/%s_%d.pb", name, kind, i)]
		if !ok {
			return nil, false, nil
		}
		d, err := onnx.ParseTensor(name, b)
		if err != nil || !Holds(d.Type) {
			return nil, false, errNotHeld
		}
		if d.Type.Bits() < 8 && d.Raw == nil { // bytes of several elements, as varints
			var raw []byte
			for _, s := range d.Payload {
				for rest := b[s.Off:s.End()]; len(rest) > 0; {
					v, n := protowire.ConsumeVarint(rest)
					raw, rest = append(raw, byte(v)), rest[n:]
				}
			}
			shape := toInts(d.Dims)
			x, err := Decode(d.Type, shape, raw)
			return x, true, err
		}
		x, err := FromData(d)
		return x, true, err
	}
	feeds := map[string]*Tensor{}
	for i, id := range m.Graph.Inputs {
		x, ok, err := read("input", i)
		if err != nil {
			return err
		}
		if ok {
			feeds[m.Graph.Tensors[id].Name] = x
		}
	}
	for _, n := range m.Graph.Nodes {
		if a := n.Attr("to"); a != nil && !Holds(graph.DType(a.Int)) {
			return errNotHeld
		}
		for _, a := range n.Attrs {
			if a.Tensor != nil && !Holds(a.Tensor.Type) || a.Name == "value_string" || a.Name == "value_strings" {
				return errNotHeld
			}
		}
	}
	got, err := Eval(m, feeds)
	if err != nil {
		return err
	}
	for i, id := range m.Graph.Outputs {
		want, ok, err := read("output", i)
		if err != nil {
			return err
		}
		if ok {
			if err := near(got[m.Graph.Tensors[id].Name], want); err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
		}
	}
	return nil
}

func near(got, want *Tensor) error {
	if got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("got %v%v, want %v%v", got.Type, got.Shape, want.Type, want.Shape)
	}
	rtol, atol := 1e-3, 1e-7
	switch want.Type {
	case graph.Float16:
		rtol = 2.0 / 1024
	case graph.BFloat16:
		rtol = 2.0 / 128
	}
	for i := range size(want.Shape) {
		g, w := got.real(i), want.real(i)
		if g == w || math.IsNaN(g) && math.IsNaN(w) || math.Abs(g-w) <= atol+rtol*math.Abs(w) {
			continue
		}
		return fmt.Errorf("element %d: got %v, want %v", i, g, w)
	}
	return nil
}

// TestRandom: random operators draw the same numbers for the same name and different
// numbers for another name, with the right mean and variance.
func TestRandom(t *testing.T) {
	const n = 4000
	x := zeros(graph.Float64, []int{1, n}).each(func(float64) float64 { return 0.25 })
	for _, k := range []struct {
		op             string
		mean, variance float64
	}{{"Bernoulli", 0.25, 0.1875}, {"RandomUniformLike", 0.5, 1.0 / 12}, {"RandomNormalLike", 0, 1}} {
		draw := func(name string) *Tensor {
			g := &graph.Graph{}
			a, y := g.NewTensor("a"), g.NewTensor("y")
			g.Nodes = []*graph.Node{{Name: name, Op: k.op, Inputs: []graph.TensorID{a}, Outputs: []graph.TensorID{y}}}
			g.Outputs = []graph.TensorID{y}
			got, err := Eval(&graph.Model{Graph: g, Opsets: []graph.Opset{{Version: 22}}}, map[string]*Tensor{"a": x})
			if err != nil {
				t.Fatal(err)
			}
			return got["y"]
		}
		y := draw("first")
		if !slices.Equal(y.F, draw("first").F) || slices.Equal(y.F, draw("second").F) {
			t.Errorf("%s: the numbers do not follow from the name", k.op)
		}
		if m, v := mean(y.F), variance(y.F); math.Abs(m-k.mean) > 0.05 || math.Abs(v-k.variance) > 0.05 {
			t.Errorf("%s: mean %v, variance %v, expected %v, %v", k.op, m, v, k.mean, k.variance)
		}
	}
}

package rowmap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/nodetests"
	"github.com/onnxmem/onnxmem/internal/opcase"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
)

// TestKnown: every operator along which regions can be sliced has an account of its own.
func TestKnown(t *testing.T) {
	for _, domain := range []string{"", "com.microsoft", "onnxmem"} {
		for _, name := range ops.Names(domain) {
			op, full := ops.Lookup(domain, name), strings.TrimPrefix(domain+"."+name, ".")
			sliced := op.Cut != nil || op.Sum != nil
			if known := rowmap.Known(domain, name); sliced != known {
				t.Errorf("%s: sliced: %t, known to the verifier: %t", full, sliced, known)
			}
		}
	}
}

// TestRowsAreListed: docs/formats/rows.md has each operator with an account once, in
// backticks in the first column of a table, and no others.
func TestRowsAreListed(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/formats/rows.md")
	if err != nil {
		t.Fatal(err)
	}
	listed, name := map[string]int{}, regexp.MustCompile("`([^`]+)`")
	for row := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(row, "|") {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			listed[m[1]]++
		}
	}
	for _, domain := range []string{"", "com.microsoft", "onnxmem"} {
		for _, op := range ops.Names(domain) {
			full, want := strings.TrimPrefix(domain+"."+op, "."), 0
			if rowmap.Known(domain, op) {
				want = 1
			}
			if listed[full] != want {
				t.Errorf("%s: in %d rows of docs/formats/rows.md, expected %d (go test ./ops -run TestOperators -update adds operators)", full, listed[full], want)
			}
			delete(listed, full)
		}
	}
	for other := range listed {
		t.Errorf("%q: no operator", other)
	}
}

// elements are those that the inference of package ops knows.
type elements struct{ *ops.Inference }

func (e elements) Integers(t graph.TensorID) ([]int64, bool) { return e.Values[t].Ints() }
func (e elements) Reals(t graph.TensorID) ([]float64, bool)  { return e.Values[t].Floats() }

// compared counts the maps that agree.
type compared map[string]int

// model compares the maps of all nodes of a model.
func (c compared) model(t *testing.T, m *graph.Model, dims map[string]int64) {
	t.Helper()
	inf, err := ops.Infer(m, ops.Options{Dims: dims})
	if err != nil {
		t.Logf("%v", err)
		return
	}
	for i, n := range m.Graph.Nodes {
		x := rowmap.Of(m, n, elements{inf})
		if x == nil || !rowmap.Known(n.Domain, n.Op) || len(n.Outputs) == 0 || n.Outputs[0] < 0 {
			continue
		}
		where := fmt.Sprintf("%s of %v -> %v", m.Graph.Label(graph.NodeID(i)), x.In, x.Out)
		for axis, length := range x.Out[0].Shape {
			if want := inf.Cut(m, n, axis); want != nil {
				for k := range want.Out {
					if !x.Out[k].Present {
						want.Out[k] = rowmap.Whole // no copy makes it
					}
				}
				c[strings.TrimPrefix(n.Domain+"."+n.Op, ".")]++
				c.cut(t, fmt.Sprintf("%s along axis %d", where, axis), x.Along(axis), want, length)
			} else if got := x.Along(axis); got != nil && length > 1 {
				t.Errorf("%s: a map along axis %d, expected none", where, axis)
			}
		}
		for j, a := range x.In {
			for axis := range a.Shape {
				axes := slices.Repeat([]int{ops.Whole}, len(x.In))
				axes[j] = axis
				if want := inf.Sum(m, n, axes); want != nil {
					c[strings.TrimPrefix(n.Domain+"."+n.Op, ".")]++
					c.sum(t, fmt.Sprintf("%s over axis %d of input %d", where, axis, j), x.Sum(j, axis), want)
				} else if got := x.Sum(j, axis); got != nil {
					t.Errorf("%s: a sum over axis %d of input %d, expected none", where, axis, j)
				}
			}
		}
	}
}

func (c compared) cut(t *testing.T, where string, got *rowmap.Map, want *ops.Cut, length int64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: no map", where)
		return
	}
	if !slices.Equal(got.Out, want.Out) {
		t.Errorf("%s: makes axes %v, expected %v", where, got.Out, want.Out)
	}
	modulo := want.Modulo
	if modulo == nil {
		modulo = make([]int64, len(want.Out))
	}
	if !slices.Equal(got.Modulo, modulo) {
		t.Errorf("%s: right but for multiples of %v, expected %v", where, got.Modulo, modulo)
	}
	for lo := range min(length, 12) {
		for hi := lo + 1; hi <= length; hi += max(1, length/16) {
			all := c.rows(t, where, got.In, want.In, lo, hi)
			if got.Change == nil || want.Change == nil {
				if want.Change != nil || got.Change != nil && all {
					t.Errorf("%s: changes %t, expected %t", where, got.Change != nil, want.Change != nil)
				}
				continue
			}
			if all {
				c.change(t, fmt.Sprintf("%s, rows %d to %d", where, lo, hi), got.Change(lo, hi), want.Change(lo, hi))
			}
		}
	}
}

// rows compares rows of inputs. It reports whether there is such a copy.
func (c compared) rows(t *testing.T, where string, got []rowmap.Rows, want []ops.Rows, lo, hi int64) bool {
	t.Helper()
	all := true
	for j := range want {
		if got[j].Axis != want[j].Axis {
			t.Fatalf("%s: input %d along axis %d, expected %d", where, j, got[j].Axis, want[j].Axis)
		}
		if want[j].Axis < 0 {
			continue
		}
		from, to, ok := got[j].Of(lo, hi)
		wantFrom, wantTo, wantOK := want[j].Of(lo, hi)
		if from != wantFrom || to != wantTo || ok != wantOK {
			t.Fatalf("%s: rows %d to %d need rows %d to %d (%t) of input %d, expected %d to %d (%t)", where, lo, hi, from, to, ok, j, wantFrom, wantTo, wantOK)
		}
		all = all && ok
	}
	return all
}

func (c compared) change(t *testing.T, where string, got rowmap.Change, want ops.Change) {
	t.Helper()
	if got.Op != want.Op || !reflect.DeepEqual(got.Attrs, want.Attrs) || !slices.Equal(got.Drop, want.Drop) || len(got.Inputs) != len(want.Inputs) {
		t.Fatalf("%s: the change is %+v, expected %+v", where, got, want)
	}
	for j, list := range want.Inputs {
		if !slices.Equal(got.Inputs[j], list) {
			t.Fatalf("%s: input %d becomes %v, expected %v", where, j, got.Inputs[j], list)
		}
	}
}

func (c compared) sum(t *testing.T, where string, got *rowmap.Sum, want *ops.Sum) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: no sum", where)
		return
	}
	if got.By != want.By || got.Length != want.Length || got.Mean != want.Mean || got.Mean && got.Count != want.Count {
		t.Errorf("%s: %+v, expected %+v", where, got, want)
	}
	c.rows(t, where, got.In, want.In, 0, want.Length)
	change := ops.Change{}
	if want.Change != nil {
		change = want.Change(0, 1)
	}
	c.change(t, where, got.Change, change)
}

// node is a node of an operator.
type node struct {
	op      string
	version int64
	in      []graph.Type
	lists   map[int][]int64 // inputs that are constants
	reals   map[int][]float64
	outputs int
	attrs   []*graph.Attr
}

// single are nodes of operators that neither ONNX's tests nor the networks have, or have
// not in that form. Signatures give those of elementwise operators.
var single = []node{
	{op: "BatchNormalization", version: 15, outputs: 3, attrs: []*graph.Attr{number("training_mode", 1)}, in: reals([]graph.Dim{4, 6, 5, 5}, []graph.Dim{6}, []graph.Dim{6}, []graph.Dim{6}, []graph.Dim{6})},
	{op: "BatchNormalization", version: 15, outputs: 3, attrs: []*graph.Attr{number("training_mode", 1)}, in: reals([]graph.Dim{5}, []graph.Dim{1}, []graph.Dim{1}, []graph.Dim{1}, []graph.Dim{1})},
	{op: "BatchNormalization", version: 15, in: reals([]graph.Dim{5}, []graph.Dim{1}, []graph.Dim{1}, []graph.Dim{1}, []graph.Dim{1})},
	{op: "CumProd", version: 26, in: append(reals([]graph.Dim{4, 6}), graph.TensorOf(graph.Int64)), lists: map[int][]int64{1: {1}}},
	{op: "CumSum", version: 14, in: append(reals([]graph.Dim{4, 6}), graph.TensorOf(graph.Int64)), lists: map[int][]int64{1: {-2}}},
	{op: "SimplifiedLayerNormalization", version: 17, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{8})},
	{op: "GroupNormalization", version: 18, attrs: []*graph.Attr{number("num_groups", 3)}, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{3}, []graph.Dim{3})},
	{op: "Conv", version: 22, attrs: []*graph.Attr{number("group", 3), list("pads", 2, 0, 1, 1), list("strides", 2, 1), list("dilations", 1, 2)}, in: reals([]graph.Dim{2, 6, 17, 15}, []graph.Dim{9, 2, 5, 3}, []graph.Dim{9})},
	{op: "Conv", version: 22, in: reals([]graph.Dim{2, 6, 17, 15}, []graph.Dim{9, 6, 1, 1})},
	{op: "ConvTranspose", version: 22, attrs: []*graph.Attr{number("group", 2), list("strides", 2, 3)}, in: reals([]graph.Dim{2, 6, 7, 5}, []graph.Dim{6, 4, 2, 3}, []graph.Dim{8})},
	{op: "MaxPool", version: 22, outputs: 2, attrs: []*graph.Attr{list("kernel_shape", 3, 2), list("strides", 2, 1)}, in: reals([]graph.Dim{2, 6, 17, 15})},
	{op: "GlobalAveragePool", version: 22, in: reals([]graph.Dim{2, 6, 17, 15})},
	{op: "GlobalLpPool", version: 22, in: reals([]graph.Dim{2, 6, 17, 15})},
	{op: "Tile", version: 13, in: append(reals([]graph.Dim{4, 1, 8}), graph.TensorOf(graph.Int64, 3)), lists: map[int][]int64{1: {2, 6, 1}}},
	{op: "Expand", version: 13, in: append(reals([]graph.Dim{4, 1, 8}), graph.TensorOf(graph.Int64, 4)), lists: map[int][]int64{1: {2, 1, 6, 1}}},
	{op: "ConstantOfShape", version: 20, in: []graph.Type{graph.TensorOf(graph.Int64, 2)}, lists: map[int][]int64{0: {6, 9}}},
	{op: "Resize", version: 19, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.Type{}, graph.TensorOf(graph.Float32, 4)), reals: map[int][]float64{2: {1, 1, 2, 1}}},
	{op: "Resize", version: 19, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.Type{}, graph.TensorOf(graph.Float32, 4)), reals: map[int][]float64{2: {1, 1.05, 1, 0.5}}},
	{op: "Resize", version: 19, attrs: []*graph.Attr{list("axes", 1, -1)}, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.Type{}, graph.TensorOf(graph.Float32, 2)), reals: map[int][]float64{2: {1, 2}}},
	{op: "Resize", version: 19, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.Type{}, graph.Type{}, graph.TensorOf(graph.Int64, 4)), lists: map[int][]int64{3: {2, 6, 14, 5}}},
	{op: "Resize", version: 19, attrs: []*graph.Attr{text("keep_aspect_ratio_policy", "not_larger")}, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.Type{}, graph.Type{}, graph.TensorOf(graph.Int64, 4)), lists: map[int][]int64{3: {2, 6, 7, 5}}},
	{op: "Resize", version: 19, attrs: []*graph.Attr{text("mode", "linear"), text("coordinate_transformation_mode", "tf_half_pixel_for_nn")}, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.Type{}, graph.TensorOf(graph.Float32, 4)), reals: map[int][]float64{2: {1, 1, 2, 1}}},
	{op: "Resize", version: 19, attrs: []*graph.Attr{text("coordinate_transformation_mode", "tf_crop_and_resize")}, in: append(reals([]graph.Dim{2, 6}, []graph.Dim{4}), graph.TensorOf(graph.Float32, 2)), reals: map[int][]float64{1: {0, 0, 1, 0.5}, 2: {1, 2}}},
	{op: "Resize", version: 10, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.TensorOf(graph.Float32, 4)), reals: map[int][]float64{1: {1, 1, 2, 2}}},
	{op: "Upsample", version: 9, in: append(reals([]graph.Dim{2, 6, 7, 5}), graph.TensorOf(graph.Float32, 4)), reals: map[int][]float64{1: {1, 2, 1, 2}}},
	{op: "Upsample", version: 7, attrs: []*graph.Attr{{Name: "scales", Type: graph.AttrFloats, Floats: []float32{1, 1, 3, 1}}}, in: reals([]graph.Dim{2, 6, 7, 5})},
	{op: "Dropout", version: 13, in: append(reals([]graph.Dim{4, 6}), graph.TensorOf(graph.Float32), graph.TensorOf(graph.Bool)), lists: map[int][]int64{2: {0}}},
	{op: "Dropout", version: 13, in: append(reals([]graph.Dim{4, 6}), graph.TensorOf(graph.Float32), graph.TensorOf(graph.Bool)), lists: map[int][]int64{2: {1}}},
	{op: "DeformConv", version: 22, in: reals([]graph.Dim{2, 6, 7, 5}, []graph.Dim{8, 6, 3, 3}, []graph.Dim{2, 18, 5, 3})},
	{op: "DeformConv", version: 22, in: reals([]graph.Dim{2, 6, 7, 5}, []graph.Dim{8, 6, 3, 3}, []graph.Dim{2, 18, 5, 3}, []graph.Dim{8}, []graph.Dim{2, 9, 5, 3})},
	{op: "Einsum", version: 12, attrs: []*graph.Attr{text("equation", "b i...j, ...jk")}, in: reals([]graph.Dim{4, 6, 3, 1, 8}, []graph.Dim{5, 8, 10})},
	{op: "Einsum", version: 12, attrs: []*graph.Attr{text("equation", "bii,bj->bij")}, in: reals([]graph.Dim{4, 6, 6}, []graph.Dim{4, 8})},
	{op: "Attention", version: 23, attrs: []*graph.Attr{number("q_num_heads", 6), number("kv_num_heads", 3)}, in: reals([]graph.Dim{2, 7, 24}, []graph.Dim{2, 9, 12}, []graph.Dim{2, 9, 12}, []graph.Dim{6, 7, 9})},
	{op: "Attention", version: 23, attrs: []*graph.Attr{number("is_causal", 1)}, in: reals([]graph.Dim{2, 6, 7, 4}, []graph.Dim{2, 3, 9, 4}, []graph.Dim{2, 3, 9, 4}, []graph.Dim{2, 1, 7, 9})},
	{op: "Slice", version: 13, in: append(reals([]graph.Dim{9, 20}), graph.TensorOf(graph.Int64, 2), graph.TensorOf(graph.Int64, 2), graph.TensorOf(graph.Int64, 2), graph.TensorOf(graph.Int64, 2)), lists: map[int][]int64{1: {-15, 8}, 2: {19, 0}, 3: {1, 0}, 4: {3, -1}}},
	{op: "Pad", version: 18, in: append(reals([]graph.Dim{9, 20}), graph.TensorOf(graph.Int64, 2), graph.TensorOf(graph.Float32), graph.TensorOf(graph.Int64, 1)), lists: map[int][]int64{1: {3, -2}, 3: {-1}}},
	{op: "Trilu", version: 14, in: reals([]graph.Dim{3, 5, 6})},
	{op: "TensorScatter", version: 24, in: append(reals([]graph.Dim{3, 4, 9, 5}, []graph.Dim{3, 4, 2, 5}), graph.TensorOf(graph.Int64, 3))},
	{op: "ScatterElements", version: 18, attrs: []*graph.Attr{number("axis", 1)}, in: []graph.Type{graph.TensorOf(graph.Float32, 5, 9, 6), graph.TensorOf(graph.Int64, 5, 3, 6), graph.TensorOf(graph.Float32, 5, 3, 6)}},
	{op: "ReduceProd", version: 18, in: append(reals([]graph.Dim{4, 6, 8}), graph.TensorOf(graph.Int64, 1)), lists: map[int][]int64{1: {-2}}},
	{op: "ReduceSum", version: 11, attrs: []*graph.Attr{list("axes", 0, 2), number("keepdims", 0)}, in: reals([]graph.Dim{4, 6, 8})},
	{op: "ReduceMean", version: 17, attrs: []*graph.Attr{list("axes", 1)}, in: reals([]graph.Dim{4, 6, 8})},
	{op: "ReduceMean", version: 11, attrs: []*graph.Attr{list("axes", 1)}, in: reals([]graph.Dim{4, 6, 8})},
	{op: "Sign", version: 13, in: reals([]graph.Dim{4, 6})},
	{op: "ReduceL2", version: 17, attrs: []*graph.Attr{list("axes", -1)}, in: reals([]graph.Dim{4, 6, 8})},
	{op: "ReduceLogSum", version: 17, attrs: []*graph.Attr{list("axes", 1)}, in: reals([]graph.Dim{4, 6, 8})},
	{op: "ReduceLogSumExp", version: 17, attrs: []*graph.Attr{list("axes", 1)}, in: reals([]graph.Dim{4, 6, 8})},
	{op: "Softmax", version: 11, attrs: []*graph.Attr{number("axis", -2)}, in: reals([]graph.Dim{4, 6, 8})},
	{op: "Reshape", version: 5, in: append(reals([]graph.Dim{4, 6, 8}), graph.TensorOf(graph.Int64, 4)), lists: map[int][]int64{1: {0, 2, 3, -1}}},
	{op: "Reshape", version: 5, in: append(reals([]graph.Dim{12, 10}), graph.TensorOf(graph.Int64, 3)), lists: map[int][]int64{1: {8, 1, 15}}},
	{op: "Squeeze", version: 13, in: reals([]graph.Dim{1, 6, 1, 8})},
	{op: "HardSwish", version: 14, in: reals([]graph.Dim{4, 6})},
	{op: "QuantizeLinear", version: 13, attrs: []*graph.Attr{number("axis", 0)}, in: []graph.Type{graph.TensorOf(graph.Float32, 4, 6), graph.TensorOf(graph.Float32, 4), graph.TensorOf(graph.Uint8, 4)}},
	{op: "com.microsoft.QuantizeLinear", version: 1, in: []graph.Type{graph.TensorOf(graph.Float32, 4, 6), graph.TensorOf(graph.Float32), graph.TensorOf(graph.Uint8)}},
	{op: "com.microsoft.DequantizeLinear", version: 1, attrs: []*graph.Attr{number("axis", 1)}, in: []graph.Type{graph.TensorOf(graph.Uint8, 4, 6), graph.TensorOf(graph.Float32, 6), graph.TensorOf(graph.Uint8, 6)}},
	{op: "com.microsoft.QLinearAdd", version: 1, in: quantized([]graph.Dim{4, 6, 8}, []graph.Dim{6, 1}, nil)},
	{op: "com.microsoft.QLinearMul", version: 1, in: quantized([]graph.Dim{4, 6, 8}, []graph.Dim{4, 1, 8}, nil)},
	{op: "com.microsoft.QLinearSigmoid", version: 1, in: quantized([]graph.Dim{4, 6, 8}, nil)},
	{op: "com.microsoft.QLinearLeakyRelu", version: 1, in: quantized([]graph.Dim{4, 6, 8}, nil)},
	{op: "com.microsoft.QLinearAveragePool", version: 1, attrs: []*graph.Attr{list("kernel_shape", 3, 2), list("pads", 1, 0, 1, 1), list("strides", 2, 1)}, in: quantized([]graph.Dim{2, 6, 17, 15}, nil)},
	{op: "com.microsoft.QLinearAveragePool", version: 1, attrs: []*graph.Attr{list("kernel_shape", 3, 2), number("channels_last", 1)}, in: quantized([]graph.Dim{2, 17, 15, 6}, nil)},
	{op: "com.microsoft.QLinearGlobalAveragePool", version: 1, in: quantized([]graph.Dim{2, 6, 17, 15}, nil)},
	{op: "com.microsoft.QLinearGlobalAveragePool", version: 1, attrs: []*graph.Attr{number("channels_last", 1)}, in: quantized([]graph.Dim{2, 17, 15, 6}, nil)},
	{op: "com.microsoft.Gelu", version: 1, in: reals([]graph.Dim{4, 6, 8})},
	{op: "com.microsoft.QuickGelu", version: 1, in: reals([]graph.Dim{4, 6, 8})},
	{op: "com.microsoft.FastGelu", version: 1, in: reals([]graph.Dim{4, 6, 8})},
	{op: "com.microsoft.FastGelu", version: 1, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{8})},
	{op: "com.microsoft.BiasGelu", version: 1, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{8})},
	{op: "com.microsoft.SkipLayerNormalization", version: 1, outputs: 4, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{4, 6, 8}, []graph.Dim{8}, []graph.Dim{8}, []graph.Dim{8})},
	{op: "com.microsoft.SkipLayerNormalization", version: 1, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{1, 6, 8}, []graph.Dim{8})},
	{op: "com.microsoft.SkipSimplifiedLayerNormalization", version: 1, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{6, 8}, []graph.Dim{8})},
	{op: "com.microsoft.SimplifiedLayerNormalization", version: 1, attrs: []*graph.Attr{number("axis", -1)}, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{8})},
	{op: "com.microsoft.FusedMatMul", version: 1, in: reals([]graph.Dim{2, 4, 6, 8}, []graph.Dim{4, 8, 10})},
	{op: "com.microsoft.FusedMatMul", version: 1, attrs: []*graph.Attr{number("transB", 1)}, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{4, 10, 8})},
	{op: "com.microsoft.FusedMatMulActivation", version: 1, attrs: []*graph.Attr{{Name: "activation", Type: graph.AttrString, String: "Relu"}}, in: reals([]graph.Dim{4, 6, 8}, []graph.Dim{4, 8, 10})},
	{op: "com.microsoft.FusedGemm", version: 1, attrs: []*graph.Attr{number("transA", 1), {Name: "activation", Type: graph.AttrString, String: "Relu"}}, in: reals([]graph.Dim{8, 6}, []graph.Dim{8, 10}, []graph.Dim{10})},
	{op: "com.microsoft.FusedGemm", version: 1, attrs: []*graph.Attr{{Name: "activation", Type: graph.AttrString, String: "Relu"}}, in: reals([]graph.Dim{6, 8}, []graph.Dim{8, 10})},
	{op: "com.microsoft.FusedConv", version: 1, attrs: []*graph.Attr{list("pads", 1, 1, 1, 1), list("strides", 2, 1)}, in: reals([]graph.Dim{2, 6, 17, 15}, []graph.Dim{8, 6, 3, 3}, []graph.Dim{8}, []graph.Dim{2, 8, 9, 15})},
	{op: "com.microsoft.FusedConv", version: 1, attrs: []*graph.Attr{number("group", 6)}, in: reals([]graph.Dim{2, 6, 17, 15}, []graph.Dim{12, 1, 3, 3}, []graph.Dim{12})},
	{op: "com.microsoft.MatMulNBits", version: 1, attrs: []*graph.Attr{number("K", 32), number("N", 10), number("bits", 4), number("block_size", 32)}, in: []graph.Type{graph.TensorOf(graph.Float32, 4, 6, 32), graph.TensorOf(graph.Uint8, 10, 1, 16), graph.TensorOf(graph.Float32, 10, 1)}},
	{op: "QLinearMatMul", version: 21, in: slices.Insert(quantized([]graph.Dim{4, 6, 8}, nil)[:1], 1, graph.TensorOf(graph.Float32, 6), graph.TensorOf(graph.Uint8, 6), graph.TensorOf(graph.Uint8, 8, 10), graph.TensorOf(graph.Float32, 10), graph.TensorOf(graph.Uint8, 10), graph.TensorOf(graph.Float32), graph.TensorOf(graph.Uint8))},
	{op: "MatMulInteger", version: 10, in: []graph.Type{graph.TensorOf(graph.Uint8, 4, 6, 8), graph.TensorOf(graph.Uint8, 8, 10), graph.TensorOf(graph.Uint8), graph.TensorOf(graph.Uint8, 10)}},
	{op: "ConvInteger", version: 10, attrs: []*graph.Attr{list("pads", 1, 1, 1, 1)}, in: []graph.Type{graph.TensorOf(graph.Uint8, 2, 6, 17, 15), graph.TensorOf(graph.Uint8, 9, 6, 3, 3), graph.TensorOf(graph.Uint8), graph.TensorOf(graph.Uint8)}},
	{op: "LSTM", version: 14, outputs: 3, attrs: []*graph.Attr{number("hidden_size", 5)}, in: append(reals([]graph.Dim{7, 4, 6}, []graph.Dim{1, 20, 6}, []graph.Dim{1, 20, 5}, []graph.Dim{1, 40}), graph.TensorOf(graph.Int32, 4), graph.TensorOf(graph.Float32, 1, 4, 5), graph.TensorOf(graph.Float32, 1, 4, 5))},
	{op: "GRU", version: 14, outputs: 2, attrs: []*graph.Attr{number("hidden_size", 5), number("layout", 1)}, in: reals([]graph.Dim{4, 7, 6}, []graph.Dim{1, 15, 6}, []graph.Dim{1, 15, 5})},
	{op: "RNN", version: 14, attrs: []*graph.Attr{number("hidden_size", 5)}, in: reals([]graph.Dim{7, 4, 6}, []graph.Dim{1, 5, 6}, []graph.Dim{1, 5, 5})},
	{op: "QLinearConv", version: 10, attrs: []*graph.Attr{list("pads", 1, 1, 1, 1), list("strides", 2, 1)}, in: slices.Insert(quantized([]graph.Dim{2, 6, 17, 15}, []graph.Dim{9, 6, 3, 3}, nil), 8, graph.TensorOf(graph.Int32, 9))},
	{op: "com.microsoft.QLinearConv", version: 1, attrs: []*graph.Attr{number("channels_last", 1), number("group", 6)}, in: quantized([]graph.Dim{2, 17, 15, 6}, []graph.Dim{6, 1, 3, 3}, nil)},
}

func reals(shapes ...[]graph.Dim) (list []graph.Type) {
	for _, s := range shapes {
		list = append(list, graph.TensorOf(graph.Float32, s...))
	}
	return list
}

// quantized returns types of 8-bit tensors, each of which is followed by those of its
// scale and its zero point; nil: these alone.
func quantized(shapes ...[]graph.Dim) (list []graph.Type) {
	for _, s := range shapes {
		if s != nil {
			list = append(list, graph.TensorOf(graph.Uint8, s...))
		}
		list = append(list, graph.TensorOf(graph.Float32), graph.TensorOf(graph.Uint8))
	}
	return list
}

func number(name string, v int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: v}
}

func text(name, v string) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrString, String: v}
}

func list(name string, v ...int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
}

// TestMaps compares the maps with those of package ops on ONNX's operator tests, on the
// nodes of networks and on some nodes of their own: each operator is compared. Package
// vm/internal/kernel runs the copies that the maps of ops describe.
func TestMaps(t *testing.T) {
	c := compared{}
	for _, k := range single {
		c.single(t, k)
	}
	c.nodeTests(t)
	for _, n := range models.Networks() {
		m, err := models.Build(n.Name, models.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.model(t, m, map[string]int64{"batch": 4})
	}
	cases, err := opcase.Elementwise(4, 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range cases {
		if full := k.Name(); c[full] == 0 {
			c.single(t, node{op: full, version: k.Version, attrs: k.Attrs, in: slices.Repeat(reals([]graph.Dim{4, 6}), len(k.In))})
		}
	}
	for _, domain := range []string{"", "com.microsoft"} {
		for _, name := range ops.Names(domain) {
			if full := strings.TrimPrefix(domain+"."+name, "."); rowmap.Known(domain, name) && c[full] == 0 {
				t.Errorf("%s was not compared: it needs a row in the table single", full)
			}
		}
	}
	t.Log(c)
}

// single compares the maps of one node.
func (c compared) single(t *testing.T, k node) {
	t.Helper()
	domain, op := "", k.op
	if i := strings.LastIndex(op, "."); i >= 0 {
		domain, op = op[:i], op[i+1:]
	}
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Domain: "", Version: 21}}, Graph: &graph.Graph{}}
	if m.Opsets[0].Version = k.version; domain != "" {
		m.Opsets = []graph.Opset{{Domain: "", Version: 21}, {Domain: domain, Version: k.version}}
	}
	n := &graph.Node{Op: op, Domain: domain, Attrs: k.attrs}
	for i, typ := range k.in {
		if typ.Kind == graph.KindUnknown {
			n.Inputs = append(n.Inputs, graph.None)
			continue
		}
		id := m.Graph.NewTensor(fmt.Sprint("x", i))
		n.Inputs = append(n.Inputs, id)
		x := m.Graph.Tensors[id]
		if v, known := k.reals[i]; known {
			x.Data = &graph.Data{Type: graph.Float32, Dims: []int64{int64(len(v))}, Floats: v, Bytes: int64(4 * len(v))}
			continue
		}
		if v, known := k.lists[i]; known {
			x.Data = &graph.Data{Type: typ.Elem, Dims: []int64{}, Ints: v, Bytes: int64(8 * len(v))}
			if len(typ.Shape) > 0 {
				x.Data.Dims = []int64{int64(len(v))}
			}
			continue
		}
		x.Declared = &graph.Declared{Type: typ, Symbols: make([]string, len(typ.Shape))}
		m.Graph.Inputs = append(m.Graph.Inputs, id)
	}
	for i := range max(k.outputs, 1) {
		n.Outputs = append(n.Outputs, m.Graph.NewTensor(fmt.Sprint("y", i)))
	}
	m.Graph.Nodes, m.Graph.Outputs = []*graph.Node{n}, n.Outputs
	m.Graph.Link()
	c.model(t, m, nil)
}

// nodeTests compares the maps on ONNX's operator tests.
func (c compared) nodeTests(t *testing.T) {
	t.Helper()
	tests, err := nodetests.Read(filepath.Dir(datafolder.Path(t, "node-tests.tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range tests {
		m, err := onnx.Parse(k.Name, k.Model())
		if err != nil || len(m.Graph.Nodes) != 1 {
			continue
		}
		// Lists that are inputs are known where they are constants.
		for j, id := range m.Graph.Inputs {
			x := m.Graph.Tensors[id]
			if d, err := onnx.ParseTensor(x.Name, k.Input(j)); err == nil && d.Type.Integer() && len(d.Dims) < 2 && d.Elements() <= 16 {
				x.Data = d
			}
		}
		c.model(t, m, nil)
	}
}

package vm_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// nodeCase is a single node with its inputs and the expected result.
type nodeCase struct {
	doc     string
	op      string // with its domain, if it has one
	version int64  // of ai.onnx; 0: 21
	attrs   []*graph.Attr
	in      []vm.Value // a zero Value is an omitted input
	outs    int        // 0: 1
	want    string     // a part of the error; "": it runs
	gives   []float64  // the elements of an output; nil: whatever they are
	of      int        // index of the output that gives describes
}

// shapeModes names the two ways to run a nodeCase: the model declares the shapes of the
// inputs, or a Reshape finds them at run time.
var shapeModes = map[bool]string{false: "stated", true: "late"}

// plan makes a program of the node, and the values of its inputs.
func (k *nodeCase) plan(t testing.TB, late bool) (*vm.Program, map[string]vm.Value, error) {
	t.Helper()
	n := newNet()
	node := &graph.Node{Name: "k", Op: k.op, Attrs: k.attrs}
	if i := strings.LastIndexByte(k.op, '.'); i >= 0 {
		node.Domain, node.Op = k.op[:i], k.op[i+1:]
	}
	inputs := map[string]vm.Value{}
	version := k.version
	if version == 0 {
		version = 21
	}
	feed := func(name string, v vm.Value) {
		dims := make([]graph.Dim, len(v.Shape))
		for i, d := range v.Shape {
			dims[i] = graph.Dim(d)
		}
		n.input(name, dims...)
		n.g.Tensors[n.tensor(name)].Declared.Type.Elem = v.Type
		inputs[name] = v
	}
	for i, v := range k.in {
		if v.Type == graph.Undefined {
			node.Inputs = append(node.Inputs, graph.None)
			continue
		}
		name := fmt.Sprintf("x%d", i)
		if !late {
			feed(name, v)
			node.Inputs = append(node.Inputs, n.tensor(name))
			continue
		}
		shape, elements := make([]int64, len(v.Shape)), 1
		for a, d := range v.Shape {
			shape[a] = int64(d)
			elements *= d
		}
		feed(name+".flat", vm.Value{Type: v.Type, Shape: []int{elements}, Data: v.Data})
		feed(name+".shape", vm.Int64s(shape, len(shape)))
		n.node("Reshape", name, name+".flat", name+".shape")
		if version >= 14 {
			r := n.g.Nodes[len(n.g.Nodes)-1]
			r.Attrs = append(r.Attrs, &graph.Attr{Name: "allowzero", Type: graph.AttrInt, Int: 1})
		}
		node.Inputs = append(node.Inputs, n.tensor(name))
	}
	for o := range max(k.outs, 1) {
		id := n.tensor(fmt.Sprintf("y%d", o))
		node.Outputs = append(node.Outputs, id)
		n.g.Tensors[id].Output = true
		n.g.Outputs = append(n.g.Outputs, id)
	}
	n.g.Nodes = append(n.g.Nodes, node)
	n.g.Link()
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: version}, {Domain: "com.microsoft", Version: 1}}, Graph: n.g}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nodeCase.onnx")
	if err := onnx.Write(path, m, im, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), open(t, path).Model, passes.Options{})
	if err != nil {
		return nil, nil, err
	}
	p, err := vm.New(r.Model, r.Plan)
	return p, inputs, err
}

// run plans a model of the node, and runs it.
func (k *nodeCase) run(t *testing.T, late bool) (vm.Value, error) {
	t.Helper()
	p, inputs, err := k.plan(t, late)
	if err != nil {
		return vm.Value{}, err
	}
	defer p.Close()
	s, err := p.NewSession(vm.Options{Workers: 1})
	if err != nil {
		return vm.Value{}, err
	}
	defer s.Close()
	out, err := s.Run(t.Context(), inputs)
	return out[fmt.Sprintf("y%d", k.of)].Clone(), err
}

// runNodeCases runs each node in both ways, and expects the same result.
func runNodeCases(t *testing.T, cases []nodeCase) {
	t.Helper()
	for _, k := range cases {
		for late, way := range shapeModes {
			t.Run(k.op+"/"+k.doc+"/"+way, func(t *testing.T) {
				got, err := k.run(t, late)
				switch {
				case k.want == "" && err != nil:
					t.Errorf("got %v, want no error", err)
				case k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)):
					t.Errorf("got error %v, want one with %q", err, k.want)
				case k.gives != nil:
					if list, ok := got.Reals(); !ok || !slices.EqualFunc(list, k.gives, func(a, b float64) bool { return a == b || a != a && b != b }) {
						t.Errorf("got %v, want %v", list, k.gives)
					}
				}
			})
		}
	}
}

// floats returns small numbers in a shape.
func floats(shape ...int) vm.Value {
	dims := make([]graph.Dim, len(shape))
	for i, d := range shape {
		dims[i] = graph.Dim(d)
	}
	v := ramp(dims)
	if v.Shape == nil {
		v.Shape = []int{}
	}
	return v
}

func numbers(shape []int, list ...int64) vm.Value { return vm.Int64s(list, shape...) }

func axisAttr(k int64) []*graph.Attr {
	return []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: k}}
}

// Indices are data: an index that is out of range is detected before any access, on every
// axis.
func TestIndicesOutside(t *testing.T) {
	runNodeCases(t, []nodeCase{
		{doc: "right", op: "Gather", in: []vm.Value{floats(3, 4), numbers([]int{2}, -3, 2)}},
		{doc: "too large", op: "Gather", in: []vm.Value{floats(3, 4), numbers([]int{2}, 0, 3)}, want: "index 3 (element 1 of the indices): expected one in [-3, 3)"},
		{doc: "the least number", op: "Gather", in: []vm.Value{floats(3, 4), numbers([]int{1}, -1<<63)}, want: "index -9223372036854775808 (element 0 of the indices)"},
		{doc: "of an empty axis", op: "Gather", in: []vm.Value{floats(0, 4), numbers([]int{1}, 0)}, want: "index 0 (element 0 of the indices): expected one in [0, 0)"},
		{doc: "nothing", op: "Gather", in: []vm.Value{floats(3, 4), numbers([]int{0})}},

		{doc: "right", op: "GatherElements", in: []vm.Value{floats(3, 4), numbers([]int{2, 2}, 2, 0, -1, -3)}},
		{doc: "too large", op: "GatherElements", in: []vm.Value{floats(3, 4), numbers([]int{1, 2}, 0, 3)}, want: "index 3 (element 1 of the indices): expected one in [-3, 3)"},
		{doc: "longer on another axis", op: "GatherElements", in: []vm.Value{floats(3, 2), numbers([]int{1, 3}, 0, 0, 0)}, want: "has shape [1,3], expected at most 2 on axis 1 to match input 0 [3,2]"},
		{doc: "longer on the axis itself", op: "GatherElements", in: []vm.Value{floats(1, 2), numbers([]int{3, 1}, 0, 0, 0)}},

		{doc: "the second axis", op: "GatherND", in: []vm.Value{floats(3, 4), numbers([]int{1, 2}, 0, 4)}, want: "index 4 (element 1 of the indices): expected one in [-4, 4)"},
		{doc: "behind the batch", op: "GatherND", attrs: []*graph.Attr{{Name: "batch_dims", Type: graph.AttrInt, Int: 1}}, in: []vm.Value{floats(2, 4), numbers([]int{2, 1}, 0, -5)}, want: "index -5 (element 1 of the indices): expected one in [-4, 4)"},

		{doc: "too small", op: "ScatterElements", in: []vm.Value{floats(3, 4), numbers([]int{1, 1}, -4), floats(1, 1)}, want: "index -4 (element 0 of the indices): expected one in [-3, 3)"},
		{doc: "longer on another axis", op: "ScatterElements", in: []vm.Value{floats(3, 4), numbers([]int{1, 5}, 0, 0, 0, 0, 0), floats(1, 5)}, want: "has shape [1,5], expected at most 4 on axis 1"},
		{doc: "the second axis", op: "ScatterND", in: []vm.Value{floats(3, 4), numbers([]int{1, 2}, 0, 4), floats(1)}, want: "index 4 (element 1 of the indices): expected one in [-4, 4)"},
		{doc: "too few updates", op: "ScatterND", in: []vm.Value{floats(3, 4), numbers([]int{2, 1}, 0, 1), floats(1, 4)}, want: "has shape [1,4], expected [2,4]"},

		{doc: "right", op: "TensorScatter", version: 24, in: []vm.Value{floats(1, 3, 4), floats(1, 2, 4), numbers([]int{1}, 1)}},
		{doc: "behind the cache", op: "TensorScatter", version: 24, in: []vm.Value{floats(1, 3, 4), floats(1, 2, 4), numbers([]int{1}, 2)}, want: "write index 2 (element 0): expected one in [0, 1], so that 2 places fit a cache of 3"},
		{doc: "before it", op: "TensorScatter", version: 24, in: []vm.Value{floats(1, 3, 4), floats(1, 2, 4), numbers([]int{1}, -1)}, want: "write index -1 (element 0): expected one in [0, 1]"},

		{doc: "beyond the depth", op: "OneHot", in: []vm.Value{numbers([]int{3}, -4, 2, 1<<62), numbers([]int{}, 3), floats(2)}}, // all out of range
		{doc: "no number", op: "OneHot", in: []vm.Value{vm.Float32s([]float32{float32(math.NaN()), 1}, 2), numbers([]int{}, 3), floats(2)}},
		{doc: "values of another length", op: "OneHot", in: []vm.Value{numbers([]int{1}, 0), numbers([]int{}, 3), floats(1)}, want: "the values for off and on"},
		{doc: "two depths", op: "OneHot", in: []vm.Value{numbers([]int{1}, 0), numbers([]int{2}, 3, 4), floats(2)}, want: "expected one element"},
		{doc: "a depth that is no number", op: "OneHot", in: []vm.Value{numbers([]int{1}, 0), vm.Float32s([]float32{float32(math.NaN())}), floats(2)}, want: "is NaN, expected an integer"},
	})
}

// A node without output elements reaches no kernel, and gets its empty tensors.
func TestNothingToMake(t *testing.T) {
	runNodeCases(t, []nodeCase{
		{doc: "an image without columns", op: "Conv", in: []vm.Value{floats(1, 1, 5, 0), floats(2, 1, 3, 3)}},
		{doc: "no image", op: "Conv", in: []vm.Value{floats(0, 1, 5, 5), floats(2, 1, 3, 3)}},
		{doc: "the best of no lines", op: "ArgMax", in: []vm.Value{floats(0, 0)}, attrs: axisAttr(1)},
		{doc: "no windows", op: "MaxPool", attrs: []*graph.Attr{{Name: "kernel_shape", Type: graph.AttrInts, Ints: []int64{1, 1}}}, in: []vm.Value{floats(1, 0, 5, 5)}},
	})
}

// A kernel sees only outputs with known shapes: if they do not follow from the inputs, the
// node is refused.
func TestShapesThatDoNotFollow(t *testing.T) {
	ones := make([]int64, 5000) // more axes than shape arithmetic follows
	for i := range ones {
		ones[i] = 1
	}
	runNodeCases(t, []nodeCase{{op: "Reshape", in: []vm.Value{floats(1), numbers([]int{5000}, ones...)}, want: `the shape of output 0 "y0" does not follow from the inputs`}})
}

func attr(name string, v any) *graph.Attr {
	switch v := v.(type) {
	case string:
		return &graph.Attr{Name: name, Type: graph.AttrString, String: v}
	case int:
		return &graph.Attr{Name: name, Type: graph.AttrInt, Int: int64(v)}
	case []int64:
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	case float32:
		return &graph.Attr{Name: name, Type: graph.AttrFloat, Float: v}
	}
	panic(v)
}

func attrs(list ...*graph.Attr) []*graph.Attr { return list }

// rowOf is a list of float32.
func rowOf(list ...float32) vm.Value { return vm.Float32s(list, len(list)) }

// A shape that is data may contradict the input, although the shape of the result is known.
func TestShapesThatAreData(t *testing.T) {
	x := floats(2, 3)
	runNodeCases(t, []nodeCase{
		{doc: "the same", op: "Expand", in: []vm.Value{x, numbers([]int{2}, 1, 3)}},
		{doc: "longer", op: "Expand", in: []vm.Value{x, numbers([]int{2}, 4, 3)}, want: "expected one that broadcasts to [4,3]"},
		{doc: "empty", op: "Expand", in: []vm.Value{x, numbers([]int{2}, 2, 0)}, want: "expected one that broadcasts to [2,0]"},
		{doc: "no length", op: "Expand", in: []vm.Value{x, numbers([]int{2}, -1, 3)}, want: "shape has -1 for axis 0"},
		{doc: "a list", op: "Reshape", in: []vm.Value{x, numbers([]int{1}, 6)}},
		{doc: "another list", op: "Reshape", in: []vm.Value{x, numbers([]int{1}, 7)}, want: "7"},
		{doc: "the axis of length 1", op: "Squeeze", in: []vm.Value{floats(1, 6), numbers([]int{1}, -2)}},
		{doc: "another axis", op: "Squeeze", in: []vm.Value{floats(1, 6), numbers([]int{1}, 1)}, want: "length 1 on axis 1"},
		{doc: "no axis", op: "Squeeze", in: []vm.Value{floats(1, 6), numbers([]int{1}, -1<<63)}, want: "expected one of [-2, 2)"},
	})
}

// Regions, scales and boxes are data: they may lie anywhere, or be NaN.
func TestResizeOfAnything(t *testing.T) {
	none, huge, inf, nan := vm.Value{}, float32(1e30), float32(math.Inf(1)), float32(math.NaN())
	crop := attr("coordinate_transformation_mode", "tf_crop_and_resize")
	var rows []nodeCase
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, roi := range [][]float32{{0, 0, 1, 1}, {-huge, 0, huge, 1}, {0, 0, 0, 0}, {nan, nan, nan, nan}, {inf, -inf, -inf, inf}} {
			rows = append(rows, nodeCase{doc: fmt.Sprintf("%s of %v", mode, roi), op: "Resize", attrs: attrs(crop, attr("mode", mode)), in: []vm.Value{floats(5, 7), rowOf(roi...), none, numbers([]int{2}, 3, 9)}})
		}
		rows = append(rows,
			nodeCase{doc: mode + " from a scale of almost nothing", op: "Resize", attrs: attrs(attr("mode", mode)), in: []vm.Value{floats(5, 7), none, rowOf(1e-30, 1)}},
			nodeCase{doc: mode + " of the leading axis", op: "Resize", attrs: attrs(attr("mode", mode), attr("coordinate_transformation_mode", "asymmetric"), attr("nearest_mode", "floor")), in: []vm.Value{floats(5, 2, 2), none, rowOf(1.1, 1, 1)}},
			nodeCase{doc: mode + " of a region that is far larger", op: "Resize", attrs: attrs(crop, attr("mode", mode), attr("antialias", 1), attr("exclude_outside", 1)), in: []vm.Value{floats(5), rowOf(0, 1e9), rowOf(1e-9)}, want: map[string]string{"linear": "no kernel for a scale of 9.99", "cubic": "no kernel for a scale of 9.99"}[mode]},
		)
	}
	runNodeCases(t, append(rows, []nodeCase{
		{doc: "something out of nothing", op: "Resize", in: []vm.Value{floats(0, 7), none, none, numbers([]int{2}, 3, 9)}, want: "expected elements on axis 0, which is resized to 3"},
		{doc: "a region of too few axes", op: "Resize", attrs: attrs(crop), in: []vm.Value{floats(5, 7), rowOf(0, 1), none, numbers([]int{2}, 3, 9)}, want: "expected [4]: the starts, then the ends of the region"},
		{doc: "no region", op: "Resize", attrs: attrs(crop), in: []vm.Value{floats(5, 7), none, none, numbers([]int{2}, 3, 9)}},
		{doc: "an empty region", op: "Resize", attrs: attrs(crop), in: []vm.Value{floats(5, 7), rowOf(), none, numbers([]int{2}, 3, 9)}},
		{doc: "scales of no number", op: "Resize", in: []vm.Value{floats(5, 7), none, rowOf(1, nan)}, want: "scale of axis 1 is NaN, expected one above 0"},
		{doc: "more axes than are followed", op: "Resize", in: []vm.Value{floats(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2), none, none, numbers([]int{17}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4)}, want: "no kernel for 17 axes, more than 16"},
		{doc: "scales twice", op: "Upsample", version: 9, attrs: attrs(&graph.Attr{Name: "scales", Type: graph.AttrFloats, Floats: []float32{1, 2, 3, 4}}), in: []vm.Value{floats(5, 7), rowOf(1, 2)}},

		{doc: "coordinates anywhere", op: "GridSample", in: []vm.Value{floats(1, 1, 3, 3), vm.Float32s([]float32{nan, inf, -inf, huge, -huge, 0, 2, -2}, 1, 2, 2, 2)}},
		{doc: "reflected from anywhere", op: "GridSample", attrs: attrs(attr("padding_mode", "reflection"), attr("mode", "cubic")), in: []vm.Value{floats(1, 1, 3, 3), vm.Float32s([]float32{nan, inf, -inf, huge, -huge, 0, 2, -2}, 1, 2, 2, 2)}},

		{doc: "boxes anywhere", op: "RoiAlign", in: []vm.Value{floats(1, 1, 3, 3), vm.Float32s([]float32{nan, inf, -inf, huge, -huge, -huge, huge, huge, 0, 0, inf, 2}, 3, 4), numbers([]int{3}, 0, 0, 0)}, want: "samples for each bin, expected at most"},
		{doc: "the largest anywhere", op: "RoiAlign", attrs: attrs(attr("mode", "max")), in: []vm.Value{floats(1, 1, 3, 3), vm.Float32s([]float32{nan, inf, -inf, huge, -huge, -huge, huge, huge, 0, 0, inf, 2}, 3, 4), numbers([]int{3}, 0, 0, 0)}, want: "samples for each bin, expected at most"},
		{doc: "regions anywhere", op: "MaxRoiPool", attrs: attrs(attr("pooled_shape", []int64{2, 3})), in: []vm.Value{floats(1, 1, 3, 3), vm.Float32s([]float32{0, nan, inf, -inf, huge, 0, -huge, -huge, huge, huge, 0, 2, 2, 0, 0}, 3, 5)}},
		{doc: "a region of no image", op: "MaxRoiPool", attrs: attrs(attr("pooled_shape", []int64{1, 1})), in: []vm.Value{floats(2, 1, 3, 3), vm.Float32s([]float32{2, 0, 0, 1, 1}, 1, 5)}, want: "region 0 is of image 2: expected a whole number in [0, 2)"},
		{doc: "a region of half an image", op: "MaxRoiPool", attrs: attrs(attr("pooled_shape", []int64{1, 1})), in: []vm.Value{floats(2, 1, 3, 3), vm.Float32s([]float32{0.5, 0, 0, 1, 1}, 1, 5)}, want: "region 0 is of image 0.5: expected a whole number in [0, 2)"},
		{doc: "a region of a number that is none", op: "MaxRoiPool", attrs: attrs(attr("pooled_shape", []int64{1, 1})), in: []vm.Value{floats(2, 1, 3, 3), vm.Float32s([]float32{nan, 0, 0, 1, 1}, 1, 5)}, want: "region 0 is of image NaN"},
		{doc: "an image before the first", op: "RoiAlign", in: []vm.Value{floats(2, 1, 3, 3), reals4(0, 0, 1, 1), numbers([]int{1}, -1)}, want: "region 0 is of image -1: expected one in [0, 2)"},
		{doc: "an image behind the last", op: "RoiAlign", in: []vm.Value{floats(2, 1, 3, 3), reals4(0, 0, 1, 1), numbers([]int{1}, 2)}, want: "region 0 is of image 2: expected one in [0, 2)"},
	}...))
}

// reals4 is one box.
func reals4(x1, y1, x2, y2 float32) vm.Value {
	return vm.Float32s([]float32{x1, y1, x2, y2}, 1, 4)
}

// If a region is larger than its image, only the samples in the image are read, and the
// result is that of all samples.
func TestRoiAlignBeyondTheImage(t *testing.T) {
	for mode, want := range map[string]float32{"avg": 6 * 6 * 0.5 / (2000 * 2000), "max": 0.5} {
		k := nodeCase{op: "RoiAlign", attrs: attrs(attr("mode", mode)), in: []vm.Value{vm.Float32s([]float32{.5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5}, 1, 1, 4, 4), reals4(-1000, -1000, 1000, 1000), numbers([]int{1}, 0)}}
		got, err := k.run(t, false)
		if err != nil {
			t.Fatal(err)
		}
		if list, _ := got.Reals(); math.Abs(list[0]-float64(want)) > 1e-6*float64(want) {
			t.Errorf("%s: got %v, want %v", mode, list, want)
		}
	}
}

// Attributes may give strides, pads and kernels any size; time and memory still depend
// only on the tensors.
func TestWindowsOfAnySize(t *testing.T) {
	lists := func(kernel, strides, pads []int64) []*graph.Attr {
		return attrs(attr("kernel_shape", kernel), attr("strides", strides), attr("pads", pads))
	}
	const huge = 1<<31 - 1
	var rows []nodeCase
	for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
		rows = append(rows,
			nodeCase{doc: "a huge kernel in huge pads", op: op, attrs: lists([]int64{huge}, []int64{1}, []int64{1 << 30, 1 << 30}), in: []vm.Value{floats(1, 1, 4)}},
			nodeCase{doc: "a huge kernel at many places", op: op, attrs: lists([]int64{1 << 29}, []int64{1 << 20}, []int64{1 << 29, 1 << 29}), in: []vm.Value{floats(1, 1, 4)}},
			nodeCase{doc: "a huge stride", op: op, attrs: lists([]int64{2, 2}, []int64{1, huge}, []int64{0, 0, 0, 0}), in: []vm.Value{floats(1, 1, 4, 4)}},
			nodeCase{doc: "an empty image in pads", op: op, attrs: lists([]int64{2, 2}, []int64{1, 1}, []int64{1, 1, 1, 1}), in: []vm.Value{floats(1, 1, 0, 4)}},
			nodeCase{doc: "four axes", op: op, attrs: lists([]int64{1, 1, 1, 1}, []int64{1, 1, 1, 1}, []int64{0, 0, 0, 0, 0, 0, 0, 0}), in: []vm.Value{floats(1, 1, 1, 1, 1, 2)}, want: "no kernel for 4 spatial axes, more than 3"},
			nodeCase{doc: "lists without elements", op: op, attrs: lists([]int64{2, 2}, []int64{}, []int64{}), in: []vm.Value{floats(1, 1, 4, 4)}},
		)
	}
	runNodeCases(t, append(rows, []nodeCase{
		{doc: "no channels", op: "Conv", in: []vm.Value{floats(1, 0, 4, 4), floats(2, 0, 3, 3), floats(2)}},
		{doc: "a large dilation", op: "Conv", attrs: attrs(attr("dilations", []int64{1 << 20}), attr("pads", []int64{1 << 19, 1 << 19})), in: []vm.Value{floats(1, 2, 4), floats(2, 2, 2)}},
		{doc: "an empty image in pads", op: "Conv", attrs: attrs(attr("pads", []int64{1, 1, 1, 1})), in: []vm.Value{floats(1, 2, 0, 4), floats(2, 2, 2, 2)}},
		{doc: "no channels", op: "ConvTranspose", in: []vm.Value{floats(1, 0, 4, 4), floats(0, 2, 3, 3), floats(2)}},
		{doc: "a stated length of an empty image", op: "ConvTranspose", attrs: attrs(attr("output_shape", []int64{5})), in: []vm.Value{floats(1, 2, 0), floats(2, 2, 3)}},
		{doc: "no channels", op: "DeformConv", in: []vm.Value{floats(1, 0, 3, 3), floats(1, 0, 2, 2), floats(1, 8, 2, 2)}},
		{doc: "blocks that do not fit", op: "Col2Im", in: []vm.Value{floats(1, 9, 0), numbers([]int{2}, 5, 5), numbers([]int{2}, 3, 3)}, attrs: attrs(attr("dilations", []int64{1, 100}), attr("strides", []int64{2, 2}))},
		{doc: "places outside", op: "MaxUnpool", attrs: attrs(attr("kernel_shape", []int64{2})), in: []vm.Value{floats(1, 1, 2), numbers([]int{1, 1, 2}, 0, 3)}, want: "place 3, expected one of an image of [1 1 3]"},
		{doc: "places before the first", op: "MaxUnpool", attrs: attrs(attr("kernel_shape", []int64{2})), in: []vm.Value{floats(1, 1, 2), numbers([]int{1, 1, 2}, -1, 0)}, want: "place -1, expected one of"},
		{doc: "without its first output", op: "TopK", in: []vm.Value{floats(3), numbers([]int{1}, 1)}, outs: 1, want: "output 1 is missing"},
	}...))
}

// Starts, axes and limits are data, and empty tensors may have very long axes.
func TestCutsAndChoices(t *testing.T) {
	slice := func(start, end, step int64) []vm.Value {
		return []vm.Value{floats(3, 2), numbers([]int{1}, start), numbers([]int{1}, end), numbers([]int{1}, 0), numbers([]int{1}, step)}
	}
	const least, most = -1 << 63, 1<<63 - 1
	long := vm.Value{Type: graph.Float32, Shape: []int{1 << 40, 1 << 10, 0}}
	bytes := func(shape []int, list ...byte) vm.Value { return vm.Value{Type: graph.Bool, Shape: shape, Data: list} }
	rows := []nodeCase{
		{doc: "behind the last", op: "Pad", attrs: attrs(attr("mode", "reflect")), in: []vm.Value{floats(2, 3), numbers([]int{4}, 0, 7, 5, 9)}},
		{doc: "wrapped", op: "Pad", attrs: attrs(attr("mode", "wrap")), in: []vm.Value{floats(2, 3), numbers([]int{4}, 5, -2, 5, 9)}},
		{doc: "cut off altogether", op: "Pad", in: []vm.Value{floats(2, 3), numbers([]int{4}, -5, 0, 5, 0)}},
		{doc: "the end of the numbers", op: "Pad", in: []vm.Value{floats(2, 3), numbers([]int{4}, 0, most, 0, -most)}},
		{doc: "a shape of another length", op: "Pad", in: []vm.Value{floats(2, 3), numbers([]int{6}, 0, 0, 0, 1, 1, 1)}, want: "pads has 6 elements, expected 4"},
		{doc: "the least diagonal", op: "Trilu", in: []vm.Value{floats(2, 3), numbers([]int{}, least)}},
		{doc: "no diagonal", op: "Trilu", in: []vm.Value{floats(2, 3), numbers([]int{0})}, want: "expected one element"},
		{doc: "lines without end", op: "Compress", attrs: axisAttr(2), in: []vm.Value{long, bytes([]int{0})}},
		{doc: "nothing chosen of lines without end", op: "Compress", attrs: axisAttr(0), in: []vm.Value{long, bytes([]int{3}, 0, 1, 0)}},
		{doc: "images without boxes", op: "NonMaxSuppression", in: []vm.Value{{Type: graph.Float32, Shape: []int{1 << 40, 0, 4}}, {Type: graph.Float32, Shape: []int{1 << 40, 1 << 10, 0}}, numbers([]int{1}, 9)}},
		{doc: "skips without end", op: "TfIdfVectorizer", attrs: attrs(attr("mode", "TF"), attr("min_gram_length", 1), attr("max_gram_length", most), attr("max_skip_count", most), attr("ngram_counts", []int64{0, 1}), attr("ngram_indexes", []int64{0, 1}), attr("pool_int64s", []int64{1, 2, 3})), in: []vm.Value{numbers([]int{2, 3}, 1, 2, 3, 2, 1, 3)}},
		{doc: "of a scalar", op: "ArgMax", in: []vm.Value{floats()}},
		{doc: "of a scalar", op: "Hardmax", attrs: axisAttr(-1), in: []vm.Value{floats()}},
		{doc: "of no axes", op: "Hardmax", version: 11, attrs: axisAttr(2), in: []vm.Value{floats(2, 3)}},
		{doc: "more than there are", op: "TopK", outs: 2, in: []vm.Value{floats(3), numbers([]int{1}, 4)}, want: "at least k = 4 on axis 0"},
		{doc: "an axis that is not there", op: "CumSum", in: []vm.Value{floats(3), numbers([]int{}, 1)}, want: "axis is 1, expected one of [-1, 1)"},
		{doc: "axes from behind", op: "Transpose", attrs: attrs(attr("perm", []int64{-1, 0})), in: []vm.Value{floats(2, 3)}},
	}
	for _, start := range []int64{least, -4, 0, most} {
		for _, end := range []int64{least, 0, 2, most} {
			for _, step := range []int64{least, -1, 2, most} {
				rows = append(rows, nodeCase{doc: fmt.Sprint(start, end, step), op: "Slice", in: slice(start, end, step)})
			}
		}
	}
	runNodeCases(t, rows)
}

// Operators that cut, pad and choose give the right elements.
func TestCutsAndChoicesAreRight(t *testing.T) {
	bools := func(list ...byte) vm.Value { return vm.Value{Type: graph.Bool, Shape: []int{len(list)}, Data: list} }
	line := vm.Int64s([]int64{0, 1, 2}, 3)
	list := func(v ...int64) vm.Value { return vm.Int64s(v, len(v)) }
	for _, c := range []struct {
		nodeCase
		gives []float64
	}{
		{nodeCase{doc: "from before the first, backwards", op: "Slice", in: []vm.Value{line, list(-100), list(-100), list(0), list(-1)}}, []float64{0}},
		{nodeCase{doc: "reflected twice", op: "Pad", attrs: attrs(attr("mode", "reflect")), in: []vm.Value{line, list(1, 5)}}, []float64{1, 0, 1, 2, 1, 0, 1, 2, 1}},
		{nodeCase{doc: "wrapped twice", op: "Pad", attrs: attrs(attr("mode", "wrap")), in: []vm.Value{line, list(4, 1)}}, []float64{2, 0, 1, 2, 0, 1, 2, 0}},
		{nodeCase{doc: "the edge", op: "Pad", attrs: attrs(attr("mode", "edge")), in: []vm.Value{line, list(-1, 2)}}, []float64{1, 2, 2, 2}},
		{nodeCase{doc: "moved out", op: "Pad", in: []vm.Value{line, list(5, -4), numbers([]int{}, 7)}}, []float64{7, 7, 7, 7}},
		{nodeCase{doc: "above all", op: "Trilu", in: []vm.Value{numbers([]int{2, 2}, 1, 2, 3, 4), numbers([]int{}, 1<<63-1)}}, []float64{0, 0, 0, 0}},
		{nodeCase{doc: "bytes of truth", op: "Compress", in: []vm.Value{line, bools(2, 0, 255)}}, []float64{0, 2}},
		{nodeCase{doc: "bytes of truth", op: "Not", in: []vm.Value{bools(2, 0, 255)}}, []float64{0, 1, 0}},
		{nodeCase{doc: "bytes of truth", op: "Equal", in: []vm.Value{bools(2, 0, 255), bools(1, 0, 4)}}, []float64{1, 1, 1}},
		{nodeCase{doc: "bytes of truth", op: "And", in: []vm.Value{bools(2, 0, 4), bools(1, 2, 3)}}, []float64{1, 0, 1}},
		{nodeCase{doc: "beyond 53 bits", op: "ArgMax", in: []vm.Value{list(1<<53, 1<<53+1)}}, []float64{1}},
		{nodeCase{doc: "beyond 63 bits", op: "TopK", outs: 2, in: []vm.Value{{Type: graph.Uint64, Shape: []int{2}, Data: list(1, -1).Data}, list(1)}}, []float64{1<<64 - 1}},
		{nodeCase{doc: "an n-gram with skips", op: "TfIdfVectorizer", attrs: attrs(attr("mode", "TF"), attr("min_gram_length", 2), attr("max_gram_length", 2), attr("max_skip_count", 9), attr("ngram_counts", []int64{0, 0}), attr("ngram_indexes", []int64{0}), attr("pool_int64s", []int64{1, 3})), in: []vm.Value{list(1, 3, 3, 3)}}, []float64{3}},
	} {
		got, err := c.run(t, true)
		if list, _ := got.Reals(); err != nil || !slices.Equal(list, c.gives) {
			t.Errorf("%s: %s: got %v, %v, want %v", c.doc, c.op, list, err, c.gives)
		}
	}
}

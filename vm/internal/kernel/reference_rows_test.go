package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// withoutRow lists the kernels whose operators the plain evaluator lacks, and why.
var withoutRow = map[key]string{
	{"", "RegexFullMatch"}:           "strings",
	{"", "StringConcat"}:             "strings",
	{"", "StringNormalizer"}:         "strings",
	{"", "StringSplit"}:              "strings",
	{"ai.onnx.ml", "CategoryMapper"}: "strings",
	{"com.microsoft", "Tokenizer"}:   "strings",
}

// TestEveryKernelHasARow: run --check=reference can compare every node but those of
// operators that only handle strings.
func TestEveryKernelHasARow(t *testing.T) {
	for k := range table {
		_, listed := withoutRow[k]
		switch known := reference.Knows(k.domain, k.name); {
		case known && listed:
			t.Errorf("%s %s has a row, but is listed as without one", k.domain, k.name)
		case !known && !listed:
			t.Errorf("%s %s: the plain evaluator lacks it", k.domain, k.name)
		}
	}
	for k := range withoutRow {
		if table[k] == nil {
			t.Errorf("%s %s is listed, but has no kernel", k.domain, k.name)
		}
	}
}

// agrees compares what a kernel computed with the plain evaluator.
func agrees(t *testing.T, c *Invocation) {
	t.Helper()
	decoded := func(x *Tensor) *reference.Tensor {
		if x == nil {
			return nil
		}
		y, err := reference.Decode(x.Type, x.Shape, raw(x))
		if err != nil {
			t.Fatalf("%s: %v", c.Node.Op, err)
		}
		if x.Layout == form.NCHW {
			y = reference.Layout{Block: c.ChannelBlock()}.Blocks(y)
		}
		return y
	}
	var in []*reference.Tensor
	for _, x := range c.In {
		in = append(in, decoded(x))
	}
	n := *c.Node
	for k := range c.Out {
		n.Outputs = append(n.Outputs, graph.TensorID(k))
	}
	want, err := reference.Layout{Block: int(c.Block)}.Node(&n, c.Version, in)
	if err != nil {
		t.Errorf("%s: the plain evaluator: %v", c.Node.Op, err)
		return
	}
	for k, y := range c.Out {
		if d, err := want[k].Compare(decoded(y)); err != nil || d.Ratio > 1 {
			t.Errorf("%s: output %d, element %d is %v, the plain evaluator computes %v with a tolerance of %v, %v", c.Node.Op, k, d.Element, d.Found, d.Expected, d.Tolerance, err)
		}
	}
}

// TestEncodersAgainstReference compares the operators that exchange elements for others.
func TestEncodersAgainstReference(t *testing.T) {
	reals := store(reference.Reals([]int{2, 3}, 1, math.NaN(), -2, 0, 7.5, 3), graph.Float32)
	numbers := store(wholes([]int{2, 3}, 4, -1, 9, 4, 0, 2), graph.Int64)
	tensor := func(name string, d graph.DType, x *reference.Tensor) *graph.Attr {
		s := store(x, d)
		dims := []int64{}
		for _, n := range s.Shape {
			dims = append(dims, int64(n))
		}
		return &graph.Attr{Name: name, Type: graph.AttrTensor, Tensor: &graph.Data{Type: d, Dims: dims, Raw: raw(s)}}
	}
	for _, k := range []struct {
		op    string
		attrs []*graph.Attr
		in    []*Tensor
		out   graph.DType
		shape []int
	}{
		{"LabelEncoder", attrs(ints("keys_int64s", 9, 4, 4), floats1("values_floats", 1.5, -2, 3)), []*Tensor{numbers}, graph.Float32, []int{2, 3}},
		{"LabelEncoder", attrs(ints("keys_int64s", 9, 4), ints("values_int64s", 5, 6), whole1("default_int64", 8)), []*Tensor{numbers}, graph.Int64, []int{2, 3}},
		{"LabelEncoder", attrs(floats1("keys_floats", float32(math.NaN()), 0, 7.5), ints("values_int64s", 5, 6, 7)), []*Tensor{reals}, graph.Int64, []int{2, 3}},
		{"LabelEncoder", attrs(
			tensor("keys_tensor", graph.Int64, wholes([]int{2}, 4, 2)), tensor("values_tensor", graph.Float64, reference.Reals([]int{2}, 0.1, 0.2)),
			tensor("default_tensor", graph.Float64, reference.Reals([]int{1}, 0.3)),
		), []*Tensor{numbers}, graph.Float64, []int{2, 3}},
		{"Imputer", attrs(floats1("imputed_value_floats", 1, 2, 3), float1("replaced_value_float", float32(math.NaN()))), []*Tensor{reals}, graph.Float32, []int{2, 3}},
		{"Imputer", attrs(ints("imputed_value_int64s", 11, 12, 13), whole1("replaced_value_int64", 4)), []*Tensor{numbers}, graph.Int64, []int{2, 3}},
		{"Imputer", attrs(ints("imputed_value_int64s", 11)), []*Tensor{numbers}, graph.Int64, []int{2, 3}},
		{"FeatureVectorizer", attrs(ints("inputdimensions", 2, 4)), []*Tensor{numbers, reals}, graph.Float32, []int{2, 6}},
		{"FeatureVectorizer", nil, []*Tensor{reals, numbers}, graph.Float32, []int{2, 6}},
		{"OneHotEncoder", attrs(ints("cats_int64s", 4, 2, 4)), []*Tensor{numbers}, graph.Float32, []int{2, 3, 3}},
	} {
		c := &Invocation{Call: form.Call{Node: &graph.Node{Op: k.op, Domain: "ai.onnx.ml", Attrs: k.attrs}, Version: 4, In: k.in, Out: []*Tensor{blank(k.out, k.shape)}, Runtime: alone{}}}
		run, err := Lookup("ai.onnx.ml", k.op).Prepare(c)
		if err == nil {
			err = runAlone(run, c)
		}
		if err != nil {
			t.Errorf("%s: %v", k.op, err)
			continue
		}
		agrees(t, c)
	}
}

// TestMachinesAgainstReference compares support vector machines of many vectors.
func TestMachinesAgainstReference(t *testing.T) {
	const features, count = 7, 24
	x := store(noise(33, features), graph.Float32)
	list := func(n int, by float64) []float32 {
		r := noise(n)
		out := make([]float32, n)
		for i, v := range r.F {
			out[i] = float32(by * v)
		}
		return out
	}
	for _, kind := range []string{"LINEAR", "POLY", "SIGMOID", "RBF"} {
		of := []*graph.Attr{text("kernel_type", kind), floats1("kernel_params", 0.2, 0.5, 3), floats1("support_vectors", list(features*count, 0.5)...)}
		for _, classes := range []int{0, 1, 2, 4} { // 0: a regression, 1: one class
			op, more := "SVMClassifier", of
			pairs := classes * (classes - 1) / 2
			out := []*Tensor{blank(graph.Int64, []int{33}), blank(graph.Float32, []int{33, max(pairs, 2)})}
			if classes < 2 {
				op, out = "SVMRegressor", []*Tensor{blank(graph.Float32, []int{33, 1})}
				more = append(slices.Clone(of), whole1("n_supports", count), whole1("one_class", int64(classes)), floats1("coefficients", list(count, 1)...), floats1("rho", 0.25))
			} else {
				more = append(slices.Clone(of), floats1("coefficients", list((classes-1)*count, 1)...), floats1("rho", list(pairs, 0.1)...))
				var labels, sizes []int64
				for i := range classes {
					labels, sizes = append(labels, int64(10+i)), append(sizes, int64(count/classes))
				}
				more = append(more, ints("classlabels_ints", labels...), ints("vectors_per_class", sizes...))
			}
			for _, probable := range []bool{false, true} {
				if probable {
					if classes < 2 {
						continue
					}
					more = append(more, floats1("prob_a", list(pairs, 1)...), floats1("prob_b", list(pairs, 0.2)...))
					out[1] = blank(graph.Float32, []int{33, classes})
				}
				c := &Invocation{Call: form.Call{Node: &graph.Node{Op: op, Domain: "ai.onnx.ml", Attrs: more}, Version: 3, In: []*Tensor{x}, Out: out, Runtime: alone{}}}
				run, err := Lookup("ai.onnx.ml", op).Prepare(c)
				if err == nil {
					err = runAlone(run, c)
				}
				if err != nil {
					t.Errorf("%s of %d classes, %s: %v", op, classes, kind, err)
					continue
				}
				agrees(t, c)
			}
		}
	}
}

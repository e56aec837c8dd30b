package kernel

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// machineOf lists the attributes of a support vector machine of four vectors.
func machineOf(kind string, more ...*graph.Attr) []*graph.Attr {
	return append([]*graph.Attr{text("kernel_type", kind), numbers32("kernel_params", 0.5, 0.25, 2), numbers32("support_vectors", 1, 0, 0, 1, -1, -1, 2, 1)}, more...)
}

// The results are those of ONNX Runtime.
func TestMachines(t *testing.T) {
	x := features(3, 2, 0, 1, 2, -1, -1.5, 0.5)
	four, rho := numbers32("coefficients", 1, -0.5, 0.25, -1), numbers32("rho", 0.1)
	three := []*graph.Attr{
		ints("classlabels_ints", 7, 8, 9), ints("vectors_per_class", 1, 2, 1),
		numbers32("coefficients", 1, -0.5, 0.25, -1, 0.5, 0.75, -0.25, 0.5), numbers32("rho", 0.1, -0.2, 0.3),
	}
	two := []*graph.Attr{ints("classlabels_ints", 7, 8), ints("vectors_per_class", 1, 3), four, rho}
	for _, c := range []struct {
		doc    string
		list   []*graph.Attr
		labels []int64 // none: a regression
		want   []float32
	}{
		{"a decision per pair", machineOf("LINEAR", three...), []int64{8, 7, 7}, []float32{-0.65, -1.2, 1.8, 2.35, -2.2, 1.3, -1.4, 1.55, -0.825}},
		{
			"probabilities", machineOf("RBF", append(slices.Clone(three), numbers32("prob_a", -1, -2, -1.5), numbers32("prob_b", 0.1, 0, -0.1))...),
			[]int64{8, 7, 7},
			[]float32{0.31503823, 0.50478113, 0.1801806, 0.34916693, 0.35763451, 0.29319856, 0.30079776, 0.42368951, 0.27551278},
		},
		{"two classes", machineOf("POLY", two...), []int64{8, 8, 8}, []float32{0.665625, -0.665625, 1.415625, -1.415625, 0.634375, -0.634375}},
		{"a regression", machineOf("SIGMOID", four, rho, whole1("n_supports", 4)), nil, []float32{-0.66903448, 0.0681378, 0.32720569}},
		{"no vectors", attrs(text("kernel_type", "RBF"), numbers32("coefficients", 1, -0.5), rho), nil, []float32{-0.4, 2.6, -1.65}},
		{"no vectors, inside or outside", attrs(numbers32("coefficients", 1, -0.5), rho, whole1("one_class", 1)), nil, []float32{-1, 1, -1}},
		{"inside or outside", machineOf("RBF", four, rho, whole1("n_supports", 4), whole1("one_class", 1)), nil, []float32{-1, 1, 1}},
	} {
		op, labels, scores := "SVMRegressor", blank(graph.Int64, []int{3}), blank(graph.Float32, []int{3, len(c.want) / 3})
		out := []*Tensor{scores}
		if c.labels != nil {
			op, out = "SVMClassifier", []*Tensor{labels, scores}
		}
		err := runClassical(op, c.list, x, out...)
		near := slices.EqualFunc(data[float32](scores), c.want, func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 })
		if err != nil || !near || c.labels != nil && !slices.Equal(data[int64](labels), c.labels) {
			t.Errorf("%s: got %v %v, %v, want %v %v", c.doc, data[int64](labels), data[float32](scores), err, c.labels, c.want)
		}
	}
	err := runClassical("SVMRegressor", attrs(four, rho), x, blank(graph.Float32, []int{3, 1}))
	if want := "coefficients has 4 numbers, expected 2: one for each feature"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("no vectors: got error %v, want %q", err, want)
	}
	for _, c := range []struct {
		doc, want string
		list      []*graph.Attr
	}{
		{"a vector too few", "support_vectors has 8 numbers, expected 10", machineOf("LINEAR", ints("classlabels_ints", 7, 8), ints("vectors_per_class", 2, 3), four)},
		{"vectors fewer than none", "expected a number of vectors", machineOf("LINEAR", ints("classlabels_ints", 7, 8), ints("vectors_per_class", -1, 5), four)},
		{"a label too many", "classlabels has 3 elements, expected 2", machineOf("LINEAR", append([]*graph.Attr{ints("classlabels_ints", 7, 8, 9)}, two[1:]...)...)},
		{"no rho", "rho has 0 elements, expected 1", machineOf("LINEAR", two[:3]...)},
		{"an unknown likeness", `kernel_type is "COSINE"`, machineOf("COSINE", two...)},
	} {
		err := runClassical("SVMClassifier", c.list, x, blank(graph.Int64, []int{3}), blank(graph.Float32, []int{3, 2}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.doc, err, c.want)
		}
	}
}

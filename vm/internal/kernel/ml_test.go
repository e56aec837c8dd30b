package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func numbers32(name string, list ...float32) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrFloats, Floats: list}
}

func wordList(name string, list ...string) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrStrings, Strings: list}
}

// runClassical runs a node of ai.onnx.ml on float32 features and returns its outputs.
func runClassical(op string, list []*graph.Attr, in *Tensor, out ...*Tensor) error {
	c := &Invocation{Call: form.Call{Node: &graph.Node{Op: op, Domain: "ai.onnx.ml", Attrs: list}, Version: 3, In: []*Tensor{in}, Out: out, Runtime: alone{}}}
	run, err := Lookup("ai.onnx.ml", op).Prepare(c)
	if err != nil {
		return err
	}
	return runAlone(run, c)
}

// runAlone runs a prepared node on two workers.
func runAlone(run Run, c *Invocation) error {
	pool := work.New(2)
	defer pool.Close()
	each := make([]uint64, 2*(c.EachBytes/8+1))
	pool.SetScratch(nil, unsafe.Pointer(&each[0]), len(each)/2*8)
	return run(pool)
}

func features(rows, n int, list ...float64) *Tensor {
	return store(&reference.Tensor{Type: graph.Float32, Shape: []int{rows, n}, F: list}, graph.Float32)
}

// stump is a tree of one decision, feature 1 <= 2.5, and two leaves.
func stump(change ...*graph.Attr) []*graph.Attr {
	list := []*graph.Attr{
		ints("nodes_treeids", 0, 0, 0), ints("nodes_nodeids", 0, 1, 2), ints("nodes_featureids", 1, 0, 0),
		wordList("nodes_modes", "BRANCH_LEQ", "LEAF", "LEAF"), numbers32("nodes_values", 2.5, 0, 0),
		ints("nodes_truenodeids", 1, 0, 0), ints("nodes_falsenodeids", 2, 0, 0),
		ints("target_treeids", 0, 0), ints("target_nodeids", 1, 2), ints("target_ids", 0, 0), numbers32("target_weights", 10, 20), whole1("n_targets", 1),
	}
	for _, c := range change {
		if i := slices.IndexFunc(list, func(a *graph.Attr) bool { return a.Name == c.Name }); i >= 0 {
			list[i] = c
		} else {
			list = append(list, c)
		}
	}
	return list
}

func TestTrees(t *testing.T) {
	x := features(4, 2, 0, 2.5, 0, 2.6, 9, -1, 0, math.NaN())
	for _, c := range []struct {
		doc  string
		list []*graph.Attr
		want []float32
	}{
		{"one decision", stump(), []float32{10, 20, 10, 20}},
		{"a threshold that is excluded", stump(wordList("nodes_modes", "BRANCH_LT", "LEAF", "LEAF")), []float32{20, 20, 10, 20}},
		{"a missing value", stump(ints("nodes_missing_value_tracks_true", 1, 0, 0)), []float32{10, 20, 10, 10}},
		{"a base value", stump(numbers32("base_values", 0.5)), []float32{10.5, 20.5, 10.5, 20.5}},
		{"not equal, as NaN is", stump(wordList("nodes_modes", "BRANCH_NEQ", "LEAF", "LEAF")), []float32{20, 10, 10, 10}},
	} {
		out := blank(graph.Float32, []int{4, 1})
		if err := runClassical("TreeEnsembleRegressor", c.list, x, out); err != nil || !slices.Equal(data[float32](out), c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.doc, data[float32](out), err, c.want)
		}
	}
	for _, c := range []struct {
		doc, want string
		change    *graph.Attr
	}{
		{"a cycle", "two nodes of tree 0 lead to node 1", ints("nodes_truenodeids", 1, 0, 1)},
		{"a root with a parent", "does not begin with its root", ints("nodes_truenodeids", 0, 0, 0)},
		{"a child that is missing", "leads to node 7, which is missing", ints("nodes_falsenodeids", 7, 0, 0)},
		{"a feature that is missing", "tests feature 2, expected one of 2", ints("nodes_featureids", 2, 0, 0)},
		{"a node that is there twice", "has two nodes 1", ints("nodes_nodeids", 0, 1, 1)},
		{"a weight of a decision", "expected a leaf", ints("target_nodeids", 0, 2)},
		{"a target that is missing", "target_ids has 1, expected one of 1", ints("target_ids", 0, 1)},
		{"lists of different lengths", "nodes_values has 1 elements, expected 3", numbers32("nodes_values", 2.5)},
		{"an unknown decision", `no kernel for nodes_modes "BRANCH_MEMBER"`, wordList("nodes_modes", "BRANCH_MEMBER", "LEAF", "LEAF")},
	} {
		list := stump(c.change)
		if c.doc == "a cycle" { // between two decisions
			list = stump(c.change, wordList("nodes_modes", "BRANCH_LEQ", "LEAF", "BRANCH_LEQ"), ints("nodes_falsenodeids", 2, 0, 2))
		}
		err := runClassical("TreeEnsembleRegressor", list, x, blank(graph.Float32, []int{4, 1}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.doc, err, c.want)
		}
	}
}

// tensor1 is an attribute that holds a list.
func tensor1(name string, d graph.DType, list ...float64) *graph.Attr {
	t := blank(d, []int{len(list)})
	set, _ := form.Writer(d)
	for i, v := range list {
		set(t.At, i, v)
	}
	return &graph.Attr{Name: name, Type: graph.AttrTensor, Tensor: &graph.Data{Type: d, Dims: []int64{int64(len(list))}, Raw: raw(t)}}
}

// ensemble is three nodes in two trees: a set test whose first branch leads to feature 1
// <= 2.5, and a tree of one leaf. The leaves are shared.
func ensemble(change ...*graph.Attr) []*graph.Attr {
	list := []*graph.Attr{
		ints("tree_roots", 0, 2), ints("nodes_featureids", 0, 1, 0), tensor1("nodes_modes", graph.Uint8, 6, 0, 0), tensor1("nodes_splits", graph.Float32, 0, 2.5, 0),
		ints("nodes_truenodeids", 1, 0, 3), ints("nodes_trueleafs", 0, 1, 1), ints("nodes_falsenodeids", 2, 1, 3), ints("nodes_falseleafs", 1, 1, 1),
		ints("leaf_targetids", 0, 1, 0, 0), tensor1("leaf_weights", graph.Float32, 10, 20, 30, 15), tensor1("membership_values", graph.Float32, 9, -4, 7, math.NaN()), whole1("n_targets", 2),
	}
	for _, c := range change {
		if i := slices.IndexFunc(list, func(a *graph.Attr) bool { return a.Name == c.Name }); i >= 0 {
			list[i] = c
		} else {
			list = append(list, c)
		}
	}
	return list
}

func TestTreeEnsemble(t *testing.T) {
	x := features(4, 2, 7, 2.5, -4, 2.6, 8, 0, math.NaN(), 0)
	for _, c := range []struct {
		doc  string
		list []*graph.Attr
		want []float32
	}{
		{"sum", ensemble(), []float32{25, 0, 15, 20, 45, 0, 45, 0}},
		{"average", ensemble(whole1("aggregate_function", 0)), []float32{12.5, 0, 7.5, 10, 22.5, 0, 22.5, 0}},
		{"min", ensemble(whole1("aggregate_function", 2)), []float32{10, 0, 15, 20, 15, 0, 15, 0}},
		{"max", ensemble(whole1("aggregate_function", 3)), []float32{15, 0, 15, 20, 30, 0, 30, 0}},
		{"a missing value", ensemble(ints("nodes_missing_value_tracks_true", 1, 0, 0)), []float32{25, 0, 15, 20, 45, 0, 25, 0}},
		{"no NaN behind the last set", ensemble(tensor1("membership_values", graph.Float32, 8)), []float32{45, 0, 45, 0, 25, 0, 45, 0}},
		{"a transform", ensemble(whole1("post_transform", 3), whole1("aggregate_function", 2)), []float32{1, 0, logistic[float32](-5), logistic[float32](5), 1, 0, 1, 0}},
	} {
		out := blank(graph.Float32, []int{4, 2})
		if err := runClassical("TreeEnsemble", c.list, x, out); err != nil || !slices.Equal(data[float32](out), c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.doc, data[float32](out), err, c.want)
		}
	}
	double := store(&reference.Tensor{Type: graph.Float64, Shape: []int{2, 2}, F: []float64{7, 2.5, 7, 2.5 + 1e-12}}, graph.Float64)
	out := blank(graph.Float64, []int{2, 2})
	list := ensemble(tensor1("leaf_weights", graph.Float64, 10+0x1p-40, 20, 30, 15), tensor1("nodes_splits", graph.Float64, 0, 2.5, 0))
	if err := runClassical("TreeEnsemble", list, double, out); err != nil || !slices.Equal(data[float64](out), []float64{25 + 0x1p-40, 0, 15, 20}) {
		t.Errorf("float64: got %v, %v", data[float64](out), err)
	}
	for _, c := range []struct {
		doc, want string
		change    []*graph.Attr
	}{
		{"a cycle", "tree_roots has 0 at 0: expected a root, found the child of a node", attrs(ints("nodes_truenodeids", 0, 0, 3))},
		{"a cycle behind a root", "two branches lead to node 1: expected trees", attrs(ints("nodes_trueleafs", 0, 0, 1), ints("nodes_truenodeids", 1, 1, 3))},
		{"a node that is missing", "node 0 leads to node 3, expected one of 3", attrs(ints("nodes_truenodeids", 3, 0, 3))},
		{"a leaf below 0", "node 1 leads to leaf -1, expected one of 4", attrs(ints("nodes_falsenodeids", 2, -1, 3))},
		{"a root that is missing", "tree_roots has 3 at 0, expected one of 3 nodes", attrs(ints("tree_roots", 3))},
		{"no root", "tree_roots is empty", attrs(ints("tree_roots"))},
		{"a feature that is missing", "node 1 tests feature 2, expected one of 2", attrs(ints("nodes_featureids", 0, 2, 0))},
		{"a target that is missing", "leaf_targetids has 2 at 1, expected one of 2 targets", attrs(ints("leaf_targetids", 0, 2, 0, 0))},
		{"lists of different lengths", "leaf_weights has 1 elements, expected 4, as leaf_targetids", attrs(tensor1("leaf_weights", graph.Float32, 1))},
		{"too few sets", "none for node 0", attrs(tensor1("membership_values", graph.Float32))},
		{"too many sets", "more than 1 sets", attrs(tensor1("membership_values", graph.Float32, 1, math.NaN(), 2))},
		{"an unknown mode", "nodes_modes has 7 at 2, expected one of [0, 6]", attrs(tensor1("nodes_modes", graph.Uint8, 6, 0, 7))},
		{"modes of another type", "nodes_modes is float32[3], expected uint8", attrs(tensor1("nodes_modes", graph.Float32, 6, 0, 0))},
		{"an unknown aggregate", "aggregate_function is 4, expected one of [0, 3]", attrs(whole1("aggregate_function", 4))},
		{"an unknown transform", "post_transform is -1, expected one of [0, 4]", attrs(whole1("post_transform", -1))},
		{"a weight without order", "a weight that is not a number", attrs(tensor1("leaf_weights", graph.Float32, math.NaN(), 1, 1, 1), whole1("aggregate_function", 3))},
	} {
		list := ensemble(c.change...)
		if err := runClassical("TreeEnsemble", list, x, blank(graph.Float32, []int{4, 2})); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q", c.doc, err, c.want)
		}
	}
}

// The aggregates and transforms of the older operator, and its tensors of float64. The
// expected numbers are those of ONNX Runtime 1.31.
func TestTreeAggregates(t *testing.T) {
	two := []*graph.Attr{
		ints("nodes_treeids", 0, 0, 0, 1, 1, 1), ints("nodes_nodeids", 0, 1, 2, 0, 1, 2), ints("nodes_featureids", 1, 0, 0, 1, 0, 0),
		wordList("nodes_modes", "BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"), numbers32("nodes_values", 2.5, 0, 0, 2.5, 0, 0),
		ints("nodes_truenodeids", 1, 0, 0, 1, 0, 0), ints("nodes_falsenodeids", 2, 0, 0, 2, 0, 0),
		ints("target_treeids", 0, 0, 1, 1), ints("target_nodeids", 1, 2, 1, 2),
	}
	one := append(slices.Clone(two), ints("target_ids", 0, 0, 0, 0), numbers32("target_weights", .3, .7, .4, .2), whole1("n_targets", 1))
	three := append(slices.Clone(two), ints("target_ids", 0, 1, 0, 0), numbers32("target_weights", .3, .7, .4, .2), whole1("n_targets", 3))
	x := features(2, 2, 0, 2.5, 0, 2.6)
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		doc  string
		list []*graph.Attr
		want []float32
	}{
		{"min", append(slices.Clone(one), text("aggregate_function", "MIN"), numbers32("base_values", .1)), []float32{.4, .3}},
		{"max", append(slices.Clone(one), text("aggregate_function", "MAX"), numbers32("base_values", .1)), []float32{.5, .8}},
		{"max of three", append(slices.Clone(three), text("aggregate_function", "MAX")), []float32{.4, 0, 0, .2, .7, 0}},
		{"probit", append(slices.Clone(one), text("post_transform", "PROBIT")), []float32{.52445, 1.28171}},
		{"probits", append(slices.Clone(three), text("post_transform", "PROBIT")), []float32{.52445, inf, inf, -.84176, .52445, inf}},
		{"softmax", append(slices.Clone(three), text("post_transform", "SOFTMAX")), []float32{.50171, .24914, .24914, .28840, .47548, .23612}},
		{"tensors", append(append(slices.Clone(two[:4:4]), two[5:]...), ints("target_ids", 0, 0, 0, 0), whole1("n_targets", 1), tensor1("nodes_values_as_tensor", graph.Float64, 2.5, 0, 0, 2.5, 0, 0),
			tensor1("target_weights_as_tensor", graph.Float64, .3, .7, .4, .2), tensor1("base_values_as_tensor", graph.Float64, 1)), []float32{1.7, 1.9}},
	} {
		out := blank(graph.Float32, []int{2, len(c.want) / 2})
		near := func(a, b float32) bool { return a == b || math.Abs(float64(a-b)) < 1e-5 }
		if err := runClassical("TreeEnsembleRegressor", c.list, x, out); err != nil || !slices.EqualFunc(data[float32](out), c.want, near) {
			t.Errorf("%s: got %v, %v, want %v", c.doc, data[float32](out), err, c.want)
		}
	}
	both := append(slices.Clone(one), tensor1("nodes_values_as_tensor", graph.Float64, 1))
	if err := runClassical("TreeEnsembleRegressor", both, x, blank(graph.Float32, []int{2, 1})); err == nil || !strings.Contains(err.Error(), "nodes_values and nodes_values_as_tensor are both present") {
		t.Errorf("a list and a tensor: got error %v", err)
	}
}

// A random forest of full trees, against a plain walk: node k leads to 2k+1 and 2k+2.
func TestForest(t *testing.T) {
	const depth, trees, rows, wide, classes = 5, 7, 300, 6, 4
	r := rand.New(rand.NewPCG(3, 4))
	nodes := 1<<(depth+1) - 1
	inner := nodes / 2
	values := map[string][]int64{}
	add := func(name string, v int) { values[name] = append(values[name], int64(v)) }
	var thresholds, weights []float32
	var modes []string
	for tree := range trees {
		for k := range nodes {
			add("nodes_treeids", tree)
			add("nodes_nodeids", k)
			add("nodes_featureids", r.IntN(wide))
			thresholds = append(thresholds, r.Float32()*4-2)
			if k < inner {
				modes = append(modes, "BRANCH_LEQ")
				add("nodes_truenodeids", 2*k+1)
				add("nodes_falsenodeids", 2*k+2)
				continue
			}
			modes = append(modes, "LEAF")
			add("nodes_truenodeids", 0)
			add("nodes_falsenodeids", 0)
			for class := range classes {
				add("class_treeids", tree)
				add("class_nodeids", k)
				add("class_ids", class)
				weights = append(weights, r.Float32()-0.5)
			}
		}
	}
	list := []*graph.Attr{numbers32("nodes_values", thresholds...), numbers32("class_weights", weights...), wordList("nodes_modes", modes...), ints("classlabels_int64s", 5, 7, 6, 4)}
	for name, v := range values {
		list = append(list, &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v})
	}
	x := features(rows, wide, noise(rows*wide).F...)
	labels, scores := blank(graph.Int64, []int{rows}), blank(graph.Float32, []int{rows, classes})
	if err := runClassical("TreeEnsembleClassifier", list, x, labels, scores); err != nil {
		t.Fatal(err)
	}
	for row := range rows {
		want := make([]float32, classes)
		for tree := range trees {
			k := 0
			for k < inner {
				at := tree*nodes + k
				if data[float32](x)[row*wide+int(values["nodes_featureids"][at])] <= thresholds[at] {
					k = 2*k + 1
				} else {
					k = 2*k + 2
				}
			}
			for class := range classes {
				want[class] += weights[(tree*(nodes-inner)+k-inner)*classes+class]
			}
		}
		got := data[float32](scores)[row*classes : (row+1)*classes]
		if label := []int64{5, 7, 6, 4}[slices.Index(want, slices.Max(want))]; !slices.Equal(got, want) || data[int64](labels)[row] != label {
			t.Fatalf("row %d: got %v and label %d, want %v and %d", row, got, data[int64](labels)[row], want, label)
		}
	}
}

func TestLinearModels(t *testing.T) {
	x := features(2, 2, 1, 2, -3, 4)
	out := blank(graph.Float32, []int{2, 2})
	want := func(op string, list []*graph.Attr, want ...float32) {
		t.Helper()
		if err := runClassical(op, list, x, out); err != nil || !slices.Equal(data[float32](out), want) {
			t.Errorf("%s: got %v, %v, want %v", op, data[float32](out), err, want)
		}
	}
	want("Scaler", attrs(numbers32("offset", 1, 0), numbers32("scale", 2)), 0, 4, -8, 8)
	want("Normalizer", attrs(text("norm", "L1")), float32(1)/3, float32(2)/3, float32(-3)/7, float32(4)/7)
	want("Normalizer", attrs(text("norm", "MAX")), 0.5, 1, -0.75, 1)
	want("LinearRegressor", attrs(whole1("targets", 2), numbers32("coefficients", 1, 1, 0, 2), numbers32("intercepts", 0.5, 0)), 3.5, 4, 1.5, 8)
	labels := blank(graph.Int64, []int{2})
	list := attrs(numbers32("coefficients", 1, 1, 0, 1), numbers32("intercepts", 0, 0.5), ints("classlabels_ints", 7, 9), text("post_transform", "LOGISTIC"))
	if err := runClassical("LinearClassifier", list, x, labels, out); err != nil {
		t.Fatal(err)
	}
	scores := []float32{logistic[float32](3), logistic[float32](2.5), logistic[float32](1), logistic[float32](4.5)}
	if !slices.Equal(data[int64](labels), []int64{7, 9}) || !slices.Equal(data[float32](out), scores) {
		t.Errorf("got labels %v and scores %v, want [7 9] and %v", data[int64](labels), data[float32](out), scores)
	}
	// One intercept: a single score, whose sign decides. The numbers are ONNX Runtime 1.31's.
	list = attrs(numbers32("coefficients", 1, 0.125), numbers32("intercepts", -0.95), ints("classlabels_ints", 7, 9))
	for _, k := range []struct {
		post string
		want []float32
	}{{"NONE", []float32{.7, .3, 4.45, -3.45}}, {"SOFTMAX", []float32{.7, .3, 4.45, -3.45}}, {"LOGISTIC", []float32{.4255575, .5744425, .9692311, .0307689}}} {
		err := runClassical("LinearClassifier", append(list[:3:3], text("post_transform", k.post)), x, labels, out)
		near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 }
		if err != nil || !slices.Equal(data[int64](labels), []int64{9, 7}) || !slices.EqualFunc(data[float32](out), k.want, near) {
			t.Errorf("one intercept, %s: got %v, %v, %v, want [9 7] and %v", k.post, data[int64](labels), data[float32](out), err, k.want)
		}
	}
	if err := runClassical("LinearClassifier", append(list[:3:3], text("post_transform", "PROBIT")), x, labels, out); err == nil || !strings.Contains(err.Error(), "PROBIT of a single score") {
		t.Errorf("one intercept, PROBIT: got error %v", err)
	}
	codes := blank(graph.Float32, []int{2, 2, 3})
	if err := runClassical("OneHotEncoder", attrs(ints("cats_int64s", 4, 1, -3)), x, codes); err != nil || !slices.Equal(data[float32](codes), []float32{0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0}) {
		t.Errorf("OneHotEncoder: got %v, %v", data[float32](codes), err)
	}
	if err := runClassical("OneHotEncoder", attrs(ints("cats_int64s", 4, 1, -3), whole1("zeros", 0)), x, codes); err == nil || !strings.Contains(err.Error(), "element 1 is 2, expected one of 3 categories") {
		t.Errorf("an unknown category: got error %v", err)
	}
	row := blank(graph.Float32, []int{2, 3})
	if err := runClassical("FeatureVectorizer", attrs(ints("inputdimensions", 3)), x, row); err != nil || !slices.Equal(data[float32](row), []float32{1, 2, 0, -3, 4, 0}) {
		t.Errorf("FeatureVectorizer: got %v, %v", data[float32](row), err)
	}
	if err := runClassical("Scaler", attrs(numbers32("offset", 1, 0, 3), numbers32("scale", 2)), x, out); err == nil || !strings.Contains(err.Error(), "offset has 3 numbers, expected 1 or one for each of 2 features") {
		t.Errorf("three offsets of two features: got error %v", err)
	}
}

// Two labels whose weights count for one of them. The expected numbers are those of ONNX
// Runtime 1.31.
func TestTwoLabels(t *testing.T) {
	x := features(2, 2, 0, 2.5, 0, 2.6)
	for _, k := range []struct {
		doc     string
		of      int64
		weights []float32
		post    string
		base    []float32
		labels  []int64
		scores  []float32
	}{
		{"of the first", 0, []float32{.3, .7}, "NONE", nil, []int64{5, 7}, []float32{.7, .3, .3, .7}},
		{"with a base value", 0, []float32{.3, .7}, "SOFTMAX", []float32{.25}, []int64{7, 7}, []float32{.45, .55, .05, .95}},
		{"a probability through a logistic", 0, []float32{.3, .7}, "LOGISTIC", nil, []int64{5, 7}, []float32{.4256, .5744, .3318, .6682}},
		{"a negative weight", 0, []float32{-.3, .7}, "LOGISTIC", []float32{.25}, []int64{5, 7}, []float32{.5125, .4875, .2789, .7211}},
		{"of the second", 1, []float32{-.3, .7}, "NONE", []float32{.25}, []int64{5, 7}, []float32{0, -.3, 0, .7}},
		{"of the second, a softmax", 1, []float32{.3, .7}, "SOFTMAX", nil, []int64{5, 7}, []float32{.4256, .5744, .3318, .6682}},
		{"of the second, a softmax without zeros", 1, []float32{-.3, .7}, "SOFTMAX_ZERO", nil, []int64{5, 7}, []float32{0, 1, 0, 1}},
	} {
		list := stump()[:7]
		list = append(list, ints("class_treeids", 0, 0), ints("class_nodeids", 1, 2), ints("class_ids", k.of, k.of), numbers32("class_weights", k.weights...), ints("classlabels_int64s", 5, 7), text("post_transform", k.post))
		if k.base != nil {
			list = append(list, numbers32("base_values", k.base...))
		}
		labels, scores := blank(graph.Int64, []int{2}), blank(graph.Float32, []int{2, 2})
		if err := runClassical("TreeEnsembleClassifier", list, x, labels, scores); err != nil {
			t.Errorf("%s: %v", k.doc, err)
			continue
		}
		near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-4 }
		if !slices.Equal(data[int64](labels), k.labels) || !slices.EqualFunc(data[float32](scores), k.scores, near) {
			t.Errorf("%s: got %v %v, want %v %v", k.doc, data[int64](labels), data[float32](scores), k.labels, k.scores)
		}
	}
}

// Two labels with weights of both. The expected numbers are those of ONNX Runtime 1.31.
func TestTwoScores(t *testing.T) {
	x := features(2, 2, 0, 2.5, 0, 2.6)
	tree := append(stump()[:7:7], ints("classlabels_int64s", 0, 1))
	all := append(slices.Clone(tree), ints("class_treeids", 0, 0, 0, 0), ints("class_nodeids", 1, 1, 2, 2), ints("class_ids", 0, 1, 0, 1), numbers32("class_weights", -.3, .7, .6, -.1))
	some := append(slices.Clone(tree), ints("class_treeids", 0, 0, 0), ints("class_nodeids", 1, 1, 2), ints("class_ids", 0, 1, 0), numbers32("class_weights", .3, .7, .6))
	for _, k := range []struct {
		doc, post string
		list      []*graph.Attr
		labels    []int64
		scores    []float32
	}{
		{"all leaves", "NONE", all, []int64{1, 0}, []float32{-.3, .7, .6, -.1}},
		{"all leaves", "LOGISTIC", all, []int64{1, 0}, []float32{.42556, .66819, .64566, .47502}},
		{"all leaves", "SOFTMAX", all, []int64{1, 0}, []float32{.26894, .73106, .66819, .33181}},
		{"a leaf of the first label only", "NONE", some, []int64{1, 1}, []float32{.3, .7, -.6, .6}},
		{"a leaf of the first label only", "LOGISTIC", some, []int64{1, 1}, []float32{.57444, .66819, .35434, .64566}},
		{"a leaf of the first label only", "SOFTMAX", some, []int64{1, 1}, []float32{.40131, .59869, -.6, .6}},
	} {
		labels, scores := blank(graph.Int64, []int{2}), blank(graph.Float32, []int{2, 2})
		err := runClassical("TreeEnsembleClassifier", append(slices.Clone(k.list), text("post_transform", k.post)), x, labels, scores)
		near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-5 }
		if err != nil || !slices.Equal(data[int64](labels), k.labels) || !slices.EqualFunc(data[float32](scores), k.scores, near) {
			t.Errorf("%s, %s: got %v, %v, %v, want %v, %v", k.doc, k.post, data[int64](labels), data[float32](scores), err, k.labels, k.scores)
		}
	}
	for _, k := range []struct {
		want string
		list []*graph.Attr
	}{
		{"PROBIT of a single score", append(slices.Clone(some), text("post_transform", "PROBIT"))},
		{"two labels and 1 base values", append(slices.Clone(all), numbers32("base_values", 1))},
		{"other numbers than 0 and 1", append(append(slices.Clone(all[:7]), all[8:]...), ints("classlabels_int64s", 5, 7))},
	} {
		err := runClassical("TreeEnsembleClassifier", k.list, x, blank(graph.Int64, []int{2}), blank(graph.Float32, []int{2, 2}))
		if err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("got error %v, want %q", err, k.want)
		}
	}
}

package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
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
	c := &Invocation{Node: &graph.Node{Op: op, Domain: "ai.onnx.ml", Attrs: list}, Version: 3, In: []*Tensor{in}, Out: out, Runtime: alone{}}
	run, err := Lookup("ai.onnx.ml", op).Prepare(c)
	if err != nil {
		return err
	}
	pool := work.New(2)
	defer pool.Close()
	stride := (c.EachBytes + 63) &^ 63
	pool.SetScratch(nil, blank(graph.Uint8, []int{2*stride + 1}).At, stride)
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
	scores := []float32{logistic(3), logistic(2.5), logistic(1), logistic(4.5)}
	if !slices.Equal(data[int64](labels), []int64{7, 9}) || !slices.Equal(data[float32](out), scores) {
		t.Errorf("got labels %v and scores %v, want [7 9] and %v", data[int64](labels), data[float32](out), scores)
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

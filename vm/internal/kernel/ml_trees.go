package kernel

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// forest is a list of decision trees. A node that is not a leaf compares one feature with
// a threshold; each leaf adds weights to some scores.
type forest struct {
	roots []int32
	nodes []treeNode
	adds  []leafWeight
	sets  []float64 // the members of the sets that nodes test, each in ascending order
}

type treeNode struct {
	test        branch
	missing     bool // NaN goes to yes
	feature     int32
	yes, no     int32
	from, until int32 // of a leaf: its weights in adds; of a member test: its set in sets
	threshold   float64
}

type leafWeight struct {
	score  int32
	weight float64
}

// branch is how a node compares a feature x with its threshold.
type branch uint8

const (
	leaf branch = iota
	lessOrEqual
	less
	greaterOrEqual
	moreThan
	equal
	notEqual
	member
)

var branches = map[string]branch{
	"LEAF": leaf, "BRANCH_LEQ": lessOrEqual, "BRANCH_LT": less, "BRANCH_GTE": greaterOrEqual, "BRANCH_GT": moreThan, "BRANCH_EQ": equal, "BRANCH_NEQ": notEqual,
}

// treeKey is how the attributes name a node.
type treeKey struct{ tree, node int }

// forest reads the trees of a classifier (weights named class_*) or regressor (target_*).
// The trees are checked here, so that every walk ends at a leaf.
func (c *Invocation) forest(of string, features, scores int) (*forest, error) {
	trees, ids, features64 := c.Ints("nodes_treeids"), c.Ints("nodes_nodeids"), c.Ints("nodes_featureids")
	yes, no, missing := c.Ints("nodes_truenodeids"), c.Ints("nodes_falsenodeids"), c.Ints("nodes_missing_value_tracks_true")
	values, err := c.realList("nodes_values")
	if err != nil {
		return nil, err
	}
	var modes []string
	if a := c.Node.Attr("nodes_modes"); a != nil {
		modes = a.Strings
	}
	n := len(trees)
	for _, list := range []struct {
		name string
		n    int
	}{
		{"nodes_nodeids", len(ids)},
		{"nodes_featureids", len(features64)},
		{"nodes_truenodeids", len(yes)},
		{"nodes_falsenodeids", len(no)},
		{"nodes_values", len(values)},
		{"nodes_modes", len(modes)},
	} {
		if list.n != n {
			return nil, fmt.Errorf("%s has %d elements, expected %d, as nodes_treeids", list.name, list.n, n)
		}
	}
	if len(missing) != 0 && len(missing) != n {
		return nil, fmt.Errorf("nodes_missing_value_tracks_true has %d elements, expected %d", len(missing), n)
	}
	if int64(n) > math.MaxInt32 {
		return nil, unsupportedf("%d nodes", n)
	}
	f := &forest{nodes: tableOf[treeNode](c, n)}
	if err := c.Runtime.Heap(int64(mul(n, 48))); err != nil { // the map below
		return nil, err
	}
	index := make(map[treeKey]int32, n)
	m := c.Meter()
	for i := range n {
		m.Add(16)
		key := treeKey{trees[i], ids[i]}
		if _, twice := index[key]; twice {
			return nil, fmt.Errorf("tree %d has two nodes %d", key.tree, key.node)
		}
		index[key] = int32(i)
	}
	children := make(map[int32]bool, n)
	for i := range f.nodes {
		m.Add(16)
		test, known := branches[modes[i]]
		if !known {
			return nil, unsupportedf("nodes_modes %q", graph.Short(modes[i]))
		}
		t := &f.nodes[i]
		t.test, t.threshold, t.missing = test, values[i], len(missing) > 0 && missing[i] != 0
		if test == leaf {
			continue
		}
		if features64[i] < 0 || features64[i] >= features {
			return nil, fmt.Errorf("node %d of tree %d tests feature %d, expected one of %d", ids[i], trees[i], features64[i], features)
		}
		t.feature = int32(features64[i])
		for _, to := range []struct {
			id int
			at *int32
		}{{yes[i], &t.yes}, {no[i], &t.no}} {
			k, known := index[treeKey{trees[i], to.id}]
			if !known {
				return nil, fmt.Errorf("node %d of tree %d leads to node %d, which is missing", ids[i], trees[i], to.id)
			}
			if children[k] && t.yes != k { // the two branches of a node may lead to one
				return nil, fmt.Errorf("two nodes of tree %d lead to node %d: expected a tree", trees[i], to.id)
			}
			children[k] = true
			*to.at = k
		}
	}
	started := map[int]bool{}
	for i := range f.nodes {
		if started[trees[i]] {
			continue
		}
		if started[trees[i]] = true; children[int32(i)] {
			return nil, fmt.Errorf("tree %d does not begin with its root: node %d is the child of another", trees[i], ids[i])
		}
		f.roots = append(f.roots, int32(i))
	}
	return f, c.leaves(f, of, index, scores)
}

// leaves reads the weights of all leaves.
func (c *Invocation) leaves(f *forest, of string, index map[treeKey]int32, scores int) error {
	trees, nodes, ids := c.Ints(of+"_treeids"), c.Ints(of+"_nodeids"), c.Ints(of+"_ids")
	weights, err := c.realList(of + "_weights")
	if err != nil {
		return err
	}
	n := len(trees)
	if len(nodes) != n || len(ids) != n || len(weights) != n {
		return fmt.Errorf("%s_treeids, _nodeids, _ids and _weights have %d, %d, %d and %d elements, expected as many of each", of, n, len(nodes), len(ids), len(weights))
	}
	m := c.Meter()
	for i := range n { // the number of weights of each leaf, in until
		m.Add(8)
		k, known := index[treeKey{trees[i], nodes[i]}]
		if !known || f.nodes[k].test != leaf {
			return fmt.Errorf("%s_nodeids names node %d of tree %d: expected a leaf", of, nodes[i], trees[i])
		}
		if ids[i] < 0 || ids[i] >= scores {
			return fmt.Errorf("%s_ids has %d, expected one of %d", of, ids[i], scores)
		}
		f.nodes[k].until++
	}
	at := int32(0)
	for i := range f.nodes {
		m.Add(1)
		t := &f.nodes[i]
		t.from, t.until, at = at, at, at+t.until
	}
	f.adds = tableOf[leafWeight](c, n)
	for i := range n {
		m.Add(8)
		t := &f.nodes[index[treeKey{trees[i], nodes[i]}]]
		f.adds[t.until] = leafWeight{int32(ids[i]), weights[i]}
		t.until++
	}
	return nil
}

// find returns the weights of the leaf that a sample reaches in a tree.
func (f *forest) find(m *form.Meter, s *samples, row int, root int32) []leafWeight {
	for t := &f.nodes[root]; ; {
		m.Add(4)
		if t.test == leaf {
			return f.adds[t.from:t.until]
		}
		if f.holds(t, s.get(row, int(t.feature))) {
			t = &f.nodes[t.yes]
		} else {
			t = &f.nodes[t.no]
		}
	}
}

func (f *forest) holds(t *treeNode, x float64) bool {
	if t.missing && math.IsNaN(x) {
		return true
	}
	switch t.test {
	case lessOrEqual:
		return x <= t.threshold
	case less:
		return x < t.threshold
	case greaterOrEqual:
		return x >= t.threshold
	case moreThan:
		return x > t.threshold
	case equal:
		return x == t.threshold
	case member:
		_, is := slices.BinarySearch(f.sets[t.from:t.until], x)
		return is && !math.IsNaN(x)
	}
	return x != t.threshold
}

// aggregate is how the weights that a sample gets from the trees make a score.
type aggregate int

const ( // the numbers of TreeEnsemble
	byAverage aggregate = iota
	bySum
	byMin
	byMax
)

var aggregates = map[string]aggregate{"AVERAGE": byAverage, "SUM": bySum, "MIN": byMin, "MAX": byMax}

// scores aggregates the weights of the leaves that a sample reaches. The score of a
// target without any is 0.
func scores[T float32 | float64](f *forest, m *form.Meter, s *samples, row int, how aggregate, list []T) {
	clear(list)
	if how == byMin || how == byMax {
		for i := range list { // no weight is NaN (regression)
			list[i] = T(math.NaN())
		}
	}
	for _, root := range f.roots {
		for _, a := range f.find(m, s, row, root) {
			old, w := &list[a.score], T(a.weight)
			switch {
			case how == bySum || how == byAverage:
				*old += w
			case *old != *old || how == byMin && w < *old || how == byMax && w > *old:
				*old = w
			}
		}
	}
	for i, x := range list {
		switch {
		case how == byAverage && len(f.roots) > 0:
			list[i] = x / T(len(f.roots))
		case x != x && (how == byMin || how == byMax):
			list[i] = 0
		}
	}
}

// regression is the Run of a forest with a score for each target.
func regression[T float32 | float64](c *Invocation, s samples, f *forest, targets int, how aggregate, post string) (Run, error) {
	base, err := c.realList("base_values")
	if err != nil {
		return nil, err
	}
	if len(base) != 0 && len(base) != targets {
		return nil, fmt.Errorf("base_values has %d numbers, expected %d", len(base), targets)
	}
	if how == byMin || how == byMax {
		for _, a := range f.adds {
			if math.IsNaN(a.weight) {
				return nil, unsupportedf("a weight that is not a number, and the aggregate MIN or MAX")
			}
		}
	}
	// ONNX Runtime leaves these out for a single target, against ONNX's own evaluator.
	if targets == 1 && post != "NONE" && post != "PROBIT" {
		return nil, unsupportedf("post_transform %q of one target", graph.Short(post))
	}
	transform, err := transform[T](post)
	if err != nil {
		return nil, err
	}
	out := c.Out[0]
	set, ok := form.Writer(out.Type)
	if !ok || !out.Type.Floating() {
		return nil, unsupported(out.Type)
	}
	if out.Len() != mul(s.rows, targets) {
		return nil, fmt.Errorf("shape %v, expected %d targets for each of %d rows", out.Shape, targets, s.rows)
	}
	return eachSampleIn(c, s.rows, mul(len(f.roots)+1, 32), mul(targets, 8), func(m *form.Meter, row int, scratch unsafe.Pointer) {
		list := span[T](scratch, targets)
		m.Add(targets)
		scores(f, m, &s, row, how, list)
		for k, b := range base {
			list[k] += T(b)
		}
		transform(list)
		for k, x := range list {
			set(out.At, row*targets+k, float64(x))
		}
	}), nil
}

// regression chooses the type of the sums: float64 for features of float64.
func (c *Invocation) regression(s samples, f *forest, targets int, how aggregate, post string) (Run, error) {
	if s.in.Type == graph.Float64 {
		return regression[float64](c, s, f, targets, how, post)
	}
	return regression[float32](c, s, f, targets, how, post)
}

// makeTreeRegressor aggregates the weights of the leaves, one of each tree.
func makeTreeRegressor(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	targets := c.Int("n_targets", 0)
	f, err := c.forest("target", s.features, targets)
	if err != nil {
		return nil, err
	}
	name := c.Str("aggregate_function", "SUM")
	how, known := aggregates[name]
	if !known {
		return nil, fmt.Errorf("aggregate_function is %q, expected SUM, AVERAGE, MIN or MAX", graph.Short(name))
	}
	return c.regression(s, f, targets, how, c.postTransform())
}

// makeTreeClassifier takes the label with the largest sum of weights.
func makeTreeClassifier(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	labels, err := c.labels("classlabels_int64s")
	if err != nil {
		return nil, err
	}
	f, err := c.forest("class", s.features, len(labels))
	if err != nil {
		return nil, err
	}
	if s.in.Type == graph.Float64 {
		return treeClassifier[float64](c, s, f, labels)
	}
	return treeClassifier[float32](c, s, f, labels)
}

func treeClassifier[T float32 | float64](c *Invocation, s samples, f *forest, labels []int64) (Run, error) {
	transform, err := transform[T](c.postTransform())
	if err != nil {
		return nil, err
	}
	base, err := c.realList("base_values")
	if err != nil {
		return nil, err
	}
	classes := len(labels)
	if classes < 2 || classes > 2 && len(base) != 0 && len(base) != classes {
		return nil, unsupportedf("%d labels and %d base values", classes, len(base))
	}
	classify := func(list []T) int64 {
		for k, b := range base {
			list[k] += T(b)
		}
		label := labels[topScore(list)]
		transform(list)
		return label
	}
	gather := func(m *form.Meter, row int, list []T) int64 {
		scores(f, m, &s, row, bySum, list)
		return classify(list)
	}
	if classes == 2 {
		if gather, err = binaryTrees(c, s, f, labels, base, transform); err != nil {
			return nil, err
		}
	}
	return eachSampleIn(c, s.rows, mul(len(f.roots)+1, 32), mul(classes, 8), func(m *form.Meter, row int, scratch unsafe.Pointer) {
		list := span[T](scratch, classes)
		m.Add(classes)
		data[int64](c.Out[0])[row] = gather(m, row, list)
		to := data[float32](c.Out[1])[row*classes : (row+1)*classes]
		for k, x := range list {
			to[k] = float32(x)
		}
	}), nil
}

// binaryTrees returns the function that classifies a sample by two labels, as ONNX Runtime
// does, since ONNX says no more than that there are scores. If all weights count for one
// label, there is one score: the second label's probability if no weight is negative, and
// else a number whose sign decides. If there are weights of both, the sign of the second
// label's score decides, or that of the first's where a sample reaches no other.
func binaryTrees[T float32 | float64](c *Invocation, s samples, f *forest, labels []int64, base []float64, transform func([]T)) (func(m *form.Meter, row int, list []T) int64, error) {
	positive, both, of := true, false, int32(0)
	for i, a := range f.adds {
		if i == 0 {
			of = a.score
		}
		both = both || a.score != of
		positive = positive && a.weight >= 0
	}
	post := c.postTransform()
	switch {
	case both && len(base) > 0 || len(base) > 1:
		// ONNX Runtime reads the second label's base value for the first, and leaves
		// scores unset.
		return nil, unsupportedf("two labels and %d base values", len(base))
	case both && !c.zeroOne():
		return nil, unsupportedf("two labels with weights of both, and other numbers than 0 and 1") // ONNX Runtime answers 0 and 1
	case post == "PROBIT" && (both && !f.always(1) || !both && of == 0):
		return nil, unsupportedf("post_transform PROBIT of a single score") // ONNX Runtime leaves the other score unset
	}
	return func(m *form.Meter, row int, list []T) int64 {
		var reached [2]bool
		clear(list)
		for _, root := range f.roots {
			for _, a := range f.find(m, &s, row, root) {
				list[a.score] += T(a.weight)
				reached[a.score] = true
			}
		}
		score := list[0]
		if of == 1 || both && reached[1] {
			score = list[1]
		} else if len(base) > 0 {
			score += T(base[0])
		}
		label := labels[0]
		if (both || !positive) && score > 0 || !both && score > 0.5 {
			label = labels[1]
		}
		switch {
		case of == 1 && !both || reached[1]: // two scores, of which one may be 0
			transform(list)
		case post == "LOGISTIC":
			list[0], list[1] = logistic(-score), logistic(score)
		case positive && !both:
			list[0], list[1] = 1-score, score
		default:
			list[0], list[1] = -score, score
		}
		return label
	}, nil
}

// zeroOne reports whether the labels are strings or the numbers 0 and 1.
func (c *Invocation) zeroOne() bool {
	return len(c.Strings("classlabels_strings")) > 0 || slices.Equal(c.Ints("classlabels_int64s"), []int{0, 1})
}

// always reports whether every leaf has a weight of a score.
func (f *forest) always(score int32) bool {
	for i := range f.nodes {
		t := &f.nodes[i]
		if t.test == leaf && !slices.ContainsFunc(f.adds[t.from:t.until], func(a leafWeight) bool { return a.score == score }) {
			return false
		}
	}
	return true
}

package kernel

import (
	"fmt"
	"math"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// forest is a list of decision trees. A node that is not a leaf compares one feature with
// a threshold; each leaf adds weights to some scores.
type forest struct {
	roots []int32
	nodes []treeNode
	adds  []leafWeight
}

type treeNode struct {
	test        branch
	missing     bool // NaN goes to yes
	feature     int32
	yes, no     int32
	from, until int32 // of a leaf: its weights in adds
	threshold   float64
}

type leafWeight struct {
	score  int32
	weight float32
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
	values := c.floats("nodes_values")
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
	m := meter{c: c}
	for i := range n {
		m.add(16)
		key := treeKey{trees[i], ids[i]}
		if _, twice := index[key]; twice {
			return nil, fmt.Errorf("tree %d has two nodes %d", key.tree, key.node)
		}
		index[key] = int32(i)
	}
	children := make(map[int32]bool, n)
	for i := range f.nodes {
		m.add(16)
		test, known := branches[modes[i]]
		if !known {
			return nil, unsupportedf("nodes_modes %q", graph.Short(modes[i]))
		}
		t := &f.nodes[i]
		t.test, t.threshold, t.missing = test, float64(values[i]), len(missing) > 0 && missing[i] != 0
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
	trees, nodes, ids, weights := c.Ints(of+"_treeids"), c.Ints(of+"_nodeids"), c.Ints(of+"_ids"), c.floats(of+"_weights")
	n := len(trees)
	if len(nodes) != n || len(ids) != n || len(weights) != n {
		return fmt.Errorf("%s_treeids, _nodeids, _ids and _weights have %d, %d, %d and %d elements, expected as many of each", of, n, len(nodes), len(ids), len(weights))
	}
	m := meter{c: c}
	for i := range n { // the number of weights of each leaf, in until
		m.add(8)
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
		m.add(1)
		t := &f.nodes[i]
		t.from, t.until, at = at, at, at+t.until
	}
	f.adds = tableOf[leafWeight](c, n)
	for i := range n {
		m.add(8)
		t := &f.nodes[index[treeKey{trees[i], nodes[i]}]]
		f.adds[t.until] = leafWeight{int32(ids[i]), weights[i]}
		t.until++
	}
	return nil
}

// find returns the weights of the leaf that a sample reaches in a tree.
func (f *forest) find(m *meter, s *samples, row int, root int32) []leafWeight {
	for t := &f.nodes[root]; ; {
		m.add(4)
		if t.test == leaf {
			return f.adds[t.from:t.until]
		}
		if t.holds(s.get(row, int(t.feature))) {
			t = &f.nodes[t.yes]
		} else {
			t = &f.nodes[t.no]
		}
	}
}

func (t *treeNode) holds(x float64) bool {
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
	}
	return x != t.threshold
}

// treesOnly refuses the attributes that hold thresholds and weights of float64.
func (c *Invocation) treesOnly() error {
	for _, a := range c.Node.Attrs {
		if strings.HasSuffix(a.Name, "_as_tensor") {
			return unsupportedf("%s", graph.Short(a.Name))
		}
	}
	return nil
}

// makeTreeRegressor adds up the weights of the leaves, one of each tree.
func makeTreeRegressor(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	targets := c.Int("n_targets", 0)
	if err := c.treesOnly(); err != nil {
		return nil, err
	}
	f, err := c.forest("target", s.features, targets)
	if err != nil {
		return nil, err
	}
	base := c.floats("base_values")
	if len(base) != 0 && len(base) != targets {
		return nil, fmt.Errorf("base_values has %d numbers, expected %d", len(base), targets)
	}
	aggregate := c.Str("aggregate_function", "SUM")
	if aggregate != "SUM" && aggregate != "AVERAGE" || c.Str("post_transform", "NONE") != "NONE" {
		return nil, unsupportedf("aggregate_function %q and post_transform %q", graph.Short(aggregate), graph.Short(c.Str("post_transform", "NONE")))
	}
	return eachSample(c, s.rows, mul(len(f.roots), 32), func(m *meter, row int) {
		scores := data[float32](c.Out[0])[row*targets : (row+1)*targets]
		f.scores(m, &s, row, scores)
		for k := range scores {
			if aggregate == "AVERAGE" {
				scores[k] /= float32(len(f.roots))
			}
			if len(base) > 0 {
				scores[k] += base[k]
			}
		}
	}), nil
}

// scores adds up the weights of the leaves that a sample reaches.
func (f *forest) scores(m *meter, s *samples, row int, scores []float32) {
	clear(scores)
	for _, root := range f.roots {
		for _, a := range f.find(m, s, row, root) {
			scores[a.score] += a.weight
		}
	}
}

// makeTreeClassifier takes the label with the largest sum of weights. With two labels, all
// weights count for one score: the second label's.
func makeTreeClassifier(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	labels, err := c.labels("classlabels_int64s")
	if err != nil {
		return nil, err
	}
	transform, err := c.transform()
	if err != nil {
		return nil, err
	}
	if err := c.treesOnly(); err != nil {
		return nil, err
	}
	classes := len(labels)
	f, err := c.forest("class", s.features, classes)
	if err != nil {
		return nil, err
	}
	base := c.floats("base_values")
	if classes == 2 {
		return c.binaryTrees(s, f, labels, base)
	}
	if classes < 2 || len(base) != 0 && len(base) != classes {
		return nil, unsupportedf("%d labels and %d base values", classes, len(base))
	}
	return eachSample(c, s.rows, mul(len(f.roots), 32), func(m *meter, row int) {
		scores := data[float32](c.Out[1])[row*classes : (row+1)*classes]
		f.scores(m, &s, row, scores)
		for k := range base {
			scores[k] += base[k]
		}
		data[int64](c.Out[0])[row] = labels[topScore(scores)]
		transform(scores)
	}), nil
}

// binaryTrees is the classifier of two labels, whose weights all count for one score. If no
// weight is negative, the score is the probability of the second label; else its sign
// decides. ONNX does not say what two scores mean, and ONNX Runtime does not take the
// larger one, so weights of both labels are refused.
func (c *Invocation) binaryTrees(s samples, f *forest, labels []int64, base []float32) (Run, error) {
	positive, of := true, int32(0)
	for i, a := range f.adds {
		if i == 0 {
			of = a.score
		}
		if a.score != of {
			return nil, unsupportedf("two labels with weights of both")
		}
		positive = positive && a.weight >= 0
	}
	name := c.Str("post_transform", "NONE")
	transform, err := c.transform()
	if err != nil {
		return nil, err
	}
	if len(base) > 1 {
		return nil, unsupportedf("two labels and %d base values", len(base))
	}
	return eachSample(c, s.rows, mul(len(f.roots), 32), func(m *meter, row int) {
		scores := data[float32](c.Out[1])[2*row : 2*row+2]
		f.scores(m, &s, row, scores)
		score := scores[of]
		if of == 0 && len(base) > 0 {
			score += base[0]
		}
		label := labels[0]
		if !positive && score > 0 || score > 0.5 {
			label = labels[1]
		}
		data[int64](c.Out[0])[row] = label
		switch {
		case of == 1: // the first label's score is 0
			transform(scores)
		case name == "LOGISTIC":
			scores[0], scores[1] = logistic(-score), logistic(score)
		case positive:
			scores[0], scores[1] = 1-score, score
		default:
			scores[0], scores[1] = -score, score
		}
	}), nil
}

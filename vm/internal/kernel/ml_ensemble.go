package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// ensembleModes are the numbers of nodes_modes in TreeEnsemble.
var ensembleModes = []branch{lessOrEqual, less, greaterOrEqual, moreThan, equal, notEqual, member}

// ensemblePosts are the numbers of post_transform in TreeEnsemble.
var ensemblePosts = []string{"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}

// makeTreeEnsemble is the regression of opset 5, which names roots, nodes and leaves by
// their indices.
func makeTreeEnsemble(c *Invocation) (Run, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	if s.in.Type != c.Out[0].Type || s.in.Type != graph.Float32 && s.in.Type != graph.Float64 {
		return nil, unsupportedf("input 0 of dtype %v and output 0 of %v", s.in.Type, c.Out[0].Type)
	}
	targets := c.Int("n_targets", 0)
	f, err := c.ensemble(s.features, targets)
	if err != nil {
		return nil, err
	}
	how := c.Int("aggregate_function", int(bySum))
	if how < int(byAverage) || how > int(byMax) {
		return nil, fmt.Errorf("aggregate_function is %d, expected one of [%d, %d]", how, byAverage, byMax)
	}
	post := c.Int("post_transform", 0)
	if post < 0 || post >= len(ensemblePosts) {
		return nil, fmt.Errorf("post_transform is %d, expected one of [0, %d]", post, len(ensemblePosts)-1)
	}
	return c.regression(s, f, targets, aggregate(how), ensemblePosts[post])
}

// ensemble reads the trees of TreeEnsemble. Its leaves become nodes behind the others. As
// in forest, every walk ends at a leaf: a root is no node's child, and no node is the
// child of two. Leaves may be shared.
func (c *Invocation) ensemble(features, targets int) (*forest, error) {
	splits, err := c.realList("nodes_splits")
	if err != nil {
		return nil, err
	}
	modes, err := c.modes()
	if err != nil {
		return nil, err
	}
	weights, err := c.realList("leaf_weights")
	if err != nil {
		return nil, err
	}
	roots, of := c.Ints("tree_roots"), c.Ints("nodes_featureids")
	missing, ids := c.Ints("nodes_missing_value_tracks_true"), c.Ints("leaf_targetids")
	yes := struct{ to, leaf []int }{c.Ints("nodes_truenodeids"), c.Ints("nodes_trueleafs")}
	no := struct{ to, leaf []int }{c.Ints("nodes_falsenodeids"), c.Ints("nodes_falseleafs")}
	n, leaves := len(of), len(ids)
	for _, list := range []struct {
		name    string
		n, want int
		other   string
	}{
		{"nodes_splits", len(splits), n, "nodes_featureids"},
		{"nodes_modes", len(modes), n, "nodes_featureids"},
		{"nodes_truenodeids", len(yes.to), n, "nodes_featureids"},
		{"nodes_trueleafs", len(yes.leaf), n, "nodes_featureids"},
		{"nodes_falsenodeids", len(no.to), n, "nodes_featureids"},
		{"nodes_falseleafs", len(no.leaf), n, "nodes_featureids"},
		{"leaf_weights", len(weights), leaves, "leaf_targetids"},
	} {
		if list.n != list.want {
			return nil, fmt.Errorf("%s has %d elements, expected %d, as %s", list.name, list.n, list.want, list.other)
		}
	}
	switch {
	case len(missing) != 0 && len(missing) != n:
		return nil, fmt.Errorf("nodes_missing_value_tracks_true has %d elements, expected %d", len(missing), n)
	case len(roots) == 0:
		return nil, fmt.Errorf("tree_roots is empty: expected the indices of the roots")
	case int64(n)+int64(leaves) > math.MaxInt32 || len(roots) > math.MaxInt32:
		return nil, unsupportedf("%d nodes and %d leaves", n, leaves)
	}
	f := &forest{nodes: tableOf[treeNode](c, n+leaves), adds: tableOf[leafWeight](c, leaves), roots: tableOf[int32](c, len(roots))}
	m := c.Meter()
	for i, target := range ids {
		m.Add(8)
		if target < 0 || target >= targets {
			return nil, fmt.Errorf("leaf_targetids has %d at %d, expected one of %d targets", target, i, targets)
		}
		f.adds[i] = leafWeight{int32(target), weights[i]}
		f.nodes[n+i] = treeNode{test: leaf, from: int32(i), until: int32(i) + 1}
	}
	child := tableOf[bool](c, n)
	for i := range n {
		m.Add(16)
		if of[i] < 0 || of[i] >= features {
			return nil, fmt.Errorf("node %d tests feature %d, expected one of %d", i, of[i], features)
		}
		t := &f.nodes[i]
		*t = treeNode{test: modes[i], feature: int32(of[i]), threshold: splits[i], missing: len(missing) > 0 && missing[i] != 0}
		for _, b := range []struct {
			to     int
			isLeaf bool
			at     *int32
		}{{yes.to[i], yes.leaf[i] != 0, &t.yes}, {no.to[i], no.leaf[i] != 0, &t.no}} {
			switch {
			case b.isLeaf && (b.to < 0 || b.to >= leaves):
				return nil, fmt.Errorf("node %d leads to leaf %d, expected one of %d", i, b.to, leaves)
			case b.isLeaf:
				*b.at = int32(n + b.to)
				continue
			case b.to < 0 || b.to >= n:
				return nil, fmt.Errorf("node %d leads to node %d, expected one of %d", i, b.to, n)
			case child[b.to]:
				return nil, fmt.Errorf("two branches lead to node %d: expected trees", b.to)
			}
			child[b.to] = true
			*b.at = int32(b.to)
		}
	}
	for i, root := range roots {
		m.Add(1)
		switch {
		case root < 0 || root >= n:
			return nil, fmt.Errorf("tree_roots has %d at %d, expected one of %d nodes", root, i, n)
		case child[root]:
			return nil, fmt.Errorf("tree_roots has %d at %d: expected a root, found the child of a node", root, i)
		}
		f.roots[i] = int32(root)
	}
	return f, c.sets(f, n)
}

// modes returns how the nodes of TreeEnsemble compare.
func (c *Invocation) modes() ([]branch, error) {
	a := c.Node.Attr("nodes_modes")
	if a == nil || a.Tensor == nil {
		return nil, fmt.Errorf("nodes_modes is missing: expected a tensor of uint8")
	}
	t, err := c.Runtime.Constant(a.Tensor)
	if err != nil {
		return nil, err
	}
	if t.Type != graph.Uint8 {
		return nil, fmt.Errorf("nodes_modes is %v%v, expected uint8", t.Type, t.Shape)
	}
	list := tableOf[branch](c, t.Len())
	for i, code := range data[uint8](t) {
		if int(code) >= len(ensembleModes) {
			return nil, fmt.Errorf("nodes_modes has %d at %d, expected one of [0, %d]", code, i, len(ensembleModes)-1)
		}
		list[i] = ensembleModes[code]
	}
	return list, nil
}

// sets gives each of the first n nodes that is a member test its set: the sets stand in
// the order of these nodes, and a NaN ends each but the last, or all.
func (c *Invocation) sets(f *forest, n int) error {
	list, err := c.realList("membership_values")
	if err != nil {
		return err
	}
	m := c.Meter()
	at, count := 0, 0
	for i := range n {
		m.Add(1)
		t := &f.nodes[i]
		if t.test != member {
			continue
		}
		if count++; at >= len(list) {
			return fmt.Errorf("membership_values has fewer sets than there are nodes that test one: none for node %d", i)
		}
		end := slices.IndexFunc(list[at:], math.IsNaN)
		if end < 0 {
			end = len(list) - at
		}
		m.Add(8 * end)
		set := list[at : at+end]
		slices.Sort(set)
		t.from, t.until = int32(at), int32(at+end)
		at += end + 1
	}
	if at < len(list) {
		return fmt.Errorf("membership_values has more than %d sets, expected one for each node that tests one", count)
	}
	f.sets = list
	return nil
}

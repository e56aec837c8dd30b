package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// vote is a weight that a leaf gives to a score.
type vote struct {
	score  int
	weight float64
}

// tree is a decision tree: the votes of the leaf that a row of features reaches.
type tree func(row func(feature int) float64) []vote

// realList returns a list of reals, in an attribute or in a tensor.
func (c *evaluation) realList(name string) []float64 {
	var list []float64
	for _, a := range []*graph.Attr{c.attr(name), c.attr(name + "_as_tensor")} {
		if a == nil {
			continue
		}
		for _, v := range a.Floats {
			list = append(list, float64(v))
		}
		if a.Tensor != nil {
			x, err := FromData(a.Tensor)
			if err != nil {
				fail("%v", err)
			}
			for i := range size(x.Shape) {
				list = append(list, x.real(i))
			}
		}
	}
	return list
}

// decide compares a feature.
func decide(mode string, x, threshold float64, set []float64) bool {
	switch mode {
	case "BRANCH_LEQ":
		return x <= threshold
	case "BRANCH_LT":
		return x < threshold
	case "BRANCH_GTE":
		return x >= threshold
	case "BRANCH_GT":
		return x > threshold
	case "BRANCH_EQ":
		return x == threshold
	case "BRANCH_NEQ":
		return x != threshold
	case "BRANCH_MEMBER":
		return slices.Contains(set, x)
	}
	fail("mode %q", mode)
	return false
}

// oldTrees are the trees of the operators before opset 5, whose nodes are named by a tree
// and a number. The first node of a tree is its root.
func (c *evaluation) oldTrees(of string) []tree {
	ids, nodes, values := c.ints("nodes_treeids", nil), c.ints("nodes_nodeids", nil), c.realList("nodes_values")
	modes, features := c.attr("nodes_modes").Strings, c.ints("nodes_featureids", nil)
	yes, no := c.ints("nodes_truenodeids", nil), c.ints("nodes_falsenodeids", nil)
	missing := c.ints("nodes_missing_value_tracks_true", make([]int, len(ids)))
	place, votes := map[[2]int]int{}, map[[2]int][]vote{}
	for i := range ids {
		place[[2]int{ids[i], nodes[i]}] = i
	}
	weights := c.realList(of + "_weights")
	at, scores := c.ints(of+"_nodeids", nil), c.ints(of+"_ids", nil)
	for i, id := range c.ints(of+"_treeids", nil) {
		k := [2]int{id, at[i]}
		votes[k] = append(votes[k], vote{scores[i], weights[i]})
	}
	var trees []tree
	for i, id := range ids {
		if slices.Index(ids, id) != i {
			continue
		}
		trees = append(trees, func(row func(int) float64) []vote {
			for i := i; ; {
				if modes[i] == "LEAF" {
					return votes[[2]int{id, nodes[i]}]
				}
				x, to := row(features[i]), no[i]
				if decide(modes[i], x, values[i], nil) || missing[i] != 0 && math.IsNaN(x) {
					to = yes[i]
				}
				i = place[[2]int{id, to}]
			}
		})
	}
	return trees
}

// newTrees are the trees of TreeEnsemble.
func (c *evaluation) newTrees() []tree {
	names := []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"}
	modes, splits, features := c.realList("nodes_modes"), c.realList("nodes_splits"), c.ints("nodes_featureids", nil)
	missing := c.ints("nodes_missing_value_tracks_true", make([]int, len(modes)))
	weights, scores := c.realList("leaf_weights"), c.ints("leaf_targetids", nil)
	next := map[bool][]int{true: c.ints("nodes_truenodeids", nil), false: c.ints("nodes_falsenodeids", nil)}
	isLeaf := map[bool][]int{true: c.ints("nodes_trueleafs", nil), false: c.ints("nodes_falseleafs", nil)}
	sets := [][]float64{nil}
	for _, v := range c.realList("membership_values") {
		if math.IsNaN(v) {
			sets = append(sets, nil)
		} else {
			sets[len(sets)-1] = append(sets[len(sets)-1], v)
		}
	}
	set := make([][]float64, len(modes))
	for i, m := range modes {
		if names[int(m)] == "BRANCH_MEMBER" {
			set[i], sets = sets[0], sets[1:]
		}
	}
	var trees []tree
	for _, root := range c.ints("tree_roots", nil) {
		trees = append(trees, func(row func(int) float64) []vote {
			for i := root; ; {
				x := row(features[i])
				holds := decide(names[int(modes[i])], x, splits[i], set[i]) || missing[i] != 0 && math.IsNaN(x)
				if to := next[holds][i]; isLeaf[holds][i] != 0 {
					return []vote{{scores[to], weights[to]}}
				} else {
					i = to
				}
			}
		})
	}
	return trees
}

// table returns the number of rows of features and their reader.
func (c *evaluation) table() (rows int, at func(row int) func(feature int) float64) {
	x := c.x(0)
	n := x.Shape[len(x.Shape)-1]
	rows = 1
	if len(x.Shape) == 2 {
		rows = x.Shape[0]
	}
	return rows, func(row int) func(int) float64 {
		return func(feature int) float64 { return x.real(row*n + feature) }
	}
}

// regressed aggregates the votes for each target.
func (c *evaluation) regressed(elem graph.DType, trees []tree, targets int, how, post string) []*Tensor {
	rows, at := c.table()
	base := c.realList("base_values")
	y := zeros(elem, []int{rows, targets})
	mass := make([]float64, rows*targets)
	for row := range rows {
		for k := range targets {
			var list []float64
			for _, t := range trees {
				for _, v := range t(at(row)) {
					if v.score == k {
						list = append(list, v.weight)
					}
				}
			}
			i := row*targets + k
			mass[i] = total(magnitudes(list))
			switch {
			case how == "SUM":
				y.F[i] = total(list)
			case how == "AVERAGE":
				y.F[i] = total(list) / float64(len(trees))
			case len(list) == 0:
			case how == "MIN":
				y.F[i] = slices.Min(list)
			default:
				y.F[i] = slices.Max(list)
			}
			if len(base) > 0 {
				y.F[i] += base[k]
				mass[i] += math.Abs(base[k])
			}
			mass[i] *= float64(len(list) + 1) // a sum of as many roundings
		}
		transformed(post, y.F[row*targets:(row+1)*targets], mass[row*targets:(row+1)*targets])
	}
	c.terms(0, mass)
	return one(y)
}

// transformed applies a post_transform to the scores of a row, and to the sums of the
// magnitudes of their terms.
func transformed(post string, y, mass []float64) {
	switch post {
	case "NONE":
	case "LOGISTIC":
		for i, v := range y {
			y[i] = sigmoid(v)
			mass[i] = y[i] + y[i]*(1-y[i])*mass[i]
		}
	case "PROBIT": // by the approximation of ONNX's own evaluator
		for i, v := range y {
			x := 2*v - 1
			log := math.Log((1 - x) * (1 + x))
			b := 2/(math.Pi*0.147) + log/2
			y[i] = math.Sqrt(2 * (math.Sqrt(b*b-log/0.147) - b))
			if x < 0 {
				y[i] = -y[i]
			}
			mass[i] = math.Abs(y[i]) + math.Sqrt(2*math.Pi)*math.Exp(y[i]*y[i]/2)*mass[i]
		}
	case "SOFTMAX", "SOFTMAX_ZERO":
		in := func(v float64) bool { return post == "SOFTMAX" || v != 0 }
		top, sum, most := slices.Max(y), 0.0, slices.Max(mass)
		for _, v := range y {
			if in(v) {
				sum += math.Exp(v - top)
			}
		}
		for i, v := range y {
			if in(v) {
				y[i] = math.Exp(v-top) / sum
				mass[i] = y[i] * (1 + 2*most)
			}
		}
	default:
		fail("post_transform %q", post)
	}
}

// labels returns the numbers of the classes.
func (c *evaluation) labels(name string) []int {
	if a := c.attr("classlabels_strings"); a != nil && len(a.Strings) > 0 {
		fail("type string: not held")
	}
	return c.ints(name, nil)
}

// classified returns labels and scores. If single is set, there is one score, and the
// second label wins beyond a limit. A label that a rounding may decide is open.
func (c *evaluation) classified(labels []int, scores *Tensor, mass []float64, single bool, limit float64) []*Tensor {
	rows, n, post := scores.Shape[0], scores.Shape[1], c.str("post_transform", "NONE")
	label := zeros(graph.Int64, []int{rows})
	open := make([]bool, rows)
	if single {
		y := zeros(graph.Float32, []int{rows, 2})
		both := make([]float64, 2*rows)
		for i, v := range scores.F {
			label.I[i] = int64(labels[0])
			if v > limit {
				label.I[i] = int64(labels[1])
			}
			open[i] = math.Abs(v-limit) <= 0x1p-20*mass[i]
			y.F[2*i], y.F[2*i+1] = 1-v, v
			both[2*i], both[2*i+1] = 1+mass[i], mass[i]
			switch post {
			case "LOGISTIC":
				y.F[2*i] = -v
				transformed(post, y.F[2*i:2*i+2], both[2*i:2*i+2])
			case "PROBIT":
				fail("PROBIT of a single score")
			}
		}
		scores, mass = y, both
	} else {
		for i := range rows {
			row := scores.F[i*n : (i+1)*n]
			best := slices.Index(row, slices.Max(row))
			label.I[i] = int64(labels[best])
			for k, v := range row {
				open[i] = open[i] || k != best && row[best]-v <= 0x1p-20*(mass[i*n+k]+mass[i*n+best])
			}
			transformed(post, row, mass[i*n:(i+1)*n])
		}
	}
	*c.bounded(0) = bound{exact: true, open: open}
	c.terms(1, mass)
	return []*Tensor{label, scores}
}

// treeClassifier adds up the votes. ONNX does not say what the scores of two labels mean;
// of ONNX Runtime's rules, only that of one probability is known here.
func treeClassifier(c *evaluation) []*Tensor {
	labels, trees := c.labels("classlabels_int64s"), c.oldTrees("class")
	rows, at := c.table()
	n, base := len(labels), c.realList("base_values")
	y := zeros(graph.Float32, []int{rows, n})
	mass := make([]float64, rows*n)
	for row := range rows {
		for _, t := range trees {
			for _, v := range t(at(row)) {
				y.F[row*n+v.score] += v.weight
				mass[row*n+v.score] += math.Abs(v.weight)
			}
		}
		for k := range n {
			mass[row*n+k] *= float64(len(trees) + 1)
		}
	}
	if n != 2 {
		for i := range y.F {
			if len(base) > 0 {
				y.F[i] += base[i%n]
				mass[i] += math.Abs(base[i%n])
			}
		}
		return c.classified(labels, y, mass, false, 0)
	}
	ids, weights := c.ints("class_ids", nil), c.realList("class_weights")
	if len(base) > 1 || slices.Contains(ids, 0) == slices.Contains(ids, 1) || slices.Min(weights) < 0 || ids[0] == 1 {
		fail("two labels other than by one probability")
	}
	p := zeros(graph.Float32, []int{rows, 1})
	terms := make([]float64, rows)
	for row := range rows {
		p.F[row], terms[row] = y.F[2*row], mass[2*row]
		if len(base) > 0 {
			p.F[row] += base[0]
			terms[row] += math.Abs(base[0])
		}
	}
	return c.classified(labels, p, terms, true, 0.5)
}

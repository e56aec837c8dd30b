package rowmap

import "github.com/onnxmem/onnxmem/graph"

func init() {
	register(reduce, "ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
	register(arg, "ArgMax", "ArgMin")
	register(loss, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
}

// divides reports whether a sum of the type may be divided afterwards.
func divides(d graph.DType) bool { return d == graph.Float32 || d == graph.Float64 }

// toReduceSum is the change of a mean to a sum. The axes of ReduceSum are an input from
// version 13 on.
func (n *Node) toReduceSum(axes []int64) Change {
	if n.Version < 13 {
		return Change{Op: "ReduceSum", Attrs: []*graph.Attr{ints("axes", axes)}}
	}
	return Change{Op: "ReduceSum", Drop: []string{"axes"}, Inputs: map[int][]int64{1: axes}}
}

// reduced lists which axes of input 0 are reduced; nil if that is not known.
func (n *Node) reduced() []bool {
	rank := len(n.In[0].Shape)
	axes, _, known := n.integers("axes", 1)
	all := known && len(axes) == 0 && n.integer("noop_with_empty_axes", 0) == 0
	if !known {
		shape := n.In[1].Shape
		if len(shape) != 1 || shape[0] < int64(rank) {
			return nil
		}
		all = true
	}
	gone := make([]bool, rank)
	for _, a := range axes {
		k := axisOf(a, rank)
		if k == Whole {
			return nil
		}
		gone[k] = true
	}
	for k := range gone {
		gone[k] = gone[k] || all
	}
	return gone
}

// without gives the axes of input 0 letters, and those of output 0 that are left.
func (n *Node) without(s *sheet, gone []bool) bool {
	keep, at := n.integer("keepdims", 1) != 0, 0
	each(s.in[0], 1)
	for k, is := range gone {
		if is && !keep {
			continue
		}
		if at >= len(s.out[0]) {
			return false
		}
		if !is {
			s.out[0][at] = s.in[0][k]
		}
		at++
	}
	return at == len(s.out[0])
}

// reduce combines the elements along the reduced axes.
func reduce(n *Node, s *sheet) bool {
	gone := n.reduced()
	if gone == nil || !n.without(s, gone) {
		return false
	}
	over, axes, count := map[letter]bool{}, []int64{}, int64(1)
	for k, is := range gone {
		if is {
			over[s.in[0][k]] = true
			axes, count = append(axes, int64(k)), count*n.length(0, k)
		}
	}
	elem := n.In[0].Elem
	switch n.Op {
	case "ReduceSum", "ReduceSumSquare", "ReduceL1":
		s.sum = &adder{Sum{By: "Add"}, over}
	case "ReduceMax":
		s.sum = &adder{Sum{By: "Max"}, over}
	case "ReduceMin":
		s.sum = &adder{Sum{By: "Min"}, over}
	case "ReduceMean":
		if divides(elem) {
			s.sum = &adder{Sum{By: "Add", Mean: true, Count: count, Change: n.toReduceSum(axes)}, over}
		}
	}
	if elem == graph.Bool {
		s.sum = nil
	}
	return true
}

// arg looks for a place along one axis.
func arg(n *Node, s *sheet) bool {
	gone := make([]bool, len(s.in[0]))
	k := n.axis("axis", 0, len(gone))
	if k == Whole {
		return false
	}
	gone[k] = true
	if !n.without(s, gone) {
		return false
	}
	s.in[0][k] = 0
	return true
}

// loss: scores are [n c d1 d2...], labels [n d1 d2...]. Without a reduction the losses
// are like the labels, else a sum. A mean whose labels have weights, or may be ignored,
// is divided by what depends on data.
func loss(n *Node, s *sheet) bool {
	if len(n.In) < 2 || len(s.in[1])+1 != len(s.in[0]) {
		return false
	}
	each(s.in[1], 1)
	spread := func(list []letter) {
		for k, l := range s.in[1] {
			if k > 0 {
				k++
			}
			list[k] = l
		}
	}
	spread(s.in[0])
	reduction := n.text("reduction", "mean")
	if reduction == "none" {
		if len(s.out[0]) != len(s.in[1]) {
			return false
		}
		copy(s.out[0], s.in[1])
		if n.made(1) {
			if len(s.out[1]) != len(s.in[0]) {
				return false
			}
			spread(s.out[1])
		}
		return true
	}
	if n.made(1) {
		return true
	}
	over, count := map[letter]bool{}, int64(1)
	for k, l := range s.in[1] {
		over[l] = true
		count *= n.length(1, k)
	}
	switch {
	case reduction == "sum":
		s.sum = &adder{Sum{By: "Add"}, over}
	case !n.has(2) && n.Attr("ignore_index") == nil && divides(n.In[0].Elem):
		change := Change{Attrs: []*graph.Attr{{Name: "reduction", Type: graph.AttrString, String: "sum"}}}
		s.sum = &adder{Sum{By: "Add", Mean: true, Count: count, Change: change}, over}
	}
	return true
}

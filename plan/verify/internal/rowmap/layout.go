package rowmap

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

func init() {
	register(reshape, "Reshape")
	register(regroup, "Flatten", "Unsqueeze")
	register(squeeze, "Squeeze")
	register(transpose, "Transpose")
	register(depthToSpace, "DepthToSpace")
	register(spaceToDepth, "SpaceToDepth")
	register(concat, "Concat")
	register(slice, "Slice")
	register(pad, "Pad")
}

// regroup: the elements keep their order. Two axes belong together if as many elements
// of both shapes stand before them. [2 6 5] and [2 3 2 5] share the blocks that the 2
// divides the elements into, and three rows of the one are the six of the other. Axes of
// one element stand for nothing.
func regroup(n *Node, s *sheet) bool {
	x, y := n.In[0].Shape, n.Out[0].Shape
	before, at := int64(1), map[int64]int{} // by the number of blocks: the axis of x that divides them
	for k, d := range x {
		if d > 1 {
			at[before] = k
		}
		before *= d
	}
	before = 1
	for k, d := range y {
		if from, there := at[before]; there && d > 1 {
			l := letter(k + 1)
			s.out[0][k], s.in[0][from] = l, l
			whole := divisor(x[from], d)
			s.rows[place{0, from}] = Rows{Mul: x[from] / whole, Div: d / whole}
		}
		before *= d
	}
	return before > 0
}

// divisor is the largest number that divides both.
func divisor(a, b int64) int64 {
	for b > 0 {
		a, b = b, a%b
	}
	return max(a, 1)
}

// reshape: a copy states its shape.
func reshape(n *Node, s *sheet) bool {
	if !regroup(n, s) {
		return false
	}
	for _, l := range s.out[0] {
		s.changes[l] = func(axis int, lo, hi int64) Change {
			c := n.states("shape", 1, n.shapeBut(axis, hi-lo))
			c.Drop = []string{"allowzero"}
			return c
		}
	}
	return true
}

// squeeze: a copy states the axes, since it may have one row of another axis.
func squeeze(n *Node, s *sheet) bool {
	if !regroup(n, s) {
		return false
	}
	if _, stated, _ := n.integers("axes", 1); stated {
		return true
	}
	axes := []int64{}
	for k, d := range n.In[0].Shape {
		if d == 1 {
			axes = append(axes, int64(k))
		}
	}
	for _, l := range s.out[0] {
		s.changes[l] = func(_ int, _, _ int64) Change {
			if n.Version < 13 {
				return Change{Attrs: []*graph.Attr{ints("axes", axes)}}
			}
			return Change{Inputs: map[int][]int64{1: axes}}
		}
	}
	return true
}

// transpose: [a b c] -> [c b a], or as perm says.
func transpose(n *Node, s *sheet) bool {
	each(s.in[0], 1)
	rank := len(s.in[0])
	perm := make([]int64, rank)
	for k := range perm {
		perm[k] = int64(rank - 1 - k)
	}
	if a := n.Attr("perm"); a != nil {
		perm = a.Ints
	}
	if len(perm) != rank || len(s.out[0]) != rank {
		return false
	}
	for k, p := range perm {
		from := axisOf(p, rank)
		if from == Whole {
			return false
		}
		s.out[0][k] = s.in[0][from]
	}
	return true
}

// depthToSpace: rows and columns by whole blocks; channels if the blocks of a channel
// stand beside each other (CRD).
func depthToSpace(n *Node, s *sheet) bool {
	block := n.integer("blocksize", 0)
	if block < 1 || len(s.in[0]) != 4 || !likeFirst(n, s) {
		return false
	}
	if n.text("mode", "DCR") != "CRD" {
		drop(s, 1)
	} else {
		s.rows[place{0, 1}] = Rows{Mul: block * block, Div: 1}
	}
	s.rows[place{0, 2}], s.rows[place{0, 3}] = Rows{Mul: 1, Div: block}, Rows{Mul: 1, Div: block}
	return true
}

// spaceToDepth: rows and columns.
func spaceToDepth(n *Node, s *sheet) bool {
	block := n.integer("blocksize", 0)
	if block < 1 || len(s.in[0]) != 4 || !likeFirst(n, s) {
		return false
	}
	drop(s, 1)
	s.rows[place{0, 2}], s.rows[place{0, 3}] = Rows{Mul: block, Div: 1}, Rows{Mul: block, Div: 1}
	return true
}

// concat: along its own axis, a copy reads the inputs that have some of its rows.
func concat(n *Node, s *sheet) bool {
	along, off := n.axis("axis", 1, len(s.out[0])), int64(0)
	if along == Whole {
		return false
	}
	each(s.out[0], 1)
	for i, a := range n.In {
		if !a.Present || len(a.Shape) != len(s.out[0]) {
			return false
		}
		each(s.in[i], 1)
		s.rows[place{i, along}] = Rows{Mul: 1, Div: 1, Before: off, After: -off, MayBeNone: true}
		off += a.Shape[along]
	}
	return true
}

// slice: along an axis that it cuts with a positive step, a copy reads from its first
// row to its last one, and states that it wants all of these.
func slice(n *Node, s *sheet) bool {
	var lists [4][]int64
	for i, name := range []string{"starts", "ends", "axes", ""} {
		list, stated, known := n.integers(name, i+1)
		if !known || i < 2 && !stated || i > 0 && stated && len(list) != len(lists[0]) {
			return false
		}
		lists[i] = list
	}
	if !likeFirst(n, s) || len(lists[0]) > len(s.in[0]) {
		return false
	}
	for i := range lists[0] {
		axis, start, end, step := i, lists[0][i], lists[1][i], int64(1)
		if len(lists[2]) > 0 {
			axis = axisOf(lists[2][i], len(s.in[0]))
		}
		if len(lists[3]) > 0 {
			step = lists[3][i]
		}
		if axis == Whole {
			return false
		}
		if start == 0 && end == math.MaxInt64 && step == 1 {
			continue
		}
		if step < 1 {
			drop(s, axis)
			continue
		}
		if start < 0 {
			start += n.length(0, axis)
		}
		first := min(max(start, 0), n.length(0, axis))
		s.rows[place{0, axis}] = Rows{Mul: step, Div: 1, Before: -first, After: first - step + 1}
		s.changes[s.out[0][axis]] = func(_ int, lo, hi int64) Change {
			starts, ends := slices.Clone(lists[0]), slices.Clone(lists[1])
			starts[i], ends[i] = 0, (hi-lo-1)*step+1
			if n.Attr("starts") != nil {
				return Change{Attrs: []*graph.Attr{ints("starts", starts), ints("ends", ends)}}
			}
			c := Change{Inputs: map[int][]int64{1: starts, 2: ends}}
			for k := 2; k < 4; k++ {
				if n.has(k + 1) { // of one element type with the others
					c.Inputs[k+1] = lists[k]
				}
			}
			return c
		}
	}
	return true
}

// pad: along an axis that is padded with a constant, a copy has the padding that its
// rows lie in.
func pad(n *Node, s *sheet) bool {
	name := "pads"
	if n.Version < 2 {
		name = "paddings"
	}
	all, stated, known := n.integers(name, 1)
	rank := len(s.in[0])
	if !stated || !likeFirst(n, s) {
		return false
	}
	axes := make([]int64, rank)
	for k := range axes {
		axes[k] = int64(k)
	}
	if list, stated, known := n.integers("", 3); stated {
		if axes = list; !known {
			return false
		}
	}
	if !known || len(all) != 2*len(axes) {
		return false
	}
	for i, a := range axes {
		axis := axisOf(a, rank)
		if axis == Whole {
			return false
		}
		begin, end := all[i], all[i+len(axes)]
		if begin == 0 && end == 0 {
			continue
		}
		if n.text("mode", "constant") != "constant" {
			drop(s, axis)
			continue
		}
		length := n.length(0, axis)
		s.rows[place{0, axis}] = Rows{Mul: 1, Div: 1, Before: begin, After: -begin}
		s.changes[s.out[0][axis]] = func(_ int, lo, hi int64) Change {
			own := slices.Clone(all)
			own[i], own[i+len(axes)] = max(0, begin-lo), max(0, hi-begin-length)
			return n.states(name, 1, own)
		}
	}
	return true
}

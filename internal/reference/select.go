package reference

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

var selectOperators = []operator{
	{"TopK", topK},
	{"ArgMax", argExtreme(1)},
	{"ArgMin", argExtreme(-1)},
	{"NonZero", func(c *call) []*Tensor {
		x := c.x(0)
		var found [][]int
		each(x.Shape, func(at []int) {
			if x.real(index(x.Shape, at)) != 0 {
				found = append(found, slices.Clone(at))
			}
		})
		y := zeros(graph.Int64, []int{len(x.Shape), len(found)})
		for j, at := range found {
			for k, p := range at {
				y.I[k*len(found)+j] = int64(p)
			}
		}
		return one(y)
	}},
	{"OneHot", func(c *call) []*Tensor {
		at, depth := c.x(0), int(c.x(1).real(0))
		axis := wrapAxis(c.int("axis", -1), len(at.Shape)+1)
		shape := slices.Insert(slices.Clone(at.Shape), axis, depth)
		from := make([]int, 0, size(shape))
		each(shape, func(p []int) {
			label := int(at.real(index(at.Shape, slices.Delete(slices.Clone(p), axis, axis+1))))
			hit := 0
			if label == p[axis] || label+depth == p[axis] {
				hit = 1
			}
			from = append(from, hit)
		})
		return one(c.x(2).pick(shape, from))
	}},
	{"Trilu", func(c *call) []*Tensor {
		x, k := c.x(0), 0
		if c.x(1) != nil {
			k = int(c.x(1).I[0])
		}
		upper := c.int("upper", 1) != 0
		r := len(x.Shape)
		return one(x.moved(x.Shape, func(at, src []int) bool {
			copy(src, at)
			d := at[r-1] - at[r-2] - k
			return upper && d >= 0 || !upper && d <= 0
		}))
	}},
	{"Compress", func(c *call) []*Tensor {
		x, keep := c.x(0), c.x(1)
		axis := 0
		if !c.has("axis") {
			x = x.shaped(size(x.Shape))
		} else {
			axis = c.axis("axis", 0, len(x.Shape))
		}
		var kept []int
		for i, v := range keep.I {
			if v != 0 && i < x.Shape[axis] {
				kept = append(kept, i)
			}
		}
		shape := slices.Clone(x.Shape)
		shape[axis] = len(kept)
		return one(x.moved(shape, func(at, src []int) bool {
			copy(src, at)
			src[axis] = kept[at[axis]]
			return true
		}))
	}},
	{"NonMaxSuppression", nonMaxSuppression},
}

// rows visits the lines of a tensor along an axis: the numbers of their
// elements, and of the line itself when the axis has length 1.
func rows(shape []int, axis int, visit func(line []int, number int)) {
	outer := slices.Clone(shape)
	outer[axis] = 1
	number := 0
	each(outer, func(at []int) {
		line := make([]int, shape[axis])
		p := slices.Clone(at)
		for k := range line {
			p[axis] = k
			line[k] = index(shape, p)
		}
		visit(line, number)
		number++
	})
}

// topK: equal elements stand in the order of their indices.
func topK(c *call) []*Tensor {
	x := c.x(0)
	axis := c.axis("axis", -1, len(x.Shape))
	k := c.int("k", 0)
	if c.version >= 10 {
		k = int(c.x(1).I[0])
	}
	largest := c.int("largest", 1) != 0
	shape := slices.Clone(x.Shape)
	shape[axis] = k
	values, at := zeros(x.Type, shape), zeros(graph.Int64, shape)
	var to [][]int
	rows(shape, axis, func(line []int, _ int) { to = append(to, line) })
	rows(x.Shape, axis, func(line []int, number int) {
		order := make([]int, len(line))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			o := x.order(line[a], x, line[b])
			switch {
			case o == 2:
				return 0
			case largest:
				return -o
			}
			return o
		})
		for j, target := range to[number] {
			values.copy(target, x, line[order[j]])
			at.I[target] = int64(order[j])
		}
	})
	return []*Tensor{values, at}
}

// argExtreme is the index of the first, or the last, element whose order to
// others is better.
func argExtreme(better int) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		x := c.x(0)
		axis := c.axis("axis", 0, len(x.Shape))
		shape := slices.Clone(x.Shape)
		shape[axis] = 1
		y := zeros(graph.Int64, shape)
		last := c.int("select_last_index", 0) != 0
		rows(x.Shape, axis, func(line []int, number int) {
			best := 0
			for k := range line {
				if o := x.order(line[k], x, line[best]); o == better || last && o == 0 {
					best = k
				}
			}
			y.I[number] = int64(best)
		})
		if c.int("keepdims", 1) == 0 {
			return one(y.shaped(slices.Delete(shape, axis, axis+1)...))
		}
		return one(y)
	}
}

// nonMaxSuppression picks boxes of each class of each image by their scores, the
// best first, but for those that cover one already picked by more than a
// threshold.
func nonMaxSuppression(c *call) []*Tensor {
	boxes, scores := c.x(0), c.x(1)
	input := func(i int, otherwise float64) float64 {
		if c.x(i) == nil || size(c.x(i).Shape) == 0 {
			return otherwise
		}
		return c.x(i).real(0)
	}
	most, threshold, least := input(2, 0), input(3, 0), input(4, math.Inf(-1))
	if threshold < 0 || threshold > 1 {
		fail("a threshold of %v", threshold)
	}
	corner := func(image, i int) (y1, x1, y2, x2 float64) {
		b := boxes.F[(image*boxes.Shape[1]+i)*4:][:4]
		if c.int("center_point_box", 0) != 0 {
			return b[1] - b[3]/2, b[0] - b[2]/2, b[1] + b[3]/2, b[0] + b[2]/2
		}
		return min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])
	}
	covers := func(image, i, j int) bool {
		y1, x1, y2, x2 := corner(image, i)
		v1, u1, v2, u2 := corner(image, j)
		both := max(min(y2, v2)-max(y1, v1), 0) * max(min(x2, u2)-max(x1, u1), 0)
		return both > 0 && both/((y2-y1)*(x2-x1)+(v2-v1)*(u2-u1)-both) > threshold
	}
	var picked []int64
	for image := range scores.Shape[0] {
		for class := range scores.Shape[1] {
			s := scores.F[(image*scores.Shape[1]+class)*scores.Shape[2]:][:scores.Shape[2]]
			var order, chosen []int
			for i, v := range s {
				if v > least {
					order = append(order, i)
				}
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s[b], s[a]) })
			for _, i := range order {
				if float64(len(chosen)) < most && !slices.ContainsFunc(chosen, func(j int) bool { return covers(image, i, j) }) {
					chosen = append(chosen, i)
					picked = append(picked, int64(image), int64(class), int64(i))
				}
			}
		}
	}
	return one(Ints([]int{len(picked) / 3, 3}, picked...))
}

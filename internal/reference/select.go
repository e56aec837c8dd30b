package reference

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// selectOperators select elements, or find their positions, by value.
var selectOperators = []operator{
	{"TopK", topK},
	{"ArgMax", argExtreme(1)},
	{"ArgMin", argExtreme(-1)},
	{"NonZero", func(c *evaluation) []*Tensor {
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
	{"Unique", unique},
	{"OneHot", func(c *evaluation) []*Tensor {
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
	{"Compress", func(c *evaluation) []*Tensor {
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
}

// rows visits the lines of a tensor along an axis: the indices of their elements, and the
// index of the line in the tensor whose axis has length 1.
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

// topK selects the k largest or smallest elements; equal elements keep the order of
// their indices.
func topK(c *evaluation) []*Tensor {
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

// argExtreme returns the index of the first, or the last, extreme element.
func argExtreme(better int) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
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

// unique finds the distinct slices along an axis, or the distinct elements: each is
// compared with those found before it.
func unique(c *evaluation) []*Tensor {
	x, axis := c.x(0), 0
	if c.has("axis") {
		axis = c.axis("axis", 0, len(x.Shape))
	} else {
		x = x.shaped(size(x.Shape))
	}
	n := x.Shape[axis]
	lines := make([][]int, n) // the elements of each slice
	each(x.Shape, func(at []int) { lines[at[axis]] = append(lines[at[axis]], index(x.Shape, at)) })
	compare := func(i, j int) int {
		for k, a := range lines[i] {
			if d := x.ascending(a, lines[j][k]); d != 0 {
				return d
			}
		}
		return 0
	}
	var first []int // of the slices that are equal
	for i := range n {
		if !slices.ContainsFunc(first, func(j int) bool { return compare(i, j) == 0 }) {
			first = append(first, i)
		}
	}
	if c.int("sorted", 1) != 0 {
		slices.SortFunc(first, compare)
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = len(first)
	from := make([]int, 0, size(shape))
	each(shape, func(at []int) {
		p := slices.Clone(at)
		p[axis] = first[at[axis]]
		from = append(from, index(x.Shape, p))
	})
	places, number, counts := zeros(graph.Int64, []int{len(first)}), zeros(graph.Int64, []int{n}), zeros(graph.Int64, []int{len(first)})
	for i := range n {
		g := slices.IndexFunc(first, func(j int) bool { return compare(i, j) == 0 })
		number.I[i] = int64(g)
		counts.I[g]++
		places.I[g] = int64(first[g])
	}
	return []*Tensor{x.pick(shape, from), places, number, counts}
}

// ascending compares two elements. A NaN equals any other and is greater than all numbers.
func (x *Tensor) ascending(i, j int) int {
	if x.I != nil {
		if x.Type == graph.Uint64 {
			return cmp.Compare(uint64(x.I[i]), uint64(x.I[j]))
		}
		return cmp.Compare(x.I[i], x.I[j])
	}
	return -cmp.Compare(-x.F[i], -x.F[j]) // cmp puts NaN first
}

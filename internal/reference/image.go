package reference

import (
	"cmp"
	"math"
	"slices"
)

// imageOperators decode images and select boxes in them.
var imageOperators = []operator{
	{"NonMaxSuppression", nonMaxSuppression},
}

// nonMaxSuppression selects boxes of each class of each image by descending score. It
// skips boxes whose overlap with a selected one exceeds a threshold.
func nonMaxSuppression(c *evaluation) []*Tensor {
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

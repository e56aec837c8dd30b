package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// images lists the operators that select boxes in images.
var images = family{"", []Kernel{
	{Name: "NonMaxSuppression", Make: makeNonMaxSuppression, Finds: true},
}}

// makeNonMaxSuppression selects, for each image and class, boxes in descending order of
// score, skipping each box that overlaps a selected one by more than a threshold.
func makeNonMaxSuppression(c *Invocation) (Run, error) {
	boxes, scores := c.In[0], c.In[1]
	center := c.Int("center_point_box", 0) != 0
	return func(*work.Pool) error {
		most, overlap, least := 0, float32(0), float32(math.Inf(-1))
		if c.Has(2) && c.In[2].Len() > 0 {
			most = int(data[int64](c.In[2])[0])
		}
		if c.Has(3) && c.In[3].Len() > 0 {
			overlap = data[float32](c.In[3])[0]
		}
		if c.Has(4) && c.In[4].Len() > 0 {
			least = data[float32](c.In[4])[0]
		}
		if !(overlap >= 0 && overlap <= 1) {
			return fmt.Errorf("input 3: the overlap is %v, expected a number in [0, 1]", overlap)
		}
		images, classes, n := scores.Shape[0], scores.Shape[1], scores.Shape[2]
		if n == 0 {
			images = 0 // without boxes there is nothing to do, however many images
		}
		var kept []int64
		order, chosen := numbersOf[int](c, n)[:0], numbersOf[int](c, n)[:0]
		m := meter{c: c}
		for image := range images {
			all := data[float32](boxes)[image*n*4 : (image+1)*n*4]
			for class := range classes {
				s := data[float32](scores)[(image*classes+class)*n:][:n]
				order = order[:0]
				for i, v := range s {
					m.add(1)
					if v > least {
						order = append(order, i)
					}
				}
				slices.SortStableFunc(order, func(a, b int) int {
					m.add(8)
					return -order2(s[a], s[b])
				})
				chosen = chosen[:0]
				for _, i := range order {
					if len(chosen) >= most {
						break
					}
					m.add(8 * len(chosen))
					if !slices.ContainsFunc(chosen, func(j int) bool { return intersection(all[4*i:], all[4*j:], center) > overlap }) {
						chosen = append(chosen, i)
						if len(kept)+3 > cap(kept) {
							kept = append(numbersOf[int64](c, max(3<<10, 2*cap(kept)))[:0], kept...)
						}
						kept = append(kept, int64(image), int64(class), int64(i))
					}
				}
			}
		}
		if err := c.Runtime.Resize(0, []int{len(kept) / 3, 3}); err != nil {
			return err
		}
		copy(data[int64](c.Out[0]), kept)
		return nil
	}, nil
}

// order2 compares two numbers: it returns -1, 0 or 1. NaN is equal to every number.
func order2(a, b float32) int {
	if o := order(a, b); o != unordered {
		return o
	}
	return 0
}

// intersection is the intersection of two boxes over their union.
func intersection(a, b []float32, center bool) float32 {
	y1, x1, y2, x2 := corners(a, center)
	v1, u1, v2, u2 := corners(b, center)
	h, w := min(y2, v2)-max(y1, v1), min(x2, u2)-max(x1, u1)
	if h <= 0 || w <= 0 {
		return 0
	}
	both := h * w
	union := (y2-y1)*(x2-x1) + (v2-v1)*(u2-u1) - both
	if union <= 0 {
		return 0
	}
	return both / union
}

func corners(b []float32, center bool) (y1, x1, y2, x2 float32) {
	if center {
		return b[1] - b[3]/2, b[0] - b[2]/2, b[1] + b[3]/2, b[0] + b[2]/2
	}
	return min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])
}

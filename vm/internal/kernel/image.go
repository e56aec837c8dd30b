package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
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
		if n > math.MaxUint32 {
			return fmt.Errorf("input 1: %d boxes, expected at most %d", n, math.MaxUint32)
		}
		most = min(max(most, 0), n)
		if most == 0 {
			images = 0 // there is nothing to do, however many images
		}
		var kept []int64
		queue := numbersOf[uint64](c, n)
		selected := newSelected(c, most)
		m := c.Meter()
		for image := range images {
			all := data[float32](boxes)[image*n*4 : (image+1)*n*4]
			for class := range classes {
				left := rank(&m, queue, data[float32](scores)[(image*classes+class)*n:][:n], least)
				selected.n = 0
				for selected.n < most && len(left) > 0 {
					i := int(uint32(left[0]))
					left = left.pop()
					m.Add(selected.n + 32)
					if !selected.take(all[4*i:], center, overlap) {
						continue
					}
					if len(kept)+3 > cap(kept) {
						kept = append(numbersOf[int64](c, max(3<<10, 2*cap(kept)))[:0], kept...)
					}
					kept = append(kept, int64(image), int64(class), int64(i))
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

// ranking is a heap of scores, the highest first: few are asked for where few boxes may be
// selected. An entry holds a score in its high 32 bits, mapped to an integer that falls as
// the score rises, and the index of the score in its low 32 bits. So of equal scores the
// one with the smallest index comes first.
type ranking []uint64

// rank makes a ranking of the scores above least in room.
func rank(m *form.Meter, room []uint64, scores []float32, least float32) ranking {
	r := ranking(room[:0])
	for i, v := range scores {
		m.Add(1)
		if v > least { // and so not NaN
			r = append(r, uint64(falling(v))<<32|uint64(i))
		}
	}
	for i := len(r)/2 - 1; i >= 0; i-- {
		m.Add(4)
		r.sink(i)
	}
	return r
}

// pop removes the first entry.
func (r ranking) pop() ranking {
	last := len(r) - 1
	r[0] = r[last]
	r = r[:last]
	r.sink(0)
	return r
}

// sink moves entry i down until none of its children comes before it.
func (r ranking) sink(i int) {
	if i >= len(r) {
		return
	}
	for e := r[i]; ; {
		child := 2*i + 1
		if child >= len(r) {
			r[i] = e
			return
		}
		if next := child + 1; next < len(r) && r[next] < r[child] {
			child = next
		}
		if e < r[child] {
			r[i] = e
			return
		}
		r[i], i = r[child], child
	}
}

// falling maps numbers to integers in reverse order; -0 and 0 are equal.
func falling(v float32) uint32 {
	b := math.Float32bits(v + 0)
	if b>>31 != 0 {
		return b
	}
	return ^b &^ (1 << 31)
}

// selected lists n boxes that have been selected, in blocks of eight, with their areas.
type selected struct {
	n      int
	blocks []simd.BoxBlock
	areas  []float32
}

func newSelected(c *Invocation, most int) *selected {
	s := &selected{areas: numbersOf[float32](c, most)}
	if n := cuts(most, 8); n > 0 {
		s.blocks = span[simd.BoxBlock](unsafe.Pointer(unsafe.SliceData(numbersOf[float32](c, mul(32, n)))), n)
	}
	return s
}

// take selects a box, unless its intersection with a selected one, over their union,
// exceeds a threshold. Most boxes are apart, which comparisons alone show.
func (s *selected) take(box []float32, center bool, threshold float32) bool {
	y1, x1, y2, x2 := min(box[0], box[2]), min(box[1], box[3]), max(box[0], box[2]), max(box[1], box[3])
	if center {
		y1, x1, y2, x2 = box[1]-box[3]/2, box[0]-box[2]/2, box[1]+box[3]/2, box[0]+box[2]/2
	}
	b, area := [4]float32{y1, x1, y2, x2}, (y2-y1)*(x2-x1)
	used := s.blocks[:cuts(s.n, 8)]
	for i := simd.Meeting(used, &b); i < len(used); i += 1 + simd.Meeting(used[i+1:], &b) {
		o := &used[i]
		for k := range min(8, s.n-8*i) {
			h, w := min(y2, o[2][k])-max(y1, o[0][k]), min(x2, o[3][k])-max(x1, o[1][k])
			if h <= 0 || w <= 0 {
				continue
			}
			both := h * w
			if union := area + s.areas[8*i+k] - both; both/union > threshold && !(union <= 0) {
				return false
			}
		}
	}
	k := s.n % 8
	if k == 0 { // no box meets one of NaN
		fill(unsafe.Slice(&s.blocks[s.n/8][0][0], 32), float32(math.NaN()))
	}
	for side, v := range b {
		s.blocks[s.n/8][side][k] = v
	}
	s.areas[s.n] = area
	s.n++
	return true
}

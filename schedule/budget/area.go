package budget

import "slices"

// area holds, for one size, the prefix sums of min(size, load - limit) over the hot
// positions.
type area struct {
	swept int32 // the number of the plan, see sweep.swept
	sums  []float64
}

// hotArea returns the sum of min(size of t, load - limit) over the hot positions
// strictly between two positions: freeing t there lowers the excess by that much.
// It takes O(log) time, and one pass over the hot positions for each size and plan.
func (s *sweep) hotArea(t, from, to int32) float64 {
	a := &s.areas[s.class[t]]
	if a.swept != s.swept {
		a.swept = s.swept
		a.sums = append(a.sums[:0], 0)
		size, sum := s.sizes[s.class[t]], 0.0
		for _, k := range s.hot {
			sum += float64(min(size, s.load[k]-s.limit))
			a.sums = append(a.sums, sum)
		}
		s.count(len(s.hot))
	}
	i, j := s.hotBetween(from, to)
	return a.sums[j] - a.sums[i]
}

// hotBytes returns an upper bound on what holding t strictly between two positions
// adds to the excess.
func (s *sweep) hotBytes(t, from, to int32) float64 {
	i, j := s.hotBetween(from, to)
	return float64(s.size[t]) * float64(j-i)
}

func (s *sweep) hotBetween(from, to int32) (i, j int) {
	i, _ = slices.BinarySearch(s.hot, from+1)
	j, _ = slices.BinarySearch(s.hot, to)
	return i, max(i, j)
}

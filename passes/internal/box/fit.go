package box

import "cmp"

// Fit says how much an order, or its placement, takes.
type Fit struct {
	Above int64   // bytes of the corner above a limit
	Worst float64 // bytes / lower bound, at the point where it is largest
}

// Ratio is bytes / bound; 1 if both are 0.
func Ratio(bytes, bound int64) float64 { return float64(max(1, bytes)) / float64(max(1, bound)) }

// Compare orders fits, the best first.
func (f Fit) Compare(g Fit) int {
	return cmp.Or(cmp.Compare(f.Above, g.Above), cmp.Compare(f.Worst, g.Worst))
}

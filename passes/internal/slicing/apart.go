package slicing

import (
	"slices"

	"github.com/onnxmem/onnxmem/ops"
)

// A region may run in two orders. Slice by slice, each slice takes its rows of the inputs
// and puts those of the outputs into their places, so inputs and outputs are there whole,
// beside what one slice makes. Or apart: first all slices take their rows, of one input
// after the other, and the inputs die. Then each slice frees its rows of the inputs and
// leaves rows of the outputs, which are put together at the end. Where inputs, those of the
// graph included, die with the region, the loads are first an input twice, then the inputs
// or the outputs beside what one slice makes, then an output twice.
//
// Both orders are of the same graph, so this is about estimates alone: the search for an
// order finds the better one, or one between them.

// apart is what the estimates of a region that runs apart share.
type apart struct {
	early   []int // the places of inputs that may die when all slices have taken their rows
	rest    int64 // a bound on what is live while slices run beside rows of inputs and outputs, in bytes
	least   int64 // a bound on the load for any number of slices, in bytes
	rows    int64 // bytes of the outputs that slices make row by row
	largest int64 // and of the largest of them
	sums    int64 // bytes of the other outputs
}

// apartCounts are the numbers of slices that are tried for regions that run apart. With
// more, the rows that neighbours share take too many bytes. Counts has all of them.
var apartCounts = []int{2, 3, 4, 6, 8}

// runApart returns the fewest slices that bring the window below the limit if the region
// runs apart, if they take less than that extra time; nil if there are none.
func (c *candidate) runApart(limit int64, extra float64) *Choice {
	if c.parts == nil {
		c.parts = c.newApart()
	}
	if len(c.parts.early) == 0 || c.parts.least > limit {
		return nil
	}
	if last := c.measured(slices.Index(Counts, apartCounts[len(apartCounts)-1])); last.possible && c.parts.rest+last.inner > limit {
		return nil
	}
	for _, k := range apartCounts {
		m := c.measured(slices.Index(Counts, k))
		if m.extra >= extra {
			break
		}
		if !m.possible || c.peakApart(m, k) > limit {
			continue
		}
		if t := (&Choice{Region: c.Region, Slices: k, Peak: c.peakApart(m, k), Extra: m.extra + c.rooms(nil)}); t.Extra < extra {
			return t
		}
		break
	}
	return nil
}

func (c *candidate) newApart() *apart {
	a := &apart{rest: c.held}
	for j, x := range c.Inputs {
		if c.endsHere(x, func(axis int) bool { return axis != ops.Whole }) {
			a.early = append(a.early, j)
			a.rest -= c.p.whole(x)
		}
	}
	for _, t := range c.Outputs {
		bytes := c.p.whole(t)
		if _, rows := c.axis[t]; rows {
			a.rows += bytes
			a.largest = max(a.largest, bytes)
		} else {
			a.sums += bytes
		}
	}
	a.rest += a.sums
	a.least = max(c.held, a.rest+a.rows+a.largest, c.other)
	return a
}

// peakApart returns the estimated load of the window in bytes if the region runs apart in
// k slices.
func (c *candidate) peakApart(m *measure, k int) int64 {
	parts, most, rest := int64(0), int64(0), c.held // of the inputs that die early: rows of all slices, and of the largest
	for _, j := range c.parts.early {
		if m.taken[j] > 0 {
			rest -= c.p.whole(c.Inputs[j])
			parts += m.taken[j]
			most = max(most, m.taken[j])
		}
	}
	rest += c.parts.sums
	left := max(parts, c.parts.rows) / int64(k) * int64(k-1)
	return max(c.held+most, rest+left+m.inner, rest+c.parts.rows+c.parts.largest, c.other)
}

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
	early   []early // inputs that may die when all slices have taken their rows
	rest    int64   // a bound on what is live while slices run beside rows of inputs and outputs, in bytes
	least   int64   // a bound on the load for any number of slices, in bytes
	rows    int64   // bytes of the outputs that slices make row by row
	largest int64   // and of the largest of them
	sums    int64   // bytes of the other outputs
}

// early is the place of an input in the list, and its bytes.
type early struct {
	input int
	bytes int64
}

// apartCounts are the numbers of slices that are tried for regions that run apart. With
// more, the rows that neighbours share take too many bytes. Counts has all of them.
var apartCounts = []int{2, 3, 4, 6, 8}

// runApart returns the fewest slices that bring the window below the limit if the region
// runs apart, if they take less than that extra time.
func (c *candidate) runApart(limit int64, extra float64) estimate {
	none := estimate{x: -1}
	if c.parts == nil || c.parts.least > limit {
		return none
	}
	if last := c.measured(slices.Index(Counts, apartCounts[len(apartCounts)-1])); last.possible && c.parts.rest+last.inner > limit {
		return none
	}
	for _, k := range apartCounts {
		x := slices.Index(Counts, k)
		m := c.measured(x)
		if m.extra >= extra {
			break
		}
		if !m.possible || c.peakApart(m, k) > limit {
			continue
		}
		if e := (estimate{x: x, peak: c.peakApart(m, k), extra: m.extra + c.rooms, apart: true}); e.extra < extra {
			return e
		}
		break
	}
	return none
}

// apart returns what the estimates share if the region runs apart; nil if no input dies early.
func (r *Region) apart(f frame) *apart {
	a := &apart{rest: f.held}
	for j, x := range r.Inputs {
		if r.endsHere(x, func(axis int) bool { return axis != ops.Whole }) {
			a.early = append(a.early, early{j, r.p.whole(x)})
			a.rest -= r.p.whole(x)
		}
	}
	if len(a.early) == 0 {
		return nil
	}
	for _, t := range r.Outputs {
		bytes := r.p.whole(t)
		if _, rows := r.axisOf(t); rows {
			a.rows += bytes
			a.largest = max(a.largest, bytes)
		} else {
			a.sums += bytes
		}
	}
	a.rest += a.sums
	a.least = max(f.held, a.rest+a.rows+a.largest, f.other)
	return a
}

// peakApart returns the estimated load of the window in bytes, as the candidate's, if the
// region runs apart in k slices.
func (c *candidate) peakApart(m *measure, k int) int64 {
	parts, most, rest := int64(0), int64(0), c.held // of the inputs that die early: rows of all slices, and of the largest
	for _, in := range c.parts.early {
		if took := m.taken[in.input]; took > 0 {
			rest -= in.bytes
			parts += took
			most = max(most, took)
		}
	}
	rest += c.parts.sums
	left := max(parts, c.parts.rows) / int64(k) * int64(k-1)
	return max(c.held+most, rest+left+m.inner, rest+c.parts.rows+c.parts.largest, c.other)
}

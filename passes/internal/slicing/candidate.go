package slicing

import (
	"math"

	"github.com/onnxmem/onnxmem/internal/cost"
)

// Counts are the numbers of slices that are tried.
var Counts = []int{2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256}

// candidate is what was estimated of a region. It stands for the regions of all windows that
// are the same ([windows]): its bytes are those beside what lives before, over and behind the
// whole window.
type candidate struct {
	length     int // of the window
	seed, axis int // from which it is found: the place of the seed in the window
	frame
	of    *kind
	may   []stream
	outs  []put
	all   int64   // bytes of the outputs if none is written over an input
	least int64   // and if all are that may be
	rooms float64 // the time to make room for them in nanoseconds, if none is
	most  int     // the index in Counts of the largest number of slices that is possible; -1: none is, -2: not known yet
	parts *apart  // how it runs apart
	tried []estimate
	found [2]answer // to the last questions: slice by slice, and also apart
}

// kind is what regions with one signature share.
type kind struct {
	*Region // one of them
	of      signature
	known   []*measure // by the index in Counts; nil: not known yet
}

// put is an output of a region.
type put struct {
	storage int // its number among those of the outputs
	bytes   int64
	room    float64 // the time to make room for it in nanoseconds
}

// estimate is what a number of slices of a candidate needs and costs.
type estimate struct {
	x     int     // the index in Counts; -1: none meets what was asked for
	peak  int64   // as the candidate's bytes
	extra float64 // nanoseconds
	apart bool
}

// answer is what was chosen for limits, beside what lives over the window.
type answer struct {
	low, high int64 // from low on and below high; both are 0: none is known
	estimate
}

// place is a candidate in one of the windows that it stands for.
type place struct {
	*candidate
	s      *Search
	start  int
	across int64 // bytes that live before, over and behind the window
}

// Pick is a region with a number of slices, by the place where it is found.
type Pick struct {
	Start, End int
	Seed, Axis int
	Slices     int
	Apart      bool    // it is to run apart
	Nodes      int     // how many run in slices
	Peak       int64   // the estimated load of the window, in bytes
	Extra      float64 // estimated extra time in nanoseconds
}

func (s *Search) candidate(r *Region) *candidate {
	of := r.signature()
	c := &candidate{length: r.End - r.Start + 1, seed: r.Seed - r.Start, axis: r.Axis, frame: r.frame(), of: s.kinds[of], may: r.mayStream(), most: -2}
	if c.of == nil {
		c.of = &kind{r, of, make([]*measure, len(Counts))}
		s.kinds[of] = c.of
	}
	storages := map[int32]int{}
	for _, t := range r.Outputs {
		i, known := storages[r.p.Of[t]]
		if !known {
			i = len(storages)
			storages[r.p.Of[t]] = i
		}
		out := put{storage: i, bytes: r.p.whole(t)}
		if _, rows := r.axisOf(t); rows {
			out.room = r.p.Cost(cost.Work{Bytes: float64(r.p.g.Tensors[t].Bytes)})
		}
		c.outs = append(c.outs, out)
	}
	over := make([]bool, len(c.outs))
	c.all, c.rooms = c.put(over)
	for _, m := range c.may {
		over[m.places[0]] = true
	}
	c.least, _ = c.put(over)
	c.parts = r.apart(c.frame)
	return c
}

// put returns the bytes of the outputs but those that are written over an input, and the
// time to make room for them.
func (c *candidate) put(over []bool) (bytes int64, ns float64) {
	for i, out := range c.outs {
		if over[i] {
			continue
		}
		ns += out.room
		first := true
		for j, other := range c.outs[:i] {
			first = first && (over[j] || other.storage != out.storage)
		}
		if first {
			bytes += out.bytes
		}
	}
	return bytes, ns
}

// pick returns the choice of an estimate.
func (c *place) pick(e estimate) *Pick {
	return &Pick{
		Start: c.start, End: c.start + c.length - 1, Seed: c.start + c.seed, Axis: c.axis,
		Slices: Counts[e.x], Apart: e.apart, Nodes: len(c.of.Nodes), Peak: e.peak + c.across, Extra: e.extra,
	}
}

// Choices returns the regions of picks.
func (s *Search) Choices(picks []*Pick) (list []*Choice) {
	for _, q := range picks {
		key := *q
		key.Peak, key.Extra = 0, 0
		c := s.known[key]
		if c == nil {
			r := s.Find(q.Start, q.End, q.Seed, q.Axis)
			c = &Choice{Region: r, Slices: q.Slices, Peak: q.Peak, Extra: q.Extra}
			if !q.Apart {
				c.streams, c.late = r.streams(r.signature(), r.mayStream(), q.Slices)
			}
			s.known[key] = c
		}
		list = append(list, c)
	}
	return list
}

// measured returns what Counts[x] slices need and cost.
func (c *candidate) measured(x int) *measure {
	if c.of.known[x] == nil {
		c.of.known[x] = c.of.measured(c.of.of, Counts[x])
	}
	return c.of.known[x]
}

// choose returns the fewest slices that bring the window below the limit, if they take
// less than that extra time; false if there are none. If apart is set, the region may run
// apart.
func (c *place) choose(limit int64, extra float64, apart bool) (estimate, bool) {
	limit -= c.across
	if max(c.held, c.other) > limit || !apart && c.held+c.least > limit {
		return estimate{}, false
	}
	// The extra time rises with the number of slices, and the peak falls.
	if least := c.measured(0); least.possible && least.extra >= extra {
		return estimate{}, false
	}
	last := &c.found[0]
	if apart {
		last = &c.found[1]
	}
	if limit < last.low || limit >= last.high {
		if *last = c.inTurn(limit); apart {
			most := math.Inf(1)
			if last.x >= 0 {
				most = last.extra
			}
			if e := c.runApart(limit, most); e.x >= 0 {
				last.estimate = e
			}
			last.low, last.high = limit, limit+1
		}
	}
	return last.estimate, last.x >= 0 && last.extra < extra
}

// fastest returns the extra time in nanoseconds below which no number of slices is; negative
// infinity if that is not known yet.
func (c *candidate) fastest() float64 {
	if m := c.of.known[0]; m != nil && m.possible {
		return m.extra
	}
	return math.Inf(-1)
}

// inTurn returns the fewest slices, one after the other, that bring the window below the
// limit.
func (c *candidate) inTurn(limit int64) answer {
	none := answer{limit, limit + 1, estimate{x: -1}}
	if c.held+c.least > limit {
		return none
	}
	c.findMost()
	needs := func(x int) int64 { // the limit
		m := c.measured(x)
		switch {
		case !m.possible:
			return math.MaxInt64
		case c.held+c.least+m.inner > limit:
			return c.held + c.least + m.inner
		}
		return c.at(x).peak
	}
	low, high := 0, c.most
	if high < 0 {
		return none
	}
	most := needs(high)
	if most > limit {
		return answer{math.MinInt64, most, none.estimate}
	}
	// What was asked is answered alike for all limits from the largest need that fits to below the smallest that
	// does not: more slices may need more.
	fits, above := most, int64(math.MaxInt64)
	for low < high {
		mid := (low + high) / 2
		if n := needs(mid); n <= limit {
			high, fits = mid, max(fits, n)
		} else {
			low, above = mid+1, min(above, n)
		}
	}
	return answer{fits, above, c.at(high)}
}

// findMost finds the largest number of slices that is possible.
func (c *candidate) findMost() {
	if c.most == -2 {
		for c.most = len(Counts) - 1; c.most >= 0 && !c.measured(c.most).possible; {
			c.most--
		}
	}
}

// at returns the estimate of Counts[x] slices, which are possible.
func (c *candidate) at(x int) estimate {
	for _, e := range c.tried {
		if e.x == x {
			return e
		}
	}
	m, bytes, rooms := c.measured(x), c.all, c.rooms
	inner := m.inner
	if len(c.may) > 0 {
		over := make([]bool, len(c.outs))
		for _, pair := range c.of.streamsAt(c.of.of, c.may, Counts[x]) {
			over[pair.places[0]] = true
			if k := int64(Counts[x]); pair.late { // the rows of the next slice are there when these are written
				inner = max(inner, m.taken[pair.places[1]]/k+c.of.mostRows(c.of.Outputs[pair.places[0]], int(k)))
			}
		}
		bytes, rooms = c.put(over)
	}
	e := estimate{x: x, peak: max(c.held+bytes+inner, c.other), extra: m.extra + rooms}
	c.tried = append(c.tried, e)
	return e
}

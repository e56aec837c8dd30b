package slicing

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Counts are the numbers of slices that are tried.
var Counts = []int{2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256}

// Search finds regions that bring a program below limits. It keeps what it found, since
// one search serves several limits.
type Search struct {
	*Program
	Reach int // the largest number of nodes of a window

	cut     []int64 // bytes that live over the end of each node
	ends    []int   // nodes at which a window may end
	starts  []int   // and begin
	until   []int   // with owners: the last node behind each that may end a window which begins there
	windows map[[2]int][]*candidate
	whole   []*candidate // of the whole program
}

// candidate is a region with what was estimated of it.
type candidate struct {
	*Region
	frame
	of    signature
	may   []stream
	all   int64           // bytes of the outputs if none is written over an input
	least int64           // and if all are that may be
	parts *apart          // how it runs apart; nil: not known yet
	most  int             // the index in Counts of the largest number of slices that is possible; -1: none is, -2: not known yet
	tried map[int]*Choice // by the number of slices
	known []*measure      // by the index in Counts; nil: not known yet
}

// measured returns what Counts[x] slices need and cost.
func (c *candidate) measured(x int) *measure {
	if c.known == nil {
		c.known = make([]*measure, len(Counts))
	}
	if c.known[x] == nil {
		c.known[x] = c.Region.measured(c.of, Counts[x])
	}
	return c.known[x]
}

// NewSearch prepares a search.
func NewSearch(p *Program, reach int) *Search {
	s := &Search{Program: p, Reach: reach, windows: map[[2]int][]*candidate{}}
	n := len(p.g.Nodes)
	s.cut = make([]int64, n+1) // s.cut[v] is over the boundary before v
	for i := range p.Storages {
		st := &p.Storages[i]
		if st.Resident || st.Last <= st.First {
			continue
		}
		s.cut[st.First+1] += st.Bytes
		s.cut[st.Last+1] -= st.Bytes
	}
	for v := 1; v <= n; v++ {
		s.cut[v] += s.cut[v-1]
	}
	if s.Owners != nil {
		s.until = make([]int, n)
		end, owner := n-1, int32(-1)
		for v := n - 1; v >= 0; v-- {
			if now := s.Owners[v]; now >= 0 {
				if owner >= 0 && now != owner {
					end = v
				}
				owner = now
			}
			s.until[v] = end
		}
	}
	for v := range n {
		// Before a node whose inputs are as large as what lives behind it, such as a Concat, a
		// window may begin although a boundary before it is lower: what makes one of the inputs
		// then runs whole, once.
		if s.low(v) || s.cut[v] <= s.cut[v+1] {
			s.starts = append(s.starts, v)
		}
		if s.low(v + 1) {
			s.ends = append(s.ends, v)
		}
	}
	return s
}

// low reports whether few bytes live over the boundary before node v: no more than over
// one of the boundaries beside it, and less than over some boundary near.
func (s *Search) low(v int) bool {
	if v == 0 || v == len(s.g.Nodes) {
		return true
	}
	return s.cut[v] <= s.cut[v-1] && s.cut[v] <= s.cut[v+1]
}

// at returns the candidates of a window.
func (s *Search) at(from, to int) []*candidate {
	key := [2]int{from, to}
	if list, known := s.windows[key]; known {
		return list
	}
	var list []*candidate
	n := s.g.Nodes[to]
	if len(n.Outputs) > 0 && n.Outputs[0] >= 0 {
		for axis, d := range s.shape(n.Outputs[0]) {
			if d < 2 {
				continue
			}
			if r := s.Find(from, to, to, axis); r != nil {
				list = append(list, s.candidate(r))
			}
		}
	}
	list = append(list, s.pieces(from, to)...)
	s.windows[key] = list
	return list
}

// pieces returns candidates of a window that cut attentions along the axis that a Softmax
// normalises. No other seed finds them, since what such slices make is summed.
func (s *Search) pieces(from, to int) (list []*candidate) {
	if !s.Sums {
		return nil
	}
	for v := from; v <= to; v++ {
		a := s.attention(v)
		if a == nil || a.product > to {
			continue
		}
		seed := s.scores(a)
		if seed < from || s.shape(s.g.Nodes[seed].Outputs[0])[a.axis] < 2 {
			continue
		}
		if r := s.Find(from, to, seed, a.axis); r != nil && len(r.pieced) > 0 {
			list = append(list, s.candidate(r))
		}
	}
	return list
}

// wholeSeeds is the number of nodes from which regions of the whole program are grown.
const wholeSeeds = 20

// entire returns candidates whose window is the whole program: those that are grown from
// the last node and from the nodes with the largest outputs. For a training step, they
// are micro-batches.
func (s *Search) entire() []*candidate {
	if s.whole != nil || len(s.g.Nodes) == 0 || s.Owners != nil {
		return s.whole
	}
	size := func(v int) (bytes int64) {
		for _, t := range s.g.Nodes[v].Outputs {
			if t >= 0 {
				bytes += s.g.Tensors[t].Bytes
			}
		}
		return bytes
	}
	nodes := make([]int, len(s.g.Nodes))
	for v := range nodes {
		nodes[v] = v
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	last := len(s.g.Nodes) - 1
	seen := map[signature]bool{}
	s.whole = []*candidate{}
	for _, v := range append([]int{last}, nodes[:min(wholeSeeds, len(nodes))]...) {
		if n := s.g.Nodes[v]; len(n.Outputs) == 0 || n.Outputs[0] < 0 {
			continue
		}
		for axis := range s.shape(s.g.Nodes[v].Outputs[0]) {
			if r := s.Find(0, last, v, axis); r != nil {
				if c := s.candidate(r); !seen[c.of] {
					seen[c.of] = true
					s.whole = append(s.whole, c)
				}
			}
		}
	}
	return s.whole
}

func (s *Search) candidate(r *Region) *candidate {
	c := &candidate{Region: r, frame: r.frame(), of: r.signature(), may: r.mayStream(), most: -2}
	streams := map[graph.TensorID]graph.TensorID{}
	for _, m := range c.may {
		streams[m.output] = m.input
	}
	c.all, c.least = r.outputs(nil), r.outputs(streams)
	return c
}

// choose returns the fewest slices that bring the window below the limit, if they take
// less than that extra time; nil if there are none. If apart is set, the region may run
// apart.
func (c *candidate) choose(limit int64, extra float64, apart bool) *Choice {
	if max(c.held, c.other) > limit || !apart && c.held+c.least > limit {
		return nil
	}
	// The extra time rises with the number of slices, and the peak falls.
	if least := c.measured(0); least.possible && least.extra >= extra {
		return nil
	}
	if c.most == -2 {
		for c.most = len(Counts) - 1; c.most >= 0 && !c.measured(c.most).possible; {
			c.most--
		}
	}
	fits := func(x int) bool {
		m := c.measured(x)
		switch {
		case !m.possible || c.held+c.least+m.inner > limit:
			return false
		case c.held+c.all+m.inner <= limit:
			return true
		}
		return c.at(x).Peak <= limit
	}
	var best *Choice
	if low, high := 0, c.most; high >= 0 && fits(high) {
		for low < high {
			if mid := (low + high) / 2; fits(mid) {
				high = mid
			} else {
				low = mid + 1
			}
		}
		best = c.at(high)
	}
	if best != nil && best.Extra >= extra {
		best = nil
	}
	if !apart {
		return best
	}
	if best != nil {
		extra = best.Extra
	}
	if t := c.runApart(limit, extra); t != nil {
		return t
	}
	return best
}

// at returns the choice of Counts[x] slices, which are possible.
func (c *candidate) at(x int) *Choice {
	k := Counts[x]
	if t := c.tried[k]; t != nil {
		return t
	}
	m := c.measured(x)
	t := &Choice{Region: c.Region, Slices: k, Extra: m.extra, streams: c.streams(c.of, c.may, k)}
	t.Peak = max(c.held+c.outputs(t.streams)+m.inner, c.other)
	t.Extra += c.rooms(t.streams)
	if c.tried == nil {
		c.tried = map[int]*Choice{}
	}
	c.tried[k] = t
	return t
}

// Cover returns regions with disjoint windows, of the least extra time, such that the load of
// every step outside of them is at most the limit, and their estimated peaks are at most the
// target. It also returns the largest of those loads and of those peaks; false if there are
// no such regions. It is exact for the windows that it looks at: from the first node to each
// node, it keeps the cheapest choice. So the regions are also those for a lower limit and
// target that the loads and the peaks do not exceed. If apart is set, regions may run apart,
// which is estimated to take fewer slices, or the same.
func (s *Search) Cover(ctx context.Context, limit, target int64, apart bool) (list []*Choice, load, peak int64, ok bool) {
	n := len(s.g.Nodes)
	hot := make([]int, n+1) // the number of nodes before v whose load is too large
	for v, load := range s.Loads {
		hot[v+1] = hot[v]
		if load > limit {
			hot[v+1]++
		}
	}
	cost := make([]float64, n+1)
	from := make([]*Choice, n+1)
	for v := range cost {
		cost[v] = math.Inf(1)
	}
	cost[0] = 0
	if hot[n] > 0 {
		for _, c := range s.entire() {
			if t := c.choose(target, cost[n], apart); t != nil {
				cost[n], from[n] = t.Extra, t
			}
		}
	}
	for v := range n {
		if ctx.Err() != nil {
			return nil, 0, 0, false
		}
		if math.IsInf(cost[v], 1) || cost[v] >= cost[n] {
			continue // what lies behind is not cheaper than regions of the whole program
		}
		if hot[v+1] == hot[v] && cost[v] < cost[v+1] {
			cost[v+1], from[v+1] = cost[v], nil
		}
		if _, start := slices.BinarySearch(s.starts, v); !start {
			continue
		}
		first, _ := slices.BinarySearch(s.ends, v)
		for _, e := range s.ends[first:] {
			if e-v >= s.Reach || s.until != nil && e > s.until[v] {
				break
			}
			if s.Owners != nil && s.Owners[e] < 0 {
				continue
			}
			if hot[e+1] == hot[v] || hot[v+1] == hot[v] && hot[min(v+s.Reach/2, n)] == hot[v] {
				continue
			}
			for _, c := range s.at(v, e) {
				if t := c.choose(target, min(cost[e+1], cost[n])-cost[v], apart); t != nil {
					cost[e+1], from[e+1] = cost[v]+t.Extra, t
				}
			}
		}
	}
	if math.IsInf(cost[n], 1) {
		return nil, 0, 0, false
	}
	for v := n; v > 0; {
		if c := from[v]; c != nil {
			list = append(list, c)
			peak = max(peak, c.Peak)
			v = c.Start
		} else {
			v--
			load = max(load, s.Loads[v])
		}
	}
	slices.Reverse(list)
	return list, load, peak, true
}

package slicing

import (
	"cmp"
	"math"
	"slices"
)

// Search finds regions that bring a program below limits. It keeps what it found, since
// one search serves several limits.
type Search struct {
	*Program
	Reach int // the largest number of nodes of a window
	// Distinct: each window is estimated by itself, for tests.
	Distinct bool
	all      bool // all windows are looked at

	cut    []int64          // bytes that live over the end of each node
	ends   []int            // nodes at which a window may end
	starts []int            // and begin
	until  []int            // with owners: the last node behind each that may end a window which begins there
	same   *windows         // of which several are the same
	lists  [][]*window      // of each start: the windows that end at each place of ends from it on, where they are known
	whole  []*candidate     // of the whole program; nil: not known yet
	known  map[Pick]*Choice // without estimates

	looks map[int][]uint64 // of each end that was asked about: what is looked at in windows from each node before it ([Search.worth])

	kinds map[signature]*kind
	floor int64 // no regions bring all loads below that: the bytes of the graph's inputs, or of its outputs
}

// NewSearch prepares a search.
func NewSearch(p *Program, reach int) *Search {
	s := &Search{Program: p, Reach: reach, known: map[Pick]*Choice{}, kinds: map[signature]*kind{}}
	n := len(p.g.Nodes)
	s.cut = make([]int64, n+1)            // s.cut[v] is over the boundary before v
	inputs, outputs := int64(0), int64(0) // bytes
	for i := range p.Storages {
		st := &p.Storages[i]
		if st.Resident {
			continue
		}
		if st.Input {
			inputs += st.Bytes
		}
		if st.Output {
			outputs += st.Bytes
		}
		if st.Last <= st.First {
			continue
		}
		s.cut[st.First+1] += st.Bytes
		s.cut[st.Last+1] -= st.Bytes
	}
	for v := 1; v <= n; v++ {
		s.cut[v] += s.cut[v-1]
	}
	s.floor = max(inputs, outputs)
	s.mark()
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
	return s
}

// Forget drops what was estimated: it takes much room, and the search may end long before its regions are written.
func (s *Search) Forget() {
	s.same, s.lists, s.whole, s.looks, s.spare = nil, nil, nil, nil, nil
	s.known, s.kinds = map[Pick]*Choice{}, map[signature]*kind{}
	clear(s.measures)
}

// All makes the search look at all windows, for tests.
func (s *Search) All() *Search {
	s.all = true
	s.mark()
	return s
}

// mark finds the nodes at which a window may begin and end.
func (s *Search) mark() {
	s.starts, s.ends = nil, nil
	for v := range s.g.Nodes {
		// Before a node whose inputs are as large as what lives behind it, such as a Concat, a
		// window may begin although a boundary before it is lower: what makes one of the inputs
		// then runs whole, once.
		if (s.low(v) || s.cut[v] <= s.cut[v+1]) && !s.flat(v) {
			s.starts = append(s.starts, v)
		}
		if s.low(v+1) && !s.flat(v+1) {
			s.ends = append(s.ends, v)
		}
	}
}

// LargeNodes is the number of nodes from which on a graph is large: a search looks at fewer windows.
const LargeNodes = 2000

func (s *Search) large() bool { return len(s.g.Nodes) >= LargeNodes && !s.all }

// flat reports whether no window begins or ends at the boundary before node v, since as many bytes
// live over those beside it. Of boundaries side by side over which the same live, a large graph
// has windows at the first and the last alone: those between need as much. A run of them that is
// longer than half a window has all, since no window would hold it with what is around it.
func (s *Search) flat(v int) bool {
	if !s.large() || v == 0 || v == len(s.g.Nodes) {
		return false
	}
	before, after := v, v
	for before > 0 && s.cut[before-1] == s.cut[v] && v-before <= s.Reach/2 {
		before--
	}
	for after < len(s.g.Nodes) && s.cut[after+1] == s.cut[v] && after-v <= s.Reach/2 {
		after++
	}
	return before < v && v < after && after-before <= s.Reach/2
}

// low reports whether few bytes live over the boundary before node v: no more than over
// one of the boundaries beside it, and less than over some boundary near.
func (s *Search) low(v int) bool {
	if v == 0 || v == len(s.g.Nodes) {
		return true
	}
	return s.cut[v] <= s.cut[v-1] && s.cut[v] <= s.cut[v+1]
}

// at returns the candidates of the window from a start to ends[to].
func (s *Search) at(from, to int) *window {
	if s.same == nil {
		s.same, s.lists = newWindows(s.Program, s.Reach), make([][]*window, len(s.g.Nodes))
	}
	first, _ := slices.BinarySearch(s.ends, from)
	for len(s.lists[from]) <= to-first {
		s.lists[from] = append(s.lists[from], nil)
	}
	w := &s.lists[from][to-first]
	if *w == nil {
		if s.Distinct {
			*w = s.same.add(from, s.ends[to])
		} else {
			*w = s.same.find(from, s.ends[to])
		}
		if (*w).list == nil {
			(*w).list = s.candidates(from, s.ends[to])
			(*w).held, (*w).least = math.MaxInt64, math.Inf(-1)
			for _, c := range (*w).list {
				(*w).held = min((*w).held, max(c.held, c.other))
			}
		}
	}
	return *w
}

// Windows returns the number of windows that have been estimated, and that of their regions.
func (s *Search) Windows() (windows, regions int) {
	seen := map[*window]bool{}
	for _, list := range s.lists {
		for _, w := range list {
			if w != nil && !seen[w] {
				seen[w] = true
				windows++
				regions += len(w.list)
			}
		}
	}
	return windows, regions
}

// candidates returns those of a window.
func (s *Search) candidates(from, to int) []*candidate {
	list, worth := []*candidate{}, s.worth(from, to)
	n := s.g.Nodes[to]
	if len(n.Outputs) > 0 && n.Outputs[0] >= 0 {
		for axis, d := range s.shape(n.Outputs[0]) {
			if d < 2 || worth>>axis&1 == 0 {
				continue
			}
			if r := s.Find(from, to, to, axis); r != nil {
				// In a large graph, only the last window that has these regions, although nodes that
				// run whole before them may need more in an earlier one ([Search.Cover]'s target).
				if !s.large() || s.later(from) > r.Nodes[0] {
					list = append(list, s.candidate(r))
				}
			}
		}
	}
	return append(list, s.pieces(from, to)...)
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
				if c := s.candidate(r); !seen[c.of.of] {
					seen[c.of.of] = true
					s.whole = append(s.whole, c)
				}
			}
		}
	}
	return s.whole
}

package enforce

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
)

// Recorded is a block of one recorded run. Begin and End are positions among the run's
// allocations and frees.
type Recorded struct {
	Bytes int64
	Begin int
	End   int // none: it is not freed in the run
}

// mostTried bounds the search, in decisions for each event.
const mostTried = 64

// Match returns for each recorded block which of the plan's it is, or none: scratch of a
// kernel, or a tensor without a known size.
//
// It reads the run as one of the nodes in their order. A node allocates its blocks, in any
// order and with scratch in between; then the blocks whose last reader it is are freed,
// before the next node allocates. Unless the graph has tensors without a known size, a node
// has freed its scratch by then. Where a block may be a tensor's or scratch, the search tries
// the one and then the other. A run is refused if it can be read in two ways that differ in a
// block that is written over another: trying scratch first finds another way where there is
// one close to the first.
func Match(l *List, run []Recorded) ([]int, error) {
	m := newMatcher(l, run)
	if err := m.search(); err != nil {
		return nil, err
	}
	other := newMatcher(l, run)
	other.late = true
	if other.search() == nil {
		for i := range run {
			if a, b := m.of[i], other.of[i]; a != b && (m.shares(a) || m.shares(b)) {
				return nil, fmt.Errorf("the run can be read in two ways: block %d of %s is %s, or %s", i, units.Bytes(run[i].Bytes), m.name(a), m.name(b))
			}
		}
	}
	return m.of, nil
}

// Tiny blocks are numbers and shapes, mostly. Whether a runtime allocates them differs
// between its versions and kernels.
const Tiny = 256

// MatchLarge is Match for the blocks that are not Tiny, as if there were no others: Tiny
// ones are taken for scratch. It is for runs that Match refuses, and fails if the plan has
// nothing but Tiny blocks. A block and the one that it is written over have one size, so
// both are compared or neither is.
func MatchLarge(l *List, run []Recorded) ([]int, error) {
	large := &List{Random: l.Random, Dynamic: l.Dynamic}
	var blocks []int // by block of large: that of l
	at := map[int]int{none: none}
	for i, b := range l.Blocks {
		if b.Bytes <= Tiny {
			continue
		}
		at[i] = len(blocks)
		blocks = append(blocks, i)
		b.Over = at[b.Over]
		large.Blocks = append(large.Blocks, b)
	}
	if blocks == nil {
		return nil, fmt.Errorf("no block of the plan has more than %d B", Tiny)
	}
	var recorded []int // by block of the shorter run: that of run
	var events []int   // those that stay
	for i, r := range run {
		if r.Bytes <= Tiny {
			continue
		}
		recorded = append(recorded, i)
		if events = append(events, r.Begin); r.End != none {
			events = append(events, r.End)
		}
	}
	slices.Sort(events)
	var shorter []Recorded
	for _, i := range recorded {
		r := run[i]
		r.Begin, _ = slices.BinarySearch(events, r.Begin)
		if r.End != none {
			r.End, _ = slices.BinarySearch(events, r.End)
		}
		shorter = append(shorter, r)
	}
	match, err := Match(large, shorter)
	if err != nil {
		return nil, err
	}
	of := slices.Repeat([]int{none}, len(run))
	for k, b := range match {
		if b != none {
			of[recorded[k]] = blocks[b]
		}
	}
	return of, nil
}

// matcher reads the events of a run.
type matcher struct {
	blocks []Block
	run    []Recorded
	events []int // a recorded block that is allocated, or ^block of one that is freed

	makes  [][]int // by step: the blocks that it allocates
	ends   []int   // by step: how many blocks are freed after it
	made   []int   // by step: how many blocks are allocated up to it
	allocs []int   // by event: how many allocations stand up to it
	shared []bool  // by block: it is written over another, or another over it

	loose bool // scratch may be a tensor without a known size
	late  bool // scratch is tried first
	tried int
	spare map[int64]int // by size: how many of the recorded blocks to come may be scratch
	of    []int         // by recorded block: that of the plan, or none
	turn  []int         // by recorded block of scratch: moment.turn of its node
	found []bool        // by block: it is recorded
	now   moment

	farthest int    // the most events that were read
	why      string // what was missing there
}

// moment is a place in the order of the nodes.
type moment struct {
	step    int // the node that runs
	missing int // of its blocks: those not allocated yet
	live    int // blocks that are freed after it: those not freed yet
	turn    int // the number of nodes so far, with this one, that allocate blocks of the plan
	own     int // live scratch of this node
	ahead   int // live scratch of this node or of the next: it was allocated when this one had done all else
}

func newMatcher(l *List, run []Recorded) *matcher {
	blocks := l.Blocks
	steps, events := 1, 0
	for _, b := range blocks {
		steps = max(steps, b.First+1, b.Last+1)
	}
	for _, r := range run {
		events = max(events, r.Begin+1, r.End+1)
	}
	m := &matcher{
		blocks: blocks, run: run, loose: l.Dynamic,
		events: make([]int, events), allocs: make([]int, events),
		makes: make([][]int, steps), ends: make([]int, steps), made: make([]int, steps),
		shared: make([]bool, len(blocks)), found: make([]bool, len(blocks)),
		of: make([]int, len(run)), turn: make([]int, len(run)), spare: map[int64]int{},
	}
	for i, r := range run {
		m.of[i] = none
		m.spare[r.Bytes]++
		m.events[r.Begin] = i
		m.allocs[r.Begin] = 1
		if r.End != none {
			m.events[r.End] = ^i
		}
	}
	for e := 1; e < events; e++ {
		m.allocs[e] += m.allocs[e-1]
	}
	for i, b := range blocks {
		m.spare[b.Bytes]--
		m.makes[b.First] = append(m.makes[b.First], i)
		if !b.Output {
			m.ends[b.Last]++
		}
		if b.Over != none {
			m.shared[i], m.shared[b.Over] = true, true
		}
	}
	for s, n := 0, 0; s < steps; s++ {
		n += len(m.makes[s])
		m.made[s] = n
	}
	m.now = moment{missing: len(m.makes[0]), live: m.ends[0]}
	return m
}

// search reads all events, or says where none of the ways leads on.
func (m *matcher) search() error {
	for i, b := range m.blocks {
		if m.spare[b.Bytes] < 0 {
			return fmt.Errorf("expected one more block of %s than there are, such as %s", units.Bytes(b.Bytes), m.name(i))
		}
	}
	m.farthest = none
	if m.read(0) {
		return nil
	}
	if m.tried > mostTried*(len(m.events)+1) {
		return fmt.Errorf("no reading of the run was found in %d steps of the search; %s", m.tried, m.why)
	}
	return fmt.Errorf("event %d: %s", m.farthest, m.why)
}

// read reads the events from e on; if it fails, the state is as before.
func (m *matcher) read(e int) bool {
	if m.tried++; m.tried > mostTried*(len(m.events)+1) {
		return false
	}
	before := m.now
	switch {
	case e == len(m.events):
		if m.advance(len(m.makes)-1) && m.now.missing == 0 && m.now.live == 0 {
			return true
		}
	case m.events[e] < 0:
		b := m.of[^m.events[e]]
		if b == none {
			m.count(^m.events[e], -1)
		}
		if b == none || m.frees(b) {
			if m.read(e + 1) {
				return true
			}
		}
	case m.late:
		if m.scratch(e) || m.tensor(e) {
			return true
		}
	default:
		if m.tensor(e) || m.scratch(e) {
			return true
		}
	}
	m.note(e)
	m.now = before
	return false
}

// advance goes to a later step, if the nodes before it have done what they must.
func (m *matcher) advance(step int) bool {
	for m.now.step < step {
		n := &m.now
		if n.missing > 0 || n.live > 0 {
			return false
		}
		n.step++
		n.missing, n.live = len(m.makes[n.step]), m.ends[n.step]
		if n.missing > 0 {
			if n.own > 0 && !m.loose {
				return false
			}
			n.turn++
			n.own, n.ahead = n.own+n.ahead, 0
		}
	}
	return m.now.step == step
}

// frees notes that a block of the plan is freed.
func (m *matcher) frees(b int) bool {
	if m.blocks[b].Output {
		return true
	}
	if !m.advance(m.blocks[b].Last) || m.now.missing > 0 || m.now.own+m.now.ahead > 0 && !m.loose {
		return false
	}
	m.now.live--
	return true
}

// tensor reads an allocation as that of a tensor of this node, or of the next one that
// allocates.
func (m *matcher) tensor(e int) bool {
	i, before := m.events[e], m.now
	for m.now.missing == 0 && m.now.step+1 < len(m.makes) && m.advance(m.now.step+1) {
	}
	here := m.now
	for _, b := range m.makes[here.step] {
		if m.found[b] || !m.suits(i, b) {
			continue
		}
		m.of[i], m.found[b] = b, true
		m.now.missing--
		if m.read(e + 1) {
			return true
		}
		m.of[i], m.found[b], m.now = none, false, here
	}
	m.now = before
	return false
}

// suits reports whether a recorded block may be one of the plan: as many blocks as the
// plan allocates in its lifetime must be allocated in that of the recorded one.
func (m *matcher) suits(i, b int) bool {
	r, p := m.run[i], m.blocks[b]
	if r.Bytes != p.Bytes || (r.End == none) != p.Output {
		return false
	}
	return p.Output || m.allocs[r.End]-m.allocs[r.Begin] >= m.made[p.Last]-m.made[p.First]
}

// scratch reads an allocation as that of scratch.
func (m *matcher) scratch(e int) bool {
	size, before := m.run[m.events[e]].Bytes, m.now
	if m.spare[size] == 0 {
		return false
	}
	m.spare[size]--
	if m.turn[m.events[e]] = m.now.turn; m.now.missing == 0 && m.now.live == 0 {
		m.turn[m.events[e]]++
	}
	m.count(m.events[e], 1)
	if m.read(e + 1) {
		return true
	}
	m.spare[size]++
	m.now = before
	return false
}

// count counts a block of scratch, unless the run does not free it.
func (m *matcher) count(i, n int) {
	switch {
	case m.run[i].End == none:
	case m.turn[i] > m.now.turn:
		m.now.ahead += n
	default:
		m.now.own += n
	}
}

// note keeps what was missing at the farthest event.
func (m *matcher) note(e int) {
	if e <= m.farthest {
		return
	}
	m.farthest = e
	found := "the end of the run"
	if e < len(m.events) {
		i, what := m.events[e], "the allocation"
		if i < 0 {
			i, what = ^i, "the free"
		}
		found = fmt.Sprintf("%s of block %d (%s, %s)", what, i, units.Bytes(m.run[i].Bytes), m.name(m.of[i]))
	}
	var missing []string
	for _, b := range m.makes[m.now.step] {
		if !m.found[b] {
			missing = append(missing, m.name(b)+" of "+units.Bytes(m.blocks[b].Bytes))
		}
	}
	if missing == nil {
		missing = []string{fmt.Sprintf("%d blocks and %d of scratch to be freed", m.now.live, m.now.own+m.now.ahead)}
	}
	m.why = fmt.Sprintf("at node %d of the run: expected %s, found %s", m.now.step, strings.Join(missing, ", "), found)
}

func (m *matcher) shares(b int) bool { return b != none && m.shared[b] }

func (m *matcher) name(b int) string {
	if b == none {
		return "scratch"
	}
	return fmt.Sprintf("%q", graph.Short(m.blocks[b].Tensor))
}

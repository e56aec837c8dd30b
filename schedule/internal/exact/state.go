package exact

import (
	"math/rand/v2"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// state is a state of the exact search: the nodes that have run, in their order, and
// what follows from them. run and undo keep it up to date in O(degree).
type state struct {
	g      *indexed.Problem
	live   int64
	ran    []step
	ready  []int32
	at     []int32 // ready node -> its place in ready
	opened []int32 // ready node -> how many had run when it became ready
	waits  []int32
	unread []int32
	others []int64 // tensor -> the sum of the readers left: the reader, when one is left
	rise   []int64 // node -> the bytes of what it makes and leaves
	delta  []int64 // node -> by how much its run would change the live bytes
	name   hash
	part   []hash         // node -> its part of the name
	cut    *bounds.Cutter // its marks say what has run
	flow   *meter.Meter   // of the cutter
	steps  int            // runs so far
}

// step is what undo must know of a run.
type step struct {
	node, at, freed int32 // freed: how many nodes it made ready
}

// hash names a set of nodes that have run: two words, so that two sets with one
// name are out of the question.
type hash [2]uint64

// with names the set with one node more, or less.
func (s hash) with(node hash) hash { return hash{s[0] ^ node[0], s[1] ^ node[1]} }

func newState(g *indexed.Problem, m *meter.Meter) *state {
	flow := m.Separate()
	s := &state{g: g, flow: flow, cut: bounds.NewCutter(flow), at: make([]int32, g.Nodes), opened: make([]int32, g.Nodes), part: make([]hash, g.Nodes)}
	r := rand.New(rand.NewPCG(1, 2))
	for v := range s.part {
		s.part[v] = hash{r.Uint64(), r.Uint64()}
	}
	return s
}

func (s *state) reset() {
	g := s.g
	s.live, s.name = g.LiveFirst(), hash{}
	s.ran, s.ready = s.ran[:0], s.ready[:0]
	s.unread = g.Unread(s.unread)
	s.others = indexed.Zeroed(s.others, len(g.Size))
	s.delta = indexed.Zeroed(s.delta, g.Nodes)
	s.waits = indexed.Resize(s.waits, g.Nodes)
	s.cut.Begin(g)
	for i := range s.cut.Marks {
		s.cut.Marks[i] = bounds.Outside
	}
	s.rise = indexed.Zeroed(s.rise, g.Nodes)
	for i := range g.Size {
		t := int32(i)
		for _, r := range g.Readers.Of(t) {
			s.others[t] += int64(r)
		}
		if m := g.Maker[t]; m >= 0 {
			s.delta[m] += g.Size[t]
			s.rise[m] += g.Size[t]
		}
		if s.unread[t] == 1 && !g.Output[t] {
			s.delta[s.others[t]] -= g.Size[t]
		}
	}
	for i := range g.Nodes {
		v := int32(i)
		if s.waits[v] = int32(len(g.Preds.Of(v))); s.waits[v] == 0 {
			s.opened[v] = 0
			s.push(v)
		}
	}
}

func (s *state) push(v int32) {
	s.at[v] = int32(len(s.ready))
	s.ready = append(s.ready, v)
}

// load returns the load of a ready node.
func (s *state) load(v int32) int64 { return s.live + s.g.Need(v, s.unread, 1) }

func (s *state) run(v int32) {
	g := s.g
	s.steps++
	at, end := s.at[v], len(s.ready)-1
	last := s.ready[end]
	s.ready[at], s.at[last] = last, at
	s.ready = s.ready[:end]
	s.live += s.delta[v]
	for _, t := range g.Reads.Of(v) {
		s.unread[t]--
		s.others[t] -= int64(v)
		if s.unread[t] == 1 && !g.Output[t] {
			s.delta[s.others[t]] -= g.Size[t]
		}
	}
	for _, w := range g.Succs.Of(v) {
		if s.waits[w]--; s.waits[w] == 0 {
			s.opened[w] = int32(len(s.ran)) + 1
			s.push(w)
		}
	}
	s.cut.Marks[v] = bounds.Inside
	s.name = s.name.with(s.part[v])
	s.ran = append(s.ran, step{v, at, int32(len(s.ready) - end)})
}

// undo takes back all but the first runs.
func (s *state) undo(runs int) {
	g := s.g
	for len(s.ran) > runs {
		last := s.ran[len(s.ran)-1]
		s.ran = s.ran[:len(s.ran)-1]
		v := last.node
		s.ready = s.ready[:len(s.ready)-int(last.freed)]
		for _, w := range g.Succs.Of(v) {
			s.waits[w]++
		}
		for _, t := range g.Reads.Of(v) {
			if s.unread[t] == 1 && !g.Output[t] {
				s.delta[s.others[t]] += g.Size[t]
			}
			s.unread[t]++
			s.others[t] += int64(v)
		}
		s.live -= s.delta[v]
		s.push(v) // and back to where it was, in place of the one that moved there
		moved, end := s.ready[last.at], int32(len(s.ready)-1)
		s.ready[end], s.at[moved] = moved, end
		s.ready[last.at], s.at[v] = v, last.at
		s.cut.Marks[v] = bounds.Outside
		s.name = s.name.with(s.part[v])
	}
}

// commit replaces the nodes run since by the largest downset of least live bytes
// between the state then and the state now. It can be reached: its nodes in the order
// of the path.
//
// What the flow visits counts as steps, a hundred to one: on long chains it takes
// many rounds, and a search of few states would not end.
func (s *state) commit(since int) {
	before := s.flow.Flow
	path := make([]int32, 0, len(s.ran)-since)
	for _, x := range s.ran[since:] {
		path = append(path, x.node)
	}
	keep := s.cut.Between(path)
	if len(keep) < len(path) {
		s.undo(since)
		for _, v := range keep {
			s.run(v)
		}
	}
	s.steps += int((s.flow.Flow-before)/100) + len(path)/10
}

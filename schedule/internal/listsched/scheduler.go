// Package listsched orders the nodes of an indexed problem by list scheduling: at
// each step it places one of the nodes that can run, chosen by a [Rule].
//
// [Scheduler.Forward] builds an order from its first step, [Scheduler.Backward] from
// its last; both follow a given order where the rule leaves a choice. The other
// functions improve an order that was found: [ByGoals] runs what frees memory early,
// [Scheduler.LessArea] lowers the sum of the loads at the same peak, and
// [Scheduler.Alternatives] returns different orders of one peak. No result is proven
// optimal; the valley lemma at [Scheduler] says which choices are safe.
//
//	scheduler.go   Scheduler, the lemma, Forward and Backward
//	candidates.go  the nodes that can be placed next, by the bytes that they need
//	orders.go      the rules, and orders made from other orders
package listsched

import (
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// Scheduler builds orders node by node, forward or from the end, in buffers that it
// keeps. A node is safe if it may be placed next, fits below the limit and does not
// raise the live bytes; a safe node is placed at once.
//
// Valley lemma (after the hill-valley segments of Liu 1987). Let S' ⊇ S be reachable from S within a limit B, and let live(S') be the
// least over all downsets between S and S'. If S can be completed within B, so can S'.
//
//	S ──▶ S' ──────────▶ all        live(S') <= live(T ∩ S')
//	└──▶ T ──────────▶ all          replace each T by T ∪ S'
//
// Proof. Replace each later state T of a completion from S by T ∪ S'. By submodularity
// live(T ∪ S') <= live(T) + live(S') - live(T ∩ S') <= live(T), since T ∩ S' lies between
// S and S'. The same node runs from there, and it needs no more above live, because what
// it saves only grows with the state.
//
// The simplest S' adds a single node that raises nothing: running it at once is never
// wrong.
//
// Mirror image. From the end, states are the complements of what is placed. In place of
// load(v|S) - live(S), which falls as S grows, stands
//
//	load(v|S) - live(S + v) = workspace + unread outputs + what v frees - savings
//
// which rises: an input that comes free adds its size, and at most its size to the
// savings.
type Scheduler struct {
	count   []int32 // tensor -> readers left (forward) or readers placed (from the end)
	others  []int64 // tensor -> the sum of its readers left: the reader, when one is left
	waits   []int32 // node -> neighbours to be placed before it
	version []int32
	placed  []bool
	delta   []int64 // node -> by how much it would change the live bytes
	above   []int64 // node -> what it needs above the live bytes of the state so far
	safe    candidates
	rest    []group         // the other candidates, by what they need above the live bytes
	group   map[int64]int32 // need -> place in rest
	many    candidates      // nodes without a group that have not been looked at
	tall    candidates      // nodes without a group that did not fit, by need
	rule    Rule
	place   []int32 // node -> its place in the order to follow
	opened  []int32 // node -> how many were placed when it became a candidate
	now     int32   // nodes placed
	g       *indexed.Problem
	loads   []int64
	meter   *meter.Meter
}

// New returns a scheduler that counts its work in the meter. When the context ends
// within an order, the nodes that are left run as in the order to follow.
func New(m *meter.Meter) *Scheduler { return &Scheduler{meter: m} }

// Forward returns an order from the first step to the last. If no node is safe, it runs
// the first by the rule of those that fit below the limit, or if none fits, the node
// that needs least. The order to follow breaks ties. O(E log V).
func (s *Scheduler) Forward(g *indexed.Problem, follow []int32, limit int64, by Rule) []int32 {
	s.begin(g, follow, by)
	s.count = g.Unread(s.count)
	s.others = indexed.Resize(s.others, len(g.Size))
	for t := range g.Size {
		s.others[t] = 0
		for _, r := range g.Readers.Of(int32(t)) {
			s.others[t] += int64(r)
		}
	}
	for i := range g.Nodes {
		v := int32(i)
		if s.waits[v] = g.Preds.Start[v+1] - g.Preds.Start[v]; s.waits[v] == 0 {
			s.ready(v)
		}
	}
	live, idle := g.LiveFirst(), g.Idle
	order := make([]int32, 0, g.Nodes)
	for len(order) < g.Nodes {
		if s.meter.Poll(len(order)) {
			return s.follow(order, follow)
		}
		v := s.next(limit - live - idle)
		idle = 0
		s.placed[v] = true
		s.now++
		order = append(order, v)
		live += s.delta[v]
		for _, t := range g.Reads.Of(v) {
			s.count[t]--
			s.others[t] -= int64(v)
			if s.count[t] == 1 && !g.Output[t] {
				if r := int32(s.others[t]); s.waits[r] == 0 {
					s.delta[r] -= g.Size[t]
					s.push(r, g.Need(r, s.count, 1))
				}
			}
		}
		for _, w := range g.Succs.Of(v) {
			if s.waits[w]--; s.waits[w] == 0 {
				s.ready(w)
			}
		}
	}
	return order
}

// follow appends the nodes that are not placed, in the sequence of an order.
func (s *Scheduler) follow(to, order []int32) []int32 {
	for _, v := range order {
		if !s.placed[v] {
			to = append(to, v)
		}
	}
	return to
}

// ready computes how a node changes the live bytes and makes it a candidate.
func (s *Scheduler) ready(v int32) {
	g := s.g
	s.opened[v] = s.now
	var delta int64
	for _, t := range g.Makes.Of(v) {
		delta += g.Size[t]
	}
	for _, t := range g.Reads.Of(v) {
		if s.count[t] == 1 && !g.Output[t] {
			delta -= g.Size[t]
		}
	}
	s.delta[v] = delta
	s.push(v, g.Need(v, s.count, 1))
}

// Backward is Forward from the last step to the first: it places a node once all its
// successors are placed. With U the nodes not placed yet, v among them, the load of v
// is live(U) + delta(v) + need(v).
func (s *Scheduler) Backward(g *indexed.Problem, follow []int32, limit int64, by Rule) []int32 {
	s.begin(g, follow, by)
	for v := range s.place {
		s.place[v] = -s.place[v]
	}
	s.count = indexed.Zeroed(s.count, len(g.Size))
	for i := range g.Nodes {
		v := int32(i)
		if s.waits[v] = g.Succs.Start[v+1] - g.Succs.Start[v]; s.waits[v] == 0 {
			s.readyBack(v)
		}
	}
	live := g.LiveLast()
	order := make([]int32, g.Nodes)
	for k := g.Nodes - 1; k >= 0; k-- {
		if s.meter.Poll(k) {
			s.follow(order[:0], follow)
			break
		}
		v := s.next(limit - live)
		s.placed[v] = true
		s.now++
		order[k] = v
		live += s.delta[v]
		for _, t := range g.Reads.Of(v) {
			if s.count[t]++; s.count[t] > 1 || g.Output[t] {
				continue
			}
			// The first reader from the end: for the others t is live already.
			for _, r := range g.Readers.Of(t) {
				if !s.placed[r] && s.waits[r] == 0 {
					s.delta[r] -= g.Size[t]
					s.push(r, s.delta[r]+g.Need(r, s.count, 0))
				}
			}
		}
		for _, u := range g.Preds.Of(v) {
			if s.waits[u]--; s.waits[u] == 0 {
				s.readyBack(u)
			}
		}
	}
	return order
}

func (s *Scheduler) readyBack(v int32) {
	g := s.g
	s.opened[v] = s.now
	var delta int64
	for _, t := range g.Makes.Of(v) {
		delta -= g.Size[t]
	}
	for _, t := range g.Reads.Of(v) {
		if s.count[t] == 0 && !g.Output[t] {
			delta += g.Size[t]
		}
	}
	s.delta[v] = delta
	s.push(v, delta+g.Need(v, s.count, 0))
}

func (s *Scheduler) begin(g *indexed.Problem, follow []int32, by Rule) {
	s.meter.Placed += int64(g.Nodes)
	n := g.Nodes
	s.g, s.rule, s.now = g, by, 0
	s.waits = indexed.Resize(s.waits, n)
	s.version = indexed.Zeroed(s.version, n)
	s.placed = indexed.Zeroed(s.placed, n)
	s.delta = indexed.Resize(s.delta, n)
	s.above = indexed.Resize(s.above, n)
	s.place = indexed.Resize(s.place, n)
	s.opened = indexed.Resize(s.opened, n)
	for i, v := range follow {
		s.place[v] = int32(i)
	}
	s.safe, s.many, s.tall = s.safe[:0], s.many[:0], s.tall[:0]
	for i := range s.rest {
		s.rest[i].items = s.rest[i].items[:0]
	}
	s.rest = s.rest[:0]
	if s.group == nil {
		s.group = map[int64]int32{}
	}
	clear(s.group)
}

// push makes v a candidate, or renews it: older entries are skipped by their version.
func (s *Scheduler) push(v int32, above int64) {
	s.version[v]++
	s.above[v] = above
	if s.delta[v] <= 0 {
		s.safe.push(candidate{above, s.place[v], v, s.version[v]})
	}
	s.enter(v)
}

// next takes the node to place; room is how much fits above the live bytes.
func (s *Scheduler) next(room int64) int32 {
	for len(s.safe) > 0 {
		x := s.safe[0]
		if s.stale(x) {
			s.safe.pop()
			continue
		}
		if x.key > room {
			break // the safe one that needs least
		}
		s.safe.pop()
		return x.node
	}
	from, least := (*candidates)(nil), (*group)(nil)
	for i := range s.rest {
		g := &s.rest[i]
		if g.need > room && least != nil && least.need <= g.need || !s.fresh(&g.items) {
			continue
		}
		if g.need <= room && (from == nil || g.items[0].less((*from)[0])) {
			from = &g.items
		}
		if least == nil || g.need < least.need {
			least = g
		}
	}
	if s.fits(room) && (from == nil || s.many[0].less((*from)[0])) {
		from = &s.many
	}
	if from == nil {
		if s.fresh(&s.tall) && (least == nil || s.tall[0].key < least.need) {
			from = &s.tall
		} else {
			from = &least.items
		}
	}
	return from.pop().node
}

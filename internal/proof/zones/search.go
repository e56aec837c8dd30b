// Package zones finds what proves that no order of a graph keeps a limit: zones of states. A zone
// is all states that have run some nodes and not others. Nothing here is trusted: zones that do
// not prove the bound have no proof.
//
// The search goes through states depth first. From a state it goes on to one with no more live
// bytes, if it can, and drops the other ways: what is live is submodular, so that all states
// between can be completed as well from there. Where it fails, all states below that one, and
// above what must have run, are a zone: a node that leaves it either leads to another zone, or
// exceeds the limit in all of its states, by a minimum cut.
package zones

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// zone is the states from low to high: sets of nodes that contain what their members need.
// Next are zones to which its states lead.
type zone struct {
	low, high set
	next      []int
}

type search struct {
	*graph
	limit int64
	plain bool // no node is absorbed
	poll  func()

	waits  []int32
	unread []int32
	left   []int32
	ran    set
	rises  []int64
	ready  []int32
	path   []int32
	live   int64

	dead                      map[string][]int // by state: the zones with it as the highest
	zones                     []zone
	c                         cut
	tight                     []int32
	met                       int // the zone that covers the state from which explore last failed
	states, leaks, deads, max int
}

// The ways in which a search ends without zones.
var (
	errOrder = errors.New("met states that its zones do not tell from one that an order reaches")
	errMany  = errors.New("took more states, or work, than it may")
)

// Find returns zones which show that no order of a graph has a peak below a bound. The order is
// one of the graph's; it leads the search.
func Find(p *model.Problem, order []int32, bound int64, most int, poll func()) (list []model.Zone, err error) {
	at := make([]int32, len(order))
	for i, v := range order {
		at[v] = int32(i)
	}
	for _, plain := range []bool{false, true} {
		s := newSearch(renumbered(p, at), bound, 0, most, poll)
		s.plain = plain
		if list, err = s.run(); err == nil || len(order) > 64 {
			break
		}
	}
	for _, z := range list {
		for i := range z.In {
			z.In[i] = order[z.In[i]]
		}
		for i := range z.Out {
			z.Out[i] = order[z.Out[i]]
		}
	}
	return list, err
}

// renumbered numbers the nodes by their places in an order.
func renumbered(p *model.Problem, at []int32) *model.Problem {
	q := &model.Problem{Before: make([][]int32, len(at)), Work: make([]int64, len(at)), Pairs: make([][]model.Pair, len(at))}
	all := func(list []int32) (to []int32) {
		for _, v := range list {
			to = append(to, at[v])
		}
		return to
	}
	for v, to := range at {
		q.Before[to], q.Work[to], q.Pairs[to] = all(p.Before[v]), p.Work[v], p.Pairs[v]
	}
	for _, t := range p.Tensors {
		t.Readers = all(t.Readers)
		if t.Maker >= 0 {
			t.Maker = at[t.Maker]
		}
		q.Tensors = append(q.Tensors, t)
	}
	for _, w := range p.Written {
		w.Others, w.Maker = all(w.Others), at[w.Maker]
		q.Written = append(q.Written, w)
	}
	return q
}

func newSearch(p *model.Problem, bound, least int64, most int, poll func()) *search {
	g := newGraph(p, least)
	g.close()
	s := &search{graph: g, limit: bound - 1, poll: poll, dead: map[string][]int{}, max: most}
	s.begin()
	s.findTight()
	return s
}

// run searches, and returns the zones that are needed.
func (s *search) run() (list []model.Zone, err error) {
	defer func() {
		if e := recover(); e != nil {
			x, is := e.(error)
			if !is || !(errors.Is(x, errOrder) || errors.Is(x, errMany)) {
				panic(e)
			}
			err = x
		}
	}()
	explore := s.explore
	if s.first > 0 {
		explore = s.exploreFirst
	}
	if explore(newSet(s.n), newSet(s.n), -1) {
		return nil, errOrder
	}
	return s.needed(), nil
}

// needed are the zones that are reached from the one that the search met at its end, which has the
// first state. It need not be the last that was added.
func (s *search) needed() (list []model.Zone) {
	need := []int{s.met}
	seen := map[int]bool{need[0]: true}
	for k := 0; k < len(need); k++ {
		z := &s.zones[need[k]]
		list = append(list, s.narrow(z))
		for _, j := range z.next {
			if !seen[j] {
				seen[j] = true
				need = append(need, j)
			}
		}
	}
	return list
}

// narrow lists the nodes that say what a zone is: the last of low, and the first beyond high.
func (s *search) narrow(z *zone) (x model.Zone) {
	for v := range int32(s.n) {
		if z.low.has(v) && !slices.ContainsFunc(s.after[v], z.low.has) {
			x.In = append(x.In, v)
		}
		if !z.high.has(v) && !slices.ContainsFunc(s.before[v], func(w int32) bool { return !z.high.has(w) }) {
			x.Out = append(x.Out, v)
		}
	}
	return x
}

// blocked reports whether v's load is above the limit in all states of a zone from which it can run.
func (s *search) blocked(low, high set, v int32) bool {
	if !s.above[v].within(high) || low.has(v) {
		return true
	}
	if len(s.pairs[v]) > 8 {
		pairs := int64(0)
		each(s.pairs[v][:8], func(list []pair) { pairs = max(pairs, sum(list)) })
		return s.c.least(s.graph, low, high, v, nil, s.limit+1+pairs) > s.limit+pairs
	}
	ok := true
	each(s.pairs[v], func(list []pair) {
		ok = ok && s.c.least(s.graph, low, high, v, list, s.limit+1) > s.limit
	})
	return ok
}

func (s *search) findTight() {
	all, none := newSet(s.n), newSet(s.n)
	least := make([]int64, s.n)
	for v := range int32(s.n) {
		all.add(v)
	}
	for v := range int32(s.n) {
		least[v] = int64(unlimited)
		each(s.pairs[v][:min(8, len(s.pairs[v]))], func(list []pair) {
			least[v] = min(least[v], s.c.least(s.graph, none, all, v, list, unlimited))
		})
		s.tight = append(s.tight, v)
	}
	slices.SortStableFunc(s.tight, func(a, b int32) int { return cmp.Compare(least[b], least[a]) })
	s.tight = s.tight[:min(48, s.n)]
}

func key(of set) string {
	b := make([]byte, 0, 8*len(of))
	for _, w := range of {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(b)
}

// explore goes on to a state of at most target live bytes, or to the end, and reports whether it
// found one. If not, it goes back, and met is a zone that has all states between low and the
// present one, with any of the nodes of open. Low is within it.
func (s *search) explore(low, open set, target int64) bool {
	since := slices.Clone(s.path)
	for {
		s.descend()
		if s.arrived(target) {
			return true
		}
		open = s.absorb(open)
		high := slices.Clone(s.ran)
		high.or(open)
		if high.count() == s.n {
			panic(errOrder) // the open ones end it
		}
		key := key(s.ran) + key(open)
		for _, i := range s.dead[key] {
			if s.zones[i].low.within(low) {
				s.met = i
				s.back(since)
				return false
			}
			both := slices.Clone(low)
			if both.and(s.zones[i].low); s.first == 0 || both.count() > 0 {
				low = both
			}
		}
		if s.states++; s.states > s.max || s.c.work > maxWork {
			panic(errMany)
		}
		if s.poll != nil {
			s.poll()
		}
		if s.states > dyingAfter && s.dying(low, key) {
			s.back(since)
			return false
		}
		to, reached := s.leave(low, open, high, target)
		if !reached {
			s.add(key, zone{low, high, to})
			s.back(since)
			return false
		}
		if s.arrived(target) {
			return true
		}
	}
}

// exploreFirst is explore where there are inputs that nobody reads. These count at the first step
// alone, so that the first state is a zone by itself, and no zone behind a step goes back to it.
func (s *search) exploreFirst(low, open set, target int64) bool {
	var to []int
	for _, v := range slices.Clone(s.ready) {
		if s.load(v)+s.first > s.limit {
			continue
		}
		s.step(v)
		if s.explore(s.with(low, v), open, target) {
			return true
		}
		s.undo(0)
		to = append(to, s.met)
	}
	s.add(key(low)+key(open), zone{low, newSet(s.n), to})
	return false
}

// dyingAfter is the number of states from which on each is asked whether a node is left that can
// no longer run: that takes longer than most searches.
const dyingAfter = 200

// maxWork limits the edges, nodes and tensors that the cuts of a search visit: some seconds.
const maxWork = 1 << 27

// leave takes each node that may leave a zone, and what it needs of the open ones. It returns the
// zones to which they lead, unless one goes on to a state of at most as many live bytes.
func (s *search) leave(low, open, high set, target int64) (to []int, reached bool) {
	var next []int32
	for v := range int32(s.n) {
		if !high.has(v) && !slices.ContainsFunc(s.before[v], func(w int32) bool { return !high.has(w) }) {
			next = append(next, v)
		}
	}
	live, path := s.live, slices.Clone(s.path)
	var others []int32
	type way struct {
		v    int32
		live int64
	}
	var ways []way
	for _, v := range next {
		if s.reach(v, open) {
			ways = append(ways, way{v, s.live})
		} else {
			others = append(others, v)
		}
		s.undo(len(path))
	}
	slices.SortStableFunc(ways, func(a, b way) int { return cmp.Compare(a.live, b.live) })
	for _, w := range ways {
		s.reach(w.v, open)
		if s.explore(s.with(low, w.v), s.rest(open), live) {
			if !s.arrived(target) {
				s.backToCut(len(path))
			}
			return nil, true
		}
		s.undo(len(path))
		to = append(to, s.met)
	}
	for _, v := range others {
		to = s.split(to, low, high, v)
		s.back(path)
	}
	return to, false
}

// split goes on from the states of a zone in which v keeps the limit, although it does not where
// the search is, and adds the zones to which they lead to a list. It goes on from the state in
// which v has its least load. If that is to tell most, nothing is open: v must keep the limit in
// the highest state, and a node that has not run in that of the least load divides the others.
func (s *search) split(to []int, low, high set, v int32) []int {
	least := s.leastOf(low, high, v)
	if least == nil {
		return to
	}
	if s.leaks++; s.leaks > s.max {
		panic(errMany)
	}
	if s.plain {
		s.to(high)
		if s.load(v) > s.limit {
			for u := int32(s.n) - 1; u >= 0; u-- {
				if high.has(u) && !least.has(u) && !low.has(u) && !s.above[v].has(u) {
					less := slices.Clone(high)
					less.minus(s.below[u])
					less.remove(u)
					return s.split(s.split(to, low, less, v), s.with(low, u), high, v)
				}
			}
			panic(errOrder) // the loads disagree
		}
	} else {
		s.to(least)
	}
	s.step(v)
	if s.explore(s.with(low, v), s.rest(high), -1) {
		panic(errOrder)
	}
	return append(to, s.met)
}

// rest is what has not run of a set.
func (s *search) rest(open set) set {
	open = slices.Clone(open)
	open.minus(s.ran)
	return open
}

// absorb adds nodes to the open ones: those that raise the live bytes, or keep them, whatever of
// the others has run. Nobody gains by running one before it is needed.
func (s *search) absorb(open set) set {
	open = s.rest(open)
	if s.plain {
		return open
	}
	high := slices.Clone(s.ran)
	high.or(open)
	before, count := slices.Clone(open), high.count()
	for v := range int32(s.n) {
		if high.has(v) || slices.ContainsFunc(s.before[v], func(w int32) bool { return !high.has(w) }) || s.gains(v, high) || s.live+s.trans[v] > s.limit {
			continue
		}
		open.add(v)
		high.add(v)
		count++
	}
	if count == s.n {
		return before
	}
	return open
}

// gains reports whether a node may lower the live bytes behind some of the nodes of a set.
func (s *search) gains(v int32, high set) bool {
	rise := int64(0)
	for _, i := range s.made[v] {
		rise += s.tensors[i].bytes
	}
	for _, i := range s.read[v] {
		if t := &s.tensors[i]; !t.output && !slices.ContainsFunc(t.readers, func(r int32) bool { return r != v && !high.has(r) }) {
			rise -= t.bytes
		}
	}
	return rise < 0
}

// with adds a node, and what it needs.
func (s *search) with(low set, v int32) set {
	low = slices.Clone(low)
	low.or(s.above[v])
	low.add(v)
	return low
}

// leastOf returns the largest state between two in which v has its least load, or nothing if that
// is above the limit.
func (s *search) leastOf(low, high set, v int32) (state set) {
	if s.blocked(low, high, v) {
		return nil
	}
	least := int64(unlimited)
	each(s.pairs[v][:min(8, len(s.pairs[v]))], func(list []pair) {
		bytes := s.c.least(s.graph, low, high, v, list, unlimited)
		if bytes >= least {
			return
		}
		least = bytes
		s.c.largest()
		state = newSet(s.n)
		for u, at := range s.c.at {
			if at == source || at >= 2 && s.c.level[at] < 0 {
				state.add(int32(u))
			}
		}
	})
	return state
}

// dying reports whether some node that has not run can no longer run, and adds the zone that shows it.
func (s *search) dying(low set, key string) bool {
	all := newSet(s.n)
	for v := range int32(s.n) {
		all.add(v)
	}
	asked := 0
	for _, w := range s.tight {
		if s.ran.has(w) {
			continue
		}
		if asked++; asked > 3 {
			break
		}
		if s.blocked(low, all, w) {
			high := all
			high.minus(s.below[w])
			high.remove(w)
			s.add(key, zone{slices.Clone(low), high, nil})
			s.deads++
			return true
		}
	}
	return false
}

func (s *search) add(key string, z zone) {
	s.met = len(s.zones)
	s.dead[key] = append(s.dead[key], s.met)
	s.zones = append(s.zones, z)
}

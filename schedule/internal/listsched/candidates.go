package listsched

import "cmp"

// group holds the candidates of one need, first by Rule.
type group struct {
	need  int64
	items candidates
}

// maxGroups bounds the groups that next looks at. Networks have few distinct sizes.
const maxGroups = 64

// enter puts v among the candidates that are not safe.
func (s *Scheduler) enter(v int32) {
	key, place := s.rule.Key(s.delta[v], s.opened[v], s.place[v])
	x := candidate{key, place, v, s.version[v]}
	i, ok := s.group[s.above[v]]
	switch {
	case ok:
		s.rest[i].items.push(x)
	case len(s.rest) < maxGroups:
		s.group[s.above[v]] = int32(len(s.rest))
		if len(s.rest) < cap(s.rest) {
			s.rest = s.rest[:len(s.rest)+1]
		} else {
			s.rest = append(s.rest, group{})
		}
		g := &s.rest[len(s.rest)-1]
		g.need = s.above[v]
		g.items.push(x)
	default:
		s.many.push(x)
	}
}

// fits reports whether a node without a group fits, and puts the first of them on top of
// many. A node that does not fit waits in tall until it does; otherwise a step at which
// nothing fits would look at every candidate.
func (s *Scheduler) fits(room int64) bool {
	for len(s.tall) > 0 && (s.tall[0].key <= room || s.stale(s.tall[0])) {
		if x := s.tall.pop(); !s.stale(x) {
			key, place := s.rule.Key(s.delta[x.node], s.opened[x.node], s.place[x.node])
			s.many.push(candidate{key, place, x.node, x.version})
		}
	}
	for s.fresh(&s.many) {
		x := s.many[0]
		if s.above[x.node] <= room {
			return true
		}
		s.many.pop()
		x.key = s.above[x.node]
		s.tall.push(x)
	}
	return false
}

// fresh drops stale entries from the top of a heap, and reports whether any entry is
// left.
func (s *Scheduler) fresh(h *candidates) bool {
	for len(*h) > 0 && s.stale((*h)[0]) {
		h.pop()
	}
	return len(*h) > 0
}

func (s *Scheduler) stale(x candidate) bool {
	return s.placed[x.node] || s.version[x.node] != x.version
}

// candidate is a node in a heap, least key first, then least place.
type candidate struct {
	key                  int64
	place, node, version int32
}

func (a candidate) less(b candidate) bool {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.place < b.place
}

// candidates is a binary heap without calls through a function value: those took half
// the time of an order.
type candidates []candidate

func (h *candidates) push(x candidate) {
	a := append(*h, x)
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.less(a[up]) {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = x
	*h = a
}

func (h *candidates) pop() candidate {
	a := *h
	top, end := a[0], len(a)-1
	x := a[end]
	a = a[:end]
	*h = a
	i := 0
	for {
		down := 2*i + 1
		if down >= end {
			break
		}
		if down+1 < end && a[down+1].less(a[down]) {
			down++
		}
		if !a[down].less(x) {
			break
		}
		a[i] = a[down]
		i = down
	}
	if end > 0 {
		a[i] = x
	}
	return top
}

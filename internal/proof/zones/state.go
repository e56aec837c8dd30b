package zones

import "slices"

// The state at which a search is: what has run, what is ready, and how many bytes are live.

func (s *search) begin() {
	n := s.n
	s.waits, s.unread, s.left, s.rises, s.ran, s.live = make([]int32, n), make([]int32, len(s.tensors)), make([]int32, len(s.tensors)), make([]int64, n), newSet(n), s.always
	for v := range n {
		if s.waits[v] = int32(len(s.before[v])); s.waits[v] == 0 {
			s.ready = append(s.ready, int32(v))
		}
	}
	for i := range s.tensors {
		t := &s.tensors[i]
		s.unread[i] = int32(len(t.readers))
		for _, r := range t.readers {
			s.left[i] += r
		}
		if t.maker < 0 {
			s.live += t.bytes
		} else {
			s.rises[t.maker] += t.bytes
		}
		s.freed(int32(i), -1)
	}
}

func (s *search) freed(i int32, sign int64) {
	if t := &s.tensors[i]; s.unread[i] == 1 && !t.output {
		s.rises[s.left[i]] += sign * t.bytes
	}
}

func (s *search) step(v int32) {
	at, _ := slices.BinarySearch(s.ready, v)
	s.ready = slices.Delete(s.ready, at, at+1)
	s.live += s.rises[v]
	for _, i := range s.read[v] {
		s.unread[i]--
		s.left[i] -= v
		s.freed(i, -1)
	}
	for _, w := range s.after[v] {
		if s.waits[w]--; s.waits[w] == 0 {
			at, _ := slices.BinarySearch(s.ready, w)
			s.ready = slices.Insert(s.ready, at, w)
		}
	}
	s.ran.add(v)
	s.path = append(s.path, v)
}

func (s *search) undo(to int) {
	for len(s.path) > to {
		v := s.path[len(s.path)-1]
		s.path = s.path[:len(s.path)-1]
		for _, w := range s.after[v] {
			if s.waits[w] == 0 {
				at, _ := slices.BinarySearch(s.ready, w)
				s.ready = slices.Delete(s.ready, at, at+1)
			}
			s.waits[w]++
		}
		for _, i := range s.read[v] {
			s.freed(i, +1)
			s.left[i] += v
			s.unread[i]++
		}
		s.live -= s.rises[v]
		s.ran.remove(v)
		at, _ := slices.BinarySearch(s.ready, v)
		s.ready = slices.Insert(s.ready, at, v)
	}
}

// load is the load of a ready node.
func (s *search) load(v int32) int64 {
	load := s.live + s.trans[v]
	left := func(list []int32) bool { return slices.ContainsFunc(list, func(r int32) bool { return !s.ran.has(r) }) }
	for _, t := range s.written {
		if s.ran.has(t.maker) && left(t.readers) {
			load += t.bytes
		}
	}
	for _, t := range s.atOnce[v] {
		if left(t.readers) {
			load += t.bytes
		}
	}
	if len(s.pairs[v]) > 0 {
		var free []pair
		for _, x := range s.pairs[v] {
			if !left(x.others) {
				free = append(free, x)
			}
		}
		most := int64(0)
		each(free, func(list []pair) { most = max(most, sum(list)) })
		load -= most
	}
	return load
}

func sum(list []pair) (bytes int64) {
	for _, x := range list {
		bytes += x.bytes
	}
	return bytes
}

// each calls f for each choice of pairs that do not compete and to which none can be added.
func each(pairs []pair, f func([]pair)) {
	var list []pair
	competes := func(x pair) bool {
		return slices.ContainsFunc(list, func(y pair) bool { return x.Result == y.Result || x.Over == y.Over })
	}
	var rec func(k int)
	rec = func(k int) {
		if k == len(pairs) {
			for _, x := range pairs {
				if !competes(x) {
					return
				}
			}
			f(list)
			return
		}
		if !competes(pairs[k]) {
			list = append(list, pairs[k])
			rec(k + 1)
			list = list[:len(list)-1]
			if !slices.ContainsFunc(pairs, func(y pair) bool {
				return y.Pair != pairs[k].Pair && (pairs[k].Result == y.Result || pairs[k].Over == y.Over)
			}) {
				return
			}
		}
		rec(k + 1)
	}
	rec(0)
}

// reach runs a node and what it needs of the open ones, if all keep the limit.
func (s *search) reach(v int32, open set) bool {
	for u := range v {
		if open.has(u) && !s.ran.has(u) && s.above[v].has(u) {
			if s.load(u) > s.limit {
				return false
			}
			s.step(u)
		}
	}
	for u := int32(0); u < int32(s.n); u++ { // those have made others worth running
		if open.has(u) && !s.ran.has(u) && s.waits[u] == 0 && s.rises[u] <= 0 && s.load(u) <= s.limit {
			s.step(u)
			u = -1
		}
	}
	if s.load(v) > s.limit {
		return false
	}
	s.step(v)
	return true
}

// descend runs what is ready, keeps the limit, and does not raise the live bytes.
func (s *search) descend() {
	for k := 0; k < len(s.ready); {
		if v := s.ready[k]; s.rises[v] <= 0 && s.load(v) <= s.limit {
			s.step(v)
			k = 0
			continue
		}
		k++
	}
}

func (s *search) arrived(target int64) bool { return len(s.path) == s.n || s.live <= target }

// back goes to the state behind a path.
func (s *search) back(path []int32) {
	same := 0
	for same < len(path) && same < len(s.path) && path[same] == s.path[same] {
		same++
	}
	s.undo(same)
	for _, v := range path[same:] {
		s.step(v)
	}
}

// to goes to a state.
func (s *search) to(state set) {
	s.undo(0)
	for v := range int32(s.n) {
		if state.has(v) {
			s.step(v)
		}
	}
}

// backToCut goes back to the largest state of least live bytes between that after the first
// steps and the present one.
func (s *search) backToCut(at int) {
	way := slices.Clone(s.path[at:])
	low := slices.Clone(s.ran)
	for _, v := range way {
		low.remove(v)
	}
	s.c.least(s.graph, low, s.ran, -1, nil, unlimited)
	s.c.largest()
	keep := slices.DeleteFunc(slices.Clone(way), func(v int32) bool { return s.c.at[v] >= 2 && s.c.level[s.c.at[v]] >= 0 })
	if len(keep) == len(way) || len(keep) == 0 { // none where bytes over parameters count, which live leaves out
		return
	}
	s.undo(at)
	for _, v := range keep {
		s.step(v)
	}
}

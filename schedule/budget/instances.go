package budget

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// What a sweep knows of a plan are the events of each buffer, and for each run the bytes of the instances
// that begin and end there. Where a run comes or goes, the instances of the buffers that it reads or
// makes change: their bytes are taken off before, and added after.

// changes is memory for changes of a plan.
type changes struct {
	number  int32    // of the last change, or of the last slot that was changed
	wanted  []int32  // buffer -> the number of the last slot that recomputes it
	stamp   []int32  // node -> the number of the last slot in which it runs
	met     []int32  // buffer -> the number of the last change of its instances
	met0    int32    // the number of this change
	open    []int32  // the buffers whose instances change
	lasts   []moment // the last moments of instances before and after, where in-place pairs may write over them
	runs    []int32  // the nodes that run in a slot
	was     []int32  // those that ran there before
	kept    []held   // what is known of those that stay
	here    []match.Pair
	rewrite []bool // node -> some other node overwrites what it makes
}

// begin sets up the plain step.
func (s *sweep) begin() {
	n, buffers := len(s.order), len(s.size)
	s.step, s.again, s.who = make([]held, n), make([][]held, n), make([][]int32, n)
	s.events, s.first = make([][]event, buffers), make([]int32, n+1)
	s.wanted, s.met, s.stamp, s.rewrite = make([]int32, buffers), make([]int32, buffers), make([]int32, n), make([]bool, n)
	if n == 0 {
		return
	}
	for i := range int32(n) {
		s.step[i].begins, s.step[i].ends = s.workspace[i], s.workspace[i]
		x := event(newMoment(i, i)) << 1
		for _, t := range s.reads.of(i) {
			s.events[t] = append(s.events[t], x)
		}
		for _, t := range s.makes.of(i) {
			s.events[t] = append(s.events[t], x|1)
			s.rewrite[i] = s.rewrite[i] || len(s.writers[t]) > 0
		}
	}
	for t := range int32(buffers) {
		s.hold(t, 1)
	}
	s.share()
}

// change goes from the last plan to another.
func (s *sweep) change(plan recomputeSet) {
	was := s.plan
	s.number++
	s.met0 = s.number
	for i, j := 0, 0; i < len(was) || j < len(plan); {
		if i < len(was) && j < len(plan) && was[i] == plan[j] {
			i, j = i+1, j+1
			continue
		}
		var slot int32
		if j == len(plan) || i < len(was) && was[i] < plan[j] {
			slot = was[i].slot()
		} else {
			slot = plan[j].slot()
		}
		for j > 0 && plan[j-1].slot() == slot {
			j--
		}
		from := j
		for j < len(plan) && plan[j].slot() == slot {
			j++
		}
		for i < len(was) && was[i].slot() == slot {
			i++
		}
		s.changeSlot(slot, plan[from:j])
	}
	if len(s.open) > 0 {
		for _, t := range s.open {
			s.hold(t, 1)
		}
		s.share()
		s.open = s.open[:0]
	}
	s.plan = append(s.plan[:0], plan...)
}

// changeSlot goes to other recomputes in a slot.
func (s *sweep) changeSlot(slot int32, all recomputeSet) {
	s.number++
	s.runs = s.runs[:0]
	for _, m := range all {
		s.wanted[m.buffer()] = s.number
		s.unit(m.buffer(), slot, func(i int32) {
			if s.stamp[i] != s.number {
				s.stamp[i] = s.number
				s.runs = append(s.runs, i)
			}
		})
	}
	slices.Sort(s.runs)
	// What a node makes may be wanted or not, where others overwrite it.
	stays := func(i int32) bool { return s.stamp[i] == s.number && !s.rewrite[i] }
	s.was = append(s.was[:0], s.who[slot]...)
	for _, i := range s.was {
		if !stays(i) {
			s.each(i, s.meet)
		}
	}
	for _, i := range s.runs {
		if _, ran := slices.BinarySearch(s.was, i); !ran || !stays(i) {
			s.each(i, s.meet)
		}
	}
	s.kept = s.kept[:0]
	for k, i := range s.was {
		if stays(i) {
			s.kept = append(s.kept, s.again[slot][k])
		} else {
			s.leave(slot, i)
		}
	}
	s.again[slot], s.who[slot] = s.again[slot][:0], append(s.who[slot][:0], s.runs...)
	kept := s.kept
	for _, i := range s.runs {
		if _, ran := slices.BinarySearch(s.was, i); ran && stays(i) {
			s.again[slot], kept = append(s.again[slot], kept[0]), kept[1:]
		} else {
			s.again[slot] = append(s.again[slot], s.come(slot, i))
		}
	}
	s.repeats += len(s.runs) - len(s.was)
	if k, used := slices.BinarySearch(s.used, slot); used && len(s.runs) == 0 {
		s.used = slices.Delete(s.used, k, k+1)
	} else if !used && len(s.runs) > 0 {
		s.used = slices.Insert(s.used, k, slot)
	}
}

// each calls f for each buffer that a node reads or makes.
func (s *sweep) each(node int32, f func(t int32)) {
	for _, t := range s.reads.of(node) {
		f(t)
	}
	for _, t := range s.makes.of(node) {
		f(t)
	}
}

// meet takes off the instances of a buffer, since they will change.
func (s *sweep) meet(t int32) {
	if s.met[t] != s.met0 {
		s.met[t] = s.met0
		s.open = append(s.open, t)
		s.hold(t, -1)
	}
}

// leave removes the events of a repeated run.
func (s *sweep) leave(slot, node int32) {
	s.extra -= s.cost[node]
	x := event(newMoment(slot, node)) << 1
	s.each(node, func(t int32) {
		if k, _ := slices.BinarySearch(s.events[t], x); k < len(s.events[t]) && s.events[t][k]>>1 == x>>1 {
			s.events[t] = slices.Delete(s.events[t], k, k+1)
		}
	})
}

// come adds the events of a repeated run.
func (s *sweep) come(slot, node int32) (r held) {
	s.extra += s.cost[node]
	r.begins, r.ends = s.workspace[node], s.workspace[node]
	x := event(newMoment(slot, node)) << 1
	put := func(t int32, x event) {
		k, _ := slices.BinarySearch(s.events[t], x)
		s.events[t] = slices.Insert(s.events[t], k, x)
	}
	for _, t := range s.reads.of(node) {
		put(t, x)
	}
	for _, t := range s.makes.of(node) {
		if s.wanted[t] != s.number && s.overwritten(t, slot) {
			r.begins += s.size[t]
			r.ends += s.size[t]
		} else {
			put(t, x|1)
		}
	}
	return r
}

// runAt returns what is known of a run, or nil if there is none at that moment.
func (s *sweep) runAt(m moment) *held {
	slot, node := m.slot(), m.node()
	if node == slot {
		return &s.step[slot]
	}
	if k, ran := slices.BinarySearch(s.who[slot], node); ran {
		return &s.again[slot][k]
	}
	return nil
}

// hold adds the instances of a buffer, times a factor.
func (s *sweep) hold(t int32, factor int64) {
	size, over := s.size[t]*factor, s.over[t]
	first, last := moment(0), moment(0)
	put := func() {
		s.runAt(first).begins += size
		s.runAt(last).ends += size
		if over {
			s.lasts = append(s.lasts, last)
		}
	}
	there := s.maker[t] < 0
	for _, x := range s.events[t] {
		if x.makes() {
			if there {
				put()
			}
			first, there = x.moment(), true
		}
		last = x.moment()
	}
	if s.output[t] {
		n := int32(len(s.order)) - 1
		last = newMoment(n, n)
	}
	put()
}

// share finds, at each moment in lasts, the savings of a largest matching of the in-place
// pairs that are free there: those whose overwritten tensor is read there for the last time. A pair changes
// the load of its own step only, so the best choice at each step is the best for the order
// (see package schedule).
func (s *sweep) share() {
	for _, m := range s.lasts {
		x := s.runAt(m)
		if x == nil {
			continue
		}
		x.saved = 0
		s.here = s.here[:0]
		for _, pair := range s.pairs[m.node()] {
			if s.ends(pair.Over, m) {
				s.here = append(s.here, pair)
			}
		}
		if len(s.here) == 1 {
			x.saved = s.size[s.here[0].Over] // most runs have a single pair
			continue
		}
		slices.SortFunc(s.here, func(a, b match.Pair) int {
			return cmp.Or(cmp.Compare(a.Result, b.Result), cmp.Compare(a.Over, b.Over))
		})
		s.taken = s.match.Largest(s.taken[:0], s.here)
		for _, pair := range s.taken {
			x.saved += s.size[pair.Over]
		}
	}
	s.lasts = s.lasts[:0]
}

// ends reports whether an instance of a buffer ends at a moment.
func (s *sweep) ends(t int32, m moment) bool {
	events := s.events[t]
	k, _ := slices.BinarySearch(events, event(m)<<1)
	for k < len(events) && events[k].moment() == m {
		k++
	}
	if k < len(events) {
		return events[k].makes() && k > 0 && events[k-1].moment() == m
	}
	if n := int32(len(s.order)) - 1; s.output[t] {
		return m == newMoment(n, n)
	}
	return k > 0 && events[k-1].moment() == m
}

package prooftest

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof/model"
)

// LeastAgain is the least cost of runs behind first ones, over all sequences of runs that keep the
// limit; -1 if there is none. It goes through all states: which nodes have run, and which tensors are
// held. Nothing that is overwritten is known to it.
func LeastAgain(p *model.Problem, a *model.Again) int64 {
	type state struct{ ran, held uint32 }
	start, end := state{}, state{}
	for v := range p.Before {
		end.ran |= 1 << v
	}
	for i, t := range p.Tensors {
		if t.Maker < 0 && t.Bytes > 0 {
			start.held |= 1 << i
		}
		if t.Output && t.Bytes > 0 {
			end.held |= 1 << i
		}
	}
	cost := map[state]int64{start: 0}
	done := map[state]bool{}
	list := []state{start} // the cheapest first
	reach := func(s state, c int64) {
		if old, is := cost[s]; is && old <= c {
			return
		}
		cost[s] = c
		at, _ := slices.BinarySearchFunc(list, c, func(s state, c int64) int { return cmp.Compare(cost[s], c) })
		list = slices.Insert(list, at, s)
	}
	for len(list) > 0 {
		s := list[0]
		list = list[1:]
		if done[s] {
			continue
		}
		done[s] = true
		c := cost[s]
		if s.ran == end.ran && s.held&end.held == end.held {
			return c
		}
		for i := range p.Tensors {
			if s.held>>i&1 == 1 {
				reach(state{s.ran, s.held &^ (1 << i)}, c)
			}
		}
		for v := range p.Before {
			again := s.ran>>v&1 == 1
			if again && a.Once[v] || slices.ContainsFunc(p.Before[v], func(w int32) bool { return s.ran>>w&1 == 0 }) {
				continue
			}
			load, makes := p.Work[v], uint32(0)
			readable := true
			for i, t := range p.Tensors {
				if t.Bytes == 0 {
					continue
				}
				reads := int(t.Maker) != v && slices.Contains(t.Readers, int32(v))
				readable = readable && (!reads || s.held>>i&1 == 1)
				if int(t.Maker) == v {
					makes |= 1 << i
					load += t.Bytes
				} else if s.held>>i&1 == 1 {
					load += t.Bytes
				}
			}
			if !readable {
				continue
			}
			next := c
			if again {
				next += a.Cost[v]
			}
			over(p, p.Pairs[v], 0, 0, func(lost uint32, saved int64) {
				if load-saved <= a.Limit {
					reach(state{s.ran | 1<<v, s.held&^lost | makes}, next)
				}
			})
		}
	}
	return -1
}

// over calls f for each choice of pairs of which no two share a tensor.
func over(p *model.Problem, pairs []model.Pair, results, lost uint32, f func(lost uint32, saved int64)) {
	if len(pairs) == 0 {
		f(lost, 0)
		return
	}
	over(p, pairs[1:], results, lost, f)
	x := pairs[0]
	if results>>x.Result&1 == 0 && lost>>x.Over&1 == 0 {
		over(p, pairs[1:], results|1<<x.Result, lost|1<<x.Over, func(lost uint32, saved int64) { f(lost, saved+p.Tensors[x.Over].Bytes) })
	}
}

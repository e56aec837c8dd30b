package tiers

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
)

// width is the number of states that choose keeps between two buffers. Up to it the
// choice is exact. A network of 500 nodes in slices has a few dozen buffers live at once
// and needs the limit; one without slices has a handful.
const width = 400

// state is a choice among the buffers so far.
type state struct {
	live  []int // chosen buffers that are still live, by the order of choose
	used  int64 // their bytes
	saved int64 // traffic of all chosen buffers
	rank  float64
	item  int    // the last chosen buffer; -1: none
	from  *state // the choice before it
}

// choose returns the buffers of a list whose traffic is the largest such that they take at
// most capacity bytes at every step. It goes through the buffers by their first step. A state
// is the set of chosen buffers that are live. Of equal sets the one that saves more is kept.
// Of all sets, the best width are kept, by the traffic of what they chose; a buffer's counts
// by the part of its life that is over. exact: no set was left out for its rank. The error is
// the context's.
func (p *Problem) choose(ctx context.Context, list []int, capacity int64) (chosen []int, exact bool, err error) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(p.Buffers[a].First, p.Buffers[b].First) })
	gains := make([]int64, len(p.Buffers))
	for _, i := range list {
		gains[i] = p.Buffers[i].traffic()
	}
	states := []*state{{item: -1}}
	exact = true
	var key []byte
	for _, i := range list {
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		b := &p.Buffers[i]
		if b.Size == 0 {
			chosen = append(chosen, i)
		}
		if b.Size == 0 || gains[i] <= 0 || b.Size > capacity {
			continue
		}
		now, fewer := p.after(states, b.First)
		next := make([]*state, 0, 2*len(now))
		index := map[string]int{}
		add := func(s *state) {
			if fewer { // else all sets differ, as they did before
				key = key[:0]
				for _, j := range s.live {
					key = binary.LittleEndian.AppendUint32(key, uint32(j))
				}
				if k, known := index[string(key)]; known {
					if next[k].saved < s.saved {
						next[k] = s
					}
					return
				}
				index[string(key)] = len(next)
			}
			next = append(next, s)
		}
		for _, t := range now {
			add(t)
			if b.Size <= capacity-t.used {
				add(&state{live: append(slices.Clip(t.live), i), used: t.used + b.Size, saved: t.saved + gains[i], item: i, from: t})
			}
		}
		if len(next) > width {
			exact = false
			for _, s := range next {
				s.rank = float64(s.saved)
				for _, j := range s.live {
					c := &p.Buffers[j]
					s.rank -= float64(gains[j]) * float64(c.Last-b.First+1) / float64(c.Last-c.First+2)
				}
			}
			slices.SortStableFunc(next, func(s, t *state) int { return cmp.Compare(t.rank, s.rank) })
			next = next[:width]
		}
		states = next
	}
	best := states[0]
	for _, s := range states {
		if s.saved > best.saved {
			best = s
		}
	}
	for s := best; s != nil; s = s.from {
		if s.item >= 0 {
			chosen = append(chosen, s.item)
		}
	}
	slices.Sort(chosen)
	return chosen, exact, nil
}

// after returns states without the buffers that end before a step, and whether some had such.
func (p *Problem) after(states []*state, step int) (list []*state, fewer bool) {
	over := func(j int) bool { return p.Buffers[j].Last < step }
	for k, s := range states {
		t := s
		if slices.ContainsFunc(s.live, over) {
			if !fewer {
				fewer, list = true, slices.Clone(states)
			}
			t = &state{saved: s.saved, item: -1, from: s}
			for _, j := range s.live {
				if !over(j) {
					t.live = append(t.live, j)
					t.used += p.Buffers[j].Size
				}
			}
			list[k] = t
		}
	}
	if !fewer {
		return states, false
	}
	return list, true
}

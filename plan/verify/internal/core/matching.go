package core

import (
	"fmt"
	"slices"
)

// option is a pair, or several that permit and save their bytes in the same states: others
// stand for them in a matching.
type option struct {
	Pair
	bytes int64 // that all of them save
}

// alike joins what a node's pairs have in common. Pairs that compete for a result or an
// overwritten storage, directly or through others, form a group. With aliases, a node has
// a group for each part of its result, and all of these say the same of their own parts:
// the same competition, for storages with the same readers. In each state S, the best
// matching of such a group is the best of each other, so the least over all choices for
// all groups,
//
//	min over S { live(S) + sum over groups g of size(g) * (least over matchings of g in S) }
//
// is taken with one choice for all groups that are alike: they count as one group of the
// sum of their sizes. Without that, n parts over either of two inputs have 2^n matchings.
func (p *Problem) alike(pairs []Pair) (list []option) {
	group := make([]int, len(pairs)) // union-find; its root is the first pair of a group
	find := func(i int) int {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	byResult, byOver := map[int32]int{}, map[int32]int{}
	for i, x := range pairs {
		group[i] = i
		join := func(of map[int32]int, k int32) {
			j, known := of[k]
			if !known {
				of[k] = i
				return
			}
			a, b := find(i), find(j)
			group[max(a, b)] = min(a, b)
		}
		join(byResult, x.Result)
		join(byOver, x.Over)
	}
	first := map[string]int{}             // by what a group says: the first option of the first such group
	members := make([][]Pair, len(pairs)) // by the first pair of a group
	for i, x := range pairs {
		members[find(i)] = append(members[find(i)], x)
	}
	for _, same := range members {
		if len(same) == 0 {
			continue
		}
		var results, overs []int32
		number := func(list *[]int32, i int32) int {
			k := slices.Index(*list, i)
			if k < 0 {
				k = len(*list)
				*list = append(*list, i)
			}
			return k
		}
		var says []byte
		for _, x := range same {
			says = fmt.Appendf(says, "%d over %d, read by %v;", number(&results, x.Result), number(&overs, x.Over), p.Storages[x.Over].Readers)
		}
		at, known := first[string(says)]
		if !known {
			at = len(list)
			first[string(says)] = at
			for _, x := range same {
				list = append(list, option{Pair: x})
			}
		}
		for k, x := range same {
			list[at+k].bytes += p.Storages[x.Over].Bytes
		}
	}
	return list
}

// maximal lists the matchings of a node's pairs to which no pair can be added,
// nil if there are none or more than limit.
func maximal(pairs []option, limit int) [][]option {
	var list [][]option
	var chosen []option
	taken := map[int32]bool{} // storages of chosen pairs; one is not both result and overwritten
	tries := 0
	var from func(k int)
	from = func(k int) {
		if tries++; tries > 1<<12 || len(list) > limit {
			return
		}
		if k == len(pairs) {
			for _, p := range pairs {
				if !taken[p.Result] && !taken[p.Over] {
					return
				}
			}
			list = append(list, slices.Clone(chosen))
			return
		}
		p := pairs[k]
		if !taken[p.Result] && !taken[p.Over] {
			taken[p.Result], taken[p.Over] = true, true
			chosen = append(chosen, p)
			from(k + 1)
			chosen = chosen[:len(chosen)-1]
			delete(taken, p.Result)
			delete(taken, p.Over)
			competes := func(q option) bool {
				return q != p && (q.Result == p.Result || q.Over == p.Over)
			}
			if !slices.ContainsFunc(pairs, competes) {
				return // it is in every maximal matching
			}
		}
		from(k + 1)
	}
	from(0)
	if tries > 1<<12 || len(list) > limit {
		return nil
	}
	return list
}

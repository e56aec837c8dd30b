package copies

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// Copies are the copies of a stretch that repeats, counted along the shift.
type Copies struct {
	Count int     // of copies
	Role  []int32 // node -> what it is in its copy, the same in all; -1: it is in no copy
	Copy  []int32 // node -> its copy, from 0
	// The same for tensors. The copy of a tensor may be one beside that of the node that makes it.
	TensorRole, TensorCopy []int32
}

const (
	leastCopies = 4 // fewer are not worth it
	maxSeeds    = 4 // shifts that are tried

	// Of neighbourhoods that tell vertices apart, in edges.
	mostDistance, leastDistance = 16, 4
)

// Find returns the copies of the stretch whose copies have the most nodes in all, or nil if
// less than half of the nodes are in copies of one stretch. O(edges).
func Find(p *schedule.Problem) *Copies {
	g := newNet(p)
	// Large neighbourhoods tell more vertices apart, small ones do not reach the ends of a short network.
	for distance := mostDistance; distance >= leastDistance; distance /= 2 {
		colours := [][]uint64{g.colours(distance), g.colours(distance / 4), g.label}
		var best *shift
		for _, x := range g.seeds(colours[0]) {
			s := newShift(g)
			s.grow(x.from, x.to, colours)
			if best == nil || s.covered > best.covered {
				best = s
			}
		}
		if best != nil && best.covered*2 >= len(p.Nodes) {
			return best.copies()
		}
	}
	return nil
}

// seeds returns pairs of nodes that may be those of one role in two neighbouring copies. Of the nodes whose
// neighbourhoods are alike, as many as there are copies, it takes two in the middle that follow each other.
func (g *net) seeds(colour []uint64) (list []pair) {
	nodes := make([]int32, g.nodes)
	for v := range nodes {
		nodes[v] = int32(v)
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(colour[a], colour[b]) })
	all := map[int]*struct{ from, nodes int }{} // the number of members -> such classes: where the first begins, nodes of all
	var counts []int
	for i := 0; i < len(nodes); {
		k := i
		for k < len(nodes) && colour[nodes[k]] == colour[nodes[i]] {
			k++
		}
		if n := k - i; n >= leastCopies-1 {
			if all[n] == nil {
				all[n] = &struct{ from, nodes int }{from: i}
				counts = append(counts, n)
			}
			all[n].nodes += n
		}
		i = k
	}
	slices.SortFunc(counts, func(a, b int) int { return cmp.Or(cmp.Compare(all[b].nodes, all[a].nodes), cmp.Compare(a, b)) })
	for _, n := range counts[:min(len(counts), maxSeeds)] {
		middle := all[n].from + n/2
		list = append(list, pair{nodes[middle-1], nodes[middle]})
	}
	return list
}

// copies numbers the copies. Each vertex with an image is on a chain, which runs through the copies from one to
// the next. Where a copy begins is a matter of choice: a chain is counted from the copies of the
// chain next to it in the graph, so that edges go to copies nearby.
func (s *shift) copies() *Copies {
	n := len(s.label)
	chain, place := make([]int32, n), make([]int32, n)
	for v := range chain {
		chain[v] = -1
	}
	var chains [][]int32
	for v := range n {
		if s.prev[v] >= 0 || s.next[v] < 0 {
			continue
		}
		var list []int32
		for u := int32(v); u >= 0; u = s.next[u] {
			chain[u], place[u] = int32(len(chains)), int32(len(list))
			list = append(list, u)
		}
		chains = append(chains, list)
	}
	offset, met := make([]int32, len(chains)), make([]bool, len(chains))
	longest := -1
	for i, list := range chains {
		if int(list[0]) < s.nodes && (longest < 0 || len(list) > len(chains[longest])) {
			longest = i
		}
	}
	if longest < 0 {
		return nil
	}
	met[longest] = true
	for open := []int{longest}; len(open) > 0; open = open[1:] {
		list := chains[open[0]]
		v := list[len(list)/2]
		at := place[v] + offset[open[0]]
		for _, of := range [2][]int32{s.in[v], s.out[v]} {
			for _, u := range of {
				if c := chain[u]; c >= 0 && !met[c] {
					met[c] = true
					offset[c] = at - place[u]
					open = append(open, int(c))
				}
			}
		}
	}
	least, most := int32(1<<30), int32(-1<<30)
	for i, list := range chains {
		if met[i] && int(list[0]) < s.nodes {
			least, most = min(least, offset[i]), max(most, offset[i]+int32(len(list)))
		}
	}
	role, copies := make([]int32, n), make([]int32, n)
	for v, i := range chain {
		role[v] = -1
		if i >= 0 && met[i] {
			role[v], copies[v] = i, offset[i]-least+place[v]
		}
	}
	return &Copies{
		Count: int(most - least), Role: role[:s.nodes], Copy: copies[:s.nodes],
		TensorRole: role[s.nodes:], TensorCopy: copies[s.nodes:],
	}
}

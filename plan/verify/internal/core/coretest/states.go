// Package coretest draws small problems, and enumerates their states: what tests compare the
// core and the provers with.
package coretest

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// States are the downsets of a small problem: sets of nodes that contain all predecessors of
// their members. Node n is bit n.
type States struct {
	Pairs [][]core.Pair // by node: those that save bytes

	p    *core.Problem
	must []int // by node: the nodes that must run before it
}

// NewStates derives precedence from the same facts as the orders that it accepts.
func NewStates(p *core.Problem) *States {
	q := &States{p: p, must: make([]int, len(p.Nodes)), Pairs: make([][]core.Pair, len(p.Nodes))}
	for i, n := range p.Nodes {
		q.Pairs[i] = p.Pairs(int32(i))
		for _, m := range n.After {
			q.must[i] |= 1 << m
		}
	}
	for _, u := range p.Updated {
		maker := p.Storages[u.New].Maker
		for _, r := range p.Storages[u.Old].Readers {
			if r < maker {
				q.must[maker] |= 1 << r
			}
		}
	}
	return q
}

func (q *States) downset(set int) bool {
	for n, must := range q.must {
		if set>>n&1 != 0 && must&^set != 0 {
			return false
		}
	}
	return true
}

// load returns the load of node n when it runs in a state, without inputs that nobody
// reads.
func (q *States) load(n, set int) int64 {
	load := q.p.Work[n]
	waits := func(i int32) (count int) {
		for _, r := range q.p.Storages[i].Readers {
			if set>>r&1 == 0 {
				count++
			}
		}
		return count
	}
	for i := range q.p.Storages {
		st := &q.p.Storages[i]
		made := st.Maker < 0 || set>>st.Maker&1 != 0
		if q.p.Counts(int32(i)) && (made && (st.Output || waits(int32(i)) > 0) || st.Maker == int32(n)) {
			load += st.Bytes
		}
	}
	var ready []core.Pair
	for _, x := range q.Pairs[n] {
		if waits(x.Over) == 1 {
			ready = append(ready, x)
		}
	}
	return load - q.p.Saved(ready)
}

// Least returns the least load of node n over the states that keep accepts. idle is the bytes
// of inputs that nobody reads.
func (q *States) Least(n int, idle int64, keep func(set int) bool) int64 {
	least, empty := int64(math.MaxInt64), true
	for set := range 1 << len(q.must) {
		if set>>n&1 == 0 && q.must[n]&^set == 0 && q.downset(set) && keep(set) {
			least = min(least, q.load(n, set))
			empty = empty && set == 0
		}
	}
	if empty && least < math.MaxInt64 {
		least += idle // it can run only at step 0
	}
	return least
}

// Optimum returns the least peak over all orders, by dynamic programming over sets of nodes.
func (q *States) Optimum(idle int64) int64 {
	n := len(q.must)
	peak := make([]int64, 1<<n)
	for set := range peak[1:] {
		peak[set+1] = math.MaxInt64
	}
	for set, before := range peak {
		for v := range n {
			if before == math.MaxInt64 || set>>v&1 != 0 || q.must[v]&^set != 0 {
				continue
			}
			load := q.load(v, set)
			if set == 0 {
				load += idle
			}
			next := set | 1<<v
			peak[next] = min(peak[next], max(before, load))
		}
	}
	return peak[len(peak)-1]
}

// Order draws an order.
func (q *States) Order(r *rand.Rand) []int32 {
	var order []int32
	for set := 0; len(order) < len(q.must); {
		for _, n := range r.Perm(len(q.must)) {
			if set>>n&1 == 0 && q.must[n]&^set == 0 {
				set |= 1 << n
				order = append(order, int32(n))
				break
			}
		}
	}
	return order
}

// Random draws a problem with everything that affects bounds: several results and readers,
// storages of 0 bytes, unread and resident ones, precedence without bytes, workspaces, results
// over operands, and a parameter that is updated.
func Random(r *rand.Rand, nodes int) *core.Problem {
	p := &core.Problem{Work: make([]int64, nodes), Nodes: make([]core.Node, nodes), Inplace: r.IntN(4) > 0, Sums: &core.Sums{}}
	size := func() int64 { return 64 * []int64{0, 1, 1, 1, 2, 2, 3, 7}[r.IntN(8)] }
	add := func(maker int32, bytes int64) int32 {
		p.Storages = append(p.Storages, core.Storage{Maker: maker, Bytes: bytes, Output: r.IntN(6) == 0})
		return int32(len(p.Storages) - 1)
	}
	for range 1 + r.IntN(3) {
		add(core.None, size())
	}
	if r.IntN(3) == 0 {
		p.Storages[add(core.None, 64)].Resident = true
	}
	for n := range nodes {
		node := &p.Nodes[n]
		for range r.IntN(4) {
			// Late storages are more likely, to make chains.
			i := int32(max(r.IntN(len(p.Storages)), r.IntN(len(p.Storages))))
			st := &p.Storages[i]
			node.Reads = append(node.Reads, i)
			if st.Maker >= 0 {
				node.After = append(node.After, st.Maker)
			}
			if !slices.Contains(st.Readers, int32(n)) {
				st.Readers = append(st.Readers, int32(n))
			}
		}
		if n > 0 && r.IntN(8) == 0 {
			node.After = append(node.After, int32(r.IntN(n)))
		}
		for range r.IntN(3) {
			bytes := size()
			if len(node.Reads) > 0 && r.IntN(2) == 0 {
				bytes = p.Storages[node.Reads[0]].Bytes
			}
			node.Writes = append(node.Writes, add(int32(n), bytes))
		}
		for _, result := range node.Writes {
			for _, over := range node.Reads {
				if r.IntN(2) == 0 {
					continue
				}
				node.Overwrite = append(node.Overwrite, over)
				if p.Storages[result].Bytes == p.Storages[over].Bytes {
					node.Over = append(node.Over, core.Pair{Result: result, Over: over})
				}
			}
		}
		if r.IntN(4) == 0 {
			p.Work[n] = size()
		}
	}
	if last := int32(len(p.Storages) - 1); r.IntN(4) == 0 && p.Storages[last].Maker >= 0 {
		p.Updated = []core.Update{{Old: 0, New: last}}
		for _, i := range []int32{0, last} {
			p.Storages[i].Update, p.Storages[i].Resident, p.Storages[i].Output = true, true, i > 0
		}
	}
	return p
}

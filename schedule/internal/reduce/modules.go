package reduce

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// A module is a set of nodes between an entry e and an exit x, such as one bilinear resize:
// four reads of the input, and what weighs and adds them.
//
//	      ┌─▶ · ─▶ · ─┐          e runs before all others of the module, x is its last
//	─▶ e ─┤     ╲     ├─▶ x ─▶   node; all paths from the other nodes lead to x, and all
//	      └─▶ · ─▶ · ─┘          their other predecessors are ancestors of e
//
// Let s be the nodes of the module that have run. The module's share of the live bytes,
// live(s), depends on s alone, so an order of the module can be judged by itself. (A tensor
// may be read by a node outside, too, which is neither an ancestor of e nor a descendant of
// x. It is part of the share until that node has run and the module has read it. Then there are two shares, and what follows must hold for both. One such
// tensor is allowed.)
//
// Lemma. Let p(0), p(1), ... be the states of an order P of the module. If a relation R of
// states s and places j in P exists with
//
//	R(empty, 0), and R(all, j) only for the last j
//	R(s, j)    live(p(j)) <= live(s), and for each node v that may run from s there is a
//	           place k >= j with R(s + v, k) such that no load of P between j and k
//	           exceeds the load of v from s
//
// then some optimal order of the problem runs the module as P does.
//
// Proof. Take any order. In place of the module's node v from s, with R(s, j), run the nodes
// of P from j to k. The live bytes at all other steps do not grow. Nor does the load of the
// other nodes. Only a saving over the tensor that is shared can be given to them less, if s
// has read it and p(j) has not. Then live(p(j)) <= live(s) for the second share makes up for
// it. The order keeps the precedence: the other nodes that the module's nodes wait for run
// before e, and those that wait for them run after x.
//
// So P can be added as precedence, and the contraction then merges most of the module. In
// the terms of Liu ("An application of generalized tree pebbling to sparse matrix
// factorization", 1987), P has the least of all hill-valley sequences of the module. It need
// not exist; that P is one is checked by computing R from the last states to the first.

const (
	maxModule       = 24   // nodes
	maxModuleStates = 1500 // downsets
)

// modules knows the ancestors and the dominators of the nodes of a problem.
type modules struct {
	g      *indexed.Problem
	parts  Extractor
	order  []int32
	place  []int32
	before ancestors
	preds  [][]int32
	succs  [][]int32 // both without what follows from other precedence
	first  []int32   // node -> the last node that all paths to it come through, or -1
	last   []int32   // node -> the first node that all paths from it lead through, or -1
	depth  []int32   // node -> how many nodes all paths from it lead through
}

// Chains returns precedence that fixes the order of modules. It leaves the optimum as it is.
// A module within another is fixed alone; once it is contracted, the other may be fixed.
func Chains(g *indexed.Problem) (edges [][2]int32) {
	if g.Nodes < 3 || g.Nodes > maxSets {
		return nil
	}
	m := &modules{g: g, order: g.Listing(), place: make([]int32, g.Nodes)}
	m.relate()
	used := make([]bool, g.Nodes)
	for _, x := range m.order {
		nodes, e := m.inside(x)
		if len(nodes) < 3 || slices.ContainsFunc(nodes, func(v int32) bool { return used[v] }) {
			continue
		}
		slices.SortFunc(nodes, func(a, b int32) int { return cmp.Compare(m.place[a], m.place[b]) })
		if m.isChain(nodes) {
			continue
		}
		chain := m.chain(nodes, e, x)
		for i := range chain {
			used[chain[i]] = true
			if i > 0 && !m.precedes(chain[i-1], chain[i]) {
				edges = append(edges, [2]int32{chain[i-1], chain[i]})
			}
		}
	}
	return edges
}

// relate computes the ancestors and dominators of all nodes.
func (m *modules) relate() {
	n := m.g.Nodes
	m.first, m.last, m.depth = make([]int32, n), make([]int32, n), make([]int32, n)
	m.preds, m.succs = make([][]int32, n), make([][]int32, n)
	up := make([]int32, n)
	for i, v := range m.order {
		m.place[v] = int32(i)
	}
	m.before = ancestorsOf(m.order, m.place, m.g.Preds.Of, nil)
	for _, v := range m.order {
		m.preds[v] = m.direct(v)
		for _, p := range m.preds[v] {
			m.succs[p] = append(m.succs[p], v)
		}
		m.first[v] = dominator(m.preds[v], m.first, up)
		if m.first[v] >= 0 {
			up[v] = up[m.first[v]] + 1
		}
	}
	for _, v := range slices.Backward(m.order) {
		m.last[v] = dominator(m.succs[v], m.last, m.depth)
		if m.last[v] >= 0 {
			m.depth[v] = m.depth[m.last[v]] + 1
		}
	}
}

// direct returns the predecessors of v that are not ancestors of others: a path that takes a
// short cut would hide an entry or an exit.
func (m *modules) direct(v int32) (list []int32) {
	preds := m.g.Preds.Of(v)
	if len(preds) > maxDirect {
		return preds
	}
	for _, p := range preds {
		if !slices.ContainsFunc(preds, func(q int32) bool { return q != p && m.precedes(p, q) }) {
			list = append(list, p)
		}
	}
	return list
}

// maxDirect is the most predecessors that are compared with each other.
const maxDirect = 64

// dominator returns the nearest node that dominates all neighbours (Cooper, Harvey and
// Kennedy, "A simple, fast dominance algorithm", 2001), or -1.
func dominator(neighbours, of, depth []int32) int32 {
	d := int32(-1)
	for i, u := range neighbours {
		if i == 0 {
			d = u
			continue
		}
		for d != u {
			if d < 0 || u < 0 {
				return -1
			}
			if depth[d] >= depth[u] {
				d = of[d]
			} else {
				u = of[u]
			}
		}
	}
	return d
}

// precedes reports whether u is v or an ancestor of v.
func (m *modules) precedes(u, v int32) bool {
	return m.before.has(m.place[u], m.place[v])
}

// inside returns the nodes of the module that ends with x, x included, and its entry.
func (m *modules) inside(x int32) (nodes []int32, e int32) {
	if e = m.first[x]; e < 0 {
		return nil, -1
	}
	nodes = []int32{x}
	for i := 0; i < len(nodes); i++ {
		for _, p := range m.preds[nodes[i]] {
			switch {
			case slices.Contains(nodes, p) || m.precedes(p, e):
			case len(nodes) == maxModule || !m.precedes(e, p) || !m.leadsTo(p, x):
				return nil, -1
			default:
				nodes = append(nodes, p)
			}
		}
	}
	return nodes, e
}

// leadsTo reports whether all paths from v lead to x.
func (m *modules) leadsTo(v, x int32) bool {
	for v >= 0 && m.depth[v] > m.depth[x] {
		v = m.last[v]
	}
	return v == x
}

func (m *modules) isChain(nodes []int32) bool {
	for i := 1; i < len(nodes); i++ {
		if !m.precedes(nodes[i-1], nodes[i]) {
			return false
		}
	}
	return true
}

// chain returns an order of the module that some optimal order keeps, or nil.
func (m *modules) chain(nodes []int32, e, x int32) []int32 {
	shared, readers := int32(-1), []int32(nil)
	for _, v := range nodes {
		for _, t := range m.g.Reads.Of(v) {
			for _, r := range m.g.Readers.Of(t) {
				if slices.Contains(nodes, r) || m.precedes(r, e) || m.precedes(x, r) {
					continue
				}
				if shared >= 0 && shared != t {
					return nil
				}
				shared = t
				if !slices.Contains(readers, r) {
					readers = append(readers, r)
				}
			}
		}
	}
	list := []*lattice{m.lattice(nodes, e, nil)}
	if list[0] == nil {
		return nil
	}
	if shared >= 0 && !m.g.Output[shared] {
		list = append(list, m.lattice(nodes, e, readers))
	}
	for _, l := range list {
		if chain := l.least(); chain != nil && simulates(list, chain) {
			order := make([]int32, len(chain))
			for i, v := range chain {
				order[i] = nodes[v]
			}
			return order
		}
	}
	return nil
}

// lattice is all states of a module, those of fewer nodes first.
type lattice struct {
	nodes  int
	states []uint32         // the nodes that have run, by bit
	at     map[uint32]int32 // state -> its place
	live   []int64
	moves  [][]latticeMove // state -> by each node that may run
}

type latticeMove struct {
	node, to int32
	load     int64
}

// lattice returns the states of a module, or nil if they are too many. The readers given
// have run; the other nodes outside have run if they are ancestors of e.
func (m *modules) lattice(nodes []int32, e int32, ran []int32) *lattice {
	m.parts.PlaceAll(m.g, After)
	for _, v := range m.order[:m.place[e]+1] {
		if m.precedes(v, e) {
			m.parts.Where[v] = Before
		}
	}
	for _, r := range ran {
		m.parts.Where[r] = Before
	}
	g := m.parts.Extract(m.g, nodes, 0)
	l := &lattice{nodes: g.Nodes, states: []uint32{0}, at: map[uint32]int32{0: 0}}
	preds := make([]uint32, g.Nodes)
	for v := range preds {
		for _, u := range g.Preds.Of(int32(v)) {
			preds[v] |= 1 << u
		}
	}
	var unread []int32
	for i := 0; i < len(l.states); i++ {
		s := l.states[i]
		live := g.Base
		unread = g.Unread(unread)
		for t := range g.Size {
			for _, r := range g.Readers.Of(int32(t)) {
				if s>>r&1 == 1 {
					unread[t]--
				}
			}
			if maker := g.Maker[t]; (maker < 0 || s>>maker&1 == 1) && (g.Output[t] || unread[t] > 0) {
				live += g.Size[t]
			}
		}
		l.live = append(l.live, live)
		var moves []latticeMove
		for left := ^s & (1<<g.Nodes - 1); left != 0; left &= left - 1 {
			v := int32(bits.TrailingZeros32(left))
			if preds[v]&^s != 0 {
				continue
			}
			next := s | 1<<v
			to, known := l.at[next]
			if !known {
				if to = int32(len(l.states)); to == maxModuleStates {
					return nil
				}
				l.at[next] = to
				l.states = append(l.states, next)
			}
			moves = append(moves, latticeMove{v, to, live + g.Need(v, unread, 1)})
		}
		l.moves = append(l.moves, moves)
	}
	return l
}

// least returns an order that goes from state to state: each time by the least load that
// leads on, as far as that load leads, to the state of the fewest live bytes.
func (l *lattice) least() []int32 {
	end := int32(len(l.states) - 1)
	hill, from, by := make([]int64, len(l.states)), make([]int32, len(l.states)), make([]int32, len(l.states))
	var chain []int32
	for s := int32(0); s != end; {
		for i := range hill {
			hill[i] = indexed.Infinite
		}
		hill[s] = -indexed.Infinite
		lowest := indexed.Infinite
		for _, x := range l.moves[s] {
			lowest = min(lowest, x.load)
		}
		best := int32(-1)
		for i := s; i <= end; i++ {
			if hill[i] > lowest {
				continue
			}
			if i != s && (best < 0 || l.live[i] <= l.live[best]) {
				best = i
			}
			for _, x := range l.moves[i] {
				if load := max(hill[i], x.load); load < hill[x.to] {
					hill[x.to], from[x.to], by[x.to] = load, i, x.node
				}
			}
		}
		at := len(chain)
		for i := best; i != s; i = from[i] {
			chain = append(chain, by[i])
		}
		slices.Reverse(chain[at:])
		s = best
	}
	return chain
}

// simulates reports whether the relation R of the lemma exists for an order of a module
// and for all its shares.
func simulates(list []*lattice, chain []int32) bool {
	l := list[0]
	n := len(chain)
	live := make([][]int64, len(list)) // share -> place -> live bytes
	load := make([][]int64, len(list)) // share -> place -> load of the node that runs from there
	s := int32(0)
	for i := range list {
		live[i], load[i] = make([]int64, n+1), make([]int64, n)
	}
	for j := 0; ; j++ {
		for i, x := range list {
			live[i][j] = x.live[s]
		}
		if j == n {
			break
		}
		k := slices.IndexFunc(l.moves[s], func(x latticeMove) bool { return x.node == chain[j] })
		for i, x := range list {
			load[i][j] = x.moves[s][k].load
		}
		s = l.moves[s][k].to
	}
	related := make([]uint32, len(l.states)) // state -> the places related to it
	for s := len(l.states) - 1; s >= 0; s-- {
		for j := 0; j <= n; j++ {
			if s == len(l.states)-1 && j < n {
				continue
			}
			if holds(list, live, load, related, s, j) {
				related[s] |= 1 << j
			}
		}
	}
	return related[0]&1 == 1
}

// holds reports whether R(s, j) holds, if it is known for all larger states.
func holds(list []*lattice, live, load [][]int64, related []uint32, s, j int) bool {
	for i, x := range list {
		if live[i][j] > x.live[s] {
			return false
		}
	}
	n := len(load[0])
	for k, move := range list[0].moves[s] {
		found := false
		for to := j; to <= n; to++ {
			if related[move.to]>>to&1 == 1 {
				found = true
				break
			}
			if to < n && exceeds(list, load, to, s, k) {
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// exceeds reports whether the load at a place exceeds that of a move, for any share.
func exceeds(list []*lattice, load [][]int64, place, s, move int) bool {
	for i, x := range list {
		if load[i][place] > x.moves[s][move].load {
			return true
		}
	}
	return false
}

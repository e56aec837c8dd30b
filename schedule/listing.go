package schedule

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Listing is an order of the nodes in a file, and the order in which ONNX Runtime's default
// traversal then runs them: [ReverseDepthFirst] of a problem whose nodes are listed so.
type Listing struct {
	Nodes []int32 // the nodes as the file lists them: a topological order
	Order []int32 // the nodes as they run
	Peak  int64
}

// BestListing looks for the listing whose traversal has the smallest peak, at least enough:
// a smaller one is not looked for. It begins with listings that follow the given orders as
// far as a traversal can, and improves the best of them by moving single nodes. The work is
// counted, so the result does not depend on the machine, unless the context ends it. The
// result is no proof that no listing does better, unless its peak is enough.
//
// Of each pair of turns, the first node is to run before the second. If no listing was found
// whose traversal does so, the result is one that does not, with a peak of [math.MaxInt64].
//
// Not every order is that of a listing. A node runs right after the last of its predecessors
// that had not run. Of two predecessors that do not depend on each other, the one that is
// listed later runs first, for all nodes that read both.
func BestListing(ctx context.Context, p *Problem, guides [][]int32, enough int64, effort Effort, turns [][2]int32) Listing {
	l := newLister(p)
	l.turns = turns
	best := l.of(Program(p))
	guides = append(slices.Clone(guides), Program(p), Greedy(p), DepthFirst(p), BreadthFirst(p))
	for _, order := range guides {
		for _, list := range []func([]int32) []int32{l.lateFirst, l.follow} {
			if best.Peak <= enough || ctx.Err() != nil {
				return best
			}
			if nodes := list(order); nodes != nil {
				if found := l.of(nodes); found.Peak < best.Peak {
					best = found
				}
			}
		}
	}
	return l.improve(ctx, best, enough, effort)
}

// lister evaluates listings of one problem.
type lister struct {
	f            *indexed.Graph
	needs, feeds indexed.Lists // by node: its predecessors and its successors
	sinks        []int32
	turns        [][2]int32 // pairs of nodes of which the first is to run before the second
}

func newLister(p *Problem) *lister {
	f := index(p)
	needs := f.Precedence()
	return &lister{f: f, needs: needs, feeds: needs.Inverse(f.Nodes), sinks: sinks(f)}
}

// of returns the listing of nodes. O(E).
func (l *lister) of(nodes []int32) Listing {
	order := l.traverse(nodes)
	return Listing{Nodes: nodes, Order: order, Peak: l.evaluate(order).Peak}
}

// evaluate evaluates an order. The peak of one that does not keep to the turns is
// [math.MaxInt64].
func (l *lister) evaluate(order []int32) Evaluation {
	e := evaluate(l.f, order, AllPairs)
	if len(l.turns) == 0 {
		return e
	}
	step := make([]int32, len(order))
	for i, v := range order {
		step[v] = int32(i)
	}
	for _, x := range l.turns {
		if step[x[0]] > step[x[1]] {
			e.Peak = math.MaxInt64
		}
	}
	return e
}

// traverse returns the order in which the traversal runs listed nodes. O(E).
func (l *lister) traverse(nodes []int32) []int32 {
	// Nodes are added to the lists of their successors from the last to the first, so that
	// each list begins with the predecessor that the traversal visits first.
	fill := slices.Clone(l.needs.Start)
	needs := indexed.Lists{Start: l.needs.Start, Items: make([]int32, len(l.needs.Items))}
	roots := make([]int32, 0, len(l.sinks))
	for _, v := range slices.Backward(nodes) {
		if l.f.IsSink(v) {
			roots = append(roots, v)
		}
		for _, w := range l.feeds.Of(v) {
			needs.Items[fill[w]] = v
			fill[w]++
		}
	}
	return postOrder(roots, needs)
}

// lateFirst lists the nodes so that those that run early in an order are listed as late as
// their successors allow. O(E log V).
func (l *lister) lateFirst(order []int32) []int32 {
	waits := make([]int32, l.f.Nodes) // by node: successors that are not listed yet
	at := make([]int32, l.f.Nodes)
	h := indexed.Heap[int32]{Less: func(a, b int32) bool { return at[a] < at[b] }}
	for i, v := range order {
		at[v] = int32(i)
		waits[v] = int32(len(l.feeds.Of(v)))
	}
	for _, v := range order {
		if waits[v] == 0 {
			h.Push(v)
		}
	}
	nodes := make([]int32, 0, l.f.Nodes)
	for len(h.Items) > 0 {
		v := h.Pop()
		nodes = append(nodes, v)
		for _, u := range l.needs.Of(v) {
			if waits[u]--; waits[u] == 0 {
				h.Push(u)
			}
		}
	}
	slices.Reverse(nodes)
	return nodes
}

// mostFollowed is the number of nodes up to which follow does its work, which may be
// quadratic.
const mostFollowed = 4_000

// follow lists the nodes so that the traversal runs them in an order as far as it can. It
// goes through the graph as the traversal does, and visits first, of the predecessors that
// may be listed last, the one that runs first in the order. Each such choice is a pair of
// nodes, the one listed behind the other; together with the precedence they stay free of
// cycles. nil: the problem is too large. O(V E).
func (l *lister) follow(order []int32) []int32 {
	if l.f.Nodes > mostFollowed {
		return nil
	}
	w := &follower{lister: l, at: make([]int32, l.f.Nodes), behind: make([][]int32, l.f.Nodes), ran: make([]bool, l.f.Nodes), mark: make([]int32, l.f.Nodes)}
	for i, v := range order {
		w.at[v] = int32(i)
	}
	w.visit(l.sinks)
	return w.list()
}

// follower is the state of follow.
type follower struct {
	*lister
	at     []int32   // by node: its step in the order that is followed
	behind [][]int32 // by node: nodes that must be listed behind it, besides its successors
	ran    []bool
	mark   []int32 // by node: the last search that reached it
	search int32
}

// visit runs all of the nodes, each after its predecessors. It is a recursion with a stack
// of its own: chains may be as long as the graph.
func (w *follower) visit(roots []int32) {
	type frame struct {
		node int32 // -1: the roots
		left []int32
	}
	stack := []frame{{-1, slices.Clone(roots)}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		top.left = slices.DeleteFunc(top.left, func(v int32) bool { return w.ran[v] })
		if len(top.left) == 0 {
			if top.node >= 0 {
				w.ran[top.node] = true
			}
			stack = stack[:len(stack)-1]
			continue
		}
		v := w.choose(top.left)
		stack = append(stack, frame{v, slices.Clone(w.needs.Of(v))})
	}
}

// choose returns the node to visit first, and notes that it is listed behind the others.
func (w *follower) choose(list []int32) int32 {
	slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(w.at[a], w.at[b]) })
	for _, v := range list {
		if !w.before(v, list) {
			for _, u := range list {
				if u != v {
					w.behind[u] = append(w.behind[u], v)
				}
			}
			return v
		}
	}
	return list[0] // never: what is free of cycles has a last node
}

// before reports whether a node must be listed before another one of a list.
func (w *follower) before(v int32, list []int32) bool {
	if len(list) == 1 {
		return false
	}
	w.search++
	stack := []int32{v}
	w.mark[v] = w.search
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, next := range [][]int32{w.feeds.Of(u), w.behind[u]} {
			for _, x := range next {
				if w.mark[x] != w.search {
					w.mark[x] = w.search
					stack = append(stack, x)
				}
			}
		}
	}
	return slices.ContainsFunc(list, func(u int32) bool { return u != v && w.mark[u] == w.search })
}

// list returns a listing that meets all choices.
func (w *follower) list() []int32 {
	waits := make([]int32, w.f.Nodes)
	for v := range int32(w.f.Nodes) {
		for _, next := range [][]int32{w.feeds.Of(v), w.behind[v]} {
			for _, x := range next {
				waits[x]++
			}
		}
	}
	h := indexed.Heap[int32]{Less: func(a, b int32) bool { return a < b }}
	for v, n := range waits {
		if n == 0 {
			h.Push(int32(v))
		}
	}
	var nodes []int32
	for len(h.Items) > 0 {
		v := h.Pop()
		nodes = append(nodes, v)
		for _, next := range [][]int32{w.feeds.Of(v), w.behind[v]} {
			for _, x := range next {
				if waits[x]--; waits[x] == 0 {
					h.Push(x)
				}
			}
		}
	}
	return nodes
}

// The moves that improve tries: for each node of the graph, and in all.
const (
	listingMoves     = 40
	mostListingMoves = 20_000
	listingWork      = 40_000_000 // moves times edges
)

// improve moves single nodes within a listing while that does not raise the peak, or, at
// one peak and seven times of eight, the sum of the loads. The nodes are those that make a tensor which is live at
// the peak, and what these depend on.
func (l *lister) improve(ctx context.Context, best Listing, enough int64, effort Effort) Listing {
	n := l.f.Nodes
	if n < 3 {
		return best
	}
	moves := min(n*listingMoves, mostListingMoves, listingWork/(n+len(l.needs.Items)))
	switch effort {
	case EffortFast:
		moves /= 8
	case EffortMax:
		moves *= 10
	}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	e := l.evaluate(best.Order)
	sum := total(e.Loads)
	for range moves {
		if best.Peak <= enough || ctx.Err() != nil {
			break
		}
		nodes := l.move(best, e.PeakStep, random)
		if nodes == nil {
			continue
		}
		order := l.traverse(nodes)
		now := l.evaluate(order)
		if s := total(now.Loads); now.Peak < best.Peak || now.Peak == best.Peak && (s <= sum || random.IntN(8) == 0) {
			best, e, sum = Listing{nodes, order, now.Peak}, now, s
		}
	}
	return best
}

// total is the sum of the loads, as a float: it orders listings of one peak, and needs no
// last digit.
func total(loads []int64) (sum float64) {
	for _, load := range loads {
		sum += float64(load)
	}
	return sum
}

// move returns a listing with one node elsewhere; nil if it cannot move.
func (l *lister) move(from Listing, peakStep int, random *rand.Rand) []int32 {
	step := make([]int32, len(from.Order))
	for i, v := range from.Order {
		step[v] = int32(i)
	}
	v := from.Order[random.IntN(min(peakStep+2, len(from.Order)))]
	for range 8 { // preferably one whose result waits for a later step
		if slices.ContainsFunc(l.feeds.Of(v), func(w int32) bool { return int(step[w]) > peakStep }) {
			break
		}
		v = from.Order[random.IntN(min(peakStep+2, len(from.Order)))]
	}
	for random.IntN(3) == 0 { // a successor or a predecessor decides as well
		next := l.feeds.Of(v)
		if random.IntN(2) == 0 {
			next = l.needs.Of(v)
		}
		if len(next) == 0 {
			break
		}
		v = next[random.IntN(len(next))]
	}
	at := make([]int, len(from.Nodes))
	for i, u := range from.Nodes {
		at[u] = i
	}
	low, high := 0, len(from.Nodes)-1
	for _, u := range l.needs.Of(v) {
		low = max(low, at[u]+1)
	}
	for _, u := range l.feeds.Of(v) {
		high = min(high, at[u]-1)
	}
	if low >= high {
		return nil
	}
	to := low + random.IntN(high-low+1)
	switch random.IntN(4) {
	case 0:
		to = low
	case 1:
		to = high
	}
	nodes := slices.Clone(from.Nodes)
	nodes = slices.Delete(nodes, at[v], at[v]+1)
	return slices.Insert(nodes, to, v)
}

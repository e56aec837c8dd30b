package verify

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// replay asks whether any order has a peak of at most a limit, by going through
// the states (downsets: sets of nodes that have run) depth first. It is how a
// certificate of kind search is checked: with the certified bytes less one as
// the limit, a search that ends without an order proves them.
//
// Not all states need a look. Let S be a state and S' one that can be reached
// from it within the limit, such that live(S') <= live(T) for every downset T
// between the two. Then an order that passes through S and keeps the limit can
// pass through S' too: replace each later state T of it by T ∪ S'. As live is
// submodular, live(T ∪ S') <= live(T) + live(S') - live(T ∩ S') <= live(T); and
// the node that runs adds the same, or less where more has been freed for it to
// write over. So
//
//   - a node that is ready, keeps the limit and does not raise the live bytes runs
//     at once;
//   - when some path from S leads to a state with no more live bytes, the other
//     paths are dropped, and the search continues from the largest state of least
//     live bytes between the two (a minimum cut: see minCut);
//   - a state from which no path leads to one with as few live bytes is a dead end,
//     whatever target the search had. Every state that the search passed on its way
//     there is a dead end, too, for targets below the live bytes of the first: any
//     state that it reaches, the first reaches with no more live bytes. Both are
//     remembered.
//
// The replay uses the storages and the rules of [Plan] and shares no code with the
// search that it checks. It begins with the precedence that the limit forces: see
// force.
type replay struct {
	b     *bounds
	limit int64
	least int64   // bytes of the smallest storages that count
	trans []int64 // by node: bounds.trans without what is smaller
	// The nodes that must run before and after each node; the limit may force some.
	before, after [][]graph.NodeID
	made          [][]int32 // by node: the storages that count, which it makes
	read          [][]int32 // that it reads
	pairs         [][]pair

	waits  []int32 // by node: how many before it have not run
	unread []int32 // by storage: how many readers have not run
	ran    []bool
	order  []graph.NodeID
	ready  []graph.NodeID // ascending: so that a result depends on the graph alone
	live   int64
	name   [2]uint64 // of the state: the sum of its nodes' words

	words    [][2]uint64         // by node, drawn anew for each replay: no plan can aim at a collision
	dead     map[[2]uint64]int64 // states that do not reach the end, and the least live bytes that they reach
	by       [][2]uint64         // states that the calls of explore under way came by
	reach    int64               // live bytes that the call that failed last reaches
	rises    []int64             // by node: how its run would change the live bytes
	left     []graph.NodeID      // by storage: the sum of the readers that have not run: the reader, when it is one
	cut      minCut
	tightest tightest

	deadAfter int // states
	states    int
	looks     int // at nodes
}

// The work of a replay: less than a minute, and some 200 MiB of remembered states.
const (
	maxReplayStates = 2_000_000
	maxReplayLooks  = 400_000_000
)

// newReplay prepares a replay that ignores storages of fewer bytes than least. The
// loads are then too small, if anything: a limit that no order keeps without these
// storages is kept by no order. Both storages of an in-place pair have one size.
func newReplay(b *bounds, least int64) *replay {
	n := len(b.s.g.Nodes)
	r := &replay{
		b: b, least: max(least, 1), trans: slices.Clone(b.trans), before: slices.Clone(b.before), after: slices.Clone(b.after),
		made: make([][]int32, n), read: make([][]int32, n), pairs: make([][]pair, n),
		waits: make([]int32, n), unread: make([]int32, len(b.s.storages)), ran: make([]bool, n),
		deadAfter: deadAfter,
		words:     make([][2]uint64, n), dead: map[[2]uint64]int64{},
		rises: make([]int64, n), left: make([]graph.NodeID, len(b.s.storages)),
	}
	for v := range n {
		r.pairs[v] = slices.DeleteFunc(b.s.pairs(graph.NodeID(v)), func(p pair) bool { return r.small(p.result) })
		r.words[v] = [2]uint64{rand.Uint64(), rand.Uint64()}
	}
	for i := range b.s.storages {
		st := &b.s.storages[i]
		if !b.s.counts(int32(i)) {
			continue
		}
		if r.small(int32(i)) {
			if st.maker >= 0 {
				r.trans[st.maker] -= st.bytes
			}
			continue
		}
		if st.maker >= 0 {
			r.made[st.maker] = append(r.made[st.maker], int32(i))
		}
		for _, v := range st.readers {
			r.read[v] = append(r.read[v], int32(i))
		}
	}
	return r
}

// small reports whether a storage is ignored.
func (r *replay) small(i int32) bool { return r.b.s.storages[i].bytes < r.least }

// result of a replay.
type result int8

const (
	noOrder result = iota // no order keeps the limit
	anOrder               // one does: it stands in replay.order
	tooMuch               // the work ran out
)

// run asks whether any order keeps a limit.
func (r *replay) run(limit int64) result {
	r.limit = limit
	if !r.force() {
		return noOrder
	}
	return r.search()
}

// search goes through the states.
func (r *replay) search() result {
	r.begin()
	if r.b.idle == 0 {
		return r.explore(-1)
	}
	// Inputs without a reader are live at step 0 only, so the load there depends on
	// the first node: each ready node is tried as the first.
	for _, v := range slices.Clone(r.ready) {
		if r.load(v)+r.b.idle > r.limit {
			continue
		}
		r.step(v)
		if out := r.explore(-1); out != noOrder {
			return out
		}
		r.undo(0)
	}
	return noOrder
}

func (r *replay) begin() {
	s := r.b.s
	r.order, r.ready, r.live, r.name = r.order[:0], r.ready[:0], r.b.base, [2]uint64{}
	clear(r.ran)
	for v := range r.waits {
		r.waits[v] = int32(len(r.before[v]))
		if r.waits[v] == 0 {
			r.ready = append(r.ready, graph.NodeID(v))
		}
	}
	for i := range s.storages {
		st := &s.storages[i]
		r.unread[i] = int32(len(st.readers))
		if s.counts(int32(i)) && !r.small(int32(i)) && st.maker < 0 && !st.output && len(st.readers) > 0 {
			r.live += st.bytes
		}
	}
	r.riseAll()
}

// riseAll computes by how much each node would change the live bytes.
func (r *replay) riseAll() {
	s := r.b.s
	clear(r.rises)
	for v := range r.rises {
		for _, i := range r.made[v] {
			if st := &s.storages[i]; st.output || len(st.readers) > 0 {
				r.rises[v] += st.bytes
			}
		}
	}
	for i := range s.storages {
		st := &s.storages[i]
		if !s.counts(int32(i)) || r.small(int32(i)) {
			continue
		}
		r.left[i] = 0
		for _, v := range st.readers {
			r.left[i] += v
		}
		r.freed(int32(i), -1)
	}
}

// explore continues to a state with at most target live bytes, or to the end, and
// returns anOrder when it has arrived. Otherwise it returns to its first state.
func (r *replay) explore(target int64) result {
	since, came := len(r.order), len(r.by)
	out := r.advance(target)
	if out == noOrder {
		for _, name := range r.by[came:] {
			r.dead[name] = r.reach
		}
	}
	r.by = r.by[:came]
	if out != anOrder {
		r.undo(since)
	}
	return out
}

// advance is explore without the return. Where it fails, reach is the least live
// bytes that can be reached from there.
func (r *replay) advance(target int64) result {
	for {
		r.by = append(r.by, r.name)
		r.descend()
		if r.arrived(target) {
			return anOrder
		}
		if least, known := r.dead[r.name]; known && least > target {
			r.reach = least
			return noOrder
		}
		r.by = append(r.by, r.name)
		if r.states++; r.states > maxReplayStates || r.looks > maxReplayLooks {
			return tooMuch
		}
		if r.isDead() {
			r.reach = unlimitedBytes // no target is met from here
			return noOrder
		}
		out := noOrder
		for _, v := range r.ways() {
			at, live := len(r.order), r.live
			r.step(v)
			if out = r.explore(live); out == anOrder {
				if !r.arrived(target) { // otherwise the caller goes on, along a longer path
					r.backToCut(at)
				}
				break
			}
			r.undo(at)
			if out == tooMuch {
				break
			}
		}
		if out == noOrder {
			r.reach = r.live
		}
		if out != anOrder || r.arrived(target) {
			return out
		}
	}
}

func (r *replay) arrived(target int64) bool {
	return len(r.order) == len(r.ran) || r.live <= target
}

// descend runs nodes that keep the limit and do not raise the live bytes, until
// there are none.
func (r *replay) descend() {
	for k := 0; k < len(r.ready); {
		r.looks++
		if v := r.ready[k]; r.rises[v] <= 0 && r.load(v) <= r.limit {
			r.step(v)
			k = 0
			continue
		}
		k++
	}
}

// ways gives the ready nodes that keep the limit, the smallest rise first.
func (r *replay) ways() []graph.NodeID {
	var list []graph.NodeID
	for _, v := range r.ready {
		r.looks++
		if r.load(v) <= r.limit {
			list = append(list, v)
		}
	}
	slices.SortStableFunc(list, func(a, b graph.NodeID) int { return cmp.Compare(r.rises[a], r.rises[b]) })
	return list
}

// load is the load of a ready node.
func (r *replay) load(v graph.NodeID) int64 {
	var free []pair
	for _, p := range r.pairs[v] {
		if r.unread[p.over] == 1 {
			free = append(free, p)
		}
	}
	load := r.live + r.trans[v]
	if len(free) > 0 {
		load -= r.b.s.saved(free)
	}
	return load
}

func (r *replay) step(v graph.NodeID) {
	r.looks++
	at, _ := slices.BinarySearch(r.ready, v)
	r.ready = slices.Delete(r.ready, at, at+1)
	r.live += r.rises[v]
	for _, i := range r.read[v] {
		r.unread[i]--
		r.left[i] -= v
		r.freed(i, -1)
	}
	for _, w := range r.after[v] {
		if r.waits[w]--; r.waits[w] == 0 {
			at, _ := slices.BinarySearch(r.ready, w)
			r.ready = slices.Insert(r.ready, at, w)
		}
	}
	r.ran[v] = true
	r.name[0] += r.words[v][0]
	r.name[1] += r.words[v][1]
	r.order = append(r.order, v)
}

// freed changes the rise of the last reader of a storage: the reader that frees it.
func (r *replay) freed(i int32, sign int64) {
	if st := &r.b.s.storages[i]; r.unread[i] == 1 && !st.output {
		r.rises[r.left[i]] += sign * st.bytes
	}
}

// undo takes back all steps after the first ones.
func (r *replay) undo(steps int) {
	for len(r.order) > steps {
		v := r.order[len(r.order)-1]
		r.order = r.order[:len(r.order)-1]
		for _, w := range r.after[v] {
			if r.waits[w] == 0 {
				at, _ := slices.BinarySearch(r.ready, w)
				r.ready = slices.Delete(r.ready, at, at+1)
			}
			r.waits[w]++
		}
		for _, i := range r.read[v] {
			r.freed(i, +1)
			r.left[i] += v
			r.unread[i]++
		}
		r.live -= r.rises[v]
		r.ran[v] = false
		r.name[0] -= r.words[v][0]
		r.name[1] -= r.words[v][1]
		at, _ := slices.BinarySearch(r.ready, v)
		r.ready = slices.Insert(r.ready, at, v)
	}
}

// backToCut goes back to the largest state of least live bytes between the state
// after the first steps and the present one. The present path, without the nodes
// that are not in that state, leads there within the limit.
func (r *replay) backToCut(steps int) {
	r.looks += len(r.ran)
	way := slices.Clone(r.order[steps:])
	for v, ran := range r.ran {
		r.b.side[v] = due
		if ran {
			r.b.side[v] = done
		}
	}
	var touched []int32
	for _, v := range way {
		r.b.side[v] = free
		touched = append(append(touched, r.made[v]...), r.read[v]...)
	}
	slices.Sort(touched)
	r.cut.build(r, way, slices.Compact(touched))
	r.cut.flow(unlimitedBytes)
	r.cut.backwards()
	keep := way[:0:0]
	for k, v := range way {
		if r.cut.level[2+k] == none { // it can lie on the source side
			keep = append(keep, v)
		}
	}
	if len(keep) == len(way) {
		return
	}
	r.undo(steps)
	for _, v := range keep {
		r.step(v)
	}
}

// tooMany says how much work a replay did that gave up.
func (r *replay) tooMany() string {
	if r.states > maxReplayStates {
		return fmt.Sprintf("more than %d states", maxReplayStates)
	}
	return fmt.Sprintf("more than %d looks at nodes, in %s", maxReplayLooks, count(r.states, "state"))
}

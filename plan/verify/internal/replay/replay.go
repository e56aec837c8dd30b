package replay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// replay asks whether any order has a peak of at most a limit. It searches the
// states (downsets: sets of nodes that have run) depth first. This is how a
// certificate of kind search is checked: with the certified bytes less one as the
// limit, a search that ends without an order proves the certificate.
//
// Most states need no visit. Lemma: let S' be a state that can be reached from
// state S within the limit, such that live(S') <= live(T) for every downset T
// between S and S'. If an order that passes through S keeps the limit, then one
// that passes through S and S' does. Proof: replace each later state T of the
// order by T ∪ S'. As live is submodular, live(T ∪ S') <= live(T) + live(S') -
// live(T ∩ S') <= live(T). The node that runs adds the same to the load, or less
// if it may overwrite more. So
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
// The replay uses the storages and the pairs of the core and shares no code with
// the search that it checks. It starts with the precedence that the limit forces:
// see force.
type replay struct {
	p     *core.Problem
	b     *core.Bounds
	limit int64
	least int64   // storages of fewer bytes are ignored
	trans []int64 // by node: core.Bounds.Trans without ignored storages
	// Predecessors and successors of each node, including those that the limit
	// forces.
	before, after [][]int32
	made          [][]int32 // by node: the storages that count among its outputs
	read          [][]int32 // among its inputs
	pairs         [][]core.Pair

	waits  []int32 // by node: number of predecessors that have not run
	unread []int32 // by storage: number of readers that have not run
	ran    []bool
	order  []int32
	ready  []int32 // ascending, so that results depend on the graph alone
	live   int64
	name   [2]uint64 // of the state: the sum of its nodes' words

	words    [][2]uint64         // by node, random for each replay: no plan can aim at a collision
	dead     map[[2]uint64]int64 // states that do not reach the end, and the least live bytes that they reach
	by       [][2]uint64         // states that the active calls of explore have passed
	reach    int64               // least live bytes that the last failed call reached
	rises    []int64             // by node: change of the live bytes if it ran
	left     []int32             // by storage: the sum of the readers that have not run, which is the reader if only one is left
	side     []side              // by node, for the present cut
	stack    []int32
	cut      minCut
	tightest tightest

	deadAfter int // number of states
	states    int
	visits    int // number of visits to nodes
}

// Limits on the work of a replay: less than a minute, and some 200 MiB of
// remembered states.
const (
	maxReplayStates = 2_000_000
	maxReplayVisits = 400_000_000
)

// pollStates is the number of states after which a replay looks whether to end.
const pollStates = 4096

// newReplay prepares a replay that ignores storages of fewer bytes than least.
// This can only lower loads: if no order keeps the limit without these storages,
// none keeps it with them. Both storages of an in-place pair have the same size.
func newReplay(p *core.Problem, b *core.Bounds, least int64) *replay {
	n := len(p.Nodes)
	r := &replay{
		p: p, b: b, side: make([]side, n), least: max(least, 1), trans: slices.Clone(b.Trans), before: slices.Clone(b.Before), after: slices.Clone(b.After),
		made: make([][]int32, n), read: make([][]int32, n), pairs: make([][]core.Pair, n),
		waits: make([]int32, n), unread: make([]int32, len(p.Storages)), ran: make([]bool, n),
		deadAfter: deadAfter,
		words:     make([][2]uint64, n), dead: map[[2]uint64]int64{},
		rises: make([]int64, n), left: make([]int32, len(p.Storages)),
	}
	for v := range n {
		r.pairs[v] = slices.DeleteFunc(p.Pairs(int32(v)), func(p core.Pair) bool { return r.small(p.Result) })
		r.words[v] = [2]uint64{rand.Uint64(), rand.Uint64()}
	}
	for i := range p.Storages {
		st := &p.Storages[i]
		if !p.Counts(int32(i)) {
			continue
		}
		if r.small(int32(i)) {
			if st.Maker >= 0 {
				r.trans[st.Maker] -= st.Bytes
			}
			continue
		}
		if st.Maker >= 0 {
			r.made[st.Maker] = append(r.made[st.Maker], int32(i))
		}
		for _, v := range st.Readers {
			r.read[v] = append(r.read[v], int32(i))
		}
	}
	return r
}

// small reports whether a storage is ignored.
func (r *replay) small(i int32) bool { return r.p.Storages[i].Bytes < r.least }

// side says whether a node has run when another is about to run.
type side int8

const (
	free side = iota
	done      // it has run
	due       // it has not
)

// none is the index of no node and no edge.
const none = core.None

// run asks whether any order keeps a limit.
func (r *replay) run(limit int64) Verdict {
	r.limit = limit
	if !r.force() {
		return NoOrder
	}
	return r.search()
}

// search explores the states.
func (r *replay) search() Verdict {
	r.begin()
	if r.b.Idle == 0 {
		return r.explore(-1)
	}
	// Inputs without a reader are live at step 0 only, so the load there depends
	// on the first node: each ready node is tried as the first.
	for _, v := range slices.Clone(r.ready) {
		if r.load(v)+r.b.Idle > r.limit {
			continue
		}
		r.step(v)
		if out := r.explore(-1); out != NoOrder {
			return out
		}
		r.undo(0)
	}
	return NoOrder
}

func (r *replay) begin() {
	p := r.p
	r.order, r.ready, r.live, r.name = r.order[:0], r.ready[:0], r.b.Base, [2]uint64{}
	clear(r.ran)
	for v := range r.waits {
		r.waits[v] = int32(len(r.before[v]))
		if r.waits[v] == 0 {
			r.ready = append(r.ready, int32(v))
		}
	}
	for i := range p.Storages {
		st := &p.Storages[i]
		r.unread[i] = int32(len(st.Readers))
		if p.Counts(int32(i)) && !r.small(int32(i)) && st.Maker < 0 && !st.Output && len(st.Readers) > 0 {
			r.live += st.Bytes
		}
	}
	r.riseAll()
}

// riseAll computes the change of the live bytes for every node.
func (r *replay) riseAll() {
	p := r.p
	clear(r.rises)
	for v := range r.rises {
		for _, i := range r.made[v] {
			if st := &p.Storages[i]; st.Output || len(st.Readers) > 0 {
				r.rises[v] += st.Bytes
			}
		}
	}
	for i := range p.Storages {
		st := &p.Storages[i]
		if !p.Counts(int32(i)) || r.small(int32(i)) {
			continue
		}
		r.left[i] = 0
		for _, v := range st.Readers {
			r.left[i] += v
		}
		r.freed(int32(i), -1)
	}
}

// explore goes on to a state with at most target live bytes, or to the end, and
// returns AnOrder if it finds one. Otherwise it returns to its first state.
func (r *replay) explore(target int64) Verdict {
	since, came := len(r.order), len(r.by)
	out := r.advance(target)
	if out == NoOrder {
		for _, name := range r.by[came:] {
			r.dead[name] = r.reach
		}
	}
	r.by = r.by[:came]
	if out != AnOrder {
		r.undo(since)
	}
	return out
}

// advance is explore without the return to the first state. If it fails, reach is
// the least live bytes that can be reached from that state.
func (r *replay) advance(target int64) Verdict {
	for {
		r.by = append(r.by, r.name)
		r.descend()
		if r.arrived(target) {
			return AnOrder
		}
		if least, known := r.dead[r.name]; known && least > target {
			r.reach = least
			return NoOrder
		}
		r.by = append(r.by, r.name)
		if r.states%pollStates == 0 {
			r.poll()
		}
		if r.states++; r.states > maxReplayStates || r.visits > maxReplayVisits {
			return TooMuch
		}
		if r.isDead() {
			r.reach = unlimitedBytes // no state reached from here meets a target
			return NoOrder
		}
		out := NoOrder
		for _, v := range r.ways() {
			at, live := len(r.order), r.live
			r.step(v)
			if out = r.explore(live); out == AnOrder {
				if !r.arrived(target) { // otherwise the caller continues on a longer path
					r.backToCut(at)
				}
				break
			}
			r.undo(at)
			if out == TooMuch {
				break
			}
		}
		if out == NoOrder {
			r.reach = r.live
		}
		if out != AnOrder || r.arrived(target) {
			return out
		}
	}
}

// poll lets the caller end the work.
func (r *replay) poll() {
	if r.p.Poll != nil {
		r.p.Poll()
	}
}

func (r *replay) arrived(target int64) bool {
	return len(r.order) == len(r.ran) || r.live <= target
}

// descend runs ready nodes that keep the limit and do not raise the live bytes,
// until there are none.
func (r *replay) descend() {
	for k := 0; k < len(r.ready); {
		r.visits++
		if v := r.ready[k]; r.rises[v] <= 0 && r.load(v) <= r.limit {
			r.step(v)
			k = 0
			continue
		}
		k++
	}
}

// ways returns the ready nodes that keep the limit, in ascending order of their
// rise.
func (r *replay) ways() []int32 {
	var list []int32
	for _, v := range r.ready {
		r.visits++
		if r.load(v) <= r.limit {
			list = append(list, v)
		}
	}
	slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(r.rises[a], r.rises[b]) })
	return list
}

// load is the load of a ready node.
func (r *replay) load(v int32) int64 {
	var free []core.Pair
	for _, p := range r.pairs[v] {
		if r.unread[p.Over] == 1 {
			free = append(free, p)
		}
	}
	load := r.live + r.trans[v]
	if len(free) > 0 {
		load -= r.p.Saved(free)
	}
	return load
}

func (r *replay) step(v int32) {
	r.visits++
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

// freed updates the rise of the last reader of a storage, which frees it.
func (r *replay) freed(i int32, sign int64) {
	if st := &r.p.Storages[i]; r.unread[i] == 1 && !st.Output {
		r.rises[r.left[i]] += sign * st.Bytes
	}
}

// undo reverts all steps after the first steps ones.
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
	r.visits += len(r.ran)
	way := slices.Clone(r.order[steps:])
	for v, ran := range r.ran {
		r.side[v] = due
		if ran {
			r.side[v] = done
		}
	}
	var touched []int32
	for _, v := range way {
		r.side[v] = free
		touched = append(append(touched, r.made[v]...), r.read[v]...)
	}
	slices.Sort(touched)
	r.cut.build(r, way, slices.Compact(touched))
	r.cut.flow(unlimitedBytes)
	r.cut.backwards()
	keep := way[:0:0]
	for k, v := range way {
		if r.cut.level[2+k] == none { // it can be on the source side
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

// tooMany says how much work was done before a replay gave up.
func (r *replay) tooMany() string {
	if r.states > maxReplayStates {
		return fmt.Sprintf("more than %d states", maxReplayStates)
	}
	return fmt.Sprintf("more than %d visits to nodes, in %s", maxReplayVisits, count(r.states, "state"))
}

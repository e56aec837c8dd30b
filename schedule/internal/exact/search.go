// Package exact finds orders of least peak by exhaustive search.
//
// [Search] takes an indexed problem and decides whether an order exists within a
// limit of bytes: it returns such an order, or a lower bound above the limit, or
// neither if its budget of states is spent. [Downsets] returns an order of the
// smallest peak by dynamic programming, for problems with few states per step.
//
//	search.go     Search: the depth-first search and its two rules
//	state.go      a state: the nodes that have run, and what is live then
//	lookahead.go  states from which some node can no longer meet the limit
//	postpone.go   nodes that need not be tried yet
//	downsets.go   Downsets
package exact

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// Search answers whether a problem has an order of a peak within a limit, by depth-first
// search over states: the sets of nodes that have run.
//
// Two rules keep it small. A ready node that fits and raises no live bytes runs at once. And
// once a state X has reached a state Y with no more live bytes, the search commits:
//
//	X ──▶ ... ──▶ Y     live(Y) <= live(X)
//	└──▶ Z ──▶ Y        Z: the largest downset of least live bytes between them
//
// It goes on from Z and drops all other ways out of X. By the valley lemma (see
// [listsched.Scheduler]) Z can be completed within the limit if X can. A state that
// reaches no such Y is a dead end, whatever the search below it is for.
//
// Lemma. If the search commits from X to Y and Y is a dead end, then X does not reach the
// end, and reaches no state with fewer live bytes than Y reaches.
//
// Proof. For any Z that X reaches, Y reaches Z ∪ Y, which has no more live bytes than Z.
//
// So the least live bytes that Y reaches are remembered for X and for all states between.
// To remember Y alone takes 14 times the states on randomly wired networks.
//
// A search that ends without an order is therefore a proof that there is none. The least
// load that it refused is a lower bound on the peak of all orders: with any limit below
// that it would have done the same.
type Search struct {
	Rule          listsched.Rule // which node to try first
	LookAheadFrom int            // states; -1: never
	Eager         bool           // postpones no node

	at       *state // the state that the search stands at
	meter    *meter.Meter
	limit    int64
	refused  int64          // the least load that exceeded the limit
	place    []int32        // node -> its place in the order to follow
	dead     map[hash]int64 // dead end -> the least live bytes that it reaches
	path     []hash         // states on the path of the calls of explore under way
	least    int64          // live bytes that the last dead end reaches
	children []child        // of the states on the path; each uses the end of the list
	states   int
	budget   int      // of states
	met      []int32  // of opens
	branches int      // so far
	freed    []answer // tensor -> whether postponable nodes free it
	ahead    lookAhead
}

type child struct {
	key         int64
	place, node int32
}

// Verdict is what is known about a limit.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota
	Feasible
	Infeasible
)

// New returns a search for orders of a problem, led by an order to follow.
func New(g *indexed.Problem, follow []int32, m *meter.Meter) *Search {
	d := &Search{LookAheadFrom: lookAheadFrom, at: newState(g, m), meter: m, place: make([]int32, g.Nodes), freed: make([]answer, len(g.Size)), dead: map[hash]int64{}}
	for i, v := range follow {
		d.place[v] = int32(i)
	}
	return d
}

// exhausted reports whether this search, or all searches, ran too many nodes.
func (d *Search) exhausted() bool {
	return d.at.steps > d.budget*200+d.at.g.Nodes*50 || d.meter.Runs+d.at.steps > d.meter.Budget.Runs || d.meter.WorkWith(d.at.steps) > d.meter.Budget.Work || d.meter.Ended()
}

// Decide returns an order of a peak within the limit (Feasible), or a lower bound above
// the limit (Infeasible), or neither when the budget of states is spent.
func (d *Search) Decide(limit int64, budget int) (v Verdict, order []int32, bound int64) {
	d.at.reset()
	clear(d.dead)
	d.limit, d.refused, d.states, d.budget = limit, indexed.Infinite, 0, budget
	d.at.steps = 0
	if d.at.g.Idle == 0 {
		v = d.explore(-1)
	} else {
		v = d.first()
	}
	if v == Infeasible && d.at.cut.Broken() {
		v = Unknown // a commit took a state that was no minimum
	}
	d.meter.States += d.states
	d.meter.Runs += d.at.steps
	if v == Feasible {
		order = make([]int32, len(d.at.ran))
		for i, s := range d.at.ran {
			order[i] = s.node
		}
	}
	return v, order, d.refused
}

// first tries each node at the first step, where the idle bytes are live too. A commit
// back to before that step could change the node.
func (d *Search) first() Verdict {
	sources := slices.Clone(d.at.ready)
	slices.SortFunc(sources, func(a, b int32) int { return cmp.Compare(d.place[a], d.place[b]) })
	for _, v := range sources {
		if load := d.at.load(v) + d.at.g.Idle; load > d.limit {
			d.refused = min(d.refused, load)
			continue
		}
		d.at.run(v)
		if v := d.explore(-1); v != Infeasible {
			return v
		}
		d.at.undo(0)
	}
	return Infeasible
}

// explore goes on to a state with at most the target of live bytes, or to the end. If
// there is none it restores the state.
func (d *Search) explore(target int64) Verdict {
	since, met := len(d.at.ran), len(d.path)
	v := d.goOn(target)
	if v == Infeasible {
		for _, name := range d.path[met:] {
			d.dead[name] = d.least
		}
	}
	d.path = d.path[:met]
	if v != Feasible {
		d.at.undo(since)
	}
	return v
}

// goOn is explore that leaves the state where it fails, and in least the live bytes that
// it can reach.
func (d *Search) goOn(target int64) Verdict {
	for {
		d.path = append(d.path, d.at.name)
		if d.descend(); d.reached(target) {
			return Feasible
		}
		if d.known(target) {
			return Infeasible
		}
		if d.states++; d.states > d.budget || d.exhausted() {
			return Unknown
		}
		if load := d.forcedLoad(); load > 0 {
			d.refused = min(d.refused, load)
			d.least = indexed.Infinite
			return Infeasible
		}
		v := d.try(target)
		if v == Infeasible {
			d.least = d.at.live
		}
		if v != Feasible || d.reached(target) {
			return v
		}
	}
}

// known reports whether the state is known to reach no target so low. If not, it adds
// the state to the path.
func (d *Search) known(target int64) bool {
	least, known := d.dead[d.at.name]
	if known && least > target {
		d.least = least
		return true
	}
	d.path = append(d.path, d.at.name)
	return false
}

// try goes on from a state to one of no more live bytes, by any node that can run now,
// and commits to it. At the target it leaves the commit to the caller, which commits
// over a longer path.
func (d *Search) try(target int64) (v Verdict) {
	from := len(d.children)
	d.branch()
	v = Infeasible
	for i := from; i < len(d.children) && v == Infeasible; i++ {
		runs, live, u := len(d.at.ran), d.at.live, d.children[i].node
		if least, known := d.dead[d.at.name.with(d.at.part[u])]; known && least > live {
			continue
		}
		d.at.run(u)
		if v = d.explore(live); v != Feasible {
			d.at.undo(runs)
		} else if !d.reached(target) {
			d.at.commit(runs)
		}
	}
	d.children = d.children[:from]
	return v
}

func (d *Search) reached(target int64) bool {
	return len(d.at.ran) == d.at.g.Nodes || d.at.live <= target
}

// descend runs all safe nodes: those that fit and raise nothing.
func (d *Search) descend() {
	for i, passed := 0, 0; passed < len(d.at.ready); {
		if i >= len(d.at.ready) {
			i = 0
		}
		if v := d.at.ready[i]; d.at.delta[v] <= 0 && d.at.load(v) <= d.limit {
			d.at.run(v)
			passed = 0
			continue
		}
		i++
		passed++
	}
}

// branch appends the nodes that may run now, in the sequence in which to try them.
func (d *Search) branch() {
	from := len(d.children)
	d.branches++
	last, onlyPostponable := int32(-1), true
	for _, v := range d.at.ready {
		load := d.at.load(v)
		if load > d.limit {
			d.refused = min(d.refused, load)
			onlyPostponable = onlyPostponable && d.postponable(v)
			continue
		}
		postponable := d.postponable(v)
		onlyPostponable = onlyPostponable && postponable
		if postponable && !d.Eager && !d.leads(v) {
			if last < 0 || d.place[v] < d.place[last] {
				last = v
			}
			continue
		}
		key, place := d.Rule.Key(d.at.delta[v], d.at.opened[v], d.place[v])
		d.children = append(d.children, child{key, place, v})
	}
	if len(d.children) == from && onlyPostponable && last >= 0 {
		d.children = append(d.children, child{node: last}) // to the end, in any order
	}
	slices.SortFunc(d.children[from:], func(a, b child) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.place, b.place))
	})
}

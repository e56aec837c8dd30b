package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// decider answers whether a net has an order of a peak within a limit, by a
// depth-first search over states (sets of nodes that have run).
//
// Two rules keep it small. A ready node that fits and raises nothing runs at
// once. And when from a state X one is reached with no more live bytes, all
// other ways out of X are left: the search goes on from the largest downset of
// least live bytes between the two, which by the valley lemma (see settler) can
// be completed within the limit if X can. A state from which no such state is
// reached is a dead end, whatever the search below it is for.
//
// A search that ends at a dead end Y, by way of such steps from X, shows that X
// reaches the end no more than Y does, and nothing of less live bytes: for any Z
// that X reaches, Y reaches Z ∪ Y, which has no more than Z. So the live bytes
// of Y are remembered for X and for all states between. Remembering Y alone
// takes 14 times the states on randomly wired networks.
//
// A state that shuts out a node is a dead end as well: see watch.
//
// So a search that ends without an order is a proof that there is none, and the
// least load that it refused is a lower bound on the peak of all orders: with a
// limit below that it would have done the same.
type decider struct {
	walk
	limit     int64
	refused   int64           // the least load above the limit
	place     []int32         // node -> its place in the order to follow
	rule      rule            // which node to try first
	dead      map[state]int64 // state that does not reach the end -> the least live bytes that it reaches
	path      []state         // on the way of the calls of explore that are under way
	least     int64           // that the state which failed last reaches
	children  []child         // of the states on the way; each takes its own from the end
	states    int
	met       []int32  // of opens
	branches  int      // so far
	freed     []answer // tensor -> whether raisers free it
	budget    int      // states
	watch     watch
	watchFrom int // states
	search    *search
}

type child struct {
	key         int64
	place, node int32
}

// verdict is what is known about a limit.
type verdict int

const (
	unknown verdict = iota
	feasible
	infeasible
)

func (s *search) newDecider(g *indexed.Problem, follow []int32) *decider {
	d := &decider{walk: *newWalk(g), place: make([]int32, g.Nodes), freed: make([]answer, len(g.Size)), watchFrom: watchFrom, dead: map[state]int64{}, search: s}
	d.cut.Halt = s.halted
	for i, v := range follow {
		d.place[v] = int32(i)
	}
	return d
}

// exhausted reports whether this search, or all of them, took too many runs.
func (d *decider) exhausted() bool {
	return d.steps > d.budget*200+d.g.Nodes*50 || d.search.runs+d.steps > d.search.effort.allRuns || d.search.stop()
}

// decide returns an order of a peak within the limit, or the least peak that an
// order may have, or neither when it takes more states than budgeted.
func (d *decider) decide(limit int64, budget int) (v verdict, order []int32, bound int64) {
	d.reset()
	clear(d.dead)
	d.limit, d.refused, d.states, d.budget = limit, indexed.Infinite, 0, budget
	d.steps = 0
	if d.g.Idle == 0 {
		v = d.explore(-1)
	} else {
		v = d.first()
	}
	if v == infeasible && d.cut.Broken {
		v = unknown // a commit took what was no minimum
	}
	d.search.states += d.states
	d.search.runs += d.steps
	if v == feasible {
		order = make([]int32, len(d.ran))
		for i, s := range d.ran {
			order[i] = s.node
		}
	}
	return v, order, d.refused
}

// first tries each node as the first one, at whose step the idle bytes are live
// too. A commit back to before it could change which node that is.
func (d *decider) first() verdict {
	sources := slices.Clone(d.ready)
	slices.SortFunc(sources, func(a, b int32) int { return cmp.Compare(d.place[a], d.place[b]) })
	for _, v := range sources {
		if load := d.load(v) + d.g.Idle; load > d.limit {
			d.refused = min(d.refused, load)
			continue
		}
		d.run(v)
		if v := d.explore(-1); v != infeasible {
			return v
		}
		d.undo(0)
	}
	return infeasible
}

// explore goes on to a state of at most the target of live bytes, or to the
// end. If there is none it restores the state.
func (d *decider) explore(target int64) verdict {
	since, met := len(d.ran), len(d.path)
	v := d.goOn(target)
	if v == infeasible {
		for _, name := range d.path[met:] {
			d.dead[name] = d.least
		}
	}
	d.path = d.path[:met]
	if v != feasible {
		d.undo(since)
	}
	return v
}

// goOn is explore that leaves the state where it fails. What that can reach is
// in least.
func (d *decider) goOn(target int64) verdict {
	for {
		d.path = append(d.path, d.hash)
		if d.descend(); d.reached(target) {
			return feasible
		}
		if d.known(target) {
			return infeasible
		}
		if d.states++; d.states > d.budget || d.exhausted() {
			return unknown
		}
		if load := d.shutOut(); load > 0 {
			d.refused = min(d.refused, load)
			d.least = indexed.Infinite
			return infeasible
		}
		v := d.try(target)
		if v == infeasible {
			d.least = d.live
		}
		if v != feasible || d.reached(target) {
			return v
		}
	}
}

// known reports whether the state is known to reach no target so low, and adds
// it to the states on the way if not.
func (d *decider) known(target int64) bool {
	least, known := d.dead[d.hash]
	if known && least > target {
		d.least = least
		return true
	}
	d.path = append(d.path, d.hash)
	return false
}

// try goes on from a state to one of no more live bytes, by any node that may
// run now, and commits to it unless that is the target: then the caller
// commits, over more.
func (d *decider) try(target int64) (v verdict) {
	from := len(d.children)
	d.branch()
	v = infeasible
	for i := from; i < len(d.children) && v == infeasible; i++ {
		runs, live, u := len(d.ran), d.live, d.children[i].node
		if least, known := d.dead[d.hash.with(d.zobrist[u])]; known && least > live {
			continue
		}
		d.run(u)
		if v = d.explore(live); v != feasible {
			d.undo(runs)
		} else if !d.reached(target) {
			d.commit(runs)
		}
	}
	d.children = d.children[:from]
	return v
}

func (d *decider) reached(target int64) bool { return len(d.ran) == d.g.Nodes || d.live <= target }

// descend runs all nodes that raise nothing and fit.
func (d *decider) descend() {
	for i, passed := 0, 0; passed < len(d.ready); {
		if i >= len(d.ready) {
			i = 0
		}
		if v := d.ready[i]; d.delta[v] <= 0 && d.load(v) <= d.limit {
			d.run(v)
			passed = 0
			continue
		}
		i++
		passed++
	}
}

// branch appends the nodes that may run now, in the order to try.
func (d *decider) branch() {
	from := len(d.children)
	d.branches++
	last, onlyRaisers := int32(-1), true
	for _, v := range d.ready {
		load := d.load(v)
		if load > d.limit {
			d.refused = min(d.refused, load)
			onlyRaisers = onlyRaisers && d.raises(v)
			continue
		}
		raises := d.raises(v)
		onlyRaisers = onlyRaisers && raises
		if raises && !d.leads(v) {
			if last < 0 || d.place[v] < d.place[last] {
				last = v
			}
			continue
		}
		key, place := d.rule.key(d.delta[v], d.opened[v], d.place[v])
		d.children = append(d.children, child{key, place, v})
	}
	if len(d.children) == from && onlyRaisers && last >= 0 {
		d.children = append(d.children, child{node: last}) // to the end, in any order
	}
	slices.SortFunc(d.children[from:], func(a, b child) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.place, b.place))
	})
}

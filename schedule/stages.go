package schedule

import (
	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
)

// stage is a row of the table that a search works through.
type stage struct {
	On   level  // on which problem it runs
	Name string // by which a test leaves it out

	Run    func(p *subproblem)      // nil: a rule within other stages
	When   func(p *subproblem) bool // nil: whenever the row is reached
	Always bool                     // also if the gap is closed or the work is spent

	Cost  string // V nodes, E edges
	Why   string // why it stands here
	Worth string // what is lost without it: docs/ablation.md has the figures
}

// level is a problem that a search works on.
type level int

const (
	whole       level = iota // the problem as it is, once in each round
	open                     // the same, if the rows of whole leave a gap
	early                    // each part of the contracted problem, with little work
	constrained              // the same parts, with the precedence that a limit forces
	thorough                 // each part of a contracted problem, with all work
	cheap                    // the same parts, first of early and of thorough
	last                     // the problem as it is, after all rounds
	others                   // the parts of early, for Options.Solver, after all of the above
	rules                    // within other rows
)

// run works through the rows of a level, in their order, until the gap is closed or
// the work is spent. It is all of the search's control flow.
func (p *subproblem) run(l level) {
	for _, x := range p.s.stages {
		if x.On != l || p.s.without[x.Name] || !x.Always && p.done() || x.When != nil && !x.When(p) {
			continue
		}
		p.stage = x.Name
		x.Run(p)
	}
}

// stages is the table.
var stages = []stage{
	// Enough for most networks.
	{
		On: whole, Name: "listing", Cost: "O(E)", Always: true,
		Why: "program order is optimal on most inference graphs", Worth: "the order that is kept if none is better",
		When: func(p *subproblem) bool { return p.best.order == nil },
		Run:  func(p *subproblem) { p.see(p.g.Listing()) },
	},
	{
		On: whole, Name: "listing bound", Cost: "one cut",
		Why: "the node at the peak proves it if any node does", Worth: "time alone: 5 % of the work on traced networks",
		Run: func(p *subproblem) { p.askPeak() },
	},
	{
		On: whole, Name: "least rise", Cost: "O(E log V)",
		Why: "the best single order: at most 5 % above the bound on traced training steps", Worth: "time alone",
		Run: func(p *subproblem) { p.forward(p.g.Listing(), infinite, listsched.ByRise) },
	},
	{
		On: whole, Name: "least rise bound", Cost: "one cut",
		Why: "as after the listing", Worth: "time alone: 3 % of the work on traced networks",
		Run: func(p *subproblem) { p.askPeak() },
	},
	{
		On: whole, Name: "open", Cost: "its rows",
		Why: "what the rows above leave open", Worth: "every proof that the rows above leave open",
		Run: func(p *subproblem) { p.run(open) },
	},
	{
		On: whole, Name: "without pairs", Cost: "as much as all of the above", Always: true,
		Why: "sharing must never end worse than no sharing", Worth: "nothing on the problems measured: it keeps a promise",
		When: func(p *subproblem) bool {
			return p.s.withoutPairs != nil && !p.closed() && p.bound < p.s.enough && !p.s.meter.Interrupted()
		},
		Run: func(p *subproblem) { p.see(p.s.withoutPairs(p.best.peak)) },
	},
	{
		On: whole, Name: "strategies", Cost: "O(E log V) each", Always: true,
		Why: "on graphs too large for the budget they are all there is", Worth: "nothing where the budget suffices",
		When: func(p *subproblem) bool {
			return p.s.strategies != nil && p.g.Nodes > 2*smallGraph && p.s.meter.Work() > p.s.meter.Budget.Work
		},
		Run: func(p *subproblem) {
			p.s.strategies(func(name string, order []int32) {
				p.stage = name
				p.see(order)
			})
		},
	},
	{
		On: last, Name: "alternatives", Cost: "four orders", Always: true,
		Why: "orders of one peak differ by up to 4 % in what placement makes of them", Worth: "up to 4 % of an arena",
		When: func(p *subproblem) bool { return !p.s.orderOnly && !p.s.meter.Interrupted() },
		Run:  func(p *subproblem) { p.alternatives = p.s.lists.Alternatives(p.g, p.chosen(), p.g.Listing()) },
	},
	{
		On: last, Name: "area", Cost: "some dozens of orders", Always: true,
		Why: "asked for by Options.Goal", Worth: "what Options.Goal asks for",
		When: func(p *subproblem) bool { return p.s.goal == GoalArea && len(p.alternatives) > 0 },
		Run:  func(p *subproblem) { p.alternatives = p.s.lists.LessArea(p.g, p.alternatives) },
	},

	// The whole problem and its contraction alternate: the contraction closes most
	// gaps; a bound of the problem as it is has a certificate.
	{
		On: open, Name: "direct", Cost: "its rows",
		Why: "a contraction that moves the first node would move the idle bytes", Worth: "every open problem with idle bytes",
		When: func(p *subproblem) bool { return p.g.Idle > 0 },
		Run:  func(p *subproblem) { p.run(thorough) },
	},
	{
		On: open, Name: "safe listing", Cost: "O(E log V)", When: reducible,
		Why: "keeps together what the listing keeps together, as on layers of a random network", Worth: "14 % of a peak of the zoo",
		Run: func(p *subproblem) { p.forward(p.g.Listing(), infinite, listsched.ByPlace) },
	},
	{
		On: open, Name: "early", Cost: "O(E) and its rows", When: reducible,
		Why: "a few hundred states close most contracted networks", Worth: "0.9 % of the peak of a hard network",
		Run: func(p *subproblem) { p.solveContracted(early) },
	},
	{
		On: open, Name: "goals", Cost: "two orders", When: reducible,
		Why: "finishes one sum after another: 12 % off the peak of layered random networks", Worth: "a proof and 2 % of a peak of the zoo",
		Run: (*subproblem).goals,
	},
	{
		On: open, Name: "sets", Cost: "at most 15 million edges", When: reducible,
		Why: "of many equal gradients one runs first, and one last", Worth: "a proof, 9 certificates",
		Run: (*subproblem).sets,
	},
	{
		On: open, Name: "conflicts", Cost: "at most 10 million edges", When: reducible,
		Why: "a large gradient waits for room and keeps its inputs live", Worth: "a certificate",
		Run: (*subproblem).conflicts,
	},
	{
		On: open, Name: "forced", Cost: "its rows", When: reducible,
		Why: "before the rows that take long, and after those whose bounds have certificates", Worth: "see its rows",
		Run: (*subproblem).forceContracted,
	},
	{
		On: open, Name: "coarse", Cost: "O(E) and the rows of thorough",
		Why: "scalars keep whole networks from contracting; the gap is larger than all of them", Worth: "two bounds of the zoo",
		When: small,
		Run:  func(p *subproblem) { p.solveCoarse((p.best.peak - p.bound) / 2) },
	},
	{
		On: open, Name: "full", Cost: "its rows", When: reducible,
		Why: "the contraction again, with all the work", Worth: "5 proofs, 9 peaks",
		Run: func(p *subproblem) { p.solveContracted(thorough) },
	},
	{
		On: open, Name: "fine", Cost: "O(E) and the rows of thorough", When: small,
		Why: "scalars, once more, if nothing else closed the gap", Worth: "a bound of the zoo",
		Run: (*subproblem).solveFine,
	},
	{
		On: open, Name: "level", Cost: "up to 60 million edges, and 1000 for each node", Always: true,
		Why: "the high steps of a large graph lie far apart; a window lowers one at the same cost in any graph", Worth: "28 % of the peak of a tangled graph",
		When: func(p *subproblem) bool { return unfinished(p) && wide(p) },
		Run:  (*subproblem).level,
	},
	{
		On: open, Name: "certify", Cost: "some cuts, then sets and conflicts", Always: true,
		Why: "a reader can check a cut, not a search", Worth: "84 certificates",
		When: func(p *subproblem) bool {
			return p.proof.Kind == bounds.Search && p.bound != 0 && !p.s.meter.Ended() && !(p.s.orderOnly && p.s.lastRound())
		},
		Run: (*subproblem).certify,
	},

	{
		On: early, Name: "early: cheap", Cost: "its rows",
		Why: "as the rows of whole, on each part", Worth: "see its rows",
		Run: func(p *subproblem) { p.run(cheap) },
	},
	{
		On: early, Name: "early: climb", Cost: "12 times 400 states",
		Why: "enough for all traced networks but two", Worth: "time alone: three fifths of the work on traced networks",
		Run: func(p *subproblem) { p.climb(400, 12) },
	},

	{
		On: constrained, Name: "early: forced", Cost: "up to 6 attempts, 10 million edges in all",
		Why: "with the precedence that the limit below the peak forces, few states prove that there is no order", Worth: "0.2 % of the peak of a hard network",
		Run: func(p *subproblem) { p.forced(400, 6, p.s.budgets.early) },
	},

	{
		On: thorough, Name: "cheap", Cost: "its rows",
		Why: "from what takes least to what takes most", Worth: "see its rows",
		Run: func(p *subproblem) { p.run(cheap) },
	},
	{
		On: thorough, Name: "long climb", Cost: "24 times a fifth of the states",
		Why: "as in the rows of early, with more states", Worth: "nothing measured since precedence is forced early",
		Run: func(p *subproblem) { p.climb(p.s.budgets.states/5, 24) },
	},
	{
		On: thorough, Name: "proof", Cost: "twice the states",
		Why: "shows that a good order is optimal, by one rule, before rows that take ten times as long", Worth: "time alone: three quarters of the work on ResNet-152's step",
		When: func(p *subproblem) bool {
			return 2*p.s.budgets.states > p.s.budgets.exact/p.g.Nodes && p.g.Nodes <= 2*smallGraph
		},
		Run: func(p *subproblem) { p.climb(2*p.s.budgets.states, 1, listsched.ByPlace) },
	},
	{
		On: thorough, Name: "long forced", Cost: "up to 12 attempts, 30 million edges in all",
		Why: "as in the row of early, with more states and three times the work", Worth: "a proof of a hard network, a bound of the zoo",
		Run: func(p *subproblem) { p.forceAll(p.s.budgets.long) },
	},
	{
		On: thorough, Name: "recursion", Cost: "O(E log V) per level, up to 4 million nodes",
		Why: "better orders for large parts", Worth: "a bound of a hard network",
		Run: (*subproblem).recurse,
	},
	{
		On: thorough, Name: "bisection", Cost: "14 attempts, a million edges each",
		Why: "precedence that a limit forces", Worth: "nothing measured since precedence is forced early",
		When: wide,
		Run:  func(p *subproblem) { p.bisect(p.s.budgets.states/5, p.s.budgets.flow/5) },
	},
	{
		On: thorough, Name: "windows", Cost: "a tenth of the states each", When: searching,
		Why: "better orders around the peak", Worth: "7 % of the peak of a tangled graph",
		Run: func(p *subproblem) { p.windows(p.s.budgets.states / 10) },
	},
	{
		On: thorough, Name: "exhaust", Cost: "a second or so",
		Why: "decides small problems for good", Worth: "a proof, a bound of the zoo",
		Run: (*subproblem).exhaust,
	},
	{
		On: thorough, Name: "last climb", Cost: "6 times 4 times the states",
		Why: "a tenth of the time of the row below; on small problems exhaust took more states", Worth: "a proof",
		When: func(p *subproblem) bool { return 4*p.s.budgets.states > p.s.budgets.exact/p.g.Nodes && wide(p) },
		Run:  func(p *subproblem) { p.climb(4*p.s.budgets.states, 6) },
	},
	{
		On: thorough, Name: "long bisection", Cost: "14 attempts",
		Why: "as bisection, with all the work", Worth: "a bound of a hard network, 3 % of the peak of a tangled graph",
		When: wide,
		Run:  func(p *subproblem) { p.bisect(p.s.budgets.states/4, p.s.budgets.flow) },
	},

	{
		On: cheap, Name: "cheap: least rise", Cost: "O(E log V), one cut",
		Why: "the least rise", Worth: "nothing measured since precedence is forced early",
		Run: func(p *subproblem) { _ = p.forward(p.g.Listing(), infinite, listsched.ByRise) || p.askPeak() },
	},
	{
		On: cheap, Name: "cheap: alternate", Cost: "up to 12 orders, 6 cuts",
		Why: "forward and backward alternately", Worth: "a proof",
		Run: (*subproblem).alternate,
	},
	{
		On: cheap, Name: "cheap: dive", Cost: "up to 10 orders",
		Why: "finds the one slice of a gradient that leads on, in unrolled networks", Worth: "two bounds of the zoo",
		Run: (*subproblem).dive,
	},

	{
		On: others, Name: "solver", Cost: "time: the only row that is not bounded by work",
		Why: "asked for by Options.Solver", Worth: "docs/results/solver-gaps.md has what it closes",
		Run: (*subproblem).askSolver,
	},

	{On: rules, Name: "merging", Why: "nodes that run next to each other become one: see reduce/merge.go", Worth: "14 proofs"},
	{On: rules, Name: "siblings", Why: "two nodes that read the same and are read by the same become one", Worth: "nothing measured since precedence is forced early"},
	{On: rules, Name: "idle nodes", Why: "counters destroy every separator: they run before or after all others", Worth: "nothing measured since precedence is forced early"},
	{On: rules, Name: "delaying", Why: "a node that gains nothing by an early run waits, which makes separators", Worth: "10 proofs"},
	{On: rules, Name: "credits", Why: "a merged node may free an input if it is the last to read it", Worth: "2 proofs"},
	{On: rules, Name: "modules", Why: "a resize, and any nodes between an entry and an exit, run in a fixed order: see reduce/modules.go", Worth: "2 proofs of hard networks"},
	{On: rules, Name: "precedence", Why: "what a limit forces is added to the problem of an attempt", Worth: "2 proofs of hard networks"},
	{On: rules, Name: "postponing", Why: "the exact search runs a node that frees nothing only where it leads somewhere", Worth: "a bound of the zoo"},
	{On: rules, Name: "look-ahead", Why: "a state is dead if some node that has not run can no longer keep to the limit", Worth: "a proof"},
}

func reducible(p *subproblem) bool { return p.g.Idle == 0 }

// unfinished: what has a budget of its own may go on although the common one is spent.
func unfinished(p *subproblem) bool {
	return reducible(p) && searching(p) && !p.closed() && p.bound < p.s.enough && !p.s.meter.Ended()
}

// wide reports whether the gap is worth rows that take long. At default effort they took
// three quarters of the time of ResNet-50's step in float16, for a gap of 0.03 % that they
// did not change.
func wide(p *subproblem) bool {
	n := p.s.budgets.narrow
	return n == 0 || p.best.peak-p.bound >= p.best.peak/n
}

// broad reports whether the gap is too wide to be closed by an effort that ends soon: at least
// 1 % of the peak, of a problem that is large even when it is contracted. If it is more than
// an eighth, the order itself may get much better.
func broad(p *subproblem) bool {
	gap := p.best.peak - p.bound
	return p.s.budgets.broad > 0 && p.contracted != nil && p.contracted.Problem.Nodes >= largeContracted &&
		gap >= p.best.peak/100 && gap <= p.best.peak/8
}

// largeContracted is how many nodes a contraction leaves of a large problem: most leave
// fewer, of problems of thousands.
const largeContracted = 400

func small(p *subproblem) bool { return reducible(p) && p.g.Nodes <= maxExact }

// lastRound reports whether no round follows.
func (s *solver) lastRound() bool { return s.round == len(s.rounds)-1 }

func searching(p *subproblem) bool { return p.s.budgets.states > 0 }

// optimize works through the table on a problem of at least one node.
func (s *solver) optimize(g *indexed.Problem) *subproblem {
	p := s.openWhole(g)
	for k := range s.rounds {
		if s.begin(k, g.Nodes); k == 0 || !p.done() {
			p.run(whole)
		}
	}
	p.run(last)
	if s.work != nil {
		*s.work += s.meter.Work()
	}
	return p
}

// chosen returns the listing if its peak is the best, else the best order.
func (p *subproblem) chosen() []int32 {
	listing := p.g.Listing()
	if peak, _ := indexed.Peak(p.g.Loads(listing, nil)); peak == p.best.peak {
		return listing
	}
	return p.best.order
}

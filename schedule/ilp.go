package schedule

import (
	"fmt"
	"strings"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// ILP is a problem as an integer program: OLLA's (Steiner et al. 2022) for an order,
// or for an order and offsets at once. Encode and Decode translate between its solutions
// and ours.
//
// Its columns are
//
//	x3_5   node 3 runs at step 5: C of each of its outputs, which are equal by equation 5
//	c7_5   tensor 7 is made at step 5; only where outputs are not merged
//	p7_5   tensor 7 is held at step 5 and was made before: P
//	y2_5   in-place pair 2 is taken at step 5
//	peak   the largest load, or the arena with offsets, in units
//
// and with offsets
//
//	A7     the offset of tensor 7, in units; Aw3: that of the workspace of node 3
//	a2_7   tensor 2 lies below tensor 7
//	b2_7   tensor 2 lies above tensor 7
//
// Rows are named after OLLA's equations: c2_7_5 is equation 2 for tensor 7 at step 5. The
// names of rows that OLLA does not have begin with other letters:
//
//	s    one node runs at each step. No order is lost, and a node's possible steps follow
//	     from its numbers of ancestors and descendants, which is tighter than OLLA's
//	     longest paths
//	d    precedence by a tensor of 0 bytes
//	r    a pair is taken only if the other readers of the overwritten tensor have run
//	m    the pairs taken at a step are a matching
//	o    the tensors of a taken pair have one offset
//
// The columns p, y and A need not be declared integer: for any x, a and b, the program that
// is left has an optimum of integers.
type ILP struct {
	ilp.Program
	Unit int64 // bytes: the greatest common divisor of all sizes; peak counts these
	Peak int   // the index of the column peak

	problem *Problem
	layout  layout
}

// ILPOptions says which program to build. The zero value is the program for an order
// with all reductions, whose optimum is the smallest peak.
type ILPOptions struct {
	// Offsets asks for the joint program of an order and offsets (equations 1 to 9), whose
	// optimum is the smallest arena. Without it, the program is that of an order alone
	// (equations 13 and 14), the first half of the split of OLLA's section 4.4; the second
	// half, offsets for given lifetimes (equation 15), is alloc.Problem.ILP.
	Offsets bool

	// Spans says at which steps a node may run (section 4.1, equations 10 and 11).
	Spans Spans

	// These leave out reductions. None of them changes the optimum.
	NoPreserved bool // equation 12: a tensor is held where it must be, without a column
	NoMerging   bool // equation 5 by substitution: one column for all outputs of a node
	NoSequence  bool // the rows s: one node runs at each step
	NoDisjoint  bool // section 4.2: no rows for tensors that are never live together
	NoLoads     bool // the loads (equation 13) as lower bounds of the arena, with Offsets

	// These leave out what OLLA does not have, and so change the problem.
	NoWorkspaces bool
	NoPairs      bool

	// ControlEdges lets updates run early (section 4.3, functions 3 and 4). That can exclude
	// every optimal order.
	ControlEdges bool

	// Known bounds of the optimum, in bytes; 0: none. They become the bounds of peak.
	LowerBound, UpperBound int64
}

// Spans is a rule for the steps at which a node may run.
type Spans int

// The rules.
const (
	SpansByCount Spans = iota // after all ancestors, before all descendants, each at a step of its own
	SpansByLevel              // OLLA's ASAP and ALAP: the longest paths from an input and to an output
	SpansAll                  // at any step
)

// Solution is a solution of a program in our terms.
type Solution struct {
	Order      []int32
	Taken      []Pair  // the in-place pairs, by step, then by Result
	Offsets    []int64 // tensor -> its offset in bytes, or -1 if it needs none; nil: not asked for
	Workspaces []int64 // node -> the offset of its workspace, or -1; nil as Offsets
	Bytes      int64   // the peak, or the arena if there are offsets
}

// mostTerms is the most columns, rows and terms, all together, that a program may have: it
// takes a gigabyte then. Solvers give up long before.
const mostTerms = 1 << 25

// ILP returns the problem as an integer program. It has about nodes²/2 columns and as
// many rows for each tensor, and with Offsets as many rows again for each pair of tensors,
// so it suits small graphs only. It fails if the problem is not valid, or if the program
// would have more than 33,554,432 columns, rows and terms.
func (p *Problem) ILP(opt ILPOptions) (*ILP, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if opt.Spans < SpansByCount || opt.Spans > SpansAll {
		return nil, fmt.Errorf("spans: expected 0 to %d, found %d", SpansAll, opt.Spans)
	}
	given := p
	if opt.ControlEdges {
		p = p.withControlEdges()
	}
	f := index(p)
	if opt.NoWorkspaces {
		clear(f.Workspace)
	}
	if opt.NoPairs {
		f.Pairs = nil
		clear(f.PairStart)
	}
	b := builder{
		layout:  layout{Graph: f, opt: opt},
		problem: p,
		program: &ILP{Unit: unit(f), problem: given},
	}
	b.program.Name = p.Name
	b.first, b.last = b.spans()
	if err := b.build(); err != nil {
		return nil, err
	}
	b.program.layout = b.layout
	return b.program, nil
}

// Comment describes the program: its problem, its unit, its nodes and its in-place pairs.
func (g *ILP) Comment() string {
	l := &g.layout
	var b strings.Builder
	what, equations := "peak", "1-5 and 10-14"
	if l.opt.Offsets {
		what, equations = "arena", "1-12"
	}
	fmt.Fprintf(&b, "The smallest %s of %.64q: %d nodes, %d tensors, %d in-place pairs.\n", what, g.problem.Name, l.Nodes, len(g.problem.Tensors), len(l.Pairs))
	fmt.Fprintf(&b, "OLLA (Steiner et al. 2022), equations %s. One unit is %d bytes.\n", equations, g.Unit)
	for v := range l.Nodes {
		fmt.Fprintf(&b, "x%d_*: %s\n", v, g.problem.node(int32(v)))
	}
	for k, pair := range l.Pairs {
		fmt.Fprintf(&b, "y%d_*: %s over %s\n", k, g.problem.tensor(pair.Result), g.problem.tensor(pair.Over))
	}
	return b.String()
}

// layout says where the columns of a program are.
type layout struct {
	*indexed.Graph
	opt         ILPOptions
	first, last []int // node -> the span of its steps

	may, must [][2]int // tensor -> see lifetime
	x         []int    // node -> its column at its first step
	c         []int    // tensor -> its column at the first step of its producer: the node's, if outputs are merged
	p         []int    // tensor -> its first column
	y         []int    // pair -> its first column
	from      []int    // pair -> the first step at which it may be taken
	items     []item   // what has an offset, with Offsets
	couples   []couple // of items that may be live together
}

// item is a tensor, or the workspace of a node, with an offset.
type item struct {
	tensor, node int32 // one of them is -1
	size         int64 // in units
	column       int   // A
}

// couple is two items, by index, and their columns a and b.
type couple struct {
	low, high int
	a, b      int
}

// name is the item's part of the names of columns and rows.
func (it item) name() string {
	if it.tensor < 0 {
		return fmt.Sprint("w", it.node)
	}
	return fmt.Sprint(it.tensor)
}

// heldAt returns the column p of a tensor at a step, or -1 and whether it is then held (1)
// or not (0).
func (l *layout) heldAt(t int32, step int) (column int, held int64) {
	may, must := l.may[t], l.must[t]
	switch {
	case l.Size[t] == 0 || step < may[0] || step > may[1]:
		return -1, 0
	case step >= must[0] && step <= must[1]:
		return -1, 1
	}
	column = l.p[t] + step - may[0]
	if must[0] <= must[1] && step > must[1] {
		column -= must[1] - must[0] + 1
	}
	return column, 0
}

// lifetime returns two spans of steps, from the first to the last: those at which a tensor
// that was made earlier may be held, and those at which it must be (equations 11 and 12).
// A tensor without a producer counts as made before step 0. A span whose last step is
// less than its first is empty.
func (l *layout) lifetime(t int32) (may, must [2]int) {
	may, must = [2]int{0, -1}, [2]int{0, -1}
	if m := l.Producer[t]; m >= 0 {
		may[0], must[0] = l.first[m]+1, l.last[m]+1
	}
	for _, r := range l.Readers.Of(t) {
		may[1] = max(may[1], l.last[r])
		must[1] = max(must[1], l.first[r])
	}
	if l.Output[t] {
		may[1], must[1] = l.Nodes-1, l.Nodes-1
	}
	if l.opt.NoPreserved {
		must = [2]int{0, -1}
	}
	return may, must
}

// spans returns the first and the last step at which each node can run.
func (l *layout) spans() (first, last []int) {
	switch l.opt.Spans {
	case SpansByCount:
		return spans(l.Graph)
	case SpansByLevel:
		first, last = levels(l.Graph)
		for v := range last {
			last[v] = l.Nodes - 1 - last[v]
		}
		return first, last
	}
	first, last = make([]int, l.Nodes), make([]int, l.Nodes)
	for v := range last {
		last[v] = l.Nodes - 1
	}
	return first, last
}

// levels returns the number of nodes before each node on the longest path to it, and after
// it on the longest path from it: OLLA's levelization. O(E).
func levels(f *indexed.Graph) (forward, backward []int) {
	forward, backward = make([]int, f.Nodes), make([]int, f.Nodes)
	order, preds := breadthFirst(f), f.Precedence()
	for _, v := range order {
		for _, u := range preds.Of(v) {
			forward[v] = max(forward[v], forward[u]+1)
		}
	}
	for i := len(order) - 1; i >= 0; i-- {
		for _, u := range preds.Of(order[i]) {
			backward[u] = max(backward[u], backward[order[i]]+1)
		}
	}
	return forward, backward
}

// unit returns the greatest common divisor of all sizes, or 1.
func unit(f *indexed.Graph) int64 { return indexed.Divisor(f.Size, f.Workspace) }

// spans returns the first and the last step at which each node can run, by its ancestors
// and descendants.
func spans(f *indexed.Graph) (first, last []int) {
	return indexed.Spans(breadthFirst(f), f.Precedence())
}

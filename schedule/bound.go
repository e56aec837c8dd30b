package schedule

import (
	"context"
	"math"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// Certificate says what proves a lower bound. To check it, build the network of
// [CutBound], [FirstBound] or [LastBound] from its definition for these nodes and
// compute a maximum flow. Precedence, sizes and pairs are those of the problem, so the
// search need not be trusted. Only a bound of kind search rests on a search that must
// be repeated.
type Certificate struct {
	Kind  string  // KindCut, KindFirst, KindLast or KindSearch
	Nodes []int32 // the node, or the set; none for a search
	Value int64   // bytes

	ClaimedBy string // name and version of the solver that a search rests on; empty: none
}

// The kinds of certificates.
const (
	KindCut    = bounds.Cut    // Value is CutBound of the node
	KindFirst  = bounds.First  // FirstBound of the set
	KindLast   = bounds.Last   // LastBound of the set
	KindSearch = bounds.Search // an exhausted exact search, or bounds under precedence forced by a limit
)

// Bound returns the largest bound that minimum cuts of single nodes and of sets of
// nodes prove within a little work, with its certificate; see [CutBound], [FirstBound]
// and [LastBound]. The search of [Solve] may prove more. The problem must be valid.
func Bound(p *Problem) Certificate {
	f := index(p)
	g := indexed.NewProblem(f)
	if f.Nodes == 0 || g.TooLarge() {
		value, node := LowerBound(p)
		if node < 0 {
			return Certificate{Kind: KindSearch, Value: value}
		}
		return Certificate{Kind: KindCut, Nodes: []int32{node}, Value: value}
	}
	s := newSolver(context.Background(), EffortDefault.budgets())
	return Certificate(s.boundOf(g, s.lists.Forward(g, g.Listing(), infinite, listsched.ByRise)))
}

// boundOf returns the bound that cuts and sets prove, led by an order.
func (s *solver) boundOf(g *indexed.Problem, order []int32) bounds.Certificate {
	s.begin(0, g.Nodes)
	p := s.openWhole(g)
	if !p.see(order) {
		p.cuts()
	}
	if !p.done() {
		p.sets()
	}
	p.proof.Value = p.bound
	return p.proof
}

// CutBound returns a number of bytes below which the load of node v cannot go,
// whatever the order and whatever pairs it takes:
//
//	min over M   trans(v) - size(M) + min over S { live(S) + Σ size(o) },
//
// M the maximal matchings of v's in-place pairs (o, t), and S the downsets that contain all
// ancestors of v and neither v nor a descendant. The sum is over the pairs of M that have
// a reader of t other than v outside S. If there are more than 16 matchings: size of
// the largest, and no sum. If S can only be empty, v runs at the first step, and live(S)
// includes the tensors that no node makes or reads. One minimum cut for each M. The
// problem must be valid.
//
// Proof. Whatever the order, the state from which v runs is such an S: it is a downset,
// it contains all that v needs, and nothing that needs v. The load is live(S) +
// trans(v) less the pairs taken. These are a matching of the pairs whose t has no other
// reader left, and part of a maximal matching M. The load is not below the value of
// (M, S), which adds back the pairs of M that S does not free.
func CutBound(p *Problem, v int32) int64 {
	return bounds.NewCutter(meter.New(context.Background())).Node(indexed.NewProblem(index(p)), v).Value
}

// FirstBound returns a number of bytes below which the peak of no order can go,
// because one node of the set A runs before all others of it:
//
//	min over v in A with no ancestor in A, over M, over S of
//	trans(v) - size(M) + live(S) + Σ size(o)
//
// as in [CutBound], but S contains all ancestors of v and neither a node of A nor a
// descendant of one. The set must not be empty, the problem valid.
//
// Proof. Some node v of A runs first. So no ancestor of v is in A, and the state from
// which v runs contains no node of A and thus no descendant of one. That the load of v
// there is not below the value follows as for CutBound.
//
// It adds to the bounds of single nodes that not all costly nodes can be put off, while
// each node alone may put off all others.
func FirstBound(p *Problem, set []int32) int64 {
	return bounds.NewCutter(meter.New(context.Background())).First(indexed.NewProblem(index(p)), set, -1, math.MaxInt64/2).Value
}

// LastBound is the mirror image of [FirstBound]: one node of the set A runs after all
// others of it. The least is over v in A with no descendant in A, and S contains all
// ancestors of all nodes of A and all of A but v, and neither v nor a descendant of v.
//
// Proof. Some node v of A runs last. So no descendant of v is in A, and the state from
// which v runs contains all others of A and their ancestors.
func LastBound(p *Problem, set []int32) int64 {
	return bounds.NewCutter(meter.New(context.Background())).Last(indexed.NewProblem(index(p)), set, -1, math.MaxInt64/2).Value
}

// LowerBound returns a number of bytes below which the peak of no order can go,
// whatever pairs it takes: the largest of
//
//   - [NodeBound] of each node,
//   - the least possible load of the first step,
//   - the least possible load of the last step.
//
// If a node alone proves the figure, node is the first such node and bytes is its
// NodeBound; else node is -1. The problem must be valid. O(E) beside the matchings.
//
// Proof of the ends. Before the node at step 0 no other has run. Beside it all tensors that
// no node makes are live. It makes its outputs, uses its workspace, and can save at most a
// matching of the pairs whose tensor has no other reader, since no other reader has run. The
// least of this over the nodes that may come first is a bound. After the node at the last
// step no other runs. Its inputs are live, what it makes and all outputs; all other readers
// have run, so its largest matching counts. The least over the nodes that may come last is a
// bound.
func LowerBound(p *Problem) (bytes int64, node int32) { return bounds.Simple(index(p)) }

// NodeBound returns the bytes that are live while node v runs, whatever the order. These are
// the tensors that it reads and makes and its workspace, less the largest matching of its
// in-place pairs as if every tensor were free. Resident tensors count nothing. The problem
// must be valid.
//
// Proof: all of these are live at the step of v by definition; an order can save no
// more than a matching of v's pairs, and those of a step are taken by its node alone.
func NodeBound(p *Problem, v int32) int64 { return bounds.SimpleNode(index(p), v) }

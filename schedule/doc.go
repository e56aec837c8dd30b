// Package schedule orders the nodes of a neural network so that the largest load over all
// steps is small, and proves how small it can be.
//
// # The problem
//
// The package knows nothing of ONNX. A [Problem] has nodes, and tensors of given sizes. One
// node makes a tensor, its maker, and other nodes read it, after its maker has run. A tensor
// without a maker is an input. An order is a topological order of the nodes; the node at
// position i runs at step i.
//
// A tensor is live from the step of its maker (an input: from step 0) to the step of its
// last reader. An output of the problem stays live to the last step. A tensor that nobody
// reads and that is no output is live at its first step only. Resident tensors (parameters)
// are always live and are not counted. The load at a step is the sum of the live bytes and
// the workspace of the node that runs. The peak of an order is its largest load, and the
// optimum is the smallest peak of all orders. A bound is a number of bytes that is not above
// the optimum. An order whose peak equals a proven bound is proven optimal.
//
// # The example
//
// Six nodes, a training step in small. E and F compute the forward pass, D makes the
// gradient d, W the gradient w of the parameter p, U updates p with it, and G makes the
// output g. The numbers are bytes. Not drawn: W and G also read e; E and U read p, resident.
//
//	x:2 ─▶ E ─▶ e:4 ─▶ F ─▶ f:6 ─▶ D ─▶ d:6 ─▶ W ─▶ w:5 ─▶ U
//	                                      └──▶ G ─▶ g:2 (output)
//
//	program order   E   F   D   W   G   U        a better one   E   F   D   W   U   G
//	load            6  10  16  15  17   7        load           6  10  16  15  15  12
//
// In program order w is still live when G runs. The other order runs U first, with a peak of
// 16. Can any order have a smaller one?
//
// # States and loads
//
// A state is the set S of the nodes that have run at some moment between two steps. With
// each node it contains all ancestors of it (it is a downset). live(S) is the size of the
// tensors that must be held at that moment: the maker is in S or the tensor is an input,
// and some reader is not in S or the tensor is an output. Let v run next. The tensors that
// it reads are part of live(S), because v is not in S. What it makes is added:
//
//	load(v) = live(S) + transient(v)
//
// where transient(v) is the size of all tensors that v makes, read or not, and of its
// workspace: E 4, F 6, D 6, W 5, G 2, U 0. Four kinds of tensors are special:
//
//   - Resident tensors and tensors of 0 bytes count only as precedence.
//   - An input that is also an output is always live; its size, the base, is part of
//     live(S) for every S.
//   - A tensor that nobody reads and that is no output counts in the transient only.
//   - An input that nobody reads adds to the load of step 0 only. The bounds by cuts below
//     ignore it, which can make them smaller, but not wrong.
//
// # A bound from one node
//
// Whatever the order, the state before D contains the ancestors of D and neither D nor its
// descendants. So it is {E, F}: e and f are live, 10 bytes, and the load of D is 10 + 6.
// ([NodeBound] counts only what D reads and makes, 12.) So no order has a peak below 16.
// For U there is a choice, since G may run before or after it:
//
//	S = {E, F, D, W}       live e, d, w   15
//	S = {E, F, D, W, G}    live w, g       7     the least, so the bound from U is 7 + 0
//
// In general the bound from v is transient(v) plus the least live(S) over all S from which
// v may run: states that contain all ancestors of v and neither v nor a descendant
// ([CutBound]). The state before v is one of these in every order, so the load of v is
// never below the bound. The bounds from E, F, D, W, G and U are 6, 10, 16, 15, 12 and 7.
//
// # The least live(S) as a minimum cut
//
// Nodes that are neither ancestors nor descendants of v are free: S may contain them or not.
// There are exponentially many such S, but a maximum flow finds the least live(S). The
// vertices of its network are the free nodes, the tensors, a source and a sink:
//
//	source                  stands for the ancestors of v, and for the makers of inputs
//	sink                    stands for v, its descendants, and a reader of each output
//	maker ─▶ tensor         capacity: the size of the tensor
//	tensor ─▶ reader        infinite, one edge to each reader
//	node ─▶ predecessor     infinite, one edge to each direct predecessor
//
// S is what lies on the source's side of a cut; the cut costs the capacity of the edges from
// there to the sink's side. An S with a node but without one of its predecessors costs an
// infinite edge, so S is a state. If the maker of a tensor is in S and a reader is not, the
// infinite edge to that reader keeps the tensor's vertex on the sink's side. So the edge from
// the maker is cut: once, however many readers are missing. If all readers are in S, the
// vertex can be on the source's side, and if the maker is not in S, on the sink's side, at no
// cost. So S costs live(S), and the minimum cut is the least live(S). For U:
//
//	source ─4─▶ e ─▶ G                       without G, S costs 4 + 6 + 5 = 15
//	source ─6─▶ d ─▶ G ─2─▶ g ─▶ sink        with G, S costs 2 + 5 = 7
//	source ─5─▶ w ─▶ sink                    maximum flow: 2 + 5 = 7
//
// # A bound from a set of nodes
//
// The bound from v assumes of every free node what is best for v. Of a set A of costly nodes
// not all can wait for the others: one runs first. Let K make i and j, 6 bytes each, let I
// read i and J read j, each with 5 bytes of workspace. The bound from K is 12; those from I
// and J are 6 + 5 = 11, as if the other had run. But the first of the two runs while both i
// and j are live: 12 + 5 = 17, which is the optimum.
//
// [FirstBound] is the least of transient(v) + live(S) over the nodes v of A that may run
// first and over all S. S contains the ancestors of v, and neither a node of A nor a
// descendant of one. A node may run first if none of its ancestors is in A. [LastBound] is
// the mirror image: v may run last if none of its descendants is in A, and S contains the
// rest of A and all ancestors of A's nodes, but neither v nor a descendant of v. In every
// order one such v runs first (last), from one such S, so the peak is never below the
// bound. Each v takes a minimum cut. For A = {W, G} in the example:
//
//	first   W needs 15 from {E, F, D}       G needs 12 from {E, F, D}          bound 12
//	last    W needs 17 from {E, F, D, G}    G needs 12 from {E, F, D, W, U}    bound 12
//
// Any A gives a valid bound. Solve tries the nodes whose NodeBound, or whose transient,
// reaches one of several thresholds, of all nodes or of those that are no ancestors (no
// descendants) of a node with a large load. It tries the largest predecessors of a successor,
// and successors of a predecessor, of such a node. It tries a node with a large load together
// with free nodes that its minimum cut puts on the other side than the best order does.
//
// # The certificate and its check
//
// [Solve] returns the bound with a [Certificate]: a kind, nodes and a value, here "cut", D
// and 16. The flow is left out, because problem and nodes determine the network. Kinds:
//
//	"cut"            CutBound of the node is at least the value
//	"first-of-set"   FirstBound of the nodes is at least the value
//	"last-of-set"    LastBound of the nodes is at least the value
//	"search"         any other proof; no nodes
//
// Package plan/verify checks a plan with code of its own. It recomputes the loads of the
// plan's order, builds the networks of the certificate, and rejects a value above the least
// load that it finds. It calls the order proven only if the recomputed peak equals a bound
// that it has proven. So a fault in this package may make a peak too large or a bound too
// small, but a bound of the first three kinds that is too large fails the check.
//
// Two kinds of bounds, if not above the peak, pass unproven, and the report calls them
// claimed: those whose flows take too much work, and those of kind "search". On request
// verify repeats the search, by a method of its own, for an order with a peak below the
// value. Only if that ends without an order is the bound proven.
//
// Kind "search" stands mostly for finished exact searches, bounds on a reduced problem (by any
// proof), and precedence that a limit forces; all are explained below. A cut of a reduced
// problem is no cut of the problem: each of its nodes can stand for several, which a cut of
// the problem may separate, at a smaller value. So at the end Solve asks the nodes behind
// such a bound, then others and sets, for the same value on the problem itself. If one of
// them proves it, the certificate takes its kind.
//
// # Reduced problems
//
// If the optimum of a reduced problem is no larger than that of the problem, a bound on the
// first is a bound on the second. Three reductions have this property.
//
// Contraction merges two nodes into one that runs both in direct succession. Each rule takes
// any order, moves one node next to the other, and proves that precedence allows this and
// that the peak does not rise. So every order, an optimal one too, turns into an order of the
// merged nodes with no larger peak: the optimum does not rise. (Nor does it fall: an order of
// the merged nodes is one of the problem, with no larger peak.) The rules look at precedence
// and sizes only. The one that lets U run right after its predecessor W tests:
//
//	a. All other predecessors of U are ancestors of W.
//	b. U leaves no more bytes than it surely frees, that is, of inputs that are no outputs
//	   and whose other readers are W or ancestors of W. So the states that U joins when it
//	   moves gain no live bytes, and no load between W and U's old place rises.
//	c. Right after W, U has no larger load than W. U's own load may rise, as from 7 to 15
//	   in the orders above, but not above W's: the peak does not.
//
// The mirror rule lets a node run right before its only successor. It must leave no fewer
// bytes than it might free, so that states gain no live bytes by its absence, and its load
// must not exceed the successor's. So the example becomes a single node. c leaves out
// live(S); its right side is the transient of the merged node, so the last has a load of 2 +
// 14 = 16:
//
//	U after W             a: none   b: 0 <= 5 (w)               c: 5 + 0 <= 5
//	W U after D           a: E      b: 0 <= 0 (w stays within)  c: 6 - 6 + 5 <= 6 (D frees f)
//	G after D W U         a: E      b: 2 <= 10 (d and e)        c: 6 - 6 + 2 <= 6
//	F before D W U G                b: 6 >= 0                   c: 6 <= 6 + 6
//	E before F D W U G              b: 4 >= 2 (x)               c: 4 <= 4 - 2 + 12
//
// Further rules merge two nodes that read the same tensors and have the same predecessors and
// successors, if neither needs more when the other ran just before it. Others add precedence
// that some optimal order obeys: a fixed order of nodes that have one entry and one exit, if
// it is at least as good as all their other orders. Another takes out a node that reads and
// makes nothing that counts in live(S). It runs after all others if it has no successors
// (before all if no predecessors), provided that its load there is at most one that no order
// avoids. No other load depends on it, so the optimum is the larger of that load and the
// optimum of the rest. Package reduce has all rules and proofs.
//
// Parts. A separator is a node that is an ancestor or a descendant of every other node. In
// every order the same nodes run before it, so the problem falls apart after each
// separator, which belongs to the part that it ends. E, F and D are separators, and the
// parts are {E}, {F}, {D} and {W, G, U}. A tensor that is needed after its part is an
// output of it, an input of the part that reads it last, and base in the parts between (an
// output of the problem: in all later ones). So the loads are those of the problem. The
// optima of the parts are 6, 10, 16 and 15; the largest is the optimum of the problem, and
// a bound on any part is a bound on it.
//
// Small tensors. If all tensors below some size count as 0 bytes, no load grows (those of an
// in-place pair have the same size). Solve chooses a size below which they sum to at most
// half of the gap between bound and peak (later: below which there is one size only).
// Without x and g, of 2 bytes each, the better order has the loads 4, 10, 16, 15, 15 and 10.
//
// # The exact search
//
// It decides whether an order with a peak of at most B exists. From the empty state it goes
// depth first from state to state, by nodes that fit: whose load is at most B. A state can
// be completed if all nodes not in it can run from it one after another, each fitting.
//
// Lemma. Let nodes that fit lead from S to S', and let live(S') <= live(T) for all states T
// with S ⊆ T ⊆ S', S itself included. If S can be completed, so can S'.
//
// Proof. Run from S' the nodes that complete S, in their sequence, without those in S'. A
// node that ran from T runs from T ∪ S'. live is submodular: live(T ∪ S') + live(T ∩ S') <=
// live(T) + live(S'), since no tensor counts more often on the left. As T ∩ S' lies between S
// and S', live(S') <= live(T ∩ S'). So live(T ∪ S') <= live(T), and the node fits.
//
// S must be included: {E, F, D} has 10 live bytes and can be completed within 16, but with G
// it has 12, and then W needs 17. From a state S the search drops
//
//   - all other nodes, if a ready node fits and does not raise the live bytes. This one runs
//     at once: S' is S with it.
//   - all other paths, once one has led to a state Y with live(Y) <= live(S). A minimum cut
//     finds S', the largest state of least live bytes between S and Y. The path's nodes in S'
//     lead to it: they run from T ∩ S' instead of T, and live(T ∩ S') <= live(T), as above.
//   - S itself, if it is dead, that is, if no path leads to such a Y or to the end. The
//     fewest live bytes that it reaches are remembered by a hash of 128 bits of the set, so
//     that S is not explored in vain when another path leads to it.
//   - S itself, if some node can no longer fit. Long searches on up to 1000 nodes test
//     the node of the largest bound left: its minimum cut with S on the source's side.
//   - a ready node that frees nothing and needs no more than it leaves behind, unless it soon
//     leads to a successor or a freed tensor, or only such nodes are left (package exact).
//
// A search that ends without an order proves that there is none. The least load that it
// refused (of a dropped state, the bound of its cut) is even a bound: with any B below that it
// would have gone the same way, unless precedence forced by B took part. Here B = 15
// refuses D at 16 and ends, so 16 is a bound. A search that spends its budget proves nothing.
//
// All loads are multiples of the greatest common divisor of all sizes and workspaces, the
// unit. The first B is one unit below the peak. Without an order, the peak is optimal; with
// one, the peak falls. Then B is in turn the middle between bound and peak, the bound, and
// one unit below the peak. At any B, a search that finishes lowers the peak or raises the
// bound. Some stages first add precedence that B forces: within 16, W runs before G, since
// W's minimum cut with G in S exceeds 16. It holds for this B only. If such precedence forms
// a cycle, no order is within B.
//
// # In-place pairs
//
// A node v may write its result o over a tensor t that it reads (Tensor.Reuses), if every
// other reader of t has run; the two then count once at that step. The pair counts only if t
// is neither resident nor an output, and has the size of o, not 0. Then
//
//	load(v) = live(S) + transient(v) - saved(v, S)
//
// where saved(v, S) is the size of a largest matching (no o and no t twice) of those of v's
// pairs whose other readers are all in S. No other load changes. If D may write d over f, D
// needs 10, and the better order has a peak of 15, which is the bound from W.
//
// The bound from v is the least over the maximal matchings of its pairs. It subtracts the
// sizes of the matching. For each of its pairs, a hyperedge adds the size again if another
// reader of t is not in S. That is an edge of this capacity from the source (which stands for
// t's maker, an ancestor of v) to a new vertex, and infinite ones from there to these
// readers. The pairs that an order saves are part of a maximal matching, whose value is at
// most the load. Let w have 6 bytes, and go over d. W needs 12 + 6 - 6 = 12 if G has run,
// else 10 + 6 = 16. The new edge source ─6─▶ G and the edge G ─2─▶ g let 2 bytes flow, so the
// bound is 10 + 2 + 6 - 6 = 12; without the pair it is 16.
//
// Solve and verify both try up to 16 matchings; if there are more, they subtract the largest
// without hyperedges, which can only lower the bound. In a set each v is treated so. A merged
// node keeps the pairs of one of its nodes; the conditions of the rules count a saving only
// where it is sure, and all that are possible where they would do harm. In a part, a pair is
// void if t is needed after it. The lemma holds, as v saves no less from T ∪ S' than from T,
// and the path to S' fits, as load(v) - live(S with v) does not fall when S grows.
//
// # What Solve does
//
// [Solve] goes through a table of stages (stages.go), from cheap to expensive, until bound
// and peak meet or the budget of work is spent. In the example, program order has peak 17,
// and the cut of G, the node at its peak, 12. The order that raises the live bytes least at
// each step has 17 again. Program order in which a node that raises nothing runs at once (U)
// has 16; so has the cut of D, now at the peak. If the budget is spent or the caller's
// context ends before that, order and bound are valid, and the optimum is between bound and
// peak. Work is counted, not timed: unless the context ends, problem and [Options] determine
// the result. Solve uses one core, since nearly all stages need the order and the bound so
// far (docs/rationale.md). In the code a limit is an amount of bytes, and a budget an amount
// of work.
//
// Of the rest, [Strategies] lists ways to find an order without a proof, [Explain] shows what
// is live at a peak and why no peak is below the bound, and [WriteLP] writes the problem for
// other solvers.
package schedule

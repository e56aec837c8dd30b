// Package schedule orders the nodes of a neural network so that the largest load over
// all steps is small, and proves how small it can be.
//
// It knows nothing of ONNX. A [Problem] consists of sizes and precedence: nodes, and
// tensors that one node makes and other nodes read. A tensor that no node makes is an
// input and is made before step 0. An order is a topological order of the nodes; the node
// at position i runs at step i. A tensor is live from the step that makes it to the step
// of its last reader. A tensor that nobody reads is live at the step that makes it only
// (an input: at step 0), and an output of the problem stays live to the last step.
// Resident tensors (parameters) are always live and are not counted. The load at a step
// is the sum of the live bytes and the workspace of the node that runs. The peak of an
// order is its largest load.
//
// # One example
//
// Six nodes, a training step in small: A and B compute forward, D makes a gradient d, W the
// gradient w of the parameter p, U updates p with it, and G makes the output g. The numbers
// are bytes; W and G read a, U reads p.
//
//	x:2 ─▶ A ─▶ a:4 ─▶ B ─▶ b:6 ─▶ D ─▶ d:6 ─▶ W ─▶ w:5 ─▶ U      W and G read a as well
//	                                     └────▶ G ─▶ g:2 (output)  p:9 is resident
//
//	program order   A   B   D   W   G   U        a better one   A   B   D   W   U   G
//	load            6  10  16  15  17   7        load           6  10  16  15  15  12
//
// In program order w is still live when G runs. The other order runs U first, and its peak
// is 16. Can any order have a smaller one? The rest of the example answers that as [Solve]
// does.
//
// The indexed problem. Nodes and tensors become indices, and only tensors that can change
// the load stay. Of resident tensors such as p and of tensors of 0 bytes, only the
// precedence stays. A tensor that is live at every step is added to all figures as a base.
// A tensor without readers that is no output counts, like a workspace, as part of what its
// node adds while it runs. An input that nobody reads raises the load of the first step
// only; bounds by cuts leave it out, which can only make them smaller. Let the state S be
// the set of nodes that have run before v starts, and let live(S) be the bytes that are
// held between two steps then: tensors whose maker is in S (inputs count as made before
// the start) and that a node outside of S reads (outputs count as read after the end).
// While v runs, its results join them:
//
//	load(v) = live(S) + transient(v)        transient: A 4, B 6, D 6, W 5, G 2, U 0
//
// The cut. Whatever the order, the state S before D contains the ancestors of D, neither D
// nor a descendant of it, and with each node all its ancestors: A and B are in S, the others
// are not. So a and b are live, a because W and G run later and read it. D then needs
// 4 + 6 + 6 = 16 bytes. (The tensors that D itself reads and makes have 12 bytes: that is
// [NodeBound].) For W there is a choice: A, B and D run before it, U runs after it, and G
// may run on either side.
//
//	S = {A, B, D}      live a, d     10      the least: W needs 10 + 5 = 15
//	S = {A, B, D, G}   live a, d, g  12
//
// Each tensor is a directed hyperedge from its maker to its readers, and it is live if S
// cuts it: its maker is inside and some reader is outside. An edge of infinite capacity
// from each reader to its maker keeps S closed: with a node it contains all its
// ancestors. So the least live(S) over all such S is a minimum cut, however many nodes
// may run on either side, and a maximum flow computes it. (In other words, live is
// submodular. [CutBound] has the definition.)
//
// Why the cut is a bound. In any order, the actual state before D is one of the sets S
// over which the minimum is taken. So D runs with at least the least live(S) plus its
// transient, 16 bytes, and no order has a smaller peak. The same holds for every other
// node; the largest of these bounds counts.
//
// The certificate. [Solve] returns the bound as a [Certificate]: kind "cut", node D, 16
// bytes. It holds nothing else, because the network follows from the problem and the
// node. To check it, build the network from the definition of [CutBound]: the minimum cut
// is 10, and the transient of D adds 6. Package plan/verify does so when it checks a plan,
// and shares no code with this package. So the search need not be trusted: its faults can
// make a bound too small, but a bound that is too large fails the check.
//
// The order. Its peak is 16 and the bound is 16: it is proven optimal, and the search ends.
//
// If the bound were below the peak, a contraction would make the problem smaller. It merges
// two nodes if some optimal order runs one right after the other. Here U can always run
// right after W: U makes nothing and frees w, so moving it there raises no load. All six
// nodes become a single one, in the order above. If the contracted problem still has
// several nodes, more orders and bounds are tried on it, and an exact search at last.
//
// # How an order is proven
//
// A bound is proven in one of four ways, the kind of its certificate. The certificate lists
// the node, or the nodes of the set:
//
//   - "cut": one node needs so much in every order ([CutBound]).
//   - "first-of-set": one node of a set A runs before all others of A. The state before it
//     contains no node of A, and the bound is the least over the nodes that may be first
//     ([FirstBound]). A cut by itself allows every costly node to be put off; not all of
//     them can be.
//   - "last-of-set": one node of A runs after all others of A, so the state before it
//     contains all of them ([LastBound]).
//   - "search": an exact search has shown that no order has a smaller peak.
//
// To check a set, compute one minimum cut for each of its nodes that may be first (or last),
// as for "cut" but with the rest of A on the stated side, and take the least. To check a
// search, repeat it: plan/verify does so on request, with a search that shares no code
// with this one. Until then it reports the bound as claimed, not as proven.
//
// The order is optimal if its peak equals the bound ([Result.Optimal]). If the budget of
// work or the context ends earlier, Solve returns the best order and the best bound so
// far. The order is valid and the bound is proven, but the optimum may be anywhere between
// the two. An exact search that did not finish proves nothing.
//
// A reduced problem is one of three, and in each case a bound on it is a bound on the
// problem itself, because its optimum is no larger:
//
//   - A contraction keeps the optimum. Each of its orders expands into an order of the
//     problem whose peak is no larger, and some optimal order of the problem is among
//     these. Each rule has its proof in package reduce. (Nodes without tensors may be taken
//     out and run first or last; their loads there are then a bound as well.)
//   - A part is the nodes between two bridges. A bridge is a node that is ordered with all
//     others, so each order of the problem runs the parts one after another, and the peak
//     is the largest of theirs.
//   - The problem without its small tensors has smaller loads in every order. Its orders
//     are tried on the problem itself, too.
//
// Solve then looks for a cut or a set of the problem itself with the same value. If it
// finds none, the kind is "search".
//
// The exact search decides whether an order with a peak of at most B exists. It explores
// states from the empty set and drops a state for one of two reasons. Either some node
// that has not run cannot meet B from there. Or the search has reached a state S' from the
// dropped one's predecessor S, and S' has no more live bytes than any state between S and
// S': then S' can be completed within B if S can, so other continuations of S are not
// needed (the lemma and its proof are in package listsched). Loads are sums of sizes, so
// they are multiples of the greatest common divisor g of all sizes and workspaces. If the
// search with B = peak - g ends without an order, the peak is optimal.
//
// # The search
//
// [Solve] works through a table of stages, from the cheapest to the most expensive, until
// bound and peak meet or the budget of work is spent. stages.go is that table: for each
// stage a name, the problem that it runs on, its cost and the reason for its place.
// docs/ablation.md measures the worth of each. Work is counted, not timed, so the result
// depends on the problem alone: not on map order, goroutines or time. In the code a limit
// is an amount of bytes, and a budget is an amount of work.
//
// The tools of the stages are packages below internal: the indexed problem, list scheduling,
// bounds by cuts, reductions, exact search, and the meter of work.
//
// # In-place pairs
//
// A node v may write its result o over a tensor t that it reads (Tensor.Reuses): the two
// then count once at that step and share one buffer. The pair counts only if t is neither
// resident nor an output, v is among t's readers, and both have the same size, which is not
// 0. The node gets t only when every other reader of t has run. So
//
//	load(v) = live(S) + transient(v) - saved(v, S)
//
// where saved is the most that v's pairs with a t that v gets can save, each o and t used
// once. A pair changes the load of its own step only, so the best choice at each step is
// the best for the order. The bound of v is the least over the ways to match its pairs:
// all pairs of the matching save their bytes, and a hyperedge to the other readers of t
// adds the bytes back if one of them is outside of S. So it holds for every choice of
// pairs.
//
// # What else is here
//
//   - [Problem.Evaluate] gives the load at each step of an order.
//   - [Strategies] lists named ways to find an order, without a proof.
//   - [LowerBound] is a bound without cuts, [Bound] the best one within a little work.
//   - [Explain] shows which tensors are live at an order's peak, a state that proves the
//     bound, and what would lower both.
//   - [WriteLP] writes the problem as an integer program, for any solver to check.
//
// # Cores
//
// Solve is sequential: each stage uses the order and the bound of the stages before it.
// Running the contraction and the last orders in parallel saved too little
// (docs/rationale.md has the figures). Several problems can be solved in parallel, as
// [Explain] does.
package schedule

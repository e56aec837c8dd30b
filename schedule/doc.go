// Package schedule orders the nodes of a neural network so that the largest load over
// all steps is small, and proves how small it can be.
//
// It knows nothing of ONNX. A [Problem] is sizes and precedence alone: nodes, and tensors
// that one node makes (or none: inputs, which are there from the start) and others read. An
// order is a topological order of the nodes; the node at position i runs at step i. A
// tensor is live from the step that makes it to the step of its last reader; one that
// nobody reads is live at the step that makes it, and an output of the problem stays to the
// last step. Resident tensors (parameters) are live always, and are not counted. The load
// at a step is the sum of the live bytes and the workspace of the node that runs. The peak
// of an order is its largest load.
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
// The indexed problem. Nodes and tensors become indices, and only the tensors that can
// change the load stay. Resident tensors such as p and tensors of 0 bytes leave nothing but
// their precedence; a tensor that is live at every step is added to all figures as a base;
// a tensor that is no output and has no reader is, like a workspace, part of what its node
// adds while it runs. Let S be the set of nodes that have run before v starts, and live(S)
// the bytes that must be held between two steps then: tensors whose maker is in S (inputs
// count as made before the start) and that a node outside of S reads (outputs count as read
// after the end). While v runs, its results join them:
//
//	load(v) = live(S) + transient(v)        transient: A 4, B 6, D 6, W 5, G 2, U 0
//
// The cut. Whatever the order, the state S before D contains the ancestors of D, neither D
// nor a descendant of it, and with each node all its ancestors: A and B are in S, the others
// are not. So a and b are live, a because W and G run later and read it. D then needs
// 4 + 6 + 6 = 16 bytes. (What D reads and makes comes to 12: that is [NodeBound].) W leaves a
// choice: A, B and D are before it, U is after it, and G may run on either side.
//
//	S = {A, B, D}      live a, d     10      the least: W needs 10 + 5 = 15
//	S = {A, B, D, G}   live a, d, g  12
//
// Each tensor is a directed hyperedge from its maker to its readers, and it is live where S
// cuts it: maker inside, some reader outside. So the least live(S) over all such S is a
// minimum cut, however many nodes may run on either side, and a maximum flow computes it:
// [CutBound] has the network. (In other words, live is submodular.)
//
// The certificate. Each order runs D at some step, with at least 16 bytes; so no order has
// a smaller peak, and the same holds for the bound of any other node. [Solve] returns the bound as a [Certificate]: kind "cut", node D, 16
// bytes. To check it, build the network from the definition of [CutBound]: its maximum flow
// and constants are 10, and the transient of D adds 6. Nothing that the search did need be
// trusted.
//
// The order. Its peak is 16 and the bound is 16: it is proven optimal, and the search ends.
//
// If a gap had been left, a contraction would have made the problem smaller. Two nodes
// become one if some optimal order runs one right after the other. Here U can always run
// right after W: U makes nothing and frees w, so moving U forward to that place raises no
// load. All six nodes become a single one, in the order above. An exact search then decides
// what is left.
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
// search, repeat it: [github.com/onnxmem/onnxmem/plan/verify] does so with a search that
// shares no code with this one, if asked.
//
// The order is optimal if its peak equals the bound ([Result.Optimal]). Where the budget of
// work ends before that, Solve returns the best order and the best bound so far: both hold,
// and a gap is left between them. A search that ran out of budget proves nothing.
//
// Bounds found on a smaller problem hold for the problem itself. A contraction keeps an
// optimal order (each rule has its proof in the package reduce); a part, and the problem
// without its small tensors, have an optimum that is no larger. Solve then looks for a cut
// or a set of the problem itself with the same value; if there is none, the kind is
// "search".
//
// The exact search decides whether an order with a peak of at most B exists. It drops a
// state for one of two reasons: some node that must still run cannot meet B from there, or
// the search has committed to another state that can be completed within B whenever the
// dropped one can (the valley lemma: a state between the two with no more live bytes is
// passed by some completion). Loads are sums of sizes, so they are multiples of the
// greatest common divisor g of all that are counted, workspaces included. If the search
// exhausts B = peak - g without an order, the peak is optimal.
//
// # The search
//
// [Solve] works through a table of stages, from what takes least to what takes most, until
// bound and peak meet or the budget of work is spent. stages.go is that table: for each
// stage a name, the problem that it runs on, its cost and why it stands there. What each is
// worth is measured in docs/ablation.md. Work is counted, not timed, so the result depends
// on the problem alone: not on map order, goroutines or time. In the code a limit is an
// amount of bytes, a budget an amount of work.
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
// where saved is the most that v's pairs with free t can save, each o and t used once. A
// pair touches the load of its own step and nothing else, so the best choice at each step
// is the best for the order. The bound of v is the least over the ways to match its pairs:
// all pairs of the matching save their bytes, and a hyperedge to the other readers of t
// takes the bytes back where one of them is outside of S. It holds for all choices.
//
// # What else is here
//
//   - [Problem.Evaluate] gives the load at each step of an order.
//   - [Strategies] lists named ways to find an order, without a proof.
//   - [LowerBound] is a bound without cuts, [Bound] the best one within a little work.
//   - [Explain] says what lives at an order's peak, shows a state that proves the bound, and
//     what would lower both.
//   - [WriteLP] writes the problem as an integer program, for any solver to check.
//
// # Cores
//
// Solve is sequential: each stage uses the order and the bound of the stages before it. To
// run the contraction and the last orders in parallel saved too little (docs/rationale.md
// has the figures). Several problems can be solved side by side, as [Explain] does.
package schedule

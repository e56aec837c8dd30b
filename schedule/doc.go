// Package schedule orders the nodes of a neural network so that the largest load over
// all steps is small, and proves how small it can be.
//
// It knows nothing of ONNX. A [Problem] is sizes and precedence alone: nodes, and tensors
// that one node makes and others read. An order is a topological order of the nodes; the
// node at position i runs at step i. A tensor is live from the step that makes it to the
// step of its last reader; an output stays to the last step. The load at a step is the sum
// of the live bytes, the outputs and the workspace of the node that runs included. The
// peak of an order is its largest load.
//
// # One example
//
// Six nodes, a training step in small: A and B compute forward, D makes a gradient d, W the
// gradient w of the parameter p, U updates p with it, and G makes the output g. The numbers
// are bytes.
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
// their precedence; a tensor that is live at every step becomes part of a base; a tensor
// that nobody reads, like a workspace, is part of what its node adds while it runs. With S
// the set of nodes that have run and live(S) the bytes to hold then, the load of v is
//
//	live(S) + transient(v)        transient: A 4, B 6, D 6, W 5, G 2, U 0
//
// The cut. Whatever the order, the state S before D contains the ancestors of D, and
// neither D nor a descendant of it: A and B are in S, the others are not. So a and b are
// live, a because W and G run later and read it. D then needs 4 + 6 + 6 = 16 bytes. (What D
// reads and makes comes to 12: that is [NodeBound].) W leaves a choice: A, B and D are
// before it, U is after it, and G may run on either side.
//
//	S = {A, B, D}      live a, d     10      the least: W needs 10 + 5 = 15
//	S = {A, B, D, G}   live a, d, g  12
//
// live(S) is submodular, because each tensor is a directed hyperedge: it is live when its
// maker is in S and a reader is not. So its least value over all such S is a minimum cut,
// however many nodes may run on either side, and a maximum flow computes it: [CutBound].
//
// The certificate. The bound of D is 16, and no order has a smaller peak than the bound of
// any of its nodes. [Solve] returns the bound as a [Certificate]: kind "cut", node D, 16
// bytes. To check it, build the network from the definition of [CutBound] and let any
// maximum flow confirm the 16. Nothing that the search did need be trusted.
//
// The order. Its peak is 16 and the bound is 16: it is proven optimal, and the search ends.
//
// If a gap had been left, a contraction would have made the problem smaller. Two nodes
// become one if some optimal order runs one right after the other: here U right after W,
// since it raises nothing and frees w. All six nodes become a single one, in the order
// above. An exact search then decides what is left.
//
// # How an order is proven
//
// A bound is proven in one of four ways, the kind of its certificate:
//
//   - "cut": one node needs so much in every order ([CutBound]).
//   - "first-of-set": of a set of nodes, one runs first. Before it none of the set has run,
//     and the least that any of them needs then is a bound ([FirstBound]). It adds to cuts
//     that not all costly nodes can be put off.
//   - "last-of-set": of a set of nodes, one runs last ([LastBound]).
//   - "search": an exact search has shown that no order has a smaller peak. To check it,
//     the search must be repeated.
//
// The order is optimal if its peak equals the bound ([Result.Optimal]). Bounds found on a
// smaller problem (contracted, a part, without small tensors) hold for the problem, since
// each of these keeps the optimum or lowers it; Solve then looks for a cut or a set of the
// problem itself that proves the same. The exact search is complete: a state that it drops
// either cannot be finished within the limit, or can be only if another state can that it
// keeps. Loads are multiples of the greatest common divisor of all sizes, so a search that
// fails just below the peak proves the peak.
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
// A node may write its result o over a tensor t that it reads (Tensor.Reuses): the two then
// count once at that step and share one buffer. The pair counts only if t is neither
// resident nor an output, the node is among t's readers, and both have the same size, which
// is not 0. The node gets t only when every other reader of t has run. A pair touches the
// load of its own step and nothing else, so the best choice at each step is the best for
// the order. A bound holds over all choices.
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

// Package schedule orders the nodes of a neural network so that the largest
// load over all steps is small, and says how small it can be at best.
//
// It knows nothing of ONNX. A [Problem] is sizes and precedence alone: nodes,
// and tensors that one node makes and others read. An order is a topological
// order of the nodes; the node at position i runs at step i. A tensor is live
// from the step that makes it to the step of its last reader:
//
//	x:4 ──▶ A ──▶ a:8 ──▶ B ──▶ b:2      order  A B C
//	              └─────▶ C ──▶ c:2      load  12 10 12
//
// Tensor a is live at all three steps, x at step 0. The outputs b and c stay
// to the last step. While a node runs, all its inputs, all its outputs and its
// workspace are live, which makes a first [LowerBound]; here it is 12, and the
// order is proven optimal.
//
//   - [Problem.Evaluate] gives the load at each step of an order.
//   - [Strategies] lists the ways to find an order, each in its own file.
//   - [Bound], [CutBound], [FirstBound] and [LastBound] give figures below which no order
//     can go, by minimum cuts; [LowerBound] a simpler one.
//   - [Solve] searches for an order that meets such a bound, and says by a
//     [Certificate] which one it meets.
//   - [Explain] says what lives at an order's peak, shows a state that proves the
//     bound, and what would lower both.
//   - [WriteLP] writes the problem as an integer program, for any solver to check
//     the optimum.
//
// # In-place pairs
//
// A node may write its result o over a tensor t that it reads (Tensor.Reuses):
// the two then count once at that step and share one buffer. The pair counts
// only if t is neither resident nor an output, the node is among t's readers,
// and both have the same size, which is not 0. The node gets t only when every
// other reader of t has run. A pair touches the load of its own step and
// nothing else, so the best choice at each step is the best for the order.
//
// Results depend on the problem alone: not on map order, goroutines or time.
//
// # Cores
//
// [Solve] uses one core, beside the garbage collector: a stage builds on the order
// and the bound of those before it, and what does not, the contraction and the last
// walks, saves too little on a second core (docs/rationale.md has the figures). Who
// has several problems solves them side by side, as [Explain] does.
package schedule

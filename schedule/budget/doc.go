// Package budget finds a step of a neural network whose peak is below a limit,
// at the least extra time that it can find, and says below which extra time, and
// below which limit, there is no plan at all.
//
// Package schedule orders nodes; where the best order's peak is too much, a step
// may run nodes again: an activation is dropped and made anew just before the
// reader that needs it (recomputation, rematerialization). Nodes have a cost; the
// extra time of a [Plan] is that of its repetitions:
//
//	order        a b c c' b' a'        a holds 6 bytes to the last step, b 4, c 1
//	plan         a b c c' a b' a'      a is dropped after b and made anew for b'
//
// A plan is a set of makings "make buffer t anew in slot i", slot i being the gap
// before step i (this is the matrix R of Jain et al., Checkmate, 2020). What is
// kept follows: a buffer is held exactly while a reader waits for this instance.
// Every such set is a valid plan, so that a search needs no care for that, and
// one sweep gives its peak and its cost (sweep.go).
//
//   - [Solve] plans for one limit, [Frontier] for several, a [Solver] for any
//     number of them. But for [schedule.EffortFast] the plans come from one archive
//     that does not depend on the limits, so that a larger limit never costs more.
//
//   - The lower bound holds for any order and any repetitions: it is a Lagrangian
//     minimum cut at the first run of a node (cut.go, bound.go).
//
//   - A node that says [schedule.Node.Once], such as a random one, never runs again;
//     nor does one whose inputs have been overwritten (rules.go, line.go).
//
//   - With a host memory behind a link, a [Swapper] lets tensors leave for it and
//     return as well: AutoSwap (Zhang et al., Efficient memory management for
//     GPU-based deep learning systems, 2019) alone, repetitions alone, and both
//     together, in which what is dear to make anew leaves (swap_auto.go,
//     swap_both.go). [SwapPlan] has the transfers as nodes of a problem.
//
// Results depend on the problem alone: not on map order, goroutines or time.
package budget

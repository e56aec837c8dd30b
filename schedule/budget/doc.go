// Package budget plans a training or inference step whose peak memory stays within
// a limit, at the least extra time that it can find. It also proves a lower bound on
// that extra time and a limit below which no plan exists.
//
// Package schedule orders nodes. If even the best order's peak exceeds the limit, a
// plan may recompute: it drops an activation and runs its node again just before the
// next reader (rematerialization). Each node has a cost; the extra time of a [Plan]
// is the sum of the costs of the repeated runs:
//
//	order        a b c c' b' a'        a holds 6 bytes until the last step, b 4, c 1
//	plan         a b c c' a b' a'      a is dropped after b and recomputed before b'
//
// A plan is a set of pairs "recompute buffer t in slot i", where slot i is the gap
// before step i (the matrix R of Jain et al., Checkmate, 2020). The set determines
// the lifetimes: an instance of a buffer is held until its last reader. Every such
// set is a valid plan, so the searches need no validity checks; a sweep computes
// the plan's peak and cost from those of the last plan (sweep.go, instances.go).
//
//   - [Solve] plans for one limit, [Frontier] for several, a [Solver] for any
//     number of them. Except at [schedule.EffortFast], all plans come from one
//     archive that does not depend on the limits, so a larger limit never costs more; where
//     layers repeat, one limit by itself is also planned as at that effort (planAsked).
//
//   - Where a stretch of a large problem repeats, as the layers of a network do, moves change
//     all copies alike, or some of them (alike.go, fast_alike.go). The search begins with the
//     plans of a problem with fewer copies (layers.go, fill_alike.go).
//
//   - The lower bound holds for every order and every recomputation: it is a
//     Lagrangian minimum cut at the first run of a node (cut.go, bound.go). Where a limit
//     is missed, an exhaustive search may prove that no plan gets to some node (way.go).
//
//   - A node marked [schedule.Node.Once], such as a random one, runs exactly once.
//     A node whose inputs have been overwritten cannot run again either (rules.go,
//     line.go).
//
//   - With a host memory behind a link, a [Swapper] can also swap tensors out and
//     in. It tries swapping alone (AutoSwap, Zhang et al., Efficient memory management
//     for GPU-based deep learning systems, 2019), recomputation alone, and both: swap
//     the tensors that are most expensive per byte to recompute, and recompute the rest
//     (swap_auto.go, swap_problem.go). [SwapPlan] has the transfers as nodes of a problem.
//
// Results depend on the problem alone: not on map order, goroutines or time.
package budget

package limits

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// Error says that no plan below a limit was found.
type Error struct {
	LimitBytes  int64
	Arena       bool  // the limit was one of the arena
	PeakBytes   int64 // of the best order
	LowestBytes int64 // the lowest limit on the peak for which there is a plan; 0: not known
	Impossible  bool  // proven: no order and no recomputation meets the limit

	// If Impossible, the proof: a node, the bytes that it needs while it runs, and the tensors that
	// these bytes belong to. Without a node, Why is plan.BoundInputs, plan.BoundOutputs or
	// BoundUpdates. With Way, what comes before needs these bytes, and the tensors are held then.
	Node      string
	Way       bool
	Why       string
	NeedBytes int64
	Tensors   []string

	Slices *Lowest // what bounds the slices; nil if none were asked for
}

// mostNamed is the largest number of tensors that a message names.
const mostNamed = 5

// Error gives the limit, the proof if it is impossible, and the lowest limit that
// can be met. With slices, it says which of their bounds stands in the way.
func (e *Error) Error() string {
	what := "peak"
	if e.Arena {
		what = "arena"
	}
	msg := fmt.Sprintf("limit of %s: no plan found whose %s fits", units.Bytes(e.LimitBytes), what)
	if e.Impossible {
		msg = fmt.Sprintf("limit of %s: impossible", units.Bytes(e.LimitBytes))
	}
	switch x := e.Slices; {
	case x == nil && e.Impossible && e.Way:
		step := cmp.Or(e.Node, "the last step")
		msg += fmt.Sprintf(": no plan gets to %s in less than %s%s", step, units.Bytes(e.NeedBytes), namely(e.Tensors))
	case x == nil && e.Impossible && e.Node != "":
		msg += fmt.Sprintf(": %s cannot run in less than %s%s", e.Node, units.Bytes(e.NeedBytes), namely(e.Tensors))
	case x == nil && e.Impossible && e.Why != "":
		msg += fmt.Sprintf(": %s, and cannot run in less than %s%s", holds[e.Why], units.Bytes(e.NeedBytes), namely(e.Tensors))
	case x == nil:
	default:
		msg += ": " + x.text(e.LimitBytes)
	}
	if e.LowestBytes > 0 {
		msg += fmt.Sprintf(": the lowest limit with a plan is %s", units.Bytes(e.LowestBytes))
	}
	return msg
}

// BoundUpdates is [Error].Why where updates run last: the first of them holds all that
// they read of other nodes, the gradients.
const BoundUpdates = "updates"

// holds says which step holds what.
var holds = map[string]string{
	plan.BoundInputs:  "the first step holds all inputs of the graph",
	plan.BoundOutputs: "the last step holds all outputs of the graph",
	BoundUpdates:      "the first update holds all gradients, since updates run last",
}

// namely lists tensors behind a figure.
func namely(tensors []string) (text string) {
	for i, t := range tensors {
		switch {
		case i == 0:
			text = ", for"
		case i == mostNamed:
			return text + fmt.Sprintf(" and %d more", len(tensors)-mostNamed)
		default:
			text += ","
		}
		text += fmt.Sprintf(" %q", graph.Short(t))
	}
	return text
}

// PoolError says that the buffers do not fit into the pools.
type PoolError struct {
	planner.FullError         // of the graph without slices
	Slices            *Lowest // how low slices go, which were looked for, too; nil: they were not
}

// Error names the node, the bytes and the largest buffers. With slices, it says which of
// their bounds stands in the way.
func (e *PoolError) Error() string {
	switch x := e.Slices; {
	case x == nil:
		return e.FullError.Error()
	case x.PeakBytes > 0 && x.PeakBytes <= e.Capacity:
		return e.FullError.Error() + fmt.Sprintf("; in slices alone %s, but no place was found for each buffer in one pool, or they take too much time", units.Bytes(x.PeakBytes))
	default:
		return e.FullError.Error() + "; " + x.text(e.Capacity)
	}
}

// error explains why there is no plan.
func (b *Search) error(ctx context.Context, p *budget.SwapPlan) error {
	e := &Error{
		LimitBytes: b.limit.Bytes, Arena: b.limit.Arena, PeakBytes: b.Before.Loads.Peak, LowestBytes: p.Lowest,
		Impossible: p.Feasible == budget.Impossible,
	}
	of, obstacle := b, p.Obstacle
	if b.shared != nil {
		e.LowestBytes = min(cmp.Or(e.LowestBytes, math.MaxInt64), b.shared.Loads.Peak)
	}
	if b.relaxed != nil {
		of = b.relaxed
		obstacle = of.obstacle(ctx, e.LimitBytes)
		e.Impossible = obstacle != nil
	}
	if e.Impossible && obstacle != nil {
		of.because(e, obstacle)
	}
	return e
}

// because says why a limit is impossible.
func (b *Search) because(e *Error, x *budget.Obstacle) {
	e.NeedBytes, e.Way = x.Bytes, x.Way
	switch x.Node {
	case budget.AtStart:
		e.Why = plan.BoundInputs
	case budget.AtEnd:
		e.Why = plan.BoundOutputs
	case budget.AtFinal:
		e.Why = BoundUpdates
	default:
		e.Node = b.Before.G.Label(graph.NodeID(x.Node))
	}
	tensors := slices.Clone(x.Tensors)
	bytes := func(i int32) int64 {
		if int(i) < len(b.Before.Storages) {
			return b.Before.Storages[i].Bytes
		}
		return 0
	}
	slices.SortStableFunc(tensors, func(x, y int32) int { return cmp.Compare(bytes(y), bytes(x)) })
	for _, i := range tensors {
		if bytes(i) > 0 {
			e.Tensors = append(e.Tensors, b.Before.NameOf(i))
		}
	}
}

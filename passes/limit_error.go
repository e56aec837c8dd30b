package passes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// LimitError reports that no plan below a limit was found.
type LimitError struct {
	LimitBytes  int64
	Arena       bool  // the limit was one of the arena
	PeakBytes   int64 // of the best order
	LowestBytes int64 // the lowest limit on the peak for which there is a plan; 0: not known
	Impossible  bool  // proven: no order and no recomputation meets the limit

	// If Impossible, the proof: a node, the bytes that it needs while it runs,
	// and the tensors that these bytes belong to. Without a node, Why is plan.BoundInputs
	// or plan.BoundOutputs (the first step holds all inputs, the last all outputs), or
	// BoundUpdates.
	Node      string
	Why       string
	NeedBytes int64
	Tensors   []string

	// Slices says what bounds the slices; nil if none were asked for.
	Slices *SliceLimits
}

// mostNamed is the largest number of tensors that a message names.
const mostNamed = 5

// Error gives the limit, the proof if it is impossible, and the lowest limit that
// can be met. With slices, it says which of their bounds stands in the way.
func (e *LimitError) Error() string {
	what := "peak"
	if e.Arena {
		what = "arena"
	}
	msg := fmt.Sprintf("limit of %s: no plan found whose %s fits", units.Bytes(e.LimitBytes), what)
	if e.Impossible {
		msg = fmt.Sprintf("limit of %s: impossible", units.Bytes(e.LimitBytes))
	}
	switch x := e.Slices; {
	case x == nil && e.Impossible && e.Node != "":
		msg += fmt.Sprintf(": %s cannot run in less than %s%s", e.Node, units.Bytes(e.NeedBytes), namely(e.Tensors))
	case x == nil && e.Impossible && e.Why != "":
		msg += fmt.Sprintf(": %s, and cannot run in less than %s%s", holds[e.Why], units.Bytes(e.NeedBytes), namely(e.Tensors))
	case x == nil:
	default:
		msg += ": " + x.text(e.LimitBytes)
	}
	return e.lowest(msg)
}

// BoundUpdates is [LimitError].Why where updates run last: the first of them holds all that
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

func (e *LimitError) lowest(msg string) string {
	if e.LowestBytes > 0 {
		msg += fmt.Sprintf(": the lowest limit with a plan is %s", units.Bytes(e.LowestBytes))
	}
	return msg
}

// ExtraError reports that the plan below a limit takes more time than Options.ExtraPercent
// permits.
type ExtraError struct {
	FoundPercent   float64 // of the cheapest plan that was found
	AllowedPercent float64
}

// Error gives both figures.
func (e *ExtraError) Error() string {
	return fmt.Sprintf("the plan within the limit takes %.2f %% more time: expected at most %g %%", e.FoundPercent, e.AllowedPercent)
}

// withinExtra returns an error if a limit and extra time were asked for, and the plan takes
// more time.
func (s *State) withinExtra() error {
	if s.opt.Limit == nil || s.opt.ExtraPercent == 0 || s.plan == nil {
		return nil
	}
	if found := s.plan.Summary.Extra(); found > s.opt.ExtraPercent {
		return &ExtraError{found, s.opt.ExtraPercent}
	}
	return nil
}

// error explains why there is no plan.
func (b *limitSearch) error(ctx context.Context, p *budget.SwapPlan) error {
	e := &LimitError{
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
func (b *limitSearch) because(e *LimitError, x *budget.Obstacle) {
	e.NeedBytes = x.Bytes
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

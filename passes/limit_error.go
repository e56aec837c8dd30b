package passes

import (
	"errors"
	"fmt"

	"github.com/onnxmem/onnxmem/passes/internal/limits"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
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
	// BoundUpdates. With Way, what comes before needs these bytes, and the tensors are held then.
	Node      string
	Way       bool
	Why       string
	NeedBytes int64
	Tensors   []string

	// Slices says what bounds the slices; nil if none were asked for.
	Slices *SliceLimits
}

// BoundUpdates is [LimitError].Why where updates run last: the first of them holds all that
// they read of other nodes, the gradients.
const BoundUpdates = limits.BoundUpdates

// SliceLimits are the lowest plan in slices alone that was found, and what bounds it.
// The figures but AnySlices are 0 if no slices were found.
type SliceLimits struct {
	PeakBytes  int64
	BoundBytes int64           // for any order of these slices
	AnyCount   plan.SliceBound // for these regions in any number of slices
	AnySlices  plan.SliceBound // for any regions
}

// Error gives the limit, the proof if it is impossible, and the lowest limit that
// can be met. With slices, it says which of their bounds stands in the way.
func (e *LimitError) Error() string {
	x := limits.Error{
		LimitBytes: e.LimitBytes, Arena: e.Arena, PeakBytes: e.PeakBytes, LowestBytes: e.LowestBytes, Impossible: e.Impossible,
		Node: e.Node, Way: e.Way, Why: e.Why, NeedBytes: e.NeedBytes, Tensors: e.Tensors, Slices: (*limits.Lowest)(e.Slices),
	}
	return x.Error()
}

// PoolError says that the buffers do not fit into the pools.
type PoolError struct {
	Step     int      // the step with the largest load
	Node     string   // its node
	Load     int64    // bytes that are live there
	Capacity int64    // of all pools
	Tensors  []string // the first of each of the largest buffers there, the largest first
	// Slices says how low slices go, which were looked for, too; nil: they were not. The
	// figures above are of the graph without slices.
	Slices *SliceLimits
}

// Error names the node, the bytes and the largest buffers. With slices, it says which of
// their bounds stands in the way.
func (e *PoolError) Error() string {
	full := planner.FullError{Step: e.Step, Node: e.Node, Load: e.Load, Capacity: e.Capacity, Tensors: e.Tensors}
	x := limits.PoolError{FullError: full, Slices: (*limits.Lowest)(e.Slices)}
	return x.Error()
}

// public returns an error of a search in the form of this package.
func public(err error) error {
	var low *limits.Error
	var pools *limits.PoolError
	var full *planner.FullError
	switch {
	case errors.As(err, &low):
		return &LimitError{
			LimitBytes: low.LimitBytes, Arena: low.Arena, PeakBytes: low.PeakBytes, LowestBytes: low.LowestBytes, Impossible: low.Impossible,
			Node: low.Node, Way: low.Way, Why: low.Why, NeedBytes: low.NeedBytes, Tensors: low.Tensors, Slices: (*SliceLimits)(low.Slices),
		}
	case errors.As(err, &pools):
		return newPoolError(&pools.FullError, (*SliceLimits)(pools.Slices))
	case errors.As(err, &full):
		return newPoolError(full, nil)
	}
	return err
}

func newPoolError(full *planner.FullError, slices *SliceLimits) *PoolError {
	return &PoolError{Step: full.Step, Node: full.Node, Load: full.Load, Capacity: full.Capacity, Tensors: full.Tensors, Slices: slices}
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

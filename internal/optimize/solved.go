package optimize

import (
	"fmt"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// SolverJSON is what a solver did, as --json and the plan have it.
type SolverJSON struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Status  string  `json:"status"` // optimal, feasible or unknown
	Bound   int64   `json:"bound_bytes"`
	Seconds float64 `json:"seconds"`

	Placement *SolverJSON `json:"placement,omitempty"` // of a model: for its placement, if that was asked
}

// SolverOf says what the solver did for a model; nil without one.
func SolverOf(r *passes.Result) (x *SolverJSON) {
	if s := r.OrderSolver; s != nil {
		x = &SolverJSON{Name: s.Name, Version: s.Version, Status: string(s.Status), Bound: s.Bound, Seconds: s.Seconds}
	}
	if s := r.PlacementSolver; s != nil {
		if x == nil { // the order was not free
			x = &SolverJSON{Name: s.Name, Version: s.Version, Status: string(ilp.Unknown)}
		}
		x.Placement = &SolverJSON{Name: s.Name, Version: s.Version, Status: string(s.Status), Bound: s.Bound, Seconds: s.Seconds}
	}
	return x
}

// SolverText says in a line what a solver did; whole: it knew nothing of our bound.
func SolverText(version, status, why string, whole bool, bound int64, seconds float64) string {
	switch {
	case status == string(ilp.Optimal) && whole:
		return fmt.Sprintf("%s: confirms that nothing is better, in %.2f s", version, seconds)
	case status == string(ilp.Optimal):
		return fmt.Sprintf("%s: says that nothing is better, in %.2f s", version, seconds)
	case status == string(ilp.Feasible) && bound > 0:
		return fmt.Sprintf("%s: %s in %.2f s, its bound is %s", version, why, seconds, units.Bytes(bound))
	case status == string(ilp.Feasible):
		return fmt.Sprintf("%s: %s in %.2f s", version, why, seconds)
	}
	return version + ": not asked, " + why
}

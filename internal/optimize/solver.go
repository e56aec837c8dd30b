//go:build !js

package optimize

import (
	"fmt"
	"os"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/ilp/solvers"
)

// SolverFlags ask for a solver of integer programs.
type SolverFlags struct {
	Solver  string `group:"search" enum:",highs,cp-sat,scip" default:"" placeholder:"NAME" help:"Also run a solver: highs, cp-sat or scip. It improves what is not proven, and confirms what is, within --time-limit (default a minute). The library comes with pip install ortools."`
	Threads int    `group:"search" seldom:"" placeholder:"N" help:"Threads of the solver (default: one for each core)."`
}

// Open opens the solver, in a process of its own; nil if none is asked for.
func (f *SolverFlags) Open() (ilp.Solver, error) {
	switch {
	case f.Threads < 0:
		return nil, &UsageError{fmt.Sprintf("--threads %d: expected 0 or more", f.Threads)}
	case f.Solver == "":
		return nil, nil
	}
	return OpenSolver(f.Solver)
}

// OpenSolver opens a solver in a process of this program, which must serve it: see
// [solvers.ProcessArg].
func OpenSolver(name string) (ilp.Solver, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return solvers.Process(self, name)
}

// Time is how long a solver may take.
func (f *SolverFlags) Time(limit time.Duration) time.Duration {
	if limit > 0 {
		return limit // of the context, for search and solver together
	}
	return solverTime
}

// solverTime is how long a solver may take without --time-limit.
const solverTime = time.Minute

// Package solvers opens solvers that other people wrote: HiGHS, CP-SAT and SCIP. Their
// libraries are opened at run time; they are neither linked nor downloaded. [Open] finds
// them, as find.go lists, or says which command gets them. [Process] does the same in a
// process of its own, which is what the command uses.
//
//	highs.go       HiGHS, by its C interface
//	cpsat.go       CP-SAT, by the C interface of OR-tools, on serialized messages
//	cpsat_log.go   CP-SAT's progress, which only its log has
//	scip.go        SCIP, by its C interface
//	process.go     a solver in a process of its own
//	context.go     how a context ends a run
//	matrix.go      a program in floating point, as HiGHS and SCIP take it
//	find.go        where the libraries are looked for
//	library_*.go   opening them. Builds with the tag nocuda, which are static on Linux, and
//	               builds for other systems than Linux and macOS on amd64 and arm64 have
//	               nothing to open them with
package solvers

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/ilp"
)

// Names lists the solvers.
var Names = []string{"highs", "cp-sat", "scip"}

// ErrMissing is wrapped by the error of Open if a library is not there.
var ErrMissing = errors.New("not found")

// errBuild is why nothing can be opened in some builds: see library_none.go.
var errBuild = errors.New("this build of onnxmem opens no libraries (it has the tag nocuda, or is for a system other than Linux and macOS): order and pack write their programs for a solver with --lp, --mps and --cp-sat")

var open = map[string]func() (ilp.Solver, error){"highs": openHiGHS, "cp-sat": openCPSAT, "scip": openSCIP}

var opened struct {
	sync.Mutex
	solvers map[string]ilp.Solver
}

// Open opens the library of a solver, once.
func Open(name string) (ilp.Solver, error) {
	if open[name] == nil {
		return nil, fmt.Errorf("solver %q: unknown: expected one of %s", name, strings.Join(Names, ", "))
	}
	opened.Lock()
	defer opened.Unlock()
	if s := opened.solvers[name]; s != nil {
		return s, nil
	}
	s, err := open[name]()
	if err != nil {
		return nil, err
	}
	if opened.solvers == nil {
		opened.solvers = map[string]ilp.Solver{}
	}
	opened.solvers[name] = s
	return s, nil
}

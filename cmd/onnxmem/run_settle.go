package main

import (
	"os"

	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/plan"
)

// settler gives back the memory that preparing a run leaves: Go's free memory, and pages of the
// program itself. It does so before the session is made and before the first step, which takes
// 5 to 10 ms in all and saves up to 12 MiB. A run that is small in any case gives it back after
// its first step instead, whose result is there sooner: see small.
type settler struct {
	end   func() // of memory.Prepares; nil: the run is small, or not settled yet
	nodes int
}

// A run is small if its plan's pools and its graph are. Its process is within what is promised
// beyond the plan without settling, too, and below what other runtimes take.
const (
	smallBytes = 32 << 20
	smallNodes = 500
	smallPlan  = 512 << 10 // bytes of the plan's file, some of which hold smallNodes
)

func small(p *plan.Plan, nodes int) bool {
	return p.Summary.TotalBytes <= smallBytes && nodes <= smallNodes
}

// reading begins before a plan is read, if its file is that of a large graph. It returns how
// much garbage may be there meanwhile, in per cent of what is in use.
func (s *settler) reading(path string) int {
	if info, err := os.Stat(path); err != nil || info.Size() > smallPlan {
		s.begin()
		return mostGarbage
	}
	return mostBefore
}

// read continues with the plan that was read, and returns how much garbage may be there until
// the first step.
func (s *settler) read(p *plan.Plan, nodes int) int {
	if !small(p, nodes) {
		s.begin()
	}
	s.nodes = nodes
	return garbage(nodes, mostBefore)
}

func (s *settler) begin() {
	if s.end == nil {
		s.end = memory.Prepares()
	}
}

// settle gives memory back before the session is made, unless the run is small.
func (s *settler) settle() {
	if s.end != nil {
		memory.Settle()
	}
}

// steady does so before the first step. From now on, less garbage may be there.
func (s *settler) steady() {
	if s.end != nil {
		s.end()
		s.collect()
	}
}

// stepped is steady for a small run, after its first step.
func (s *settler) stepped() {
	if s.end == nil {
		s.collect()
	}
}

func (s *settler) collect() {
	collectAt(garbage(s.nodes, mostGarbage)) // the caller of read restores what was before
	memory.Settle()
}

// prepared ends what began.
func (s *settler) prepared() {
	if s.end != nil {
		s.end()
	}
}

package main

import (
	"fmt"
	"io"
	"runtime/metrics"
	"strings"

	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// runProcess is what the process of a run takes beside what the plan promises, in --json.
// What the system does not say is left out.
type runProcess struct {
	TotalBytes    int64 `json:"total_bytes"` // the plan's arena and resident pool, at this run's lengths
	PeakBytes     int64 `json:"process_peak_bytes,omitempty"`
	Bytes         int64 `json:"process_bytes,omitempty"` // after the last step, as the parts are
	FileBytes     int64 `json:"file_bytes,omitempty"`    // pages of mapped weights and parameters
	ProgramBytes  int64 `json:"program_bytes,omitempty"`
	HeapBytes     int64 `json:"heap_bytes"`
	HeapPeakBytes int64 `json:"heap_peak_bytes"` // as far as was seen: before and after preparing and each step
	ValueBytes    int64 `json:"value_bytes"`     // inputs that the command holds; they lie in the heap
}

// The process of a run is to take what the plan says. So garbage is collected when it is half of
// what is in use, or about garbageBytes if that is less. The heap of many nodes is large; to collect
// at a fifth of a small one takes a fifth more time to begin, and saves 2 MiB. What is made before the
// first step is mostly kept: to collect at mostGarbage there takes a tenth to a fifth more time, and
// saves 4 to 7 MiB.
const (
	mostBefore   = 400 // per cent, before the first step
	mostGarbage  = 50  // per cent
	leastGarbage = 5
	garbageBytes = 2 << 20
	nodeBytes    = 1200 // of Go's heap, for a node of the graph and the session
)

// garbage returns how much garbage may be there in a run of a graph with some nodes, in per cent
// of what is in use, and at most.
func garbage(nodes, most int) int {
	return min(max(100*garbageBytes/(nodeBytes*max(nodes, 1)), leastGarbage), most)
}

// heapBytes is what Go's runtime holds from the system: the heap with its free parts that it
// has not given back, stacks, and its own tables.
func heapBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// sawHeap keeps the most that Go's runtime has held.
func (u *runProcess) sawHeap() { u.HeapPeakBytes = max(u.HeapPeakBytes, heapBytes()) }

// stepped measures what the process holds after the last step.
func (u *runProcess) stepped(p *plan.Plan) {
	u.HeapBytes = heapBytes()
	u.HeapPeakBytes = max(u.HeapPeakBytes, u.HeapBytes)
	is := memory.Process()
	u.Bytes, u.FileBytes, u.ProgramBytes, u.PeakBytes = is.Resident, is.Files, is.Program, is.Peak
	for _, pool := range p.Pools {
		if pool.Name == plan.Arena || pool.Name == plan.Resident {
			u.TotalBytes += pool.Bytes
		}
	}
}

// beyond compares the peak with the plan's arena and resident pool.
func beyond(more, total int64) string {
	if more < 0 {
		return fmt.Sprintf("%s less than arena + resident, %s", units.Short(-more), units.Short(total))
	}
	return fmt.Sprintf("%s more than arena + resident, %s", units.Short(more), units.Short(total))
}

// print prints two lines: the peak beside the plan, and what there is after the last step.
// The parts may be more than the whole, since pages that nobody has touched yet take no
// memory.
func (u *runProcess) print(w io.Writer, r *runResult, hostFile bool) {
	if u.PeakBytes == 0 {
		return
	}
	fmt.Fprintf(w, "%-20s peak %s", "process", units.Bytes(u.PeakBytes))
	if r.Device == nil { // else the plan is about the device
		fmt.Fprintf(w, ", %s", beyond(u.PeakBytes-u.TotalBytes, u.TotalBytes))
	}
	fmt.Fprintln(w)
	if u.Bytes == 0 {
		return
	}
	fmt.Fprintf(w, "%-20s %s", "after the last step", units.Short(u.Bytes))
	rest := u.Bytes
	var parts []string
	part := func(what string, bytes int64) {
		rest -= bytes
		if bytes >= 1<<16 { // 0.1 MiB
			parts = append(parts, what+" "+units.Short(bytes))
		}
	}
	if r.Device == nil {
		part("arena", r.ArenaBytes)
	}
	part("parameters and states", r.StateBytes)
	part("packed weights", r.PackedBytes)
	part("decoded constants", r.DecodedBytes)
	part("weights in their files", u.FileBytes)
	part("scratch", r.ScratchBytes)
	part("dynamic tensors", r.DynamicBytes)
	if !hostFile { // else it is among the files
		part("host pool", r.HostBytes)
	}
	part("inputs", u.ValueBytes)
	part("Go heap", u.HeapBytes-u.ValueBytes)
	part("program", u.ProgramBytes)
	part("other", rest)
	fmt.Fprintf(w, ": %s\n", strings.Join(parts, ", "))
}

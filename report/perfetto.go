package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/onnxmem/onnxmem/plan"
)

// traceEvent is an event of the Chrome Trace Event Format. Times are
// microseconds; a step takes one.
type traceEvent struct {
	Name  string `json:"name"`
	Phase string `json:"ph"` // X: a slice, C: a counter, M: a name
	Time  int    `json:"ts"`
	Long  int    `json:"dur,omitempty"`
	Pid   int    `json:"pid"`
	Tid   int    `json:"tid"`
	Kind  string `json:"cat,omitempty"`
	Args  any    `json:"args,omitempty"`
}

// The processes of the trace.
const (
	traceSteps = iota + 1
	tracePools // and one more for each pool
)

// Perfetto writes a plan as a trace. The nodes are slices of one track. The loads in planned
// and in program order and the lower bound are counters. The lifetime of every buffer outside
// the resident pool is a slice on the first free track of its pool. It takes O(n log n) time.
func Perfetto(w io.Writer, p *plan.Plan) error {
	t := &tracer{w: bufio.NewWriter(w)}
	fmt.Fprint(t.w, `{"displayTimeUnit":"ns","otherData":{"tool":`)
	t.value(p.Tool)
	fmt.Fprint(t.w, `,"model":`)
	t.value(p.Model.File)
	fmt.Fprint(t.w, `,"time":"one microsecond is one step"},"traceEvents":[`)
	t.name("process_name", traceSteps, 0, "nodes and load")
	t.name("thread_name", traceSteps, 1, "nodes")
	for i, s := range p.Steps {
		t.event(traceEvent{Name: stepLabel(p, i), Phase: "X", Time: i, Long: 1, Pid: traceSteps, Tid: 1, Kind: s.Op, Args: struct {
			Step int    `json:"step"`
			Op   string `json:"op"`
			Load int64  `json:"load_bytes"`
		}{i, s.Op, s.LoadBytes}})
	}
	for i, s := range p.Steps {
		t.counter("load", i, s.LoadBytes)
	}
	for i, load := range p.ProgramOrder.LoadBytes {
		t.counter("load in program order", i, load)
	}
	if n := len(p.Steps); n > 0 {
		t.counter("load", n, 0)
		t.counter("load in program order", n, 0)
		t.counter("lower bound", 0, p.Summary.LowerBoundBytes)
		t.counter("lower bound", n, p.Summary.LowerBoundBytes)
	}
	for k, pool := range p.Pools {
		if pool.Name != plan.Resident {
			t.pool(p, tracePools+k, pool)
		}
	}
	fmt.Fprint(t.w, "\n]}\n")
	if t.err != nil {
		return t.err
	}
	return t.w.Flush()
}

// tracer writes a trace.
type tracer struct {
	w   *bufio.Writer
	any bool // at least one event was written
	err error
}

func (t *tracer) value(v any) {
	b, err := json.Marshal(v)
	if err != nil && t.err == nil {
		t.err = err
	}
	t.w.Write(b)
}

func (t *tracer) event(e traceEvent) {
	if t.any {
		t.w.WriteByte(',')
	}
	t.any = true
	t.w.WriteByte('\n')
	t.value(e)
}

func (t *tracer) name(what string, pid, tid int, name string) {
	t.event(traceEvent{Name: what, Phase: "M", Pid: pid, Tid: tid, Args: map[string]string{"name": name}})
}

func (t *tracer) counter(name string, time int, bytes int64) {
	t.event(traceEvent{Name: name, Phase: "C", Time: time, Pid: traceSteps, Args: map[string]int64{"bytes": bytes}})
}

// pool writes the lifetimes of a pool's buffers, each on the first track whose
// last buffer is dead.
func (t *tracer) pool(p *plan.Plan, pid int, pool plan.Pool) {
	t.name("process_name", pid, 0, fmt.Sprintf("%s, %d bytes", pool.Name, pool.Bytes))
	var list []*plan.Buffer
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Pool == pool.Name && b.Bytes > 0 {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b *plan.Buffer) int { return a.First - b.First })
	var free tracks
	for _, b := range list {
		track := free.take(b.First, b.Last)
		t.event(traceEvent{
			Name: bufferLabel(p, b), Phase: "X", Time: b.First, Long: b.Last - b.First + 1, Pid: pid, Tid: track + 1, Kind: b.Kind,
			Args: struct {
				Bytes   int64    `json:"bytes"`
				Offset  int64    `json:"offset"`
				First   int      `json:"first"`
				Last    int      `json:"last"`
				Tensors []string `json:"tensors"`
			}{b.Bytes, b.Offset, b.First, b.Last, b.Tensors},
		})
	}
}

// tracks assigns tracks to lifetimes, which come in the order of their first steps. It
// has a heap of the tracks in use by their last steps, and a heap of the free tracks by
// number.
type tracks struct {
	used [][2]int // last step, track
	free []int
	n    int
}

func (t *tracks) take(first, last int) (track int) {
	for len(t.used) > 0 && t.used[0][0] < first {
		t.free = push(t.free, t.used[0][1], func(a, b int) bool { return a < b })
		t.used = pop(t.used, soonest)
	}
	if len(t.free) > 0 {
		track = t.free[0]
		t.free = pop(t.free, func(a, b int) bool { return a < b })
	} else {
		track = t.n
		t.n++
	}
	t.used = push(t.used, [2]int{last, track}, soonest)
	return track
}

func soonest(a, b [2]int) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// push and pop keep a slice a binary heap.
func push[T any](h []T, x T, less func(a, b T) bool) []T {
	h = append(h, x)
	for i := len(h) - 1; i > 0 && less(h[i], h[(i-1)/2]); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	return h
}

func pop[T any](h []T, less func(a, b T) bool) []T {
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if less(h[c], h[least]) {
				least = c
			}
		}
		if least == i {
			return h
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/trace"
	"github.com/onnxmem/onnxmem/internal/units"
)

// traceFlags are the flags of commands that read a recording.
type traceFlags struct {
	Trace       string `group:"input" in:"the recording" placeholder:"FILE" help:"A recorded stream of allocations and frees. It may be gzipped: JSON lines, PyTorch's memory snapshot, a Chrome trace of its profiler, or CSV. Its iteration is found and placed."`
	TraceDevice string `group:"input" placeholder:"NAME" help:"Device in the recording, such as cuda:0 or cpu. Default: the only one."`
}

// read reads the recording and finds the iteration in it.
func (f *traceFlags) read() (name string, t *trace.Trace, it *trace.Iteration, err error) {
	defer collectOften()()
	in, err := openInput(f.Trace)
	if err != nil {
		return "", nil, nil, err
	}
	defer in.close()
	if t, err = trace.Read(in.Reader, trace.Options{Device: f.TraceDevice}); err != nil {
		return "", nil, nil, in.refuse(err)
	}
	return in.name, t, t.Iteration(), nil
}

// packedTrace is a recording whose iteration is placed.
type packedTrace struct {
	*trace.Packed
	recording *trace.Trace
	reserved  []int64              // by alloc.Simulators
	replays   []alloc.ReplayResult // by alloc.Replayers; nil without --simulate
	byAll     []int64              // by alloc.Simulators, for all runs
	loadOfAll int64                // the largest of all runs
	runs      int
	model     *plannedRun // nil without --model
}

// readTrace reads the recording.
func (k *packing) readTrace() (err error) {
	began := time.Now()
	t := &packedTrace{Packed: &trace.Packed{}}
	if k.name, t.recording, t.Iteration, err = k.cmd.traceFlags.read(); err != nil {
		return err
	}
	if t.Alignment = t.recording.Alignment; k.cmd.Align != nil {
		t.Alignment = *k.cmd.Align
	}
	k.trace = t
	k.read = time.Since(began)
	return nil
}

// solveTrace places the iteration, each stream in a part of its own, and puts the
// parts together for the output.
func (k *packing) solveTrace() (err error) {
	t := k.trace
	err = k.search(func(ctx context.Context, opt alloc.Options) (err error) {
		t.Packed, err = t.Pack(ctx, t.Alignment, opt)
		return err
	})
	if err == nil && k.cmd.Simulate {
		err = t.simulate()
	}
	if err != nil {
		return err
	}
	t.reserved = t.Reserved(alloc.Simulators)
	k.dialect = alloc.Dialect{"id", "lower", "upper", "size"}
	k.given = t.Problem()
	k.problem = k.given
	k.found = alloc.Result{Placement: alloc.Placement{Offsets: t.Offsets, Arena: t.Arena}, LowerBound: t.LowerBound, Optimal: t.Optimal()}
	var strategies []string
	for _, p := range t.Parts {
		strategies = append(strategies, p.Strategy)
		k.found.Infeasible = append(k.found.Infeasible, p.Infeasible...)
	}
	slices.Sort(strategies)
	k.found.Strategy = strings.Join(slices.Compact(strategies), ", ")
	return nil
}

// simulate replays all runs by each scheme, each stream by itself.
func (t *packedTrace) simulate() error {
	t.replays = make([]alloc.ReplayResult, len(alloc.Replayers))
	t.byAll, t.loadOfAll = t.ReservedByAll(alloc.Simulators)
	for _, stream := range t.Streams() {
		runs := t.Runs(stream)
		t.runs = max(t.runs, len(runs))
		for i, r := range alloc.Replayers {
			one, err := r.Run(context.Background(), runs, t.Alignment)
			if err != nil {
				return err
			}
			t.replays[i].Add(one)
		}
	}
	return nil
}

// iterationText says how the iteration was found.
func (t *packedTrace) iterationText() string {
	share := fmt.Sprintf("%.0f %% of the recording", 100*float64(t.Covered)/float64(len(t.recording.Events)))
	switch {
	case t.Found == trace.ByWhole:
		return "the whole recording: nothing in it repeats for half of its length"
	case t.Found == trace.ByMarks && t.Repeats == 1:
		return fmt.Sprintf("a marked run of %s events from event %s on: no two in a row are equal", units.Group(int64(t.Length)), units.Group(int64(t.Begin)))
	case t.Found == trace.ByMarks:
		return fmt.Sprintf("a marked run of %s events from event %s on, %s equal ones in a row (%s)", units.Group(int64(t.Length)), units.Group(int64(t.Begin)), units.Group(int64(t.Repeats)), share)
	}
	return fmt.Sprintf("%s events from event %s on, repeated %s times (%s)", units.Group(int64(t.Length)), units.Group(int64(t.Begin)), units.Group(int64(t.Repeats)), share)
}

// text prints what was recorded, before the figures of the placement.
func (t *packedTrace) text(w io.Writer) {
	r := t.recording
	fmt.Fprintf(w, "recording     %s: %s events, %s blocks\n", r.Format, units.Group(int64(len(r.Events))), units.Group(int64(len(r.Blocks))))
	fmt.Fprintf(w, "iteration     %s\n", t.iterationText())
	if t.Unrolled > 1 {
		fmt.Fprintf(w, "unrolled      %d iterations, because a block lives longer than one\n", t.Unrolled)
	}
	for _, c := range []struct {
		what, means string
		trace.Count
	}{
		{"carried", "live into a later iteration", t.Carried},
		{"kept", "not freed in the recording: not placed", t.Kept},
		{"resident", "live throughout: not placed", t.Resident},
	} {
		if c.Blocks > 0 {
			fmt.Fprintf(w, "%-13s %s, %s blocks %s\n", c.what, units.Bytes(c.Bytes), units.Group(int64(c.Blocks)), c.means)
		}
	}
	if r.Before > 0 {
		fmt.Fprintf(w, "before        %s blocks are freed that were allocated before the recording\n", units.Group(int64(r.Before)))
	}
	if r.Lost > 0 {
		fmt.Fprintf(w, "lost          the frees of %s blocks are missing in the recording\n", units.Group(int64(r.Lost)))
	}
}

// modelJSON is nil without --model.
func (t *packedTrace) modelJSON() *modelJSON {
	if t == nil {
		return nil
	}
	return t.model.json()
}

// more prints the parts of the streams and what allocators would take, after the
// figures of the placement.
func (t *packedTrace) more(w io.Writer, arena int64) {
	if len(t.Parts) > 1 {
		for _, p := range t.Parts {
			fmt.Fprintf(w, "stream %-6d %s from offset %s on, %s buffers\n", p.Stream, units.Bytes(p.Arena), units.Group(p.Offset), units.Group(int64(p.Buffers)))
		}
	}
	if t.model != nil {
		t.model.text(w)
		return
	}
	fmt.Fprintf(w, "reserved by allocators for the same stream\n")
	for i, s := range alloc.Simulators {
		over := ""
		if arena > 0 {
			over = fmt.Sprintf("  %6.2f times the arena", float64(t.reserved[i])/float64(arena))
		}
		fmt.Fprintf(w, "  %-23s %17s%s\n", s.Name, units.Group(t.reserved[i]), over)
	}
	if t.replays == nil {
		return
	}
	fmt.Fprintf(w, "all %s runs, which need %s at least\n", units.Group(int64(t.runs)), units.Bytes(t.loadOfAll))
	fmt.Fprintf(w, "  %-23s %17s %8s %17s %9s %6s %10s\n", "replayed", "arena + fallback", "x least", "arena", "hits", "plans", "deviating")
	over := func(bytes int64) float64 { return float64(bytes) / float64(max(1, t.loadOfAll)) }
	for i, r := range alloc.Replayers {
		p := &t.replays[i]
		fmt.Fprintf(w, "  %-23s %17s %8.2f %17s %7.2f %% %6d %10d\n", r.Name, units.Group(p.Peak), over(p.Peak), units.Group(p.Arena), 100*p.HitRate(), p.Plans, p.Deviating)
	}
	fmt.Fprintf(w, "  %-23s %17s\n", "by allocators", "reserved")
	for i, s := range alloc.Simulators {
		if !s.Naive {
			fmt.Fprintf(w, "  %-23s %17s %8.2f\n", s.Name, units.Group(t.byAll[i]), over(t.byAll[i]))
		}
	}
}

// traceJSON is the part of the JSON object that a recording adds.
type traceJSON struct {
	Format    string           `json:"trace_format"`
	Events    int              `json:"trace_events"`
	Blocks    int              `json:"trace_blocks"`
	Found     string           `json:"period_found"`
	Begin     int              `json:"period_begin"`
	Period    int              `json:"period_events"`
	Repeats   int              `json:"period_repeats"`
	Unrolled  int              `json:"period_unrolled"`
	Covered   float64          `json:"period_covered_percent"`
	Naive     int64            `json:"naive_bytes"`
	Carried   countJSON        `json:"carried"`
	Kept      countJSON        `json:"kept"`
	Resident  countJSON        `json:"resident"`
	Before    int              `json:"freed_from_before_blocks"`
	Lost      int              `json:"lost_frees"`
	Alignment int64            `json:"alignment_bytes"`
	Streams   []streamJSON     `json:"streams"`
	Reserved  map[string]int64 `json:"reserved_bytes"`
	Replays   []replayJSON     `json:"replays,omitempty"`
	ByAll     map[string]int64 `json:"all_runs_reserved_bytes,omitempty"`
	LoadOfAll int64            `json:"all_runs_load_bytes,omitempty"`
}

// replayJSON is what one scheme of replaying needs for all runs.
type replayJSON struct {
	Scheme    string `json:"scheme"`
	Runs      int    `json:"runs"`
	Requests  int    `json:"requests"`
	Hits      int    `json:"hits"`
	Deviating int    `json:"deviating_runs"`
	Plans     int    `json:"plans"`
	Arena     int64  `json:"arena_bytes"`
	Fallback  int64  `json:"fallback_bytes"`
	Peak      int64  `json:"peak_bytes"`
}

type countJSON struct {
	Blocks int   `json:"blocks"`
	Bytes  int64 `json:"bytes"`
}

type streamJSON struct {
	Stream     int64 `json:"stream"`
	Buffers    int   `json:"buffers"`
	Offset     int64 `json:"offset"`
	Arena      int64 `json:"arena_bytes"`
	LowerBound int64 `json:"lower_bound_bytes"`
}

// json is nil without a recording.
func (t *packedTrace) json() *traceJSON {
	if t == nil {
		return nil
	}
	r := t.recording
	j := &traceJSON{
		r.Format, len(r.Events), len(r.Blocks), t.Found, t.Begin, t.Length, t.Repeats, t.Unrolled,
		float64(int64(1e4*float64(t.Covered)/float64(len(r.Events)))) / 100, t.Naive(),
		countJSON(t.Carried), countJSON(t.Kept), countJSON(t.Resident), r.Before, r.Lost, t.Alignment,
		nil,
		map[string]int64{},
		nil, nil, t.loadOfAll,
	}
	if t.replays != nil {
		j.ByAll = map[string]int64{}
		for i, s := range alloc.Simulators {
			j.ByAll[s.Name] = t.byAll[i]
		}
	}
	for i, p := range t.replays {
		j.Replays = append(j.Replays, replayJSON{alloc.Replayers[i].Name, t.runs, p.Requests, p.Hits, p.Deviating, p.Plans, p.Arena, p.Fallback, p.Peak})
	}
	for _, p := range t.Parts {
		j.Streams = append(j.Streams, streamJSON{p.Stream, p.Buffers, p.Offset, p.Arena, p.LowerBound})
	}
	for i, s := range alloc.Simulators {
		j.Reserved[s.Name] = t.reserved[i]
	}
	return j
}

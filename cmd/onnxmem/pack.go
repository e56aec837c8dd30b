package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/report"
)

// packCmd places buffers.
type packCmd struct {
	Buffers string `arg:"" optional:"" in:"the file of buffers" help:"Buffers, as CSV or JSON; - is standard input. CSV has the columns id,lower,upper,size, and may have all of MiniMalloc's. Either may be gzipped."`

	traceFlags
	programFlags         `embed:""`
	optimize.SolverFlags `embed:""`

	Model     string        `group:"input" in:"the planned model" placeholder:"FILE" help:"With --trace: the planned model that ran. It is planned with --runtime onnxruntime-arena, its plan lies beside it, and this is a run of it in ONNX Runtime. Its tensors lie where the plan has them, everything else in the holes."`
	At        optimize.Dims `group:"input" placeholder:"NAME=N" help:"With --model: lengths of this run of ranges. An example is batch=1,sequence=128, if its plan is for ranges of dimensions."`
	Results   bool          `group:"input" help:"With --model: also place what outlives the run. Callers then free such blocks before the next run."`
	Capacity  *units.Size   `group:"memory" placeholder:"SIZE" help:"Accept any arena up to SIZE, such as 1MiB. If none is found: exit status 1, and nothing is written."`
	Strategy  string        `group:"search" placeholder:"NAME" help:"Run only one strategy. ${placements} (default: all, then the searches)."`
	Effort    string        `group:"search" enum:"fast,default,max" default:"default" help:"Amount of search. Counted, not timed: the same result on every machine."`
	TimeLimit time.Duration `group:"search" placeholder:"TIME" help:"Stop after TIME, such as 3s, with the best so far."`
	Align     *int64        `group:"memory" placeholder:"N" help:"Round sizes and offsets up to N bytes. Default 1; of a recording 64, on CUDA 512."`
	Out       string        `group:"output" short:"o" out:"the placed buffers" placeholder:"FILE" help:"Write the buffers with their offsets. They have the columns of the input, or are JSON if FILE ends in .json; - is standard output."`
	To        string        `group:"output" enum:",csv,json,replay" default:"" placeholder:"FORMAT" help:"Format of --out: csv, json or replay. replay is the table by which an allocator repeats a recording. Default: by the name."`
	Simulate  bool          `group:"input" help:"Simulate replaying, where runs differ. Several schemes are compared."`
	SVG       string        `group:"output" name:"svg" out:"the picture" placeholder:"FILE" help:"Draw the placement. Steps go to the right, offsets upwards; - is standard output."`
	Proof     string        `group:"output" placeholder:"DIR" help:"Write a proof for other checkers. The folder gets the buffers of one step, whose sum is the lower bound, as a proof for VeriPB (docs/proofs.md). Exit status 1 if the bound is larger."`
	JSON      bool          `group:"output" name:"json" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`
}

// Help is the text below the flags.
func (packCmd) Help() string {
	return `Examples:
  onnxmem pack buffers.csv --out placed.csv --svg picture.svg
  onnxmem pack buffers.csv --capacity 1MiB --json
  onnxmem pack --trace recording.jsonl --to replay -o replay.txt
  onnxmem pack --trace run.jsonl --model planned.onnx --to replay -o replay.txt`
}

var placementEfforts = map[string]alloc.Effort{
	"fast": alloc.EffortFast, "default": alloc.EffortDefault, "max": alloc.EffortMax,
}

// packing is the state of the command.
type packing struct {
	cmd     *packCmd
	name    string        // of the file, for messages
	given   alloc.Problem // as in the file
	dialect alloc.Dialect // of the file; nil for JSON
	problem alloc.Problem // with sizes rounded up
	found   alloc.Result
	fit     alloc.Fit
	read    time.Duration
	place   time.Duration
	trace   *packedTrace // nil without --trace
	program *alloc.ILP   // for files of the integer program
	e       *env
	solver  ilp.Solver // nil: none is asked for
	proofs  []proof.Result
}

// Run reads, places, writes and prints.
func (c *packCmd) Run(e *env) error {
	if err := c.check(); err != nil {
		return err
	}
	solver, err := c.SolverFlags.Open()
	if err != nil {
		return err
	}
	k := packing{cmd: c, e: e, solver: solver}
	read, solve := k.readBuffers, k.solve
	if c.Trace != "" {
		read, solve = k.readTrace, k.solveTrace
	}
	if err := read(); err != nil {
		return err
	}
	if err := k.build(); err != nil {
		return err
	}
	if c.Model != "" {
		if err := k.readModel(e); err != nil {
			return err
		}
		solve = k.solveModel
	}
	if err := solve(); err != nil {
		return err
	}
	k.judge()
	if k.fit == alloc.FitFound || c.Capacity == nil {
		if err := k.write(e); err != nil {
			return err
		}
	}
	if c.Proof != "" {
		if k.proofs, err = proof.Folder(c.Proof, proofName(k.name), []proof.Claim{k.proof()}); err != nil {
			return err
		}
	}
	var out io.Writer = e.stdout
	if c.Out == "-" || c.SVG == "-" || slices.Contains(c.paths(), "-") {
		out = e.messages() // standard output is for the written file
	}
	if c.JSON {
		if err := k.json(out); err != nil {
			return err
		}
	} else {
		k.text(out)
	}
	if err := k.verdict(); err != nil {
		return err
	}
	return proven(k.proofs)
}

// check checks the command line by itself.
func (c *packCmd) check() error {
	switch {
	case c.Strategy != "" && !slices.ContainsFunc(alloc.Strategies, func(s alloc.Strategy) bool { return s.Name == c.Strategy }):
		return usagef("placement strategy %q is unknown: expected one of %s", c.Strategy, optimize.Vars()["placements"])
	case c.Align != nil && *c.Align < 1:
		return usagef("alignment %d: expected 1 or more bytes", *c.Align)
	case (c.Buffers == "") == (c.Trace == ""):
		return usagef("expected a file of buffers, or a recording with --trace, found %s", map[bool]string{true: "neither", false: "both"}[c.Trace == ""])
	case c.Trace == "" && (c.TraceDevice != "" || c.To == "replay" || c.Simulate || c.Model != ""):
		return usagef("--trace-device, --simulate, --model and --to replay: expected a recording with --trace")
	case c.Results && c.Model == "":
		return usagef("--results: expected a model with --model")
	case len(c.At) > 0 && c.Model == "":
		return usagef("--at: expected a model with --model")
	case c.Model != "" && c.Simulate:
		return usagef("--model and --simulate: expected one of them")
	case c.Model == "-":
		return usagef("--model -: expected a file, with its plan beside it")
	case c.Proof != "" && c.Trace != "":
		return usagef("--proof: expected a file of buffers, found a recording")
	case c.To != "" && c.Out == "":
		return usagef("--to %s: expected a file with --out", c.To)
	case c.Solver != "" && (c.Strategy != "" || c.Trace != ""):
		return usagef("--solver: expected neither --strategy nor --trace")
	case c.TimeLimit < 0:
		return usagef("time limit %v: expected 0 or more", c.TimeLimit)
	case c.Trace != "" && strings.Join(c.paths(), "") != "":
		return usagef("--lp, --mps, --cp-sat and --minizinc: expected a file of buffers, found a recording")
	}
	if err := optimize.Refuse(nil, &c.SolverFlags); err != nil {
		return err
	}
	if _, err := c.ilp(); err != nil {
		return err
	}
	return c.programFlags.check(c.Out, c.SVG)
}

// ilp returns the choices of --ilp.
func (c *packCmd) ilp() (opt alloc.ILPOptions, err error) {
	for _, name := range c.ILP {
		i := slices.IndexFunc(alloc.ILPSwitches, func(s alloc.ILPSwitch) bool { return s.Name == name })
		if i < 0 {
			var names []string
			for _, s := range alloc.ILPSwitches {
				names = append(names, s.Name)
			}
			return opt, unknownSwitch(name, names)
		}
		alloc.ILPSwitches[i].Set(&opt)
	}
	return opt, nil
}

// build makes the integer program before the search, so that one that is too large is
// refused at once.
func (k *packing) build() error {
	if !k.cmd.integer() {
		return nil
	}
	opt, err := k.cmd.ilp()
	if err != nil {
		return err
	}
	if k.program, err = k.problem.ILP(opt); err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	return nil
}

// writeCPSAT writes the integer program for CP-SAT. The placement found is its hint, unless
// the program excludes it.
func (k *packing) writeCPSAT(w io.Writer) error {
	start, err := k.program.Encode(k.found.Placement)
	if err != nil {
		start = nil
	}
	return k.program.WriteCPSAT(w, start)
}

// readBuffers reads the buffers.
func (k *packing) readBuffers() (err error) {
	began := time.Now()
	in, err := openInput(k.cmd.Buffers)
	if err != nil {
		return err
	}
	defer in.close()
	k.name = in.name
	if k.given, k.dialect, err = in.buffers(); err != nil {
		return err
	}
	k.problem = k.given
	if k.cmd.Align != nil {
		if k.problem, err = k.given.Rounded(*k.cmd.Align); err != nil {
			return in.refuse(err)
		}
	}
	k.read = time.Since(began)
	return nil
}

// solve places the buffers and checks the placement with code that shares nothing
// with the search.
func (k *packing) solve() (err error) {
	err = k.search(func(ctx context.Context, opt alloc.Options) (err error) {
		k.found, err = alloc.Solve(ctx, k.problem, opt)
		return err
	})
	if err != nil {
		return err
	}
	if err := k.problem.CheckSweep(k.found.Placement); err != nil {
		return fmt.Errorf("internal error in placement by %s: %w", k.found.Strategy, err)
	}
	return nil
}

// search calls a function that places buffers with the options of the command line.
func (k *packing) search(place func(context.Context, alloc.Options) error) error {
	began := time.Now()
	opt := alloc.Options{Strategy: k.cmd.Strategy, Effort: placementEfforts[k.cmd.Effort]}
	if k.cmd.Capacity != nil {
		opt.Capacity = int64(*k.cmd.Capacity)
	}
	ctx := context.Background()
	if k.solver != nil {
		var release func()
		ctx, release = k.e.signals.context()
		defer release()
		bar := newProgress(k.e.stderr, 1)
		defer bar.stop()
		bar.step("pack")
		opt.Solver, opt.SolverTime, opt.Threads, opt.Progress = k.solver, k.cmd.SolverFlags.Time(k.cmd.TimeLimit), k.cmd.Threads, bar.showArena
	}
	if k.cmd.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, k.cmd.TimeLimit)
		defer cancel()
	}
	err := place(ctx, opt)
	k.place = time.Since(began)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: no placement found within %v", k.name, k.cmd.TimeLimit)
	}
	return err
}

// judge says whether the arena fits into the capacity. A capacity of 0 is a limit,
// too.
func (k *packing) judge() {
	if k.cmd.Capacity == nil {
		return
	}
	switch c := int64(*k.cmd.Capacity); {
	case k.found.Arena <= c:
		k.fit = alloc.FitFound
	case k.found.LowerBound > c:
		k.fit = alloc.FitNever
	}
}

// write writes the buffers, the picture and the programs to their files, all or none.
func (k *packing) write(e *env) error {
	var files []*atomicfile.File
	defer func() {
		for _, f := range files {
			f.Abort()
		}
	}()
	programs := k.cmd.files(
		func(w io.Writer) error { return k.program.WriteLP(w) },
		func(w io.Writer) error { return k.program.WriteMPS(w) },
		k.writeCPSAT,
		func(w io.Writer) error { return alloc.WriteMiniZinc(w, k.problem) },
	)
	for _, w := range append([]programFile{{k.cmd.Out, k.writeBuffers}, {k.cmd.SVG, k.writeSVG}}, programs...) {
		if w.path == "" {
			continue
		}
		var text bytes.Buffer
		if err := w.text(&text); err != nil {
			return err
		}
		if w.path == "-" {
			if _, err := e.data.Write(text.Bytes()); err != nil {
				return err
			}
			continue
		}
		f, err := optimize.Stage(w.path, text.Bytes())
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	return atomicfile.Commit(false, files...)
}

// writeBuffers writes the buffers as given, with their offsets.
func (k *packing) writeBuffers(w io.Writer) error {
	a := &k.found.Placement
	switch to := k.cmd.To; {
	case to == "replay":
		if k.trace.model != nil {
			return k.trace.model.Write(w)
		}
		return k.trace.WriteReplay(w)
	case to == "json", to == "" && (strings.HasSuffix(k.cmd.Out, ".json") || k.cmd.Out == "-" && k.dialect == nil):
		return k.given.WriteJSON(w, a)
	case k.dialect == nil:
		return k.given.WriteCSV(w, a)
	}
	return k.dialect.Write(w, k.given, a)
}

func (k *packing) writeSVG(w io.Writer) error {
	lines := []report.Line{{Name: "arena", Bytes: k.found.Arena}}
	if c := k.cmd.Capacity; c != nil && int64(*c) != k.found.Arena {
		lines = append(lines, report.Line{Name: "capacity", Bytes: int64(*c)})
	} else if k.found.LowerBound != k.found.Arena {
		lines = append(lines, report.Line{Name: "lower bound", Bytes: k.found.LowerBound})
	}
	title := fmt.Sprintf("%s: %s buffers", k.name, units.Group(int64(len(k.problem.Buffers))))
	return report.PlacementSVG(w, title, k.rects(), lines)
}

// rects are the buffers as rectangles of the picture, without their gaps.
func (k *packing) rects() []report.Rect {
	var list []report.Rect
	for i := range k.problem.Buffers {
		name := k.problem.Buffers[i].ID
		if name == "" {
			name = fmt.Sprint(i)
		}
		off := k.found.Offsets[i]
		k.problem.EachArea(i, func(first, last int, from, to int64) {
			list = append(list, report.Rect{Name: name, Offset: off + from, Bytes: to - from, First: first, Last: last})
		})
	}
	return list
}

func (k *packing) json(w io.Writer) error {
	type times struct {
		Read  float64 `json:"read"`
		Total float64 `json:"total"`
	}
	var capacity *int64
	var fits *bool
	if c := k.cmd.Capacity; c != nil {
		capacity = (*int64)(c)
		if answer := k.fit == alloc.FitFound; answer || k.fit == alloc.FitNever {
			fits = &answer
		}
	}
	return writeJSON(w, struct {
		Buffers    int                  `json:"buffers"`
		MaxLoad    int64                `json:"max_load_bytes"`
		LowerBound int64                `json:"lower_bound_bytes"`
		Arena      int64                `json:"arena_bytes"`
		Optimal    bool                 `json:"optimal"`
		Capacity   *int64               `json:"capacity_bytes"`
		Fits       *bool                `json:"fits"`
		Infeasible []string             `json:"infeasible,omitempty"`
		Strategy   string               `json:"strategy"`
		ClaimedBy  string               `json:"claimed_by,omitempty"`
		Solver     *optimize.SolverJSON `json:"solver,omitempty"`
		*traceJSON
		*modelJSON
		Proofs []proof.Result `json:"proofs,omitempty"`
		Times  times          `json:"times_ms"`
	}{
		len(k.problem.Buffers), k.load(), k.found.LowerBound, k.found.Arena, k.found.Optimal,
		capacity, fits, k.infeasible(), k.found.Strategy, k.found.ClaimedBy, k.solverJSON(), k.trace.json(), k.trace.modelJSON(), k.proofs,
		times{optimize.Milliseconds(k.read), optimize.Milliseconds(k.place)},
	})
}

// load is the largest load; of a recording, the sum of those of its streams.
func (k *packing) load() int64 {
	if k.trace != nil {
		return k.trace.Load
	}
	return k.problem.MaxLoad()
}

// infeasible names buffers that do not fit even alone.
func (k *packing) infeasible() (names []string) {
	for _, i := range k.found.Infeasible {
		name := k.problem.Buffers[i].ID
		if name == "" {
			name = fmt.Sprint(i)
		}
		names = append(names, name)
	}
	return names
}

// text prints the result in a few lines.
func (k *packing) text(w io.Writer) {
	r, fixed := &k.found, 0
	if k.trace != nil {
		k.trace.text(w)
	}
	for i := range k.problem.Buffers {
		if k.problem.Buffers[i].Fixed != nil {
			fixed++
		}
	}
	fmt.Fprintf(w, "buffers       %s", units.Group(int64(len(k.problem.Buffers))))
	if fixed > 0 {
		fmt.Fprintf(w, ", %s with a fixed offset", units.Group(int64(fixed)))
	}
	load := k.load()
	fmt.Fprintf(w, "\nlargest load  %s\n", units.Bytes(load))
	fmt.Fprintf(w, "lower bound   %s: %s\n", units.Bytes(r.LowerBound), k.bound())
	fmt.Fprintf(w, "arena         %s, fragmentation %.2f %%, by %s\n", units.Bytes(r.Arena), report.FragmentationOf(r.Arena, load), r.Strategy)
	if s := r.Solver; s != nil {
		fmt.Fprintf(w, "%-13s %s\n", s.Name, optimize.SolverText(s.Version, string(s.Status), s.Why, s.Whole, s.Bound, s.Seconds))
	}
	if k.trace != nil {
		k.trace.more(w, r.Arena)
	}
	if c := k.cmd.Capacity; c != nil {
		says := "fits"
		switch k.fit {
		case alloc.FitNever:
			says = "does not fit, proven"
		case alloc.FitUnknown:
			says = "not known to fit"
		}
		fmt.Fprintf(w, "capacity      %s: %s\n", units.Bytes(int64(*c)), says)
	}
	if names := k.infeasible(); len(names) > 0 {
		const most = 8
		for i := range names {
			names[i] = units.Name(names[i])
		}
		more := ""
		if len(names) > most {
			names, more = names[:most], fmt.Sprintf(" and %s more", units.Group(int64(len(names)-most)))
		}
		fmt.Fprintf(w, "infeasible    %s%s: these do not fit even alone\n", strings.Join(names, ", "), more)
	}
	proofsText(w, 14, k.proofs)
	if files := k.files(); len(files) > 0 {
		fmt.Fprintf(w, "wrote         %s, placed in %.1f ms\n", strings.Join(files, ", "), optimize.Milliseconds(k.place))
	} else {
		fmt.Fprintf(w, "placed in     %.1f ms\n", optimize.Milliseconds(k.place))
	}
}

// bound compares the arena with the lower bound.
func (k *packing) bound() string {
	switch r := &k.found; {
	case r.Optimal && r.ClaimedBy != "":
		return fmt.Sprintf("met, no placement does better (claimed by %s)", r.ClaimedBy)
	case r.Optimal:
		return "met, no placement does better"
	case k.fit == alloc.FitFound:
		return "the arena fits the capacity, so the search ended"
	case k.fit == alloc.FitNever:
		return "above the capacity"
	default:
		return fmt.Sprintf("not met, gap %.2f %% of the arena", report.FragmentationOf(r.Arena, r.LowerBound))
	}
}

// files lists the files that were written.
func (k *packing) files() (list []string) {
	if k.cmd.Capacity != nil && k.fit != alloc.FitFound {
		return nil
	}
	for _, path := range append([]string{k.cmd.Out, k.cmd.SVG}, k.cmd.paths()...) {
		if path != "" && path != "-" {
			list = append(list, units.Name(path))
		}
	}
	return list
}

// verdict ends the command with status 1 if the capacity is not met.
func (k *packing) verdict() error {
	if k.cmd.Capacity == nil || k.fit == alloc.FitFound {
		return nil
	}
	capacity := units.Bytes(int64(*k.cmd.Capacity))
	if k.fit == alloc.FitNever {
		return &failure{exitFailed, fmt.Sprintf("%s: does not fit into %s: proven: at least %s are needed", k.name, capacity, units.Bytes(k.found.LowerBound))}
	}
	spent := "try more --effort"
	if k.cmd.Strategy != "" {
		spent = "try without --strategy"
	}
	return &failure{exitFailed, fmt.Sprintf("%s: not known to fit into %s: the smallest arena found is %s; %s", k.name, capacity, units.Bytes(k.found.Arena), spent)}
}

// solverJSON is what the solver did; nil without one.
func (k *packing) solverJSON() *optimize.SolverJSON {
	s := k.found.Solver
	if s == nil {
		return nil
	}
	return &optimize.SolverJSON{Name: s.Name, Version: s.Version, Status: string(s.Status), Bound: s.Bound, Seconds: s.Seconds}
}

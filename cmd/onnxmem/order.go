package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/bare"
	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/report"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// orderCmd orders the nodes of a bare problem.
type orderCmd struct {
	Problem string `arg:"" in:"the problem" help:"Sizes and precedence as JSON; - is standard input. It may be gzipped (docs/formats/nodes.md)."`

	programFlags         `embed:""`
	Out                  string       `group:"output" out:"the order" placeholder:"FILE" help:"Write the order; - is standard output. It is the object that --json prints, without times."`
	Strategy             string       `group:"search" aliases:"schedule" placeholder:"NAME" help:"Run only one strategy (also --schedule). ${schedules} (default: search)."`
	ScheduleGoal         string       `group:"search" enum:"peak,area" default:"peak" help:"Choice among the orders with the smallest peak. peak takes the least area (the sum of the loads) of the five orders found, area searches for less."`
	Limit                *units.Limit `group:"memory" placeholder:"BYTES|PERCENT%" help:"Recompute until the peak is at most this. That is a size such as 8GiB, or 60% of the best order's peak. It takes the least extra time that is found; exit 1 if that is impossible or not found."`
	Least                bool         `group:"memory" help:"Give the plan with the smallest peak that is found. With --limit, only if the limit cannot be kept; the exit status is then 0, and a note says why."`
	Frontier             bool         `group:"memory" help:"List what limits cost. That is the extra time, and its lower bound, for limits from 95% of the best order's peak down."`
	optimize.HostFlags   `embed:""`
	optimize.SolverFlags `embed:""`
	Effort               string        `group:"search" enum:"fast,default,max" default:"default" help:"Amount of search. Counted, not timed: the same result on every machine."`
	TimeLimit            time.Duration `group:"search" placeholder:"TIME" help:"End the search after TIME, such as 3s. The best so far is the result. Results may then differ from run to run."`
	Align                int64         `group:"memory" default:"1" placeholder:"N" help:"Round sizes up to multiples of N bytes (default 1)."`
	Proof                string        `group:"output" placeholder:"DIR" help:"Write a proof for other checkers. The folder gets the lower bound as a proof for VeriPB and CakePB, with --limit that on the extra time, and a page that says what is trusted (docs/proofs.md). Exit status 1 if it has none."`
	JSON                 bool          `group:"output" name:"json" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`
}

// Help is the text below the flags.
func (orderCmd) Help() string {
	return `A signal (Ctrl-C) during the search ends it with the best order so far, which is printed and written
as usual, with exit status 0 and a note on standard error. A second signal stops at once.

Examples:
  onnxmem order problem.json.gz --out order.json
  onnxmem order problem.json --limit 50% --json`
}

// ordering is the state of the command.
type ordering struct {
	cmd     *orderCmd
	file    string // for messages
	problem *schedule.Problem
	found   *schedule.Result
	read    time.Duration
	bound   time.Duration // of total
	total   time.Duration // of the search
	limited limited
	program *schedule.ILP // for files of the integer program
	solver  ilp.Solver    // nil: none is asked for
	proofs  []proof.Result
}

// Run reads, orders, writes and prints.
func (c *orderCmd) Run(e *env) error {
	if err := c.check(); err != nil {
		return err
	}
	solver, err := c.SolverFlags.Open()
	if err != nil {
		return err
	}
	o := ordering{cmd: c, solver: solver}
	bar := newProgress(e.stderr, 2)
	defer bar.stop()
	bar.step("read")
	if err := o.load(); err != nil {
		return err
	}
	if err := o.build(); err != nil {
		return err
	}
	bar.step("order")
	if err := o.solve(e, bar.showSearch); err != nil {
		return err
	}
	bar.stop()
	if o.limited.kept() {
		if err := o.write(e); err != nil {
			return err
		}
	}
	if err := o.prove(); err != nil {
		return err
	}
	if p := o.limited.missed; p != nil {
		e.say("%s; this is the plan with the smallest peak that was found", o.missed(p))
	}
	if o.endedBy() != "" {
		e.say("%s: %s: the best order so far", o.file, o.endedBy())
	}
	var out io.Writer = e.stdout
	if c.Out == "-" || slices.Contains(c.paths(), "-") {
		out = e.messages() // standard output is for the written file
	}
	if c.JSON {
		if err := o.json(out, true); err != nil {
			return err
		}
	} else {
		o.text(out)
	}
	if err := o.limited.verdict(&o); err != nil {
		return err
	}
	return proven(o.proofs)
}

// prove writes the proof of the lower bound and, with a limit, of that on the extra time.
func (o *ordering) prove() (err error) {
	if o.cmd.Proof == "" {
		return nil
	}
	claims := []proof.Claim{bare.Claim(o.problem, o.found)}
	if o.limited.plan != nil {
		claims = append(claims, bare.Extra(o.problem, o.limited.plan))
	}
	o.proofs, err = proof.Folder(o.cmd.Proof, proofName(o.file), claims)
	return err
}

// check checks the command line by itself.
func (c *orderCmd) check() error {
	switch {
	case c.Strategy != "" && !slices.ContainsFunc(schedule.Strategies, func(s schedule.Strategy) bool { return s.Name == c.Strategy }):
		return usagef("order strategy %q is unknown: expected one of %s", c.Strategy, optimize.Vars()["schedules"])
	case c.Align < 1:
		return usagef("alignment %d: expected 1 or more bytes", c.Align)
	case c.TimeLimit < 0:
		return usagef("time limit %v: expected 0 or more", c.TimeLimit)
	case c.NoSwap && c.NoRecompute:
		return usagef("--no-swap --no-recompute: expected one of them: nothing is left that makes the peak smaller")
	case c.Solver != "" && (c.Strategy != "" || c.Limit != nil || c.Least || c.Frontier):
		return usagef("--solver: expected none of --strategy, --limit, --least and --frontier")
	case c.Proof != "" && (c.Least || c.Frontier || c.Linked()):
		return usagef("--proof: expected none of --least, --frontier and --host-link: its bounds are those of the problem as it is, and of one limit")
	case c.Least && c.Linked():
		return usagef("--least: expected no --host-link: no bound is known with a host")
	}
	if err := optimize.Refuse(nil, c); err != nil {
		return err
	}
	if _, err := c.ilp(); err != nil {
		return err
	}
	return c.programFlags.check(c.Out)
}

// ilp returns the choices of --ilp.
func (c *orderCmd) ilp() (opt schedule.ILPOptions, err error) {
	for _, name := range c.ILP {
		i := slices.IndexFunc(schedule.ILPSwitches, func(s schedule.ILPSwitch) bool { return s.Name == name })
		if i < 0 {
			var names []string
			for _, s := range schedule.ILPSwitches {
				names = append(names, s.Name)
			}
			return opt, unknownSwitch(name, names)
		}
		schedule.ILPSwitches[i].Set(&opt)
	}
	return opt, nil
}

// build makes the integer program before the search, so that one that is too large is
// refused at once.
func (o *ordering) build() error {
	if !o.cmd.integer() {
		return nil
	}
	opt, err := o.cmd.ilp()
	if err != nil {
		return err
	}
	if o.program, err = o.problem.ILP(opt); err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	return nil
}

// writeCPSAT writes the integer program for CP-SAT. The order found is its hint, unless the
// program excludes it, or asks for offsets.
func (o *ordering) writeCPSAT(w io.Writer) error {
	start, err := o.program.Encode(schedule.Solution{Order: o.found.Order, Taken: o.found.Evaluation.Taken})
	if err != nil {
		start = nil
	}
	return o.program.WriteCPSAT(w, start)
}

// load reads the problem.
func (o *ordering) load() error {
	began := time.Now()
	in, err := openInput(o.cmd.Problem)
	if err != nil {
		return err
	}
	defer in.close()
	o.file = in.name
	if o.problem, err = in.problem(); err != nil {
		return err
	}
	if o.cmd.Align > 1 {
		if o.problem, err = o.problem.Rounded(o.cmd.Align); err != nil {
			return in.refuse(err)
		}
	}
	o.read = time.Since(began)
	return nil
}

// solve searches until it is done or told to end, and takes the order with the
// least area of those that it finds.
func (o *ordering) solve(e *env, progress func(bound, peak int64)) (err error) {
	began := time.Now()
	ctx, release := e.signals.context()
	defer release()
	if o.cmd.TimeLimit > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, o.cmd.TimeLimit)
		defer cancel()
	}
	o.found, err = schedule.Solve(ctx, o.problem, schedule.Options{
		Strategy: o.cmd.Strategy, Effort: optimize.Efforts[o.cmd.Effort], Goal: optimize.Goals[o.cmd.ScheduleGoal],
		Progress: progress, BoundTime: &o.bound,
		Solver: o.solver, SolverTime: o.cmd.SolverFlags.Time(o.cmd.TimeLimit), Threads: o.cmd.Threads,
	})
	if err != nil {
		return err
	}
	if err := o.found.TakeLeastArea(o.problem); err != nil {
		return err
	}
	o.total = time.Since(began)
	if o.cmd.Limit == nil && !o.cmd.Least && !o.cmd.Frontier {
		return nil
	}
	return o.limit(ctx)
}

// endedBy says what ended the search early; "" if nothing did.
func (o *ordering) endedBy() string {
	err := o.found.Ended
	for _, p := range append(o.limited.frontier, o.limited.plan) {
		if err == nil && p != nil {
			err = p.Ended
		}
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errInterrupted):
		return "interrupted"
	}
	return "time limit"
}

// write writes the order and the programs to their files, all or none.
func (o *ordering) write(e *env) error {
	var staged []*atomicfile.File
	programs := o.cmd.files(
		func(w io.Writer) error { return o.program.WriteLP(w) },
		func(w io.Writer) error { return o.program.WriteMPS(w) },
		o.writeCPSAT,
		func(w io.Writer) error { return schedule.WriteMiniZinc(w, o.problem) },
	)
	order := programFile{o.cmd.Out, func(w io.Writer) error { return o.json(w, false) }}
	for _, file := range append([]programFile{order}, programs...) {
		switch file.path {
		case "":
			continue
		case "-":
			if err := file.text(e.data); err != nil {
				return err
			}
			continue
		}
		f, err := atomicfile.Create(file.path, 0o666)
		if err == nil {
			staged = append(staged, f)
			err = file.text(f)
		}
		if err != nil {
			for _, f := range staged {
				f.Abort()
			}
			return err
		}
	}
	return atomicfile.Commit(false, staged...)
}

func (o *ordering) json(w io.Writer, timed bool) error {
	type times struct {
		Read   float64 `json:"read"`
		Bound  float64 `json:"bound"`
		Search float64 `json:"search"`
		Total  float64 `json:"total"`           // bound + search
		Limit  float64 `json:"limit,omitempty"` // of --limit and --frontier
	}
	type certificate struct {
		Kind      string  `json:"kind"`
		Nodes     []int32 `json:"nodes"`
		Value     int64   `json:"value_bytes"`
		ClaimedBy string  `json:"claimed_by,omitempty"`
	}
	r := o.found
	certificates := []certificate{}
	for _, c := range r.Certificates {
		certificates = append(certificates, certificate{c.Kind, append([]int32{}, c.Nodes...), c.Value, c.ClaimedBy})
	}
	var spent *times
	if timed {
		spent = &times{optimize.Milliseconds(o.read), optimize.Milliseconds(o.bound), optimize.Milliseconds(o.total) - optimize.Milliseconds(o.bound), optimize.Milliseconds(o.total), optimize.Milliseconds(o.limited.took)}
	}
	limit, frontier := o.limitJSON()
	order := append([]int32{}, r.Order...)
	peak, bound, listed := r.Evaluation.Peak, r.Bound, &order
	if p := o.limited.plan; p != nil && p.Feasible == budget.Found {
		peak, bound, listed = p.PeakBytes, p.LeastBytes, nil // steps replace the order
		certificates = []certificate{}
	}
	return writeJSON(w, struct {
		Name         string               `json:"name"`
		Nodes        int                  `json:"nodes"`
		ProgramPeak  int64                `json:"program_order_peak_bytes"`
		Peak         int64                `json:"peak_bytes"`
		Bound        int64                `json:"lower_bound_bytes"`
		Optimal      bool                 `json:"optimal"`
		Strategy     string               `json:"strategy"`
		Area         int64                `json:"area_byte_steps"`
		Certificates []certificate        `json:"certificates"`
		EndedBy      string               `json:"ended_by,omitempty"` // "interrupted", "time limit"
		Solver       *optimize.SolverJSON `json:"solver,omitempty"`
		*limitJSON
		*swapJSON
		Proofs   []proof.Result `json:"proofs,omitempty"`
		Frontier *[]pointJSON   `json:"frontier,omitempty"`
		Order    *[]int32       `json:"order,omitempty"`
		Times    *times         `json:"times_ms,omitempty"`
	}{
		o.problem.Name, len(o.problem.Nodes), r.ProgramPeak, peak, bound, peak == bound,
		r.Strategy, r.Evaluation.Area(), certificates, o.endedBy(), o.solverJSON(timed), limit, o.limited.swapJSON(o.cmd.HostLink), o.proofsJSON(timed), frontier, listed, spent,
	})
}

// text prints the result in a few lines.
func (o *ordering) text(w io.Writer) {
	r := o.found
	name := o.problem.Name
	if name == "" {
		name = o.file
	}
	fmt.Fprintf(w, "%s: %s nodes, %s tensors\n", units.Name(name), units.Group(int64(len(o.problem.Nodes))), units.Group(int64(len(o.problem.Tensors))))
	fmt.Fprintf(w, "peak, program order  %s\n", units.Bytes(r.ProgramPeak))
	fmt.Fprintf(w, "peak, this order     %s%s, by %s\n", units.Bytes(r.Evaluation.Peak), report.Less(r.ProgramPeak, r.Evaluation.Peak), r.Strategy)
	fmt.Fprintf(w, "lower bound          %s: %s\n", units.Bytes(r.Bound), o.verdict())
	if s := r.Solver; s != nil {
		fmt.Fprintf(w, "%-20s %s\n", s.Name, optimize.SolverText(s.Version, string(s.Status), s.Why, s.Whole, s.Bound, s.Seconds))
	}
	wrote := ""
	if o.cmd.Out != "" && o.cmd.Out != "-" {
		wrote = fmt.Sprintf(", wrote %s", units.Name(o.cmd.Out))
	}
	fmt.Fprintf(w, "ordered in           %.1f ms%s\n", optimize.Milliseconds(o.total), wrote)
	proofsText(w, 21, o.proofs)
	o.limitText(w)
}

// proofsJSON are the proofs that were written; none in a written order.
func (o *ordering) proofsJSON(timed bool) []proof.Result {
	if !timed {
		return nil
	}
	return o.proofs
}

// verdict compares the peak with the bound and names the proof.
func (o *ordering) verdict() string {
	r := o.found
	if !r.Optimal {
		return fmt.Sprintf("not met, gap %.2f %% of the peak", units.GapPercent(r.Bound, r.Evaluation.Peak))
	}
	for _, c := range r.Certificates {
		switch what := strings.ReplaceAll(c.Kind, "-", " "); {
		case c.ClaimedBy != "":
			return fmt.Sprintf("met, no order does better (claimed by %s)", c.ClaimedBy)
		case c.Kind == schedule.KindSearch:
			return "met, no order does better (by search)"
		case len(c.Nodes) == 1:
			return fmt.Sprintf("met, no order does better (%s at %s)", what, o.label(c.Nodes[0]))
		default:
			return fmt.Sprintf("met, no order does better (%s of %d nodes)", what, len(c.Nodes))
		}
	}
	return "met, no order does better"
}

// label names a node.
func (o *ordering) label(v int32) string {
	if name := o.problem.Nodes[v].Name; name != "" {
		return units.Name(name)
	}
	return fmt.Sprint("node ", v)
}

// solverJSON is what the solver did; nil without one.
func (o *ordering) solverJSON(timed bool) *optimize.SolverJSON {
	s := o.found.Solver
	if s == nil {
		return nil
	}
	x := &optimize.SolverJSON{Name: s.Name, Version: s.Version, Status: string(s.Status), Bound: s.Bound}
	if timed {
		x.Seconds = s.Seconds
	}
	return x
}

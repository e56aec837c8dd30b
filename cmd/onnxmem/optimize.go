package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// Flags of commands that read a model, and of those that make a training graph.
type (
	modelFlags = optimize.ModelFlags
	trainFlags = optimize.TrainFlags
	limitFlags = optimize.LimitFlags
)

// planFlags are the flags of every command that plans.
type planFlags struct {
	optimize.PlanFlags
	Verbose bool `group:"output" seldom:"" short:"v" help:"List the passes with their times."`
	JSON    bool `group:"output" name:"json" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`
}

func (f *planFlags) options(e *env) passes.Options {
	opt := f.PlanFlags.Options()
	opt.Tool = tool()
	opt.Trace, opt.Printed = f.trace(e), e.messages()
	return opt
}

// trace returns a function that lists the passes, if that is asked for.
func (f *planFlags) trace(e *env) func(passes.Pass, time.Duration) {
	if !f.Verbose {
		return nil
	}
	return func(p passes.Pass, d time.Duration) {
		fmt.Fprintf(e.messages(), "%-10s %9.3f ms  %s\n", p.Name, optimize.Milliseconds(d), p.Doc)
	}
}

// optimizeCmd plans a model.
type optimizeCmd struct {
	In  string `arg:"" in:"the model" help:"The model; - is standard input."`
	Out string `arg:"" optional:"" out:"the planned model" over:"the model" help:"The planned model; - is standard output, with --plan. Optional with --frontier or --max-batch, which then write nothing."`

	Plan            string      `group:"output" out:"the plan" placeholder:"PATH" help:"File for the plan; - is standard output. Default: OUT with .plan.json for .onnx."`
	ExternalData    string      `group:"output" enum:"copy,link,keep" default:"copy" help:"External data, if OUT is in another folder. copy, link (hard link; onnx itself refuses to load those) or keep (do nothing)."`
	MaxArena        *units.Size `group:"output" placeholder:"SIZE" help:"Exit with status 1 if the arena is larger. SIZE has a unit: 512KiB."`
	MaxPeak         *units.Size `group:"output" placeholder:"SIZE" help:"Exit with status 1 if the peak is larger."`
	Sync            bool        `group:"output" seldom:"" help:"Wait until the files are on the disk."`
	Params          string      `group:"training" seldom:"" out:"the parameters" placeholder:"PATH" help:"With --train: file for the first values of the parameters. Default: OUT with .params.onnx for .onnx."`
	InlineFunctions bool        `group:"model" seldom:"" help:"Replace calls of local functions by their bodies first. Some runtimes do so."`
	Workspaces      string      `group:"memory" seldom:"" in:"the workspaces of nodes" placeholder:"FILE" help:"Give the scratch of kernels places in the plan. FILE was recorded on a GPU (run --workspaces-out) or by ONNX Runtime (its node statistics), or is a CSV with the columns node and bytes."`
	FrontierSVG     string      `group:"memory" seldom:"" name:"frontier-svg" out:"the picture of the frontier" placeholder:"FILE" help:"With --frontier: draw it to this file."`
	MaxBatch        bool        `group:"memory" help:"Find the largest batch within --limit. It takes at most --extra more time."`
	BatchDim        string      `group:"memory" seldom:"" placeholder:"NAME" help:"With --max-batch: the symbolic dimension (default: batch, else the first axis of the first input)."`
	NoAccuracy      bool        `group:"model" seldom:"" help:"With --precision: do not run the model in both types to compare its outputs."`
	Inputs          string      `group:"model" seldom:"" in:"the inputs" placeholder:"FILE.npz" help:"With --precision: the inputs with which the outputs are compared with those in float32 (default: random)."`
	limitFlags
	trainFlags
	planFlags
	optimize.SolverFlags `embed:""`

	batchName string // of --max-batch
	batch     int64
}

// Help is the text below the flags.
func (optimizeCmd) Help() string {
	return `docs/excludes.md lists the flags that exclude each other, and those that need another.

Examples:
  onnxmem optimize resnet50.onnx planned.onnx --dim batch=8
  onnxmem optimize model.onnx planned.onnx --max-arena 512KiB --json
  onnxmem optimize bert.onnx planned.onnx --dim batch=1..8 --dim sequence=1..512
  onnxmem optimize --train model.onnx step.onnx --optimizer adamw --dim batch=8
  onnxmem optimize --train model.onnx step.onnx --dim batch=32 --limit 8GiB
  onnxmem optimize --train model.onnx --frontier --dim batch=32
  onnxmem optimize --train model.onnx step.onnx --limit 8GiB --max-batch --extra 5%`
}

// Run plans and writes.
func (c *optimizeCmd) Run(e *env) error {
	known := c.PlanFlags.Options()
	if err := optimize.Refuse(&known, c); err != nil {
		return err
	}
	solver, err := c.SolverFlags.Open()
	if err != nil {
		return err
	}
	bar := newProgress(e.stderr, len(passes.Default())+3)
	defer bar.stop()
	job, err := c.batched(bar)
	if err != nil {
		return err
	}
	bar.step("read")
	t, err := job.Open(optimize.Around{Stdout: e.data, Taken: e.files})
	if err != nil {
		return err
	}
	defer t.Close()
	for _, m := range t.File.Missing {
		e.say("%s: external data not found, planning without", units.Name(m))
	}
	opt, err := t.Options()
	if err != nil {
		return err
	}
	opt.Trace, opt.Printed = c.trace(e), e.messages()
	if solver != nil {
		opt.Solver, opt.SolverTime, opt.Threads = untilSignal(solver, e.signals), c.SolverFlags.Time(c.TimeLimit), c.Threads
	}
	bar.follow(&opt)
	if err := t.Plan(opt); err != nil {
		return c.infeasible(e, err)
	}
	bar.step("write")
	if c.Out != "" {
		if err := t.Write(); err != nil {
			return err
		}
	}
	if c.FrontierSVG != "" {
		if err := writeWith(c.FrontierSVG, func(w io.Writer) error { return report.FrontierPicture(w, t.Result.Plan) }); err != nil {
			return err
		}
	}
	if opt.Precision != nil && opt.Train == nil && !c.NoAccuracy {
		bar.step("compare with float32")
	}
	t.Accuracy = c.accuracy(e, t, opt)
	bar.stop()
	warn(e, t.Result.Plan.Dims, t.Result.Warnings)
	warnGivenUp(e, t.Result.GivenUp)
	optimize.TrainingNotes(e.say, t.Result)
	if err := c.print(e, t); err != nil {
		return err
	}
	return t.Gates()
}

// infeasible prints, with --json, why there is no plan below a limit.
func (c *optimizeCmd) infeasible(e *env, err error) error {
	var limit *passes.LimitError
	if !c.JSON || !errors.As(err, &limit) {
		return err
	}
	var feasible *bool // null: not known
	if limit.Impossible {
		feasible = new(bool)
	}
	if err := writeJSON(e.stdout, struct {
		LimitBytes  int64    `json:"limit_bytes"`
		Feasible    *bool    `json:"feasible"`
		PlainPeak   int64    `json:"plain_peak_bytes"`
		LowestLimit int64    `json:"lowest_limit_bytes,omitempty"`
		Node        string   `json:"node,omitempty"`
		Why         string   `json:"why,omitempty"`
		NeedBytes   int64    `json:"need_bytes,omitempty"`
		Tensors     []string `json:"tensors,omitempty"`

		Slices *slicesOfLimit `json:"slices,omitempty"`
	}{limit.LimitBytes, feasible, limit.PeakBytes, limit.LowestBytes, limit.Node, limit.Why, limit.NeedBytes, limit.Tensors, slicesOf(limit)}); err != nil {
		return err
	}
	return err
}

// slicesOfLimit is the lowest plan in slices alone that was found, and what bounds it.
type slicesOfLimit struct {
	PeakBytes  int64            `json:"peak_bytes,omitempty"`
	BoundBytes int64            `json:"lower_bound_bytes,omitempty"`
	AnyCount   *plan.SliceBound `json:"any_count,omitempty"`
	AnySlices  plan.SliceBound  `json:"any_slices"`
}

// slicesOf returns what is known of slices below a limit; nil if none were asked for.
func slicesOf(e *passes.LimitError) *slicesOfLimit {
	x := e.Slices
	if x == nil {
		return nil
	}
	out := &slicesOfLimit{PeakBytes: x.PeakBytes, BoundBytes: x.BoundBytes, AnySlices: x.AnySlices}
	if x.PeakBytes > 0 {
		out.AnyCount = &x.AnyCount
	}
	return out
}

// batched returns the job, with the largest batch if that is asked for.
func (c *optimizeCmd) batched(bar *progress) (optimize.Job, error) {
	job := c.job()
	switch {
	case c.Out == "" && !c.Frontier && !c.MaxBatch:
		return job, usagef("expected OUT, --frontier or --max-batch")
	case c.Extra != nil && c.Extra.Percent == 0:
		return job, usagef("--extra: expected a percentage such as 10%%")
	case !c.MaxBatch:
		return job, nil
	case c.Extra == nil:
		c.Extra = &units.Limit{Percent: 10}
	}
	bar.step("find the largest batch")
	name, length, err := job.MaxBatch(c.BatchDim, c.Extra.Percent)
	if err != nil {
		return job, err
	}
	c.batchName, c.batch = name, length
	job.Dim = job.Dim.With(name, length)
	return job, nil
}

// job returns the job that the command line asks for.
func (c *optimizeCmd) job() optimize.Job {
	return optimize.Job{
		In: c.In, Out: c.Out, Plan: c.Plan, Params: c.Params, ExternalData: c.ExternalData, Sync: c.Sync, InPlace: true,
		InlineFunctions: c.InlineFunctions, Workspaces: c.Workspaces, MaxArena: c.MaxArena, MaxPeak: c.MaxPeak, Tool: tool(),
		TrainFlags: c.trainFlags, LimitFlags: c.limitFlags, PlanFlags: c.PlanFlags,
	}
}

// warn reports assumed dimensions and harmless contradictions.
func warn(e *env, dims map[string]plan.Dim, warnings []string) { optimize.Notes(e.say, dims, warnings) }

// print prints the result: one JSON object, or a few lines.
func (c *optimizeCmd) print(e *env, t *optimize.Task) error {
	var out io.Writer = e.stdout
	if t.Out == "-" || t.Job.Plan == "-" {
		out = e.messages() // standard output is for the model or the plan
	}
	if c.JSON {
		o := t.Outcome()
		o.MaxBatch = c.batch
		o.Solver = optimize.SolverOf(t.Result)
		return writeJSON(out, o)
	}
	r := t.Result
	if c.MaxBatch {
		fmt.Fprintf(out, "largest batch        %s = %d, at most %g %% more time\n", units.Name(c.batchName), c.batch, c.Extra.Percent)
	}
	if c.Frontier {
		defer func() {
			fmt.Fprintln(out)
			report.Frontier(out, r.Plan)
		}()
	}
	t.Summary(out)
	if t.Out == "" {
		return nil
	}
	if t.Out != "-" {
		wrote := units.Name(t.Out) + ", " + units.Name(t.Job.Plan)
		if r.Step != nil {
			wrote += ", " + units.Name(t.Params)
		}
		fmt.Fprintf(out, "wrote                %s in %.0f ms\n", wrote, t.Times.Total)
	}
	if r.Step != nil {
		return nil
	}
	if r.Plan.Traversal != nil {
		fmt.Fprint(out, defaultHint)
		return nil
	}
	if r.Plan.Sharing.Aliases {
		fmt.Fprint(out, aliasHint)
		return nil
	}
	fmt.Fprint(out, runtimeHint)
	return nil
}

const aliasHint = `onnxmem run keeps these aliases. ONNX Runtime copies: plan for it with --runtime onnxruntime.
`

const defaultHint = `ONNX Runtime takes this order by itself: leave its execution order as it is, and turn
its graph optimizations off (ORT_DISABLE_ALL), which would change the nodes.
`

const runtimeHint = `To make ONNX Runtime follow this order: execution_order = PRIORITY_BASED and
graph_optimization_level = ORT_DISABLE_ALL. To keep its optimizations, let it save its
optimized model first (optimized_model_filepath) at ORT_ENABLE_BASIC, and plan that:
higher levels write operators that few other runtimes have, and ORT_ENABLE_ALL writes
for machines like this one alone.
`

func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	if p, ok := w.(people); ok {
		b, w = printableJSON(b), p.stream
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
	"github.com/onnxmem/onnxmem/schedule"
)

// modelFlags say what a model is taken for.
type modelFlags struct {
	Dim        map[string]int64 `placeholder:"NAME=N" help:"Length of a symbolic dimension; an unnamed one is called by its place: x[0]. May be repeated." mapsep:","`
	StrictDims bool             `help:"Refuse a model with a dimension that stays unbound, instead of taking it as 1."`
	NoInplace  bool             `help:"Write no result over an input."`
	NoViews    bool             `help:"Give every view (Reshape and its kin) storage of its own."`
}

// planFlags are the flags of every command that plans.
type planFlags struct {
	modelFlags
	Align               int64         `default:"64" placeholder:"N" help:"Alignment of offsets and sizes in bytes, a power of two (default 64)."`
	Schedule            string        `placeholder:"NAME" help:"Order strategy: ${schedules} (default: the best)."`
	Placement           string        `placeholder:"NAME" help:"Placement strategy: ${placements} (default: the best)."`
	ScheduleGoal        string        `enum:"peak,area" default:"peak" help:"Of the orders of the smallest peak: peak takes that of the smallest arena, area that of the least sum of loads."`
	KeepRandomOrder     bool          `help:"Leave random operators, and those that nobody knows, in their order among each other."`
	TimeLimit           time.Duration `placeholder:"TIME" help:"End the searches after TIME, such as 3s, with the best so far. Gives up determinism."`
	Effort              string        `enum:"fast,default,max" default:"default" help:"Work before a gap to the bound is left open: fast, default or max. Counted, not timed: same result everywhere."`
	AllowMissingWeights bool          `help:"Plan without external data that are not there."`
	DebugPasses         bool          `help:"Check the invariants between any two passes."`
	DisablePass         []string      `placeholder:"NAME" help:"Leave out an optional pass."`
	Verbose             bool          `short:"v" help:"List the passes with their times."`
	JSON                bool          `name:"json" help:"Print one JSON object on standard output, and nothing else there."`
}

var efforts = map[string]schedule.Effort{
	"fast": schedule.EffortFast, "default": schedule.EffortDefault, "max": schedule.EffortMax,
}

func (f *planFlags) options(e *env) passes.Options {
	opt := passes.Options{
		Dims: f.Dim, StrictDims: f.StrictDims, Align: f.Align, NoInplace: f.NoInplace, NoViews: f.NoViews,
		Schedule: f.Schedule, Effort: efforts[f.Effort], Placement: f.Placement,
		Goal: goals[f.ScheduleGoal], KeepRandomOrder: f.KeepRandomOrder, TimeLimit: f.TimeLimit,
		Check: f.DebugPasses, Disable: f.DisablePass,
		Tool: "onnxmem " + toolVersion(),
	}
	if f.Verbose {
		opt.Trace = func(p passes.Pass, d time.Duration) {
			fmt.Fprintf(e.stderr, "%-10s %9.3f ms  %s\n", p.Name, milliseconds(d), p.Doc)
		}
	}
	return opt
}

// optimizeCmd plans a model.
type optimizeCmd struct {
	In  string `arg:"" help:"The model; - is standard input."`
	Out string `arg:"" help:"The planned model; - is standard output and asks for --plan."`

	Plan            string `placeholder:"PATH" help:"Where the plan goes; - is standard output (default: OUT with .plan.json for .onnx)."`
	ExternalData    string `enum:"copy,link,keep" default:"copy" help:"External data when OUT lies in another folder: copy, link (hard link; onnx itself refuses to load those) or keep (do nothing)."`
	MaxArena        *size  `placeholder:"SIZE" help:"Exit with 1 when the arena is larger, such as 512KiB."`
	MaxPeak         *size  `placeholder:"SIZE" help:"Exit with 1 when the peak is larger."`
	Sync            bool   `help:"Wait until the files are on the disk."`
	Params          string `placeholder:"PATH" help:"With --train: where the first values of the parameters go (default: OUT with .params.onnx for .onnx)."`
	InlineFunctions bool   `help:"Replace calls of local functions by their bodies first, for runtimes that do so."`
	trainFlags
	planFlags
}

// Help is shown below the flags.
func (optimizeCmd) Help() string {
	return `Examples:
  onnxmem optimize resnet50.onnx planned.onnx --dim batch=8
  onnxmem optimize model.onnx planned.onnx --max-arena 512KiB --json
  onnxmem optimize --train model.onnx step.onnx --optimizer adamw --dim batch=8`
}

// Run plans and writes.
func (c *optimizeCmd) Run(e *env) error {
	began := time.Now()
	planPath, err := c.planPath()
	if err != nil {
		return err
	}
	bar := newProgress(e.stderr, len(passes.Pipeline)+2)
	defer bar.stop()
	bar.step("read")
	f, err := onnx.Open(c.In, onnx.ReadOptions{AllowMissingWeights: c.AllowMissingWeights})
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.checkOutputs(f, planPath); err != nil {
		return err
	}
	for _, m := range f.Missing {
		fmt.Fprintf(e.stderr, "onnxmem: %s: external data not found, planning without\n", units.Name(m))
	}
	read := time.Since(began)
	opt := c.planFlags.options(e)
	opt.InlineFunctions = c.InlineFunctions
	if opt.Train, err = c.trainFlags.options(); err != nil {
		return err
	}
	opt.UpdatesLast = c.Updates == "last"
	bar.follow(&opt)
	r, err := passes.Optimize(f.Model, opt)
	if err != nil {
		return err
	}
	bar.step("write")
	writing := time.Now()
	if err := c.write(f, r, planPath); err != nil {
		return err
	}
	times := timesMS{
		Read: milliseconds(read), Autodiff: c.autodiffTime(r), Infer: milliseconds(r.Times["infer"] + r.Times["share"]),
		Schedule: milliseconds(r.Times["bodies"] + r.Times["order"]), Place: milliseconds(r.Times["place"] + r.Times["annotate"]),
		Write: milliseconds(time.Since(writing)), Total: milliseconds(time.Since(began)),
	}
	bar.stop()
	warn(e, r.Plan.Dims, r.Warnings)
	warnTraining(e, r)
	if err := c.print(e, r, planPath, times); err != nil {
		return err
	}
	return c.gates(r.Plan)
}

// planPath is where the plan goes.
func (c *optimizeCmd) planPath() (string, error) {
	switch {
	case c.Plan == "-" && c.Out == "-":
		return "", &failure{exitUsage, "the planned model and the plan cannot both go to standard output"}
	case c.Plan != "":
		return c.Plan, nil
	case c.Out == "-":
		return "", &failure{exitUsage, "the planned model goes to standard output: say with --plan where the plan goes"}
	}
	return defaultPlanPath(c.Out), nil
}

// paramsPath is where the first values of the parameters go.
func (c *optimizeCmd) paramsPath() string {
	if c.Params != "" {
		return c.Params
	}
	return defaultParamsPath(c.Out)
}

// defaultPlanPath is OUT with .onnx replaced, else followed, by .plan.json.
func defaultPlanPath(out string) string { return strings.TrimSuffix(out, ".onnx") + ".plan.json" }

// write puts the model, its external data and the plan in their places, all or
// none.
func (c *optimizeCmd) write(f *onnx.File, r *passes.Result, planPath string) error {
	im, err := onnx.Encode(r.Model)
	if err != nil {
		return err
	}
	name := c.Out
	if name == "-" {
		name = "model.onnx"
	}
	r.Plan.Model = plan.ImageOf(name, im)
	text, err := r.Plan.Marshal()
	if err != nil {
		return err
	}
	var files []*atomicfile.File
	defer func() {
		for _, p := range files {
			p.Abort()
		}
	}()
	if c.Out != "-" {
		p, err := onnx.Stage(c.Out, im)
		if err != nil {
			return err
		}
		files = append(files, p)
		external, err := onnx.StageExternal(f.Model, filepath.Dir(c.Out), onnx.ExternalMode(c.ExternalData))
		if err != nil {
			return err
		}
		files = append(files, external...)
	} else if _, err := im.WriteTo(os.Stdout); err != nil {
		return err
	}
	if r.Step != nil {
		params, err := stageParams(c.paramsPath(), r.Step)
		files = append(files, params...)
		if err != nil {
			return err
		}
	}
	if planPath != "-" {
		p, err := stage(planPath, text)
		if err != nil {
			return err
		}
		files = append(files, p)
	} else if _, err := os.Stdout.Write(text); err != nil {
		return err
	}
	// Windows replaces no file that is mapped.
	if err := f.Close(); err != nil {
		return err
	}
	return atomicfile.Commit(c.Sync, files...)
}

// checkOutputs fails when an output would destroy an input or another output.
func (c *optimizeCmd) checkOutputs(f *onnx.File, planPath string) error {
	type output struct{ what, path string }
	outputs := []output{{"planned model", c.Out}, {"plan", planPath}}
	if c.Train {
		if c.Out == "-" && c.Params == "" {
			return &failure{exitUsage, "the training graph goes to standard output: say with --params where the first values of the parameters go"}
		}
		outputs = append(outputs, output{"parameters", c.paramsPath()})
	}
	for i, out := range outputs {
		what := ""
		if out.path == "-" {
			continue
		}
		for _, before := range outputs[:i] {
			if before.path != "-" && onnx.SamePath(out.path, before.path) {
				what = "the " + before.what + " goes there"
			}
		}
		switch {
		case what != "":
		case i > 0 && onnx.SamePath(out.path, c.In):
			what = "it is the input"
		case onnx.HoldsExternal(f.Model, filepath.Dir(c.Out), out.path):
			what = "it holds the model's external data"
		case i == 2 && c.Out != "-" && len(onnx.Locations(f.Model)) > 0 && filepath.Dir(out.path) != filepath.Dir(c.Out):
			what = "the external data of the parameters lie beside the planned model"
		}
		if what != "" {
			return &failure{exitUsage, fmt.Sprintf("%s: %s: expected another place for the %s", out.path, what, out.what)}
		}
	}
	return nil
}

func stage(path string, text []byte) (*atomicfile.File, error) {
	p, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	if _, err := p.Write(text); err != nil {
		p.Abort()
		return nil, err
	}
	return p, nil
}

type timesMS struct {
	Read     float64 `json:"read"`
	Autodiff float64 `json:"autodiff,omitempty"`
	Infer    float64 `json:"infer"`
	Schedule float64 `json:"schedule"`
	Place    float64 `json:"place"`
	Write    float64 `json:"write"`
	Total    float64 `json:"total"`
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// warn tells what was assumed and what contradicts without harm.
func warn(e *env, dims map[string]plan.Dim, warnings []string) {
	var assumed []string
	for name, d := range dims {
		if d.Assumed {
			assumed = append(assumed, name)
		}
	}
	sort.Strings(assumed)
	const most = 10
	for i, name := range assumed {
		if i == most {
			fmt.Fprintf(e.stderr, "onnxmem: … and %d more, listed in the plan\n", len(assumed)-most)
			break
		}
		fmt.Fprintf(e.stderr, "onnxmem: dimension %q is unbound: taken as %d (say --dim %s=N)\n", graph.Short(name), dims[name].Value, units.Name(name))
	}
	for _, w := range warnings {
		fmt.Fprintf(e.stderr, "onnxmem: %s\n", w)
	}
}

// print shows the result: as one JSON object, or in a few lines.
func (c *optimizeCmd) print(e *env, r *passes.Result, planPath string, times timesMS) error {
	out := e.stdout
	if c.Out == "-" || planPath == "-" {
		out = e.stderr // the model, or the plan, has standard output to itself
	}
	if c.JSON {
		return writeJSON(out, struct {
			plan.Summary
			Times timesMS `json:"times_ms"`
		}{r.Plan.Summary, times})
	}
	if r.Step != nil {
		printStep(out, r)
	}
	report.Summary(out, r.Plan)
	if c.Out != "-" {
		wrote := c.Out + ", " + planPath
		if r.Step != nil {
			wrote += ", " + c.paramsPath()
		}
		fmt.Fprintf(out, "wrote                %s in %.0f ms\n", wrote, times.Total)
	}
	if r.Step != nil {
		return nil
	}
	fmt.Fprint(out, runtimeHint)
	return nil
}

const runtimeHint = `To make ONNX Runtime follow this order: execution_order = PRIORITY_BASED and
graph_optimization_level = ORT_DISABLE_ALL. To keep its optimizations, let it save its
optimized model first (optimized_model_filepath) and plan that.
`

func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// gates ends with status 1 when a limit is not met.
func (c *optimizeCmd) gates(p *plan.Plan) error {
	for _, g := range []struct {
		name  string
		found int64
		most  *size
	}{{"arena", p.Summary.ArenaBytes, c.MaxArena}, {"peak", p.Summary.PeakBytes, c.MaxPeak}} {
		if g.most != nil && g.found > int64(*g.most) {
			return &failure{exitFailed, fmt.Sprintf("%s: %s is %s, expected at most %s", c.Out, g.name, units.Bytes(g.found), units.Bytes(int64(*g.most)))}
		}
	}
	return nil
}

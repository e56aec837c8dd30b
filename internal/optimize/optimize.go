// Package optimize plans one model, from its file to the planned file: a [Job]
// names the files and options, and [Job.Do] carries it out and returns an
// [Outcome]. The commands optimize and batch and the Beam pipeline use it.
//
//	flags.go     the flags of planning and training
//	limit.go     the flags of limits and of the costs of nodes
//	excludes.go  flags that exclude each other, or need others
//	optimize.go  a job, from reading to the report
//	write.go     the files that it leaves, all or none
//	folded.go    constants that were folded, in a file of their own
//	params.go    the initial values of a training step's parameters
//	maxbatch.go  the largest batch that fits a limit
//	help.go      which flags --help shows
package optimize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/files"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// Job describes the planning of one model.
type Job struct {
	In, Out      string // "-" is standard input or output; if Out is "", nothing is written
	Plan         string // file of the plan, "-" is standard output; "": beside Out
	Params       string // file of the initial values of a training step's parameters; "": beside Out
	Report       string // file of the report; "": none
	ExternalData string // copy, link, keep
	Sync         bool   // wait until the files are on the disk
	InPlace      bool   `json:",omitempty"` // Out may be In

	Workspaces        string `json:",omitempty"` // file of the workspaces that a run on a GPU recorded; "": none
	InlineFunctions   bool   // replace calls of local functions by their bodies first
	SpareDims         bool   // --dim may name dimensions that the model does not have
	MaxArena, MaxPeak *units.Size
	Tool              string // name and version for the plan
	TrainFlags
	LimitFlags
	PlanFlags
}

// Around is the environment of a job. It is separate from Job, which is sent to
// other processes.
type Around struct {
	Stdout io.Writer // used if Out or Plan is "-"

	// Taken lists the files of the command. Open adds those of the job, and
	// refuses to overwrite an input. nil: there are no others.
	Taken *files.Set
}

// UsageError reports a job that is wrong whatever the model.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// PlanPath is the default path of the plan of a model at out: [plan.Path].
func PlanPath(out string) string { return plan.Path(out) }

// SettlePlan completes the replacement of the plan at path and its model that a
// killed process left unfinished (see atomicfile.Settle).
func SettlePlan(path string) error {
	err := atomicfile.Settle(path)
	if out, ok := strings.CutSuffix(path, ".plan.json"); ok && err == nil {
		err = errors.Join(atomicfile.Settle(out+".onnx"), atomicfile.Settle(out))
	}
	return err
}

// ParamsPath is the default path of the initial parameters of a training step at
// out.
func ParamsPath(out string) string { return strings.TrimSuffix(out, ".onnx") + ".params.onnx" }

// ReportPath is the default path of the report of a model at out.
func ReportPath(out string) string { return strings.TrimSuffix(out, ".onnx") + ".report.html" }

// Check finds options that are wrong whatever the model: it plans a small network
// with them.
func (j Job) Check() error {
	m, err := models.Build("mobilenet_v1", models.Options{Set: map[string]string{"width": "0.25", "size": "32", "classes": "2"}})
	if err != nil {
		return err
	}
	t := &Task{Job: j, File: &onnx.File{Model: m}}
	opt, err := t.Options()
	if err != nil {
		return err
	}
	var wrong *passes.OptionError
	opt.NoVerify = true
	if err := t.Plan(opt); errors.As(err, &wrong) {
		return wrong
	}
	return nil // any other error depends on the model
}

// Files lists the outputs of a job, except external data.
func (j Job) Files() []string {
	files := []string{j.Out, j.Plan}
	if j.Plan == "" {
		files[1] = PlanPath(j.Out)
	}
	if j.Train && j.Params == "" {
		files = append(files, ParamsPath(j.Out))
	} else if j.Train {
		files = append(files, j.Params)
	}
	if j.Report != "" {
		files = append(files, j.Report)
	}
	return files
}

// Task is a job whose model has been read.
type Task struct {
	Job
	Around
	File   *onnx.File
	Result *passes.Result // after Plan
	// Accuracy is that of a model in 16 bits, if the caller has compared it.
	Accuracy *Accuracy
	Times    Times
	began    time.Time
}

// Open checks the job and reads its model. The caller closes the task.
func (j Job) Open(a Around) (*Task, error) {
	t := j.task(a)
	switch {
	case t.Job.Plan == "-" && t.Out == "-":
		return nil, &UsageError{"the planned model and the plan cannot both go to standard output"}
	case t.Job.Plan != "" || t.Out == "":
	case t.Out == "-":
		return nil, &UsageError{"the planned model goes to standard output: say with --plan where the plan goes"}
	default:
		t.Job.Plan = PlanPath(t.Out)
	}
	if t.Params == "" {
		if t.Train && t.Out == "-" {
			return nil, &UsageError{"the training graph goes to standard output: say with --params where the first values of the parameters go"}
		}
		t.Params = ParamsPath(t.Out)
	}
	var err error
	if t.File, err = onnx.Open(t.In, onnx.ReadOptions{AllowMissingWeights: t.AllowMissingWeights}); err != nil {
		return nil, err
	}
	if err := t.checkFiles(); err != nil {
		t.Close()
		return nil, err
	}
	t.Times.Read = Milliseconds(time.Since(t.began))
	return t, nil
}

// With returns the task for a model that the caller has read. Its paths need not be those of
// files; nothing is opened.
func (j Job) With(f *onnx.File) *Task {
	t := j.task(Around{})
	t.File = f
	t.Job.Plan, t.Params = PlanPath(t.Out), ParamsPath(t.Out)
	return t
}

func (j Job) task(a Around) *Task { return &Task{Job: j, Around: a, began: time.Now()} }

// Close ends the reading of the model.
func (t *Task) Close() error { return t.File.Close() }

// Options returns the options of the passes for the job.
func (t *Task) Options() (passes.Options, error) {
	opt := t.PlanFlags.Options()
	opt.InlineFunctions, opt.SpareDims = t.InlineFunctions, t.SpareDims
	opt.UpdatesLast = t.Updates == "last"
	opt.Tool = t.Tool
	var err error
	if t.Workspaces != "" {
		if opt.Workspaces, err = readWorkspaces(t.Workspaces); err != nil {
			return opt, err
		}
	}
	if opt.Train, err = t.Training(); err != nil {
		return opt, err
	}
	opt.Attention = t.Attention && opt.Train == nil
	if opt.LoRA, err = t.Adapters(); err != nil {
		return opt, err
	}
	if err := t.precision(&opt); err != nil {
		return opt, err
	}
	if err := t.Limits(&opt); err != nil {
		return opt, err
	}
	return opt, Refuse(&opt, &t.TrainFlags, &t.LimitFlags, &t.PlanFlags)
}

// Plan plans the model.
func (t *Task) Plan(opt passes.Options) (err error) {
	if t.Result, err = passes.Optimize(context.Background(), t.File.Model, opt); err != nil {
		if errors.As(err, new(*passes.RefusedError)) {
			err = fmt.Errorf("%s: %w", units.Name(t.In), err)
		}
		return err
	}
	spent := t.Result.Times
	if t.Result.Step != nil {
		t.Times.Autodiff = Milliseconds(spent["train"])
	}
	t.Times.Infer = Milliseconds(spent["infer"] + spent["share"])
	t.Times.Schedule = Milliseconds(spent["bodies"] + spent["range"] + spent["order"] + spent["limit"])
	t.Times.Place = Milliseconds(spent["place"] + spent["annotate"])
	t.Times.Verify = Milliseconds(spent["verify"])
	return nil
}

// Do carries out a job. If a limit is not met, that is an error, but the files
// are written and the outcome is returned.
func (j Job) Do() (_ *Outcome, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	t, err := j.Open(Around{})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	opt, err := t.Options()
	if err != nil {
		return nil, err
	}
	if err := t.Plan(opt); err != nil {
		return nil, err
	}
	if err := t.Write(); err != nil {
		return nil, err
	}
	return t.Outcome(), t.Gates()
}

// Outcome describes a planned model: the object that --json prints.
type Outcome struct {
	plan.Summary
	Process  int64                `json:"process_estimate_bytes,omitempty"` // what `onnxmem run` takes at most; 0: not planned for it
	Frontier []plan.FrontierPoint `json:"frontier,omitempty"`
	MaxBatch int64                `json:"max_batch,omitempty"`    // with --max-batch
	Assumed  map[string]int64     `json:"assumed_dims,omitempty"` // unbound dimensions and the lengths they were taken as

	// Of a plan for ranges of dimensions: all points, those that the model refuses, those
	// whose arena is their lower bound, and the largest arena / bound.
	Points        int     `json:"points,omitempty"`
	Refused       int     `json:"refused_points,omitempty"`
	OptimalPoints int     `json:"optimal_points,omitempty"`
	WorstRatio    float64 `json:"worst_ratio,omitempty"`
	SmallestArena int64   `json:"smallest_arena_bytes,omitempty"`

	// With Job.SpareDims: names in --dim and --value that bind nothing in this model.
	SpareDims   []string `json:"spare_dims,omitempty"`
	SpareValues []string `json:"spare_values,omitempty"`

	// If constants were folded: the figures without. If --fold any would save more than
	// 5 %: the figures with it.
	UnfoldedPeak  int64 `json:"unfolded_peak_bytes,omitempty"`
	UnfoldedTotal int64 `json:"unfolded_total_bytes,omitempty"`
	FoldAnyPeak   int64 `json:"fold_any_peak_bytes,omitempty"`
	FoldAnyTotal  int64 `json:"fold_any_total_bytes,omitempty"`

	// If scores of attention lie at the peak, and --attention would save more than 5 %: the peak with it; of a
	// training step, the weights of attention at the peak.
	AttentionPeak int64 `json:"attention_peak_bytes,omitempty"`
	AttentionKept int64 `json:"attention_kept_bytes,omitempty"`

	Training *Training `json:"training,omitempty"` // with --train

	WorkspaceNodes  int    `json:"workspace_nodes,omitempty"`  // with recorded workspaces: how many steps have one
	WorkspaceDevice string `json:"workspace_device,omitempty"` // and where they were recorded

	Solver *SolverJSON `json:"solver,omitempty"` // with --solver

	Accuracy *Accuracy `json:"accuracy,omitempty"` // with --precision

	// Features without which the model was planned, since the plan with them was not valid.
	GivenUp []passes.GivenUp `json:"given_up,omitempty"`

	Times Times `json:"times_ms"`
}

// Training says what a training step trains.
type Training struct {
	Parameters int              `json:"parameters"`
	Trained    []autodiff.Count `json:"trained"`
	NotTrained []autodiff.Count `json:"not_trained,omitempty"`
	Tied       []autodiff.Tie   `json:"tied,omitempty"`      // parameters that several nodes read
	Separated  []string         `json:"separated,omitempty"` // those that --untie separated
	Copies     int              `json:"copies,omitempty"`    // initializers that the model did not have
}

// Outcome describes the planned model, after Write.
func (t *Task) Outcome() *Outcome {
	o := &Outcome{Summary: t.Result.Plan.Summary, Frontier: t.Result.Plan.Frontier, Times: t.Times}
	o.Process = ProcessBytes(t.Result.Plan)
	o.GivenUp = t.Result.GivenUp
	if o.Accuracy = t.Accuracy; o.Accuracy == nil && t.Result.Plan.Precision != nil && !t.Train {
		o.Accuracy = &Accuracy{Skipped: "onnxmem optimize compares, on one model"}
	}
	o.SpareDims, o.SpareValues = t.Result.Spare.Dims, t.Result.Spare.Values
	for name, d := range t.Result.Plan.Dims {
		if !d.Assumed {
			continue
		}
		if o.Assumed == nil {
			o.Assumed = map[string]int64{}
		}
		o.Assumed[name] = d.Value
	}
	if r := t.Result.Plan.Ranges; r != nil {
		o.Points, o.Refused, o.OptimalPoints, o.WorstRatio, o.SmallestArena = r.Points, r.Refused, r.OptimalPoints, r.Worst.Ratio(), r.Smallest.ArenaBytes
	}
	if f := t.Result.Plan.Folded; f != nil {
		o.UnfoldedPeak, o.UnfoldedTotal = f.UnfoldedPeakBytes, f.UnfoldedTotalBytes
	}
	if s := t.Result.Step; s != nil {
		o.Training = &Training{len(s.Parameters), s.Trained, s.NotTrained, s.Tied, s.Separated, len(s.Copies)}
	}
	if w := t.Result.Plan.Workspaces; w != nil {
		o.WorkspaceNodes, o.WorkspaceDevice = len(w.Nodes), w.Device
	}
	if h := t.Result.FoldHint; h != nil {
		o.FoldAnyPeak, o.FoldAnyTotal = h.PeakBytes, h.TotalBytes
	}
	if h := t.Result.AttentionHint; h != nil {
		o.AttentionPeak, o.AttentionKept = h.PeakBytes, h.KeptBytes
	}
	return o
}

// Times are the durations of the parts of a job, in milliseconds of wall clock.
type Times struct {
	Read     float64 `json:"read"`
	Autodiff float64 `json:"autodiff,omitempty"`
	Infer    float64 `json:"infer"`
	Schedule float64 `json:"schedule"`
	Place    float64 `json:"place"`
	Verify   float64 `json:"verify"` // 0 with PlanFlags.NoVerify
	Write    float64 `json:"write"`
	Total    float64 `json:"total"`
}

// Milliseconds is a duration for people and for JSON.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

// Gates fails if a limit is not met.
func (t *Task) Gates() error {
	s := t.Result.Plan.Summary
	for _, g := range []struct {
		name  string
		found int64
		most  *units.Size
	}{{"arena", s.ArenaBytes, t.MaxArena}, {"peak", s.PeakBytes, t.MaxPeak}} {
		if g.most != nil && g.found > int64(*g.most) {
			return fmt.Errorf("%s: %s is %s, expected at most %s", t.Out, g.name, units.Bytes(g.found), units.Bytes(int64(*g.most)))
		}
	}
	return nil
}

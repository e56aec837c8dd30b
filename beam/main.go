// Command onnxmem-beam plans a zoo of models with Apache Beam: on this machine
// (Prism, the default), or on Flink, Spark or Dataflow.
//
//	onnxmem-beam [flags of Beam] IN... OUT [flags]
//
// It is "onnxmem batch" for models on any of Beam's file systems, with the same
// results, journal and exit statuses. See docs/zoo.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/s3"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/onnxmem/onnxmem/beam/zoo"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
)

// version is set when the binary is built by make.
var version = ""

// The exit statuses are those of onnxmem.
const (
	exitFailed = 1
	exitUsage  = 2
)

// command is the command line after Beam's flags.
type command struct {
	In []string `arg:"" help:"Patterns of models; last, the folder for the plans. On any of Beam's file systems: a path, gs://, s3://."`

	List            string        `group:"input" placeholder:"FILE" help:"File with the path of one model per line. The workers read it. The result of gs://zoo/a.onnx is OUT/zoo/a.onnx."`
	ModelTime       time.Duration `group:"machine" placeholder:"TIME" help:"Time for one model, such as 5m. A model that takes longer fails. Default: no limit."`
	Reports         bool          `group:"output" default:"true" negatable:"" help:"Write a report beside each plan."`
	ExternalData    string        `group:"output" enum:"copy,keep" default:"copy" help:"External data: copy, or keep (do nothing)."`
	MaxArena        *units.Size   `group:"output" placeholder:"SIZE" help:"A model with a larger arena fails."`
	MaxPeak         *units.Size   `group:"output" placeholder:"SIZE" help:"A model with a larger peak fails."`
	InlineFunctions bool          `group:"model" seldom:"" help:"Replace calls of local functions by their bodies first."`
	optimize.TrainFlags
	optimize.LimitFlags
	optimize.PlanFlags

	Version kong.VersionFlag `help:"Print the version."`
}

// Help is the text below the flags.
func (command) Help() string {
	return `Beam's flags come first: --runner flink --endpoint HOST:PORT, --runner dataflow --project ...;
--beam-help lists them. OUT/.journal has a line for each model: a second run plans only the models
that changed, failed or were interrupted. At the end, OUT has journal.jsonl, results.csv and index.html.

Examples:
  onnxmem-beam 'zoo/*.onnx' planned --dim batch=8
  onnxmem-beam --runner dataflow --project P --region R --staging_location gs://b/staging \
    'gs://b/zoo/**.onnx' gs://b/planned`
}

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) == 2 && os.Args[1] == batch.WorkerArg {
		return batch.Serve(os.Stdin, os.Stdout)
	}
	own := ownArgs()
	beam.Init() // in a runner's worker, it does not return
	c, status := parse(own)
	if c == nil {
		return status
	}
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "onnxmem-beam:", units.OneLine(err))
		var usage *optimize.UsageError
		if errors.As(err, &usage) {
			return exitUsage
		}
		return exitFailed
	}
	return 0
}

// ownArgs parses Beam's flags and returns the arguments after them.
func ownArgs() []string {
	beamHelp := flag.Bool("beam-help", false, "List the flags of Beam.")
	own := split(os.Args[1:], flag.Lookup)
	_ = flag.CommandLine.Parse(os.Args[1 : len(os.Args)-len(own)]) // exits on an error
	if *beamHelp {
		flag.CommandLine.SetOutput(os.Stdout)
		flag.PrintDefaults()
		os.Exit(0)
	}
	return own
}

// split returns the arguments from the first one that is neither a flag of Beam nor
// the value of one.
func split(args []string, lookup func(name string) *flag.Flag) []string {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return args[i+1:]
		}
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		f := lookup(name)
		if !strings.HasPrefix(args[i], "-") || f == nil {
			return args[i:]
		}
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); !hasValue && !(ok && b.IsBoolFlag()) {
			i++
		}
	}
	return nil
}

// parse parses the arguments after Beam's flags. If there is nothing left to do, as
// after --help or an error, it returns nil and the exit status.
func parse(args []string) (*command, int) {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	args, help := optimize.Help(args)
	var c command
	exited, status := false, 0
	parser, err := kong.New(&c,
		kong.Name("onnxmem-beam"),
		kong.Description("Plan a zoo of models with Apache Beam."),
		kong.Vars{"version": toolVersion()}, kong.Vars(optimize.Vars()),
		kong.Exit(func(n int) { exited, status = true, n }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), help,
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "onnxmem-beam:", err)
		return nil, exitFailed
	}
	_, err = parser.Parse(args)
	switch {
	case exited:
		return nil, status
	case err != nil:
		fmt.Fprintln(os.Stderr, "onnxmem-beam:", optimize.WrongLine("onnxmem-beam", err))
		return nil, exitUsage
	}
	return &c, 0
}

// zoo returns the work that the command line requests.
func (c *command) zoo() (zoo.Zoo, error) {
	last := len(c.In) - 1
	z := zoo.Zoo{
		Patterns: c.In[:last], List: c.List, Out: c.In[last], Reports: c.Reports, ModelTime: c.ModelTime,
		Job: optimize.Job{
			ExternalData: c.ExternalData, MaxArena: c.MaxArena, MaxPeak: c.MaxPeak, InlineFunctions: c.InlineFunctions, SpareDims: true,
			Tool: "onnxmem " + toolVersion(), TrainFlags: c.TrainFlags, LimitFlags: c.LimitFlags, PlanFlags: c.PlanFlags,
		},
	}
	if len(z.Patterns) == 0 && z.List == "" {
		return z, &optimize.UsageError{Text: "expected IN and OUT, or --list and OUT (see onnxmem-beam --help)"}
	}
	if err := z.Job.Check(); err != nil {
		return z, &optimize.UsageError{Text: err.Error()}
	}
	return z, nil
}

// run runs the pipeline and prints a summary.
func (c *command) run(ctx context.Context) error {
	z, err := c.zoo()
	if err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	if err := z.Build(ctx, s); err != nil {
		return err
	}
	result, err := beamx.RunWithMetrics(ctx, p)
	if err != nil {
		return err
	}
	if *jobopts.Async {
		fmt.Println("submitted: the results will be in", z.Out)
		return nil
	}
	t, err := z.Table(ctx)
	if err != nil {
		return err
	}
	t.Ran = zoo.Ran(result)
	t.Print(os.Stdout)
	fmt.Printf("wrote                %s: index.html, results.csv, %s\n", z.Out, zoo.Journal)
	if t.Failed() > 0 {
		return fmt.Errorf("%d of %d models failed", t.Failed(), t.Models())
	}
	return nil
}

// toolVersion returns the version that make or go install put into the binary.
func toolVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

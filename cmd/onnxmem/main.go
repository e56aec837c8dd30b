// Command onnxmem plans the memory of neural networks in ONNX files.
//
//	onnxmem optimize in.onnx out.onnx    plan a model, write it and out.plan.json
//	onnxmem inspect model.onnx           describe a model
//	onnxmem compare FILE                 compare all strategies
//	onnxmem order problem.json           order the nodes of a bare problem
//	onnxmem pack buffers.csv             place buffers, draw the placement
//	onnxmem verify out.onnx              check a plan against its model
//	onnxmem report FILE                  show a plan in one HTML page
//	onnxmem explain FILE                 explain why the peak is what it is
//	onnxmem fit model.onnx               say on which devices it fits, and what would help
//	onnxmem check FILE                   compare a plan with limits, for CI
//	onnxmem diff A B                     list the changes between two plans
//	onnxmem export --to FORMAT FILE      write a plan in a format of other tools
//	onnxmem run out.onnx                 run a planned model inside its arena
//	onnxmem batch IN OUT                 plan all models below a folder
//	onnxmem model [NAME out.onnx]        list the built-in networks, or write one
//
// Results go to standard output, everything else to standard error. The exit
// status is 0 for success, 1 if the work failed, 2 if the command line was wrong,
// 3 if the input was refused.
//
// main.go holds the list of commands; each command is a struct with its flags and
// a Run method, in a file of its name. source.go reads or makes the plan for
// commands that take a FILE.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ilp/solvers"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/internal/files"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// version is set when the binary is built by make.
var version = ""

// Exit statuses.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// cli is the command line.
type cli struct {
	Optimize   optimizeCmd   `cmd:"" help:"Plan a model: write it in the planned order, and its plan."`
	Inspect    inspectCmd    `cmd:"" help:"Describe a model: operators, sizes, dimensions, peak."`
	Report     reportCmd     `cmd:"" help:"Show a plan: an HTML page, pictures, or in the terminal."`
	Explain    explainCmd    `cmd:"" help:"Explain why the peak is what it is, and what would lower it."`
	Fit        fitCmd        `cmd:"" help:"Say on which devices a model fits, the largest batch, what helps."`
	Verify     verifyCmd     `cmd:"" help:"Check a plan against its model, trusting nothing."`
	Check      checkCmd      `cmd:"" help:"Compare a plan with limits or an older plan, for CI."`
	Diff       diffCmd       `cmd:"" help:"List the changes between two plans, and what moved the peak."`
	Export     exportCmd     `cmd:"" help:"Write a plan for Perfetto, C, MiniMalloc, PyTorch's viewer."`
	Batch      batchCmd      `cmd:"" help:"Plan all models below a folder, in parallel, resumable."`
	Run        runCmd        `cmd:"" help:"Run a planned model inside its arena, check its results."`
	Compare    compareCmd    `cmd:"" help:"Compare all order and placement strategies."`
	Order      orderCmd      `cmd:"" help:"Order the nodes of a bare problem: sizes and precedence."`
	Pack       packCmd       `cmd:"" help:"Place the buffers of a CSV, or of a recording of allocations."`
	Merge      mergeCmd      `cmd:"" help:"Add adapters to the weights of a model."`
	Model      modelCmd      `cmd:"" help:"List the built-in networks, or write one."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`

	FullNames bool             `help:"Print names of any length in full; without it, their middle is cut out at 200 characters."`
	Version   kong.VersionFlag `help:"Print the version."`
}

// env holds the output streams and other things that commands share.
type env struct {
	stdout  people    // results
	data    *stream   // the same, for data in a format
	stderr  io.Writer // the line that shows progress, on a terminal only; messages go through say
	app     *kong.Application
	files   *files.Set // files that the command reads and writes
	signals *signals
}

// failure is an error with an exit status of its own. If the text is empty,
// nothing is printed: the command has already reported it.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

// usagef is the failure of a command line that is wrong whatever the files
// contain; [conclude] adds a reference to --help.
func usagef(format string, args ...any) error {
	return &optimize.UsageError{Text: fmt.Sprintf(format, args...)}
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the command line without ending the process.
func run(args []string, stdout, stderr io.Writer) (status int) {
	// A panic, which is a bug, becomes one line for the user. So does a fault in
	// a mapped file.
	debug.SetPanicOnFault(true)
	defer func() {
		if r := recover(); r != nil {
			status = conclude(stderr, "", bug.Recovered("", r))
		}
	}()
	if len(args) == 1 && args[0] == batch.WorkerArg {
		return batch.Serve(os.Stdin, stdout)
	}
	if len(args) > 0 && args[0] == solvers.ProcessArg {
		return solvers.Serve(os.Stdin, args[1:])
	}
	atomicfile.Notice = func(line string) { fmt.Fprintln(stderr, "onnxmem:", line) }
	signals := &signals{stderr: stderr}
	defer signals.watch()()
	out := &stream{Writer: stdout, name: "standard output"}
	command, err := dispatch(args, out, stderr, signals)
	if failed := out.failed(); failed != nil {
		err = failed
	}
	if command == nil {
		return conclude(stderr, "", err)
	}
	status = conclude(stderr, command.FullPath(), err)
	if err != nil {
		printError(out, stderr, command, status, err)
	}
	return status
}

// dispatch runs the command that args name, and returns it; nil if they name none.
func dispatch(args []string, stdout *stream, stderr io.Writer, signals *signals) (command *kong.Node, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	if len(args) == 0 {
		args = []string{"--help"}
	}
	args, help := optimize.Help(args)
	c := commandLine(args[0])
	ended, status := false, 0
	parser, err := newParser(c, help, kong.Writers(stdout, stderr), kong.Exit(func(n int) { ended, status = true, n }))
	if err != nil {
		return nil, err
	}
	k, err := parser.Parse(args)
	switch {
	case ended && status == 0: // --help, --version
		return nil, nil
	case ended:
		return nil, &failure{status: status}
	}
	if file := (*graph.Error)(nil); errors.As(err, &file) { // of a flag whose value is in a file
		return nil, file
	}
	if err != nil {
		return nil, &failure{exitUsage, optimize.WrongLine("onnxmem", err)}
	}
	printable.ShowFull(reflect.ValueOf(c).Elem().FieldByName("FullNames").Bool())
	command = k.Selected()
	named, err := namedFiles(command)
	if err != nil {
		return command, err
	}
	return command, k.Run(&env{people{stdout}, stdout, stderr, parser.Model, named, signals})
}

// commandLine returns what a parser reads a command line into, by its first argument: a cli
// or, if that is a command, a struct with the fields of cli but for the other commands. The
// parser of all commands takes 10 to 20 ms to build, for which every run of the program would wait.
func commandLine(first string) any {
	all := reflect.TypeFor[cli]()
	var fields []reflect.StructField
	found := false
	for i := range all.NumField() {
		f := all.Field(i)
		if _, command := f.Tag.Lookup("cmd"); command {
			if strings.ToLower(f.Name) != first {
				continue
			}
			found = true
		}
		fields = append(fields, f)
	}
	if !found || first == "completion" { // which is about all commands
		return &cli{}
	}
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// newParser returns a parser of command lines into c.
func newParser(c any, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(append(options, unchangedText...),
		kong.Name("onnxmem"),
		kong.Description("Make neural networks need less memory, and prove it."),
		kong.Vars{"version": toolVersion(), "exports": strings.Join(exportNames(), ",")},
		kong.Vars(optimize.Vars()),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, Summary: false, WrapUpperBound: 100}),
	)...)
}

// conclude prints the error of a command and returns the exit status.
func conclude(stderr io.Writer, command string, err error) int {
	if err == nil {
		return 0
	}
	atomicfile.AbortAll()
	var (
		stream   *streamError
		f        *failure
		b        *bug.Error
		refused  *graph.Error
		option   *passes.OptionError
		usage    *optimize.UsageError
		conflict *files.Conflict
		invalid  *passes.RefusedError
	)
	if errors.As(err, &stream) && isClosedPipe(err) {
		endOfPipe()
	}
	switch {
	case errors.As(err, &invalid):
		reportRefused(stderr, err)
		return exitFailed
	case errors.As(err, &b):
		reportBug(stderr, err, b)
		return exitFailed
	case errors.As(err, &f):
		if f.text != "" {
			fmt.Fprintln(stderr, "onnxmem:", units.OneLine(err))
		}
		return f.status
	case errors.As(err, &option), errors.As(err, &usage), errors.As(err, &conflict):
		fmt.Fprintf(stderr, "onnxmem: %s (see %s --help)\n", units.OneLine(err), command)
		return exitUsage
	case errors.As(err, &refused):
		fmt.Fprintln(stderr, units.OneLine(err))
		return exitRefused
	}
	fmt.Fprintln(stderr, "onnxmem:", units.OneLine(err))
	return exitFailed
}

// toolVersion is the version that make or go install set in the binary.
func toolVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// tool is the name of this program in plans.
func tool() string { return "onnxmem " + toolVersion() }

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/term"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// reportCmd shows a plan.
type reportCmd struct {
	File string `arg:"" optional:"" in:"the input" help:"A plan, a planned model or a model; - is standard input. The plan of a planned model is verified first; a model is planned for the report, not written."`

	Out  string `group:"output" short:"o" out:"the report" placeholder:"PATH" help:"File to write; - is standard output. Default: FILE with .report.html, or .report.svg, for .plan.json or .onnx; with --text: standard output."`
	Open bool   `group:"output" help:"Open it in the browser."`
	SVG  bool   `group:"output" name:"svg" xor:"form" help:"Only the two pictures, as one SVG."`
	Text bool   `group:"output" xor:"form" help:"The load curve and the summary, for a terminal."`
	traceFlags
	sourceFlags
}

// Help is the text below the flags.
func (reportCmd) Help() string {
	return `One self-contained HTML page: the load over the steps in program order and in planned
order, the arena as a map, the buffers at the peak, a search field.

Examples:
  onnxmem report out.plan.json --open
  onnxmem report model.onnx --dim batch=8 --text
  onnxmem report --trace recording.jsonl -o recording.html`
}

// Run makes the report.
func (c *reportCmd) Run(e *env) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	e.files.Writes("the report", path)
	if c.Trace != "" {
		return c.runTrace(e, path)
	}
	s, err := c.openSingle(e, c.File)
	if err != nil {
		return err
	}
	defer s.close()
	var text bytes.Buffer
	if err := c.write(&text, s, path == "-" && colours(e.data.Writer)); err != nil {
		return err
	}
	if wrote, err := c.save(e, path, text.Bytes()); err != nil || !wrote {
		return err
	}
	if err := c.print(e, s.plan, path, text.Len()); err != nil {
		return err
	}
	if c.Open {
		return show(path)
	}
	return nil
}

// save writes the report to its file; wrote is false if it went to standard output.
func (c *reportCmd) save(e *env, path string, text []byte) (wrote bool, err error) {
	if path == "-" {
		_, err := e.data.Write(text)
		return false, err
	}
	f, err := optimize.Stage(path, text)
	if err != nil {
		return false, err
	}
	return true, f.Commit(false)
}

// path is the file of the report.
func (c *reportCmd) path() (string, error) {
	path, file := c.Out, c.File
	if c.Trace != "" {
		file = c.Trace
	}
	switch {
	case (c.File == "") == (c.Trace == ""):
		return "", usagef("expected a FILE, or a recording with --trace, found %s", map[bool]string{true: "neither", false: "both"}[c.Trace == ""])
	case c.Trace == "" && c.TraceDevice != "":
		return "", usagef("--trace-device: expected a recording with --trace")
	case c.Trace != "" && (c.PlanPath != "" || len(c.At) > 0 || c.Limit != nil || c.Binds() != ""):
		return "", usagef("--trace: expected no flags about a model")
	case path == "" && c.Text:
		path = "-"
	case path == "" && file == "-":
		return "", usagef("FILE is standard input: expected -o with the file for the report")
	case path == "":
		path = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(file, ".gz"), ".plan.json"), ".onnx") + ".report.html"
		if c.SVG {
			path = strings.TrimSuffix(path, ".html") + ".svg"
		}
	}
	switch {
	case path == "-" && c.Open:
		return "", usagef("the report goes to standard output: --open needs a file")
	case path == "-" && c.JSON:
		return "", usagef("the report and --json cannot both go to standard output")
	}
	return path, nil
}

// write writes the report in the requested form.
func (c *reportCmd) write(w io.Writer, s *source, colour bool) error {
	switch {
	case c.Text:
		report.TextCurve(w, s.plan, columns(), colour)
		report.Summary(w, s.plan)
	case c.SVG:
		return report.Pictures(w, s.plan)
	default:
		if err := report.Page(w, s.plan, string(s.trust)); err != nil {
			return &graph.Error{File: s.name, Offset: -1, Err: err}
		}
	}
	return nil
}

// print reports the file that was written.
func (c *reportCmd) print(e *env, p *plan.Plan, path string, bytes int) error {
	if c.JSON {
		return writeJSON(e.stdout, struct {
			plan.Summary
			Report string `json:"report"`
			Bytes  int    `json:"report_bytes"`
		}{p.Summary, path, bytes})
	}
	report.Summary(e.stdout, p)
	fmt.Fprintf(e.stdout, "wrote                %s\n", units.Name(path))
	return nil
}

// columns is the width of the terminal, 100 if there is none.
func columns() int {
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
		return w
	}
	return 100
}

// colours reports whether a stream shows colours.
func colours(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// show opens a file in the browser.
func show(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	cmd := exec.Command("xdg-open", path)
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", path)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", path)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: written, but not opened: %w", path, err)
	}
	return nil
}

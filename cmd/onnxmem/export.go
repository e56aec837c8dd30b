package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/report"
)

// exportCmd writes a plan in a format of other tools.
type exportCmd struct {
	File string `arg:"" in:"the input" help:"A plan, a planned model (its plan is verified first) or a model (planned for the export, not written); - is standard input."`

	To  string `required:"" enum:"${exports}" placeholder:"FORMAT" help:"perfetto: a trace, lifetimes as slices and the load as a counter. c-header: C99, an offset for each tensor. csv: MiniMalloc's. memory-viz: PyTorch's snapshot."`
	Out string `short:"o" default:"-" out:"the export" placeholder:"PATH" help:"The file to write (default: standard output)."`
	sourceFlags
}

// Help is the text below the flags.
func (exportCmd) Help() string {
	return `Examples:
  onnxmem export --to perfetto out.plan.json -o out.trace.json
  onnxmem export --to c-header out.plan.json -o plan.h`
}

// exportNames lists the formats for --to.
func exportNames() (names []string) {
	for _, x := range report.Exports {
		names = append(names, x.Name)
	}
	return names
}

// Run reads or makes the plan, and writes it.
func (c *exportCmd) Run(e *env) error {
	if c.JSON && c.Out == "-" {
		return usagef("the export and --json cannot both go to standard output")
	}
	s, err := c.openSingle(e, c.File)
	if err != nil {
		return err
	}
	defer s.close()
	var text bytes.Buffer
	k := slices.Index(exportNames(), c.To)
	if err := report.Exports[k].Write(&text, s.plan); err != nil {
		return &graph.Error{File: s.name, Offset: -1, Err: err}
	}
	if c.Out == "-" {
		_, err := io.Copy(e.data, &text)
		return err
	}
	n := text.Len()
	f, err := optimize.Stage(c.Out, text.Bytes())
	if err != nil {
		return err
	}
	if err := f.Commit(false); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(e.stdout, struct {
			Format string `json:"format"`
			Path   string `json:"path"`
			Bytes  int    `json:"bytes"`
		}{c.To, c.Out, n})
	}
	fmt.Fprintf(e.stdout, "wrote %s: %s\n", units.Name(c.Out), report.Exports[k].Doc)
	return nil
}

package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// exportCmd writes a plan in a format of other tools.
type exportCmd struct {
	File string `arg:"" in:"the input" help:"A plan, a planned model or a model; - is standard input. The plan of a planned model is verified first; a model is planned for the export, not written."`

	To  string `group:"output" required:"" enum:"${exports}" placeholder:"FORMAT" help:"Format: ${exports}. perfetto: a trace, lifetimes as slices and the load as a counter. c-header: C99, pool and offset of each tensor, operands of each step. csv: MiniMalloc's. memory-viz: PyTorch's snapshot."`
	Out string `group:"output" short:"o" default:"-" out:"the export" placeholder:"PATH" help:"File to write. Default: standard output."`

	Buckets  optimize.Dims `group:"output" placeholder:"NAME=N,N" help:"With c-header and ranges: tables for lengths. Each constant table serves all smaller lengths, too."`
	MaxWaste *percent      `group:"output" placeholder:"PERCENT" help:"With c-header and ranges: fewest such tables. For a range of one dimension: the arena of each exceeds the lower bound of each length by at most that, such as 25%."`
	sourceFlags
}

// Help is the text below the flags.
func (exportCmd) Help() string {
	return `Examples:
  onnxmem export --to perfetto out.plan.json -o out.trace.json
  onnxmem export --to c-header out.plan.json -o plan.h
  onnxmem export --to c-header bert.plan.json --buckets sequence=64,128,256,512 -o bert.h`
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
	bucketed := len(c.Buckets) > 0 || c.MaxWaste != nil
	switch {
	case bucketed && c.To != "c-header":
		return usagef("--buckets and --max-waste need --to c-header")
	case bucketed && len(c.At) > 0, len(c.Buckets) > 0 && c.MaxWaste != nil:
		return usagef("expected at most one of --buckets, --max-waste and --at")
	}
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
	switch m := s.model; {
	case c.To == "c-header":
		if m == nil {
			beside := s.modelBeside()
			if beside != nil {
				defer beside.Close()
				m = beside.Model
			}
		}
		if bucketed {
			err = c.buckets(e, &text, s, m)
		} else {
			err = report.CHeaderOf(&text, s.plan, m, nil)
		}
	default:
		err = report.Exports[k].Write(&text, s.plan)
	}
	if err != nil {
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

// modelBeside opens the planned model that lies beside a plan. It returns nil if there is
// none, or another than the plan's.
func (s *source) modelBeside() *onnx.File {
	name := s.plan.Model.File
	if s.name == "standard input" || name == "" || name != filepath.Base(name) {
		return nil
	}
	f, err := onnx.Open(filepath.Join(filepath.Dir(s.name), name), onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return nil
	}
	if plan.SourceOf(f.Model).GraphSHA256 != s.plan.Model.GraphSHA256 {
		f.Close()
		return nil
	}
	return f
}

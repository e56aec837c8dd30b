package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// verifyCmd checks a plan.
type verifyCmd struct {
	Model string `arg:"" in:"the model" help:"The planned model; - is standard input."`
	Plan  string `arg:"" optional:"" in:"the plan" help:"Its plan (default: MODEL with .plan.json for .onnx)."`

	Replay              bool   `group:"checks" help:"If the bound rests on a search, repeat it. Another method takes up to a minute or so."`
	Source              string `group:"checks" in:"the model that was planned" placeholder:"FILE" help:"The model that was planned. Checks source and program_order. Default: the file that the plan names, beside MODEL, if it is the same."`
	AllowMissingWeights bool   `group:"checks" help:"Accept missing external data."`
	Proof               string `group:"output" placeholder:"DIR" help:"Write proofs for other checkers. The folder gets the lower bound as a proof for VeriPB and CakePB, what proves the placement, and a page that says what is trusted (docs/proofs.md). Exit status 1 if one of the two has no proof."`
	Plain               string `group:"output" out:"the plain text" placeholder:"FILE" help:"Write the plan as plain text. The checker in proofs, which Rocq has verified, reads it (docs/proofs.md)."`
	JSON                bool   `group:"output" name:"json" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`
}

// Help is the text below the flags.
func (verifyCmd) Help() string {
	return `The plan is checked against the ONNX file alone: sizes, lifetimes, loads, overlaps, sharing, the
lower bound and the annotations are recomputed. A bound may rest on an exhausted search; it is then
"claimed by search", and --replay proves or refutes it. Fields that the file does not determine, such as
measured costs, are listed as claimed, not checked. If the plan is not valid, the exit status is 1.

Examples:
  onnxmem verify planned.onnx
  onnxmem verify planned.onnx elsewhere/planned.plan.json --json`
}

// Run reads both files and verifies.
func (c *verifyCmd) Run(e *env) error {
	path := c.Plan
	if c.Plain == "-" {
		return usagef("--plain -: expected a file")
	}
	if path == "-" && c.Model == "-" {
		return usagef("the model and the plan cannot both come from standard input")
	}
	if path == "" {
		if c.Model == "-" {
			return usagef("the model comes from standard input: name its plan")
		}
		path = optimize.PlanPath(c.Model)
	}
	e.files.Reads("the plan", path)
	if err := e.files.Err(); err != nil {
		return err
	}
	p, f, err := openPlanned(path, c.Model, onnx.ReadOptions{AllowMissingWeights: c.AllowMissingWeights})
	if err != nil {
		return err
	}
	defer f.Close()
	e.readsExternal("the model", f.Model)
	source := c.source(p)
	if source.file != nil {
		e.files.Reads("the model that was planned", source.file.Path)
	}
	if err := e.files.Err(); err != nil {
		return err
	}
	opt := verify.Options{Replay: c.Replay, Proofs: c.Proof, ProofName: proofName(c.Model)}
	var plain bytes.Buffer
	if c.Plain != "" {
		opt.Plain = &plain
	}
	if source.file != nil {
		defer source.file.Close()
		opt.Source = source.file.Model
	}
	if source.err != nil {
		return source.err
	}
	if source.other != "" {
		fmt.Fprintf(e.stderr, "onnxmem: %s is not the file that was planned: its order is not compared\n", units.Name(source.other))
	}
	r, err := verify.Plan(f.Model, p, opt)
	if err != nil {
		return err
	}
	if c.Plain != "" && r.Valid {
		f, err := optimize.Stage(c.Plain, plain.Bytes())
		if err != nil {
			return err
		}
		if err := f.Commit(false); err != nil {
			return err
		}
	}
	if c.JSON {
		if err := writeJSON(e.stdout, r); err != nil {
			return err
		}
	} else {
		fmt.Fprint(e.stdout, r)
	}
	if !r.Valid {
		return &failure{status: exitFailed}
	}
	return proven(r.Proofs)
}

// planned is the file that was planned, if it is available.
type planned struct {
	file  *onnx.File
	other string // a different file with its name
	err   error
}

// source opens the file that was planned: the one given by the user, or one
// beside the model that matches the plan. A different file of that name is no
// violation: it may have changed since.
func (c *verifyCmd) source(p *plan.Plan) (s planned) {
	opt := onnx.ReadOptions{AllowMissingWeights: true}
	if c.Source != "" {
		s.file, s.err = onnx.Open(c.Source, opt)
		return s
	}
	if name := p.Source.File; c.Model == "-" || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return s
	}
	path := filepath.Join(filepath.Dir(c.Model), p.Source.File)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return s
	}
	if model, err := os.Stat(c.Model); err != nil || os.SameFile(model, info) {
		return s
	}
	s.other = path
	if info.Size() != p.Source.Bytes {
		return s
	}
	f, err := onnx.Open(path, opt)
	if err != nil {
		return s
	}
	if plan.SourceOf(f.Model) == p.Source {
		return planned{file: f}
	}
	f.Close()
	return s
}

// openPlanned reads a plan and opens its model as of one moment: another process
// may be replacing them.
func openPlanned(path, model string, opt onnx.ReadOptions) (p *plan.Plan, f *onnx.File, err error) {
	read := func() (err error) {
		if f != nil {
			f.Close()
			f = nil
		}
		if p, err = readPlan(path); err == nil {
			f, err = onnx.Open(model, opt)
		}
		return err
	}
	if info, statErr := os.Stat(path); path == "-" || statErr == nil && !info.Mode().IsRegular() {
		err = read() // it can be read only once
	} else {
		err = atomicfile.Steady(model, read)
	}
	return p, f, err
}

// readPlan reads a plan; one that cannot be read is refused.
func readPlan(path string) (*plan.Plan, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		if err := optimize.SettlePlan(path); err != nil {
			return nil, err
		}
		f, err := readable.Open(path)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = errors.New("not found: expected a plan written by onnxmem optimize")
			}
			return nil, &graph.Error{File: path, Offset: -1, Err: err}
		}
		defer f.Close()
		in = f
	}
	p, err := plan.Read(in)
	if err != nil {
		return nil, &graph.Error{File: path, Offset: -1, Err: err}
	}
	return p, nil
}

package main

import (
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
)

// verifyCmd checks a plan.
type verifyCmd struct {
	Model string `arg:"" in:"the model" help:"The planned model; - is standard input."`
	Plan  string `arg:"" optional:"" in:"the plan" help:"Its plan (default: MODEL with .plan.json for .onnx)."`

	Replay              bool   `help:"Repeat the search where the bound rests on one, by another method: up to a minute or so."`
	Source              string `placeholder:"FILE" help:"The model that was planned: checks source and program_order (default: the file that the plan names, beside MODEL, if it is that)."`
	AllowMissingWeights bool   `help:"Check without external data that are not there."`
	JSON                bool   `name:"json" help:"Print one JSON object on standard output, and nothing else there."`
}

// Help is shown below the flags.
func (verifyCmd) Help() string {
	return `The plan is checked against the ONNX file alone: sizes, lifetimes, loads, overlaps, sharing, the
lower bound and the annotations are computed anew. A bound may rest on an exhausted search; that is
"claimed by search", and proven or refuted with --replay. What nothing can be computed from, such as
measured costs, is listed as claimed, not checked. Not valid: exit status 1.

Examples:
  onnxmem verify planned.onnx
  onnxmem verify planned.onnx elsewhere/planned.plan.json --json`
}

// Run reads both files and compares.
func (c *verifyCmd) Run(e *env) error {
	path := c.Plan
	if path == "-" && c.Model == "-" {
		return usagef("the model and the plan cannot both come from standard input")
	}
	if path == "" {
		if c.Model == "-" {
			return usagef("the model comes from standard input: say which plan")
		}
		path = optimize.PlanPath(c.Model)
	}
	if err := atomicfile.Settle(c.Model); err != nil { // and what is beside it
		return err
	}
	p, err := readPlan(path)
	if err != nil {
		return err
	}
	f, err := onnx.Open(c.Model, onnx.ReadOptions{AllowMissingWeights: c.AllowMissingWeights})
	if err != nil {
		return err
	}
	defer f.Close()
	source, err := c.source(e, p)
	if err != nil {
		return err
	}
	opt := plan.VerifyOptions{Replay: c.Replay}
	if source != nil {
		defer source.Close()
		opt.Source = source.Model
	}
	r, err := plan.Verify(f.Model, p, opt)
	if err != nil {
		return err
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
	return nil
}

// source opens the file that was planned: the one that the user names, or one beside
// the model that is what the plan says; nil if there is none. Another file of that
// name proves nothing: the source may have changed since.
func (c *verifyCmd) source(e *env, p *plan.Plan) (*onnx.File, error) {
	opt := onnx.ReadOptions{AllowMissingWeights: true}
	if c.Source != "" {
		return onnx.Open(c.Source, opt)
	}
	if name := p.Source.File; c.Model == "-" || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return nil, nil
	}
	path := filepath.Join(filepath.Dir(c.Model), p.Source.File)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	if model, err := os.Stat(c.Model); err != nil || os.SameFile(model, info) {
		return nil, nil
	}
	if info.Size() == p.Source.Bytes {
		f, err := onnx.Open(path, opt)
		switch {
		case err != nil:
		case plan.SourceOf(f.Model) == p.Source:
			return f, nil
		default:
			f.Close()
		}
	}
	fmt.Fprintf(e.stderr, "onnxmem: %s is not the file that was planned: its order is not compared\n", units.Name(path))
	return nil, nil
}

// readPlan reads a plan; one that cannot be read is a refused input.
func readPlan(path string) (*plan.Plan, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		if err := optimize.SettlePlan(path); err != nil {
			return nil, err
		}
		f, err := readable.Open(path)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				err = errors.New("not found: expected a plan, as onnxmem optimize writes it")
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

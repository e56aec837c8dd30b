package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/readable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// sourceFlags are the flags of commands that read a plan from any kind of FILE.
type sourceFlags struct {
	PlanPath string        `group:"input" name:"plan" in:"the plan" placeholder:"PATH" help:"The plan of a planned model. Default: FILE with .plan.json for .onnx."`
	At       optimize.Dims `group:"input" placeholder:"NAME=N" help:"Lengths, such as batch=1, of a plan for ranges. Default: the largest lengths."`
	limitFlags
	planFlags
}

// source is a plan and, if FILE is a model, that model.
type source struct {
	name  string // name of FILE, for messages
	plan  *plan.Plan
	model *graph.Model // in the planned order; nil if FILE is a plan
	trust trust
	file  *onnx.File
	hint  *passes.FoldHint // what --fold any would save, if the command planned the model
}

// trust says how far a plan has been checked.
type trust string

const (
	asWritten   trust = "as in the plan, not verified against its model"
	verified    trust = "verified against its model"
	plannedHere trust = "planned from the model for this command, not written"
)

// open reads or makes the plan of FILE: a plan is read, a planned model's plan is
// read and verified, any other model is planned as by optimize, and nothing is
// written. "-" is standard input. The caller closes the source when it needs
// neither plan nor model any more.
func (f *sourceFlags) open(e *env, path string) (*source, error) {
	kind, text, err := peek(path)
	if err != nil {
		return nil, err
	}
	return f.openKind(e, path, kind, text)
}

// openKind opens a file of known kind; text is its content if it was already read.
func (f *sourceFlags) openKind(e *env, path string, kind sourceKind, text []byte) (_ *source, err error) {
	s := &source{name: path}
	if path == "-" {
		s.name = "standard input"
	}
	switch kind {
	case isPlan:
		if f.PlanPath != "" {
			return nil, usagef("%s is a plan already: --plan is for a planned model", path)
		}
		if err := s.readPlan(path, text); err != nil {
			return nil, err
		}
		if file := s.plan.Model.File; path != "-" && file == filepath.Base(file) {
			e.files.Reads("the model that the plan is for", filepath.Join(filepath.Dir(path), file))
		}
		return s, e.files.Err()
	case isStream:
		m, err := onnx.Parse(s.name, text)
		if err != nil {
			return nil, err
		}
		s.file = &onnx.File{Model: m, Path: path}
	default:
		if s.file, err = onnx.Open(path, onnx.ReadOptions{AllowMissingWeights: f.AllowMissingWeights}); err != nil {
			return nil, err
		}
	}
	e.readsExternal("the model", s.file.Model)
	if optimize.Planned(s.file.Model) || f.PlanPath != "" {
		err = s.verify(e, f)
	} else if err = e.files.Err(); err == nil {
		err = s.optimize(e, f)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openSingle opens FILE for a command that takes only one.
func (f *sourceFlags) openSingle(e *env, path string) (*source, error) {
	s, err := f.open(e, path)
	if err != nil {
		return nil, err
	}
	if err := f.only(s); err != nil {
		return nil, err
	}
	return s, f.point(s)
}

// point replaces a plan for ranges by that of the point of --at. If it fails, it closes s.
func (f *sourceFlags) point(s *source) error {
	if len(f.At) == 0 {
		return nil
	}
	p, err := planAt(f.At, s.name, s.plan, s.model)
	if err != nil {
		return errors.Join(err, s.close())
	}
	s.plan = p
	return nil
}

// planAt returns the plan of the point of --at. m is the planned model of that name, or nil
// if it is not known.
func planAt(at optimize.Dims, name string, p *plan.Plan, m *graph.Model) (*plan.Plan, error) {
	dims, several := at.Corner()
	switch {
	case several:
		return nil, usagef("--at: expected one length of each dimension")
	case p.Ranges == nil:
		return nil, usagef("--at: the plan of %s is for one length of each dimension", name)
	case p.CheckPoint(dims) != nil:
		return nil, usagef("--at: %v", p.CheckPoint(dims))
	case m == nil:
		return p.At(dims, nil)
	}
	return passes.PlanAt(m, p, dims)
}

// only refuses lengths of dimensions and values of inputs if the only FILE is
// already planned, since its figures would ignore them. It then closes s.
func (f *sourceFlags) only(s *source) error {
	flag := f.Binds()
	if s.trust == plannedHere || flag == "" {
		return nil
	}
	refused := usagef("%s is planned already: %s is for a model without a plan", s.name, flag)
	return errors.Join(refused, s.close())
}

func (s *source) close() error {
	if s.file == nil { // only a plan, or a closed model
		return nil
	}
	return s.file.Close()
}

// Kinds of files, by their first bytes.
type sourceKind int

const (
	isModel  sourceKind = iota // a file that can be mapped
	isStream                   // a model from a stream
	isPlan
)

// peek distinguishes plans from models. A stream that can be read only once is
// read to its end.
func peek(path string) (sourceKind, []byte, error) {
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := readable.Open(path)
		if err != nil {
			return isModel, nil, nil // onnx.Open says why
		}
		defer f.Close()
		if !f.IsPipe() {
			head := make([]byte, 64)
			n, _ := io.ReadFull(f, head)
			if beginsObject(head[:n]) {
				return isPlan, nil, nil
			}
			return isModel, nil, nil
		}
		in = f
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return 0, nil, refusedf(path, "%w", err)
	}
	if beginsObject(text) {
		return isPlan, text, nil
	}
	return isStream, text, nil
}

// beginsObject reports whether a text begins a JSON object; no ONNX file does.
func beginsObject(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && text[0] == '{'
}

// readPlan reads a plan, and checks what can be checked without its model.
func (s *source) readPlan(path string, text []byte) (err error) {
	s.trust = asWritten
	if text == nil {
		s.plan, err = readPlan(path)
	} else if s.plan, err = plan.Read(bytes.NewReader(text)); err != nil {
		err = &graph.Error{File: s.name, Offset: -1, Err: err}
	}
	if err != nil {
		return err
	}
	if err := s.plan.Check(); err != nil {
		return &graph.Error{File: s.name, Offset: -1, Err: err}
	}
	return nil
}

// verify reads the plan of a planned model and verifies it.
func (s *source) verify(e *env, f *sourceFlags) (err error) {
	if f.Limit != nil {
		return usagef("%s is planned already: --limit is for a model without a plan", s.name)
	}
	path := f.PlanPath
	if path == "" {
		if s.file.Path == "-" {
			return usagef("the planned model comes from standard input: name its plan with --plan")
		}
		path = optimize.PlanPath(s.file.Path)
	}
	e.files.Reads("the plan of the model", path)
	if err := e.files.Err(); err != nil {
		return err
	}
	if s.file.Source.File == nil { // standard input, or a pipe
		s.plan, err = readPlan(path)
	} else {
		if err := s.file.Close(); err != nil {
			return err
		}
		s.plan, s.file, err = openPlanned(path, s.file.Path, onnx.ReadOptions{AllowMissingWeights: f.AllowMissingWeights})
	}
	if err != nil {
		return err
	}
	r, err := verify.Plan(s.file.Model, s.plan, verify.Options{})
	if err != nil {
		return err
	}
	if !r.Valid {
		more := ""
		if n := len(r.Violations) + r.More; n > 1 {
			more = fmt.Sprintf(", and %d more", n-1)
		}
		return &failure{exitFailed, fmt.Sprintf("%s: not the plan of %s: %s%s (see onnxmem verify)", path, s.name, r.Violations[0].Message, more)}
	}
	s.model, s.trust = s.file.Model, verified
	return nil
}

// optimize plans the model in memory.
func (s *source) optimize(e *env, f *sourceFlags) error {
	for _, m := range s.file.Missing {
		e.say("%s: external data not found, planning without", units.Name(m))
	}
	bar := newProgress(e.stderr, len(passes.Default())+1)
	defer bar.stop()
	opt := f.options(e)
	if err := f.Limits(&opt); err != nil {
		return err
	}
	if err := optimize.Refuse(&opt, &f.limitFlags, &f.planFlags); err != nil {
		return err
	}
	bar.follow(&opt)
	r, err := passes.Optimize(context.Background(), s.file.Model, opt)
	if err != nil {
		return err
	}
	bar.stop()
	warn(e, r.Plan.Dims, r.Warnings)
	warnGivenUp(e, r.GivenUp)
	s.plan, s.model, s.trust, s.hint = r.Plan, r.Model, plannedHere, r.FoldHint
	return nil
}

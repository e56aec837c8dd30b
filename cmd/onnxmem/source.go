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

// sourceFlags are the flags of the commands that look at a plan, wherever it
// comes from.
type sourceFlags struct {
	PlanPath string `name:"plan" in:"the plan" placeholder:"PATH" help:"The plan of a planned model (default: FILE with .plan.json for .onnx)."`
	limitFlags
	planFlags
}

// source is a plan, and the model that it is for where FILE is one.
type source struct {
	name  string // of FILE, for messages
	plan  *plan.Plan
	model *graph.Model // in the planned order; nil: FILE is a plan
	trust trust
	file  *onnx.File
}

// trust says what is known of a plan.
type trust string

const (
	asWritten   trust = "as the plan says it, not held against its model"
	verified    trust = "verified against its model"
	plannedHere trust = "planned from the model for this look, not written"
)

// open makes a plan of FILE: a plan is read, a planned model's plan is read and
// verified first, any other model is planned as by optimize, with nothing written.
// "-" is standard input. The caller closes the source when neither plan nor model
// is needed any more.
func (f *sourceFlags) open(e *env, path string) (*source, error) {
	kind, text, err := peek(path)
	if err != nil {
		return nil, err
	}
	return f.opened(e, path, kind, text)
}

// opened is open for a file whose kind is known; text is what was read of it.
func (f *sourceFlags) opened(e *env, path string, kind sourceKind, text []byte) (_ *source, err error) {
	s := &source{name: path}
	if path == "-" {
		s.name = "standard input"
	}
	switch kind {
	case isPlan:
		if f.PlanPath != "" {
			return nil, usagef("%s is a plan itself: expected no --plan", path)
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

// openOnly is open for a command that takes one FILE.
func (f *sourceFlags) openOnly(e *env, path string) (*source, error) {
	s, err := f.open(e, path)
	if err != nil {
		return nil, err
	}
	return s, f.only(s)
}

// only refuses lengths of dimensions for the one FILE that is planned already, as
// its figures would not be what was asked for, and closes it.
func (f *sourceFlags) only(s *source) error {
	if s.trust == plannedHere || len(f.Dim) == 0 {
		return nil
	}
	refused := usagef("%s is planned already: --dim is for a model that is not", s.name)
	return errors.Join(refused, s.close())
}

func (s *source) close() error {
	if s.file == nil { // a plan alone, or a model that is there no more
		return nil
	}
	return s.file.Close()
}

// What a file holds, by its first byte.
type sourceKind int

const (
	isModel  sourceKind = iota // a file that can be mapped
	isStream                   // a model that can be had only by reading
	isPlan
)

// peek tells plans from models. What can be read but once is read to its end.
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

// beginsObject says whether a text is a JSON object; no ONNX file begins so.
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

// verify reads the plan of a planned model and holds the one against the other.
func (s *source) verify(e *env, f *sourceFlags) (err error) {
	if f.Limit != nil {
		return usagef("%s is planned already: expected no --limit", s.name)
	}
	path := f.PlanPath
	if path == "" {
		if s.file.Path == "-" {
			return usagef("the planned model comes from standard input: say with --plan where its plan is")
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
	bar := newProgress(e.stderr, len(passes.Default()))
	defer bar.stop()
	opt := f.options(e)
	if err := f.Limits(&opt); err != nil {
		return err
	}
	bar.follow(&opt)
	r, err := passes.Optimize(context.Background(), s.file.Model, opt)
	if err != nil {
		return err
	}
	bar.stop()
	warn(e, r.Plan.Dims, r.Warnings)
	s.plan, s.model, s.trust = r.Plan, r.Model, plannedHere
	return nil
}

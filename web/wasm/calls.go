//go:build js

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"syscall/js"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/explain"
	"github.com/onnxmem/onnxmem/internal/inspect"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/report"
	"github.com/onnxmem/onnxmem/schedule"
)

// calls are the things that JavaScript can ask for. plan and inspect read a model; explain,
// report, header and at are about the model that was planned last.
var calls = map[string]func(s *session, r *request, from js.Value, a *answer) error{
	"plan":    (*session).plan,
	"at":      (*session).point,
	"explain": (*session).explain,
	"planAndExplain": func(s *session, r *request, from js.Value, a *answer) error {
		if err := s.plan(r, from, a); err != nil {
			return err
		}
		a.named = nil
		return s.explain(r, from, a)
	},
	"report":  (*session).report,
	"header":  (*session).header,
	"inspect": (*session).inspect,
	"example": (*session).example,
	"order":   (*session).order,
	"pack":    (*session).pack,
}

// told is an object with the same in words.
type told struct {
	Object any    `json:"object"`
	Text   string `json:"text"`
}

// explain says why the peak is what it is.
func (s *session) explain(r *request, _ js.Value, a *answer) error {
	if err := s.must(); err != nil {
		return err
	}
	s.progress("explain", "")
	opt := schedule.ExplainOptions{Most: s.flags.Top}
	opt.Effort = optimize.Efforts[s.flags.Effort]
	x, err := explain.Model(context.Background(), s.task.In, s.task.Result.Model, s.at, s.task.Result.FoldHint, opt)
	if err != nil {
		return err
	}
	var b strings.Builder
	x.Print(&b)
	a.object = told{x.JSON(), lines(b.String())}
	return nil
}

// report draws the plan.
func (s *session) report(_ *request, _ js.Value, a *answer) error {
	if err := s.must(); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := report.Page(&b, s.at, s.task.Origin()); err != nil {
		return &graph.Error{File: s.task.In, Offset: -1, Err: err}
	}
	a.file("report", b.Bytes())
	return nil
}

// header writes the plan as a header for C.
func (s *session) header(_ *request, _ js.Value, a *answer) error {
	if err := s.must(); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := report.CHeader(&b, s.at); err != nil {
		return err
	}
	a.file("header", b.Bytes())
	return nil
}

// inspect describes a model, as the command does.
func (s *session) inspect(r *request, from js.Value, a *answer) error {
	f, err := parse[modelFlags](r.Args)
	if err != nil {
		return err
	}
	file, err := s.open(r, from)
	if err != nil {
		return err
	}
	defer file.Close()
	opt := f.PlanFlags.Options()
	opt.Tool = tool()
	in := passes.Inspect(context.Background(), file.Model, opt)
	if option, is := in.Refused.(*passes.OptionError); is {
		return option
	}
	x := inspect.Model{Name: r.Name, File: file, Inspection: in, All: f.Tensors}
	var b strings.Builder
	x.Print(&b)
	a.object = told{x.JSON(), lines(b.String())}
	return nil
}

// example makes a built-in network.
func (s *session) example(r *request, _ js.Value, a *answer) error {
	m, err := models.Build(r.Name, models.Options{})
	if err != nil {
		return err
	}
	im, err := onnx.Encode(m)
	if err != nil {
		return err
	}
	b, err := im.Bytes()
	if err != nil {
		return err
	}
	a.file("model", b)
	return nil
}

// searchFlags are the flags of the calls order and pack.
type searchFlags struct {
	Effort string `enum:"fast,default,max" default:"default"`
	Align  *int64
}

// unpacked reads a text, which may be gzipped.
func unpacked(r *request, from js.Value) ([]byte, error) {
	text, err := source{from}.all()
	if err == nil && bytes.HasPrefix(text, []byte("\x1f\x8b")) {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(z)
		}
	}
	if err != nil {
		return nil, &graph.Error{File: r.Name, Offset: -1, Err: err}
	}
	return text, nil
}

// order orders the nodes of a bare problem.
func (s *session) order(r *request, from js.Value, a *answer) error {
	f, err := parse[searchFlags](r.Args)
	if err != nil {
		return err
	}
	text, err := unpacked(r, from)
	if err != nil {
		return err
	}
	p, err := schedule.ReadProblem(bytes.NewReader(text))
	if err != nil {
		return &graph.Error{File: r.Name, Offset: -1, Err: err}
	}
	if f.Align != nil && *f.Align > 1 {
		if p, err = p.Rounded(*f.Align); err != nil {
			return &graph.Error{File: r.Name, Offset: -1, Err: err}
		}
	}
	found, err := schedule.Solve(context.Background(), p, schedule.Options{Effort: optimize.Efforts[f.Effort]})
	if err != nil {
		return err
	}
	a.object = struct {
		Order       []int32 `json:"order"`
		Peak        int64   `json:"peak_bytes"`
		Bound       int64   `json:"lower_bound_bytes"`
		Optimal     bool    `json:"optimal"`
		ProgramPeak int64   `json:"program_order_peak_bytes"`
	}{found.Order, found.Evaluation.Peak, found.Bound, found.Optimal, found.ProgramPeak}
	return nil
}

// pack places buffers: a CSV or its JSON form.
func (s *session) pack(r *request, from js.Value, a *answer) error {
	f, err := parse[searchFlags](r.Args)
	if err != nil {
		return err
	}
	text, err := unpacked(r, from)
	if err != nil {
		return err
	}
	read := alloc.ReadCSV
	if t := bytes.TrimLeft(text, " \t\r\n"); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		read = alloc.ReadJSON
	}
	p, err := read(bytes.NewReader(text))
	if err == nil && f.Align != nil {
		p, err = p.Rounded(*f.Align)
	}
	if err != nil {
		return &graph.Error{File: r.Name, Offset: -1, Err: err}
	}
	found, err := alloc.Solve(context.Background(), p, alloc.Options{Effort: efforts[f.Effort]})
	if err != nil {
		return err
	}
	if err := p.CheckSweep(found.Placement); err != nil {
		return fmt.Errorf("internal error in placement by %s: %w", found.Strategy, err)
	}
	names := make([]string, len(p.Buffers))
	for i, b := range p.Buffers {
		names[i] = b.ID
	}
	a.object = struct {
		Offsets []int64  `json:"offsets"`
		Names   []string `json:"names"`
		Arena   int64    `json:"arena_bytes"`
		Bound   int64    `json:"lower_bound_bytes"`
		Optimal bool     `json:"optimal"`
	}{found.Offsets, names, found.Arena, found.LowerBound, found.Optimal}
	return nil
}

// efforts are those of placements.
var efforts = map[string]alloc.Effort{"fast": alloc.EffortFast, "default": alloc.EffortDefault, "max": alloc.EffortMax}

//go:build js

package main

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"strings"
	"syscall/js"
	"time"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// session holds the model that was planned last, for questions about it.
type session struct {
	progress func(work, note string)
	task     *optimize.Task
	flags    *modelFlags
	at       *plan.Plan // the plan that is looked at: the task's, or one of its points
}

// open reads the model of a request.
func (s *session) open(r *request, from js.Value) (*onnx.File, error) {
	if s.task != nil {
		s.task.Close()
		s.task, s.flags, s.at = nil, nil, nil
		debug.FreeOSMemory()
	}
	s.progress("read", "")
	collect(source{from}.size())
	return onnx.ReadAt(r.Name, source{from}, source{from}.size())
}

// follow shows the work of the passes.
func (s *session) follow(opt *passes.Options) {
	list := passes.Default()
	opt.Trace = func(done passes.Pass, _ time.Duration) {
		next := "verify"
		for i := range list[1:] {
			if list[i].Name == done.Name {
				next = list[i+1].Name
			}
		}
		s.progress(next, "")
	}
	opt.Progress = func(bound, peak int64) {
		s.progress("order", fmt.Sprintf("bound %s, peak %s, gap %.2f %%", units.Short(bound), units.Short(peak), units.GapPercent(bound, peak)))
	}
	opt.RangeProgress = func(done, points int) { s.progress("range", fmt.Sprintf("%d of %d points", done, points)) }
}

// planned is the answer to plan.
type planned struct {
	*optimize.Outcome
	Text  string              `json:"text"`  // the summary, as the command prints it
	Notes []string            `json:"notes"` // what the command says on standard error
	Title string              `json:"title"`
	Dims  map[string]plan.Dim `json:"dims"`
}

// plan plans a model, as optimize does.
func (s *session) plan(r *request, from js.Value, a *answer) error {
	f, err := parse[modelFlags](r.Args)
	if err != nil {
		return err
	}
	known := f.PlanFlags.Options()
	if err := optimize.Refuse(&known, f); err != nil {
		return err
	}
	file, err := s.open(r, from)
	if err != nil {
		return err
	}
	t := f.job(r).With(file)
	s.task, s.flags = t, f
	opt, err := t.Options()
	if err != nil {
		return err
	}
	s.follow(&opt)
	if err := t.Plan(opt); err != nil {
		return err
	}
	s.progress("write", "")
	im, moved, err := t.Encode()
	if err != nil {
		return err
	}
	text, err := t.Result.Plan.Marshal()
	if err != nil {
		return err
	}
	a.file("plan", text)
	if err := a.image("model", im); err != nil {
		return err
	}
	if len(moved) > 0 {
		b := &buffer{}
		if err := optimize.WriteFolded(b, moved); err != nil {
			return err
		}
		a.file("folded", b.bytes)
	}
	s.at = t.Result.Plan
	x := &planned{Outcome: t.Outcome(), Notes: []string{}, Title: report.Title(s.at), Dims: s.at.Dims}
	say := func(format string, args ...any) {
		x.Notes = append(x.Notes, printable.Line(fmt.Sprintf(format, args...)))
	}
	for _, m := range file.Missing {
		say("%s: external data not found, planning without", units.Name(m))
	}
	optimize.Notes(say, s.at.Dims, t.Result.Warnings)
	for _, g := range t.Result.GivenUp {
		say("%s", g)
	}
	optimize.TrainingNotes(say, t.Result)
	var b strings.Builder
	t.Summary(&b)
	if f.Frontier {
		fmt.Fprintln(&b)
		report.Frontier(&b, s.at)
		var svg bytes.Buffer
		if err := report.FrontierPicture(&svg, s.at); err != nil {
			return err
		}
		a.file("limits", svg.Bytes())
	}
	x.Text = lines(b.String())
	a.object = x
	return nil
}

// point looks at one point of a plan for ranges of dimensions.
func (s *session) point(r *request, _ js.Value, a *answer) error {
	if err := s.must(); err != nil {
		return err
	}
	p, err := passes.PlanAt(s.task.Result.Model, s.task.Result.Plan, r.Dims)
	if err != nil {
		return &optimize.UsageError{Text: err.Error()}
	}
	s.at = p
	var b strings.Builder
	report.Summary(&b, p)
	a.object = struct {
		plan.Summary
		Text string              `json:"text"`
		Dims map[string]plan.Dim `json:"dims"`
	}{p.Summary, lines(b.String()), p.Dims}
	return nil
}

// must fails if nothing was planned.
func (s *session) must() error {
	if s.at == nil {
		return &optimize.UsageError{Text: "expected a planned model"}
	}
	return nil
}

// buffer is a file in memory.
type buffer struct {
	bytes []byte
	at    int64
}

func (b *buffer) Write(p []byte) (int, error) {
	if end := b.at + int64(len(p)); end > int64(len(b.bytes)) {
		b.bytes = append(b.bytes, make([]byte, end-int64(len(b.bytes)))...)
	}
	b.at += int64(copy(b.bytes[b.at:], p))
	return len(p), nil
}

// Seek implements [io.Seeker] for offsets from the start, which are all that is asked for.
func (b *buffer) Seek(off int64, _ int) (int64, error) {
	b.at = off
	return off, nil
}

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
)

// batchProgress shows a batch: a bar on a terminal, a line a model elsewhere.
type batchProgress struct {
	w        io.Writer
	of, have int
	p        *mpb.Progress
	bar      *mpb.Bar
}

func newBatchProgress(w io.Writer, of, have int) *batchProgress {
	s := &batchProgress{w: w, of: of, have: have}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" && of > have {
		s.p = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
		s.bar = s.p.AddBar(int64(of-have),
			mpb.PrependDecorators(decor.CountersNoUnit("%d of %d models ")),
			mpb.AppendDecorators(decor.AverageSpeed(0, "%.1f/s "), decor.AverageETA(decor.ET_STYLE_GO)))
	}
	return s
}

func (s *batchProgress) done(e batch.Entry) {
	s.have++
	line := fmt.Sprintf("[%d/%d] %s: %s", s.have, s.of, graph.Short(e.Model), e.Status)
	if e.Error != "" {
		line += ": " + message(e)
	}
	switch {
	case s.bar == nil:
		fmt.Fprintln(s.w, line)
	case e.Status != batch.StatusOK:
		fmt.Fprintln(s.p, line)
	}
	if s.bar != nil {
		s.bar.Increment()
	}
}

// message is an entry's error without the model's name, which stands before it.
func message(e batch.Entry) string {
	path, rest, found := strings.Cut(e.Error, ": ")
	if found && strings.HasSuffix(filepath.ToSlash(path), filepath.ToSlash(e.Model)) {
		return rest
	}
	return e.Error
}

func (s *batchProgress) stop() {
	if s.bar != nil {
		s.bar.Abort(false)
		s.p.Wait()
	}
}

// conclude writes results.csv and index.html and prints the totals; it fails if
// any model did.
func (b *batchRun) conclude(e *env, models []batch.Model, ran int) error {
	var entries []batch.Entry
	for _, m := range models {
		if entry, ok := b.journal.Last(m.Rel); ok {
			entries = append(entries, entry)
		}
	}
	t, err := batch.NewTable(entries, b.Reports)
	if err != nil {
		return err
	}
	t.Ran = ran
	texts, err := t.Files()
	if err != nil {
		return err
	}
	var files []*atomicfile.File
	for name, text := range texts {
		p, err := optimize.Stage(filepath.Join(b.out, name), text)
		if err != nil {
			return err
		}
		files = append(files, p)
	}
	if err := atomicfile.Commit(false, files...); err != nil {
		return err
	}
	if b.JSON {
		if err := writeJSON(e.stdout, t.Totals()); err != nil {
			return err
		}
	} else {
		t.Print(e.stdout)
		fmt.Fprintf(e.stdout, "wrote                %s\n", filepath.Join(b.out, "index.html")+", results.csv, journal.jsonl")
	}
	if t.Failed() > 0 {
		return &failure{exitFailed, fmt.Sprintf("%d of %d models failed", t.Failed(), t.Models())}
	}
	return nil
}

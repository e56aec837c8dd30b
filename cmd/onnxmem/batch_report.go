package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/units"
)

// batchProgress shows the progress of a batch: a bar on a terminal, otherwise one
// line per model.
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
	line := fmt.Sprintf("[%d/%d] %s: %s", s.have, s.of, printable.Text(e.Model), e.Status)
	if e.Error != "" {
		line += ": " + e.Message()
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

func (s *batchProgress) stop() {
	if s.bar != nil {
		s.bar.Abort(false)
		s.p.Wait()
	}
}

// conclude writes results.csv and index.html and prints the totals. It fails if
// any model did, or if a length or value bound nothing.
func (b *batchRun) conclude(e *env, models []batch.Model) error {
	var mine, whole *batch.Table
	var spare []string
	err := b.journal.With(func(entries map[string]batch.Entry) (err error) {
		if mine, err = batch.NewTable(entriesOf(entries, models), b.Reports); err != nil {
			return err
		}
		if spare, err = b.spare(entries, models); err != nil {
			return err
		}
		if whole, err = batch.NewTable(b.allEntries(entries), b.Reports); err != nil {
			return err
		}
		texts, err := whole.Files()
		if err != nil {
			return err
		}
		return b.write(texts)
	})
	if err != nil {
		return err
	}
	mine.Ran = b.ran
	if b.JSON {
		if err := writeJSON(e.stdout, mine.Totals()); err != nil {
			return err
		}
	} else {
		mine.Print(e.stdout)
		of := ""
		if whole.Models() != mine.Models() {
			of = fmt.Sprintf(" of %d models", whole.Models())
		}
		fmt.Fprintf(e.stdout, "wrote                %s, results.csv%s, journal.jsonl\n", filepath.Join(units.Name(b.out), "index.html"), of)
	}
	for _, text := range spare {
		e.say("%s", text)
	}
	switch {
	case mine.Failed() > 0:
		return &failure{exitFailed, fmt.Sprintf("%d of %d models failed", mine.Failed(), mine.Models())}
	case len(spare) > 0 && b.Shard == "": // another shard may have what this one lacks
		return &failure{status: exitFailed}
	}
	return nil
}

// entriesOf lists the entries of the models that have one.
func entriesOf(entries map[string]batch.Entry, models []batch.Model) (list []batch.Entry) {
	for _, m := range models {
		if entry, ok := entries[m.Rel]; ok {
			list = append(list, entry)
		}
	}
	return list
}

// allEntries lists the rows of the tables: models of all shards, and of other
// runs with results in the folder.
func (b *batchRun) allEntries(entries map[string]batch.Entry) []batch.Entry {
	list := entriesOf(entries, b.all)
	for _, entry := range list {
		delete(entries, entry.Model)
	}
	for rel, entry := range entries {
		if !filepath.IsLocal(rel) || entry.Status != batch.StatusOK {
			continue
		}
		if _, err := os.Stat(filepath.Join(b.out, rel)); err == nil {
			list = append(list, entry)
		}
	}
	slices.SortFunc(list, func(x, y batch.Entry) int { return strings.Compare(x.Model, y.Model) })
	return list
}

// write writes the tables to their files.
func (b *batchRun) write(texts map[string][]byte) error {
	var files []*atomicfile.File
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		p, err := optimize.Stage(filepath.Join(b.out, name), texts[name])
		if err != nil {
			for _, p := range files {
				p.Abort()
			}
			return err
		}
		files = append(files, p)
	}
	return atomicfile.Commit(false, files...)
}

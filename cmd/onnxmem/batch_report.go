package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/batch"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
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
		line += ": " + e.Error
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

// row is a model in the tables at the end.
type row struct {
	batch.Entry
	plan.Summary
	Report string // its report, relative to OUT; "" where there is none
}

// Fragmentation is that of the arena, in per cent.
func (r row) Fragmentation() string { return fmt.Sprintf("%.2f", report.Fragmentation(r.Summary)) }

// Less is by how much the planned peak is below the file's.
func (r row) Less() string {
	return strings.TrimPrefix(report.Less(r.ProgramPeakBytes, r.PeakBytes), ", ")
}

// Size is a number of bytes for people.
func (r row) Size(n int64) string { return units.Short(n) }

// conclude writes results.csv and index.html and prints the totals; it fails if
// any model did.
func (b *batchRun) conclude(e *env, models []batch.Model, ran int) error {
	var rows []row
	count := map[string]int{}
	var arena, before int64
	for _, m := range models {
		entry, ok := b.journal.Last(m.Rel)
		if !ok {
			continue
		}
		r := row{Entry: entry}
		if entry.Result != nil {
			if err := json.Unmarshal(entry.Result, &r.Summary); err != nil {
				return err
			}
		}
		if name := reportPath(m.Rel); entry.Status == batch.StatusOK && b.Reports {
			r.Report = filepath.ToSlash(name)
		}
		count[entry.Status]++
		arena += r.ArenaBytes
		before += r.ProgramPeakBytes
		rows = append(rows, r)
	}
	if err := b.tables(rows); err != nil {
		return err
	}
	failed := len(rows) - count[batch.StatusOK]
	if b.JSON {
		err := writeJSON(e.stdout, map[string]any{
			"models": len(rows), "ran": ran, "ok": count[batch.StatusOK], "failed": count[batch.StatusFailed],
			"refused": count[batch.StatusRefused], "time_outs": count[batch.StatusTimeout],
			"arena_bytes": arena, "program_order_peak_bytes": before,
		})
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintf(e.stdout, "models               %d, %d done now\n", len(rows), ran)
		fmt.Fprintf(e.stdout, "planned              %d, arenas of %s together, peaks in program order %s\n",
			count[batch.StatusOK], units.Short(arena), units.Short(before))
		for _, status := range []string{batch.StatusRefused, batch.StatusFailed, batch.StatusTimeout} {
			if n := count[status]; n > 0 {
				fmt.Fprintf(e.stdout, "%-20s %d\n", status, n)
			}
		}
		fmt.Fprintf(e.stdout, "wrote                %s\n", filepath.Join(b.out, "index.html")+", results.csv, journal.jsonl")
	}
	if failed > 0 {
		return &failure{exitFailed, fmt.Sprintf("%d of %d models failed", failed, len(rows))}
	}
	return nil
}

// tables writes results.csv and index.html.
func (b *batchRun) tables(rows []row) error {
	var table, page bytes.Buffer
	w := csv.NewWriter(&table)
	_ = w.Write([]string{
		"model", "status", "nodes", "program_order_peak_bytes", "peak_bytes", "lower_bound_bytes", "arena_bytes",
		"resident_bytes", "schedule_optimal", "placement_optimal", "ms", "error",
	})
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	for _, r := range rows {
		_ = w.Write([]string{
			r.Model, r.Status, strconv.Itoa(r.Nodes), n(r.ProgramPeakBytes), n(r.PeakBytes), n(r.LowerBoundBytes), n(r.ArenaBytes),
			n(r.ResidentBytes), strconv.FormatBool(r.ScheduleOptimal), strconv.FormatBool(r.PlacementOptimal),
			strconv.FormatFloat(r.MS, 'f', 0, 64), r.Error,
		})
	}
	w.Flush()
	if err := indexPage.Execute(&page, rows); err != nil {
		return err
	}
	var files []*atomicfile.File
	for _, f := range []struct {
		name string
		text []byte
	}{{"results.csv", table.Bytes()}, {"index.html", page.Bytes()}} {
		p, err := stage(filepath.Join(b.out, f.name), f.text)
		if err != nil {
			return err
		}
		files = append(files, p)
	}
	return atomicfile.Commit(false, files...)
}

var indexPage = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>onnxmem: {{len .}} models</title>
<style>
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}body{margin:2rem}table{border-collapse:collapse;width:100%}
th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #8884;white-space:nowrap}th:first-child,td:first-child{text-align:left;white-space:normal}
.failed,.refused,.time-out{color:#c0392b}
</style>
<h1>{{len .}} models</h1>
<table><thead><tr><th>model<th>status<th>nodes<th>peak, program order<th>peak<th>less<th>lower bound<th>arena<th>fragmentation, %<th>weights<th>ms</thead><tbody>
{{range .}}<tr><td>{{if .Report}}<a href="{{.Report}}">{{.Model}}</a>{{else}}{{.Model}}{{end}}<td class="{{.Status}}" title="{{.Error}}">{{.Status}}{{if .Nodes}}<td>{{.Nodes}}<td>{{.Size .ProgramPeakBytes}}<td>{{.Size .PeakBytes}}<td>{{.Less}}<td>{{.Size .LowerBoundBytes}}<td>{{.Size .ArenaBytes}}<td>{{.Fragmentation}}<td>{{.Size .ResidentBytes}}<td>{{printf "%.0f" .MS}}{{else}}<td colspan="9" style="text-align:left">{{.Error}}{{end}}
{{end}}</tbody></table></html>
`))

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ilp/solvers"
	"github.com/onnxmem/onnxmem/internal/cell"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// compareCmd compares strategies.
type compareCmd struct {
	File string `arg:"" in:"the input" help:"A model, a bare problem or buffers; - is standard input. A problem is JSON, buffers are CSV or JSON, gzipped or not."`

	modelFlags
	Align     int64           `group:"memory" placeholder:"N" help:"Alignment of offsets and sizes in bytes. Default: 64 for a model, else 1."`
	Effort    string          `group:"search" enum:"fast,default,max" default:"default" help:"Work of onnxmem's own searches. max also runs strategies that take minutes."`
	TimeLimit time.Duration   `group:"search" placeholder:"TIME" help:"Start no further strategy after TIME, such as 60s. onnxmem's own searches end then, too."`
	Olla      []time.Duration `group:"search" placeholder:"TIME,..." help:"Also run OLLA's integer program for the order. CP-SAT and HiGHS (pip install ortools) solve it, once for each TIME, such as 1s,10s,60s."`
	CSV       bool            `group:"output" name:"csv" xor:"form" help:"Print the table as CSV."`
	JSON      bool            `group:"output" name:"json" xor:"form" help:"Print one JSON object, and nothing else. It goes to standard output, messages to standard error."`
}

// Help is the text below the flags.
func (compareCmd) Help() string {
	return `onnxmem places each order; placements, shared objects and allocators are for the best order.
A star marks the rows that need the least. Weights are not read.

Examples:
  onnxmem compare model.onnx --dim batch=8
  onnxmem compare buffers.csv --csv > table.csv`
}

// Run reads, compares and prints.
func (c *compareCmd) Run(e *env) error {
	if c.Align < 0 {
		return usagef("alignment %d: expected 1 or more bytes", c.Align)
	}
	olla, err := c.olla()
	if err != nil {
		return err
	}
	dims, ranges := c.Dim.Corner()
	if ranges {
		e.say("the table is for the largest lengths of --dim")
	}
	bar := newProgress(e.stderr, len(schedule.Strategies)+len(alloc.Strategies)+len(alloc.ObjectStrategies)+len(alloc.Simulators)+len(olla)+2)
	defer bar.stop()
	opt := passes.CompareOptions{
		Options: passes.Options{
			Dims: dims, Values: c.Value, StrictDims: c.StrictDims, Strict: c.Strict, NoInplace: c.NoInplace, NoViews: c.NoViews, Runtime: c.Runtime, Align: c.Align, Effort: optimize.Efforts[c.Effort],
		},
		Olla:  olla,
		Begin: func(g passes.Group, strategy string) { bar.step(string(g) + " " + strategy) },
	}
	ctx := context.Background()
	if c.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.TimeLimit)
		defer cancel()
	}
	name, t, err := c.compare(ctx, opt)
	if err != nil {
		return err
	}
	bar.stop()
	warn(e, t.Dims, t.Warnings)
	switch {
	case c.JSON:
		return compareJSON(e.stdout, name, t)
	case c.CSV:
		return compareCSV(e.stdout, t)
	}
	compareText(e.stdout, name, t)
	return nil
}

// olla lists the rows that --olla asks for.
func (c *compareCmd) olla() (list []passes.OllaSolver, err error) {
	for _, s := range []struct{ name, title string }{{"cp-sat", "CP-SAT"}, {"highs", "HiGHS"}} {
		for _, d := range c.Olla {
			if d <= 0 {
				return nil, usagef("--olla %v: expected more than 0", d)
			}
			row := passes.OllaSolver{Name: s.title, Time: d}
			if row.Solver, err = optimize.OpenSolver(s.name); errors.Is(err, solvers.ErrMissing) {
				row.Why = "not run: " + s.title + " is not there"
			} else if err != nil {
				return nil, err
			}
			list = append(list, row)
		}
	}
	return list, nil
}

// compare determines what the file holds, reads it and compares.
func (c *compareCmd) compare(ctx context.Context, opt passes.CompareOptions) (name string, t *passes.Comparison, err error) {
	if c.File != "-" && strings.HasSuffix(c.File, ".onnx") {
		return c.compareModel(ctx, opt)
	}
	in, err := openInput(c.File)
	if err != nil {
		return "", nil, err
	}
	defer in.close()
	switch {
	case in.isJSON() && in.isProblem():
		var p *schedule.Problem
		if p, err = in.problem(); err == nil {
			t, err = passes.CompareProblem(ctx, p, opt)
		}
	case in.isJSON(), in.isCSV():
		var p alloc.Problem
		if p, _, err = in.buffers(); err == nil {
			t, err = passes.CompareBuffers(ctx, p, opt)
		}
	case c.File == "-":
		var text []byte
		var m *graph.Model
		if text, err = io.ReadAll(in); err != nil {
			return "", nil, err
		}
		if m, err = onnx.Parse(in.name, text); err == nil {
			t, err = passes.Compare(ctx, m, opt)
		}
	default:
		return c.compareModel(ctx, opt)
	}
	var refused *graph.Error
	if errors.As(err, &refused) && refused.File == "" {
		refused.File = in.name
	}
	return in.name, t, err
}

func (c *compareCmd) compareModel(ctx context.Context, opt passes.CompareOptions) (string, *passes.Comparison, error) {
	f, err := onnx.Open(c.File, onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	t, err := passes.Compare(ctx, f.Model, opt)
	return c.File, t, err
}

// isCSV reports whether the first line could be a header: text with a comma in
// it.
func (in *input) isCSV() bool {
	head, _ := in.Peek(512)
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.ContainsRune(line, ',') && !bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' && r != '\r' })
}

// isProblem reports whether a JSON text begins like a scheduling
// problem: an object with nodes before any buffers.
func isProblem(text []byte) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil || key == "buffers" {
			return false
		}
		if key == "nodes" || key == "tensors" {
			return true
		}
		if d.Decode(new(json.RawMessage)) != nil {
			return false
		}
	}
	return false
}

// groupTitles has the title of each group and its lower bound.
var groupTitles = []struct {
	group passes.Group
	title string
	bound func(*passes.Comparison) (what string, bytes int64)
}{
	{passes.GroupOrder, "order, placed by onnxmem", func(t *passes.Comparison) (string, int64) { return "no peak is below", t.OrderBound }},
	{passes.GroupPlacement, "placement in one arena", func(t *passes.Comparison) (string, int64) { return "no arena is below", t.ArenaBound }},
	{passes.GroupObjects, "placement in shared objects", func(t *passes.Comparison) (string, int64) { return "no sum is below", t.ObjectBound }},
	// The bytes in use when an allocator held the most are no peak: they may be fewer
	// than at another moment, and below every bound.
	{passes.GroupAllocator, fmt.Sprintf("%-27s %17s %11s %17s", "allocators at run time", "in use", "over bound", "most reserved"), nil},
}

// compareText prints the table for a terminal of 100 columns.
func compareText(w io.Writer, name string, t *passes.Comparison) {
	fmt.Fprintf(w, "%s: ", units.Name(name))
	if t.Nodes > 0 {
		fmt.Fprintf(w, "%s nodes, %s tensors, ", units.Group(int64(t.Nodes)), units.Group(int64(t.Tensors)))
	}
	fmt.Fprintf(w, "%s buffers\n\n", units.Group(int64(t.Buffers)))
	fmt.Fprintf(w, "  %-25s %17s %11s %17s %10s %11s\n", "bytes", "peak", "over bound", "taken", "fragm.", "ms")
	for _, g := range groupTitles {
		title := g.title
		if g.bound != nil {
			what, bytes := g.bound(t)
			title += fmt.Sprintf(": %s %s", what, units.Bytes(bytes))
		}
		for _, r := range t.Rows {
			if r.Group != g.group {
				continue
			}
			if title != "" {
				fmt.Fprintln(w, title)
				title = ""
			}
			if r.Left != "" {
				fmt.Fprintf(w, "  %-25s %s\n", r.Strategy, r.Left)
				continue
			}
			mark := " "
			if r.Best {
				mark = "*"
			}
			fmt.Fprintf(w, "%s %-25s %17s %9.2f %% %17s %8.2f %% %11.3f\n", mark, r.Strategy,
				units.Group(r.PeakBytes), r.OverBound, units.Group(r.ArenaBytes), r.Fragmentation, optimize.Milliseconds(r.Time))
		}
		for _, r := range t.Rows {
			if r.Group == g.group && r.SolverGap != nil {
				fmt.Fprintf(w, "  %s: %.2f %% between its peak and its bound\n", r.Strategy, *r.SolverGap)
			}
		}
	}
}

// compareCSV prints a line per row; strategies that were not run have no figures.
func compareCSV(w io.Writer, t *passes.Comparison) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"group", "strategy", "peak_bytes", "arena_bytes", "over_bound_percent", "fragmentation_percent", "ms", "best", "left_out", "requested_bytes"}}
	for _, r := range t.Rows {
		strategy := cell.Text(r.Strategy)
		line := []string{string(r.Group), strategy, "", "", "", "", "", "false", cell.Text(r.Left), ""}
		if r.Left == "" {
			peak, requested := strconv.FormatInt(r.PeakBytes, 10), ""
			if r.Group == passes.GroupAllocator {
				peak, requested = "", peak
			}
			line = []string{
				string(r.Group), strategy, peak, strconv.FormatInt(r.ArenaBytes, 10),
				fmt.Sprintf("%.4f", r.OverBound), fmt.Sprintf("%.4f", r.Fragmentation),
				fmt.Sprintf("%.3f", optimize.Milliseconds(r.Time)), strconv.FormatBool(r.Best), "", requested,
			}
		}
		lines = append(lines, line)
	}
	return errors.Join(out.WriteAll(lines), out.Error())
}

// The JSON form of a comparison.
type (
	comparison struct {
		File        string          `json:"file"`
		Nodes       int             `json:"nodes"`
		Tensors     int             `json:"tensors"`
		Buffers     int             `json:"buffers"`
		OrderBound  int64           `json:"lower_bound_bytes"`
		MaxLoad     int64           `json:"max_load_bytes"`
		ArenaBound  int64           `json:"arena_lower_bound_bytes"`
		ObjectBound int64           `json:"objects_lower_bound_bytes"`
		Rows        []comparisonRow `json:"rows"`
	}
	comparisonRow struct {
		Group         string  `json:"group"`
		Strategy      string  `json:"strategy"`
		Peak          *int64  `json:"peak_bytes,omitempty"`
		Requested     *int64  `json:"requested_bytes,omitempty"` // of an allocator, instead of a peak
		Arena         int64   `json:"arena_bytes"`
		OverBound     float64 `json:"over_bound_percent"`
		Fragmentation float64 `json:"fragmentation_percent"`
		MS            float64 `json:"ms"`
		Best          bool    `json:"best"`
		Left          string  `json:"left_out,omitempty"`

		SolverGap *float64 `json:"solver_gap_percent,omitempty"` // of a row of --olla
	}
)

func compareJSON(w io.Writer, name string, t *passes.Comparison) error {
	out := comparison{name, t.Nodes, t.Tensors, t.Buffers, t.OrderBound, t.MaxLoad, t.ArenaBound, t.ObjectBound, []comparisonRow{}}
	round := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	for _, r := range t.Rows {
		peak, requested := &r.PeakBytes, (*int64)(nil)
		if r.Group == passes.GroupAllocator {
			peak, requested = nil, peak
		}
		out.Rows = append(out.Rows, comparisonRow{
			string(r.Group), r.Strategy, peak, requested, r.ArenaBytes, round(r.OverBound), round(r.Fragmentation), optimize.Milliseconds(r.Time), r.Best, r.Left, r.SolverGap,
		})
	}
	return writeJSON(w, out)
}

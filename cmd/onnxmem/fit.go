package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/onnxmem/onnxmem/cmd/onnxmem/internal/fit"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
)

// fitCmd says on which devices a model fits.
type fitCmd struct {
	Model string `arg:"" in:"the model" help:"The model; - is standard input."`

	Devices    []string `group:"devices" placeholder:"NAME" help:"Only devices of this name or kind. A part of the name will do; kinds are microcontroller, process, gpu. May be repeated."`
	DeviceFile string   `group:"devices" in:"the devices" placeholder:"FILE.json" help:"Devices of your own, in place of the table."`
	CSV        bool     `group:"output" name:"csv" help:"Print a table of comma-separated values, in bytes."`
	trainFlags
	Slices string `group:"memory" enum:"off,exact,any" default:"off" help:"Slices that plans with extra time may have. Default: exact ones where a plan without them does not fit."`
	planFlags
}

// Help is the text below the flags.
func (fitCmd) Help() string {
	return `A device fits if it has room for the arena, the weights (on a microcontroller, in flash) and what onnxmem run
takes for itself. Where it does not, the row says what a plan that fits costs, or why there is none.

Examples:
  onnxmem fit model.onnx
  onnxmem fit model.onnx --devices gpu --train --optimizer adamw --dim batch=8
  onnxmem fit model.onnx --device-file boards.json --json`
}

// Run plans the model for each device, and prints.
func (c *fitCmd) Run(e *env) error {
	_, several := c.Dim.Corner()
	switch {
	case c.JSON && c.CSV:
		return usagef("expected at most one of --json and --csv")
	case several:
		return usagef("--dim: expected one length of each dimension")
	}
	known := c.PlanFlags.Options()
	if err := optimize.Refuse(&known, c); err != nil {
		return err
	}
	devices := fit.Devices()
	if c.DeviceFile != "" {
		var err error
		e.files.Reads("the devices", c.DeviceFile)
		if devices, err = fit.Read(c.DeviceFile); err != nil {
			return err
		}
	}
	devices, err := fit.Match(devices, c.Devices)
	if err != nil {
		return usagef("--devices: %v", err)
	}
	job := optimize.Job{In: c.Model, Tool: tool(), TrainFlags: c.trainFlags, PlanFlags: c.PlanFlags}
	job.Slices = c.Slices
	bar := newProgress(e.stderr, len(devices)+8)
	a, err := fit.Model(context.Background(), job, c.open(), devices, bar.step)
	bar.stop()
	if err != nil {
		return err
	}
	for _, m := range a.Missing {
		e.say("%s: external data not found, planning without", units.Name(m))
	}
	warn(e, a.Plan.Dims, a.Warnings)
	switch {
	case c.JSON:
		return writeJSON(e.stdout, fitAnswer(c.Model, a))
	case c.CSV:
		return fitTable(e.data, a)
	}
	c.text(e.stdout, a)
	return nil
}

// open returns a function that reads the model. Standard input is read once.
func (c *fitCmd) open() func() (*onnx.File, error) {
	read := sync.OnceValues(func() ([]byte, error) { return io.ReadAll(os.Stdin) })
	return func() (*onnx.File, error) {
		if c.Model != "-" {
			return onnx.Open(c.Model, onnx.ReadOptions{AllowMissingWeights: c.AllowMissingWeights})
		}
		text, err := read()
		if err != nil {
			return nil, refusedf(c.Model, "%w", err)
		}
		m, err := onnx.Parse("standard input", text)
		return &onnx.File{Model: m}, err
	}
}

// name is that of the model, for people.
func (c *fitCmd) name() string {
	if c.Model == "-" {
		return "standard input"
	}
	return units.Name(c.Model)
}

// text prints what fits on one screen.
func (c *fitCmd) text(w io.Writer, a *fit.Answer) {
	what := "inference"
	if c.Train {
		what = "training, " + c.Optimizer
	}
	if a.BatchDim != "" {
		what += fmt.Sprintf(", %s = %d", units.Name(a.BatchDim), a.Length)
	}
	s := &a.Plan.Summary
	fmt.Fprintf(w, "%s, %s: arena %s, resident %s\n", c.name(), what, units.Short(a.Need.Arena), units.Short(a.Need.Resident))
	if s.ScheduleOptimal && s.PlacementOptimal {
		fmt.Fprint(w, "No order of the nodes needs a smaller arena.")
	} else {
		fmt.Fprintf(w, "No order of the nodes needs an arena below %s.", units.Short(a.Need.Bound))
	}
	fmt.Fprintf(w, " A process of onnxmem run takes about %s.\n\n", units.Short(a.Process))
	rows := [][]string{{"DEVICE", "MEMORY", "FOR A PLAN", "FITS", "LARGEST BATCH", ""}}
	for i := 0; i < len(a.Rows); i++ {
		r := &a.Rows[i]
		last := i
		for r.Why != "" && last+1 < len(a.Rows) && a.Rows[last+1].Why == r.Why {
			last++
		}
		row := []string{r.Name, units.Short(r.Bytes), units.Short(max(r.Bytes-r.Taken, 0)), "yes", "", ""}
		if i < last { // all for the same reason
			row[0] += fmt.Sprintf(", and %d more", last-i)
			row[1], row[2] = "up to "+units.Short(a.Rows[last].Bytes), ""
			i = last
		}
		switch {
		case r.Extra != nil:
			row[3], row[5] = fmt.Sprintf("+%.1f %%", *r.Extra), fmt.Sprintf("arena %s with that much more time", units.Short(r.LimitedArena))
		case !r.Fits && r.Proven:
			row[3], row[5] = "no", r.Why
		case !r.Fits:
			row[3], row[5] = "not found", r.Why
		}
		if a.BatchDim != "" && r.Batch > 0 {
			row[4] = units.Group(r.Batch)
		}
		rows = append(rows, row)
	}
	aligned(w, rows)
	if len(a.Helps) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows = [][]string{{"WHAT HELPS", "ARENA", "RESIDENT", "MORE TIME", ""}}
	for _, h := range a.Helps {
		extra := ""
		if h.Extra >= 0.05 {
			extra = fmt.Sprintf("%.1f %%", h.Extra)
		}
		rows = append(rows, []string{h.Flags, units.Short(h.Need.Arena), units.Short(h.Need.Resident), extra, h.What})
	}
	aligned(w, rows)
}

// aligned prints rows with aligned columns, but for the last.
func aligned(w io.Writer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", width[i], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// The JSON form of an answer; see docs/formats/fit.md.
type (
	fitJSON struct {
		File     string    `json:"file"`
		Arena    int64     `json:"arena_bytes"`
		Resident int64     `json:"resident_bytes"`
		Bound    int64     `json:"lower_bound_bytes"`
		Process  int64     `json:"process_bytes"`
		BatchDim string    `json:"batch_dim,omitempty"`
		Batch    int64     `json:"batch,omitempty"`
		Devices  []fitRow  `json:"devices"`
		Helps    []fitHelp `json:"helps"`
	}
	fitRow struct {
		Name   string   `json:"name"`
		Kind   fit.Kind `json:"kind"`
		Memory int64    `json:"memory_bytes"`
		Flash  int64    `json:"flash_bytes,omitempty"`
		Taken  int64    `json:"runtime_bytes"`
		Fits   bool     `json:"fits"`
		Batch  int64    `json:"largest_batch,omitempty"`
		Arena  int64    `json:"limited_arena_bytes,omitempty"`
		Extra  *float64 `json:"extra_cost_percent,omitempty"`
		Why    string   `json:"why,omitempty"`
		Proven bool     `json:"proven_impossible,omitempty"`
	}
	fitHelp struct {
		Flags    string  `json:"flags"`
		What     string  `json:"what"`
		Arena    int64   `json:"arena_bytes"`
		Resident int64   `json:"resident_bytes"`
		Extra    float64 `json:"extra_cost_percent"`
	}
)

func fitAnswer(file string, a *fit.Answer) fitJSON {
	out := fitJSON{
		File: file, Arena: a.Need.Arena, Resident: a.Need.Resident, Bound: a.Need.Bound, Process: a.Process, BatchDim: a.BatchDim, Batch: a.Length,
		Devices: []fitRow{}, Helps: []fitHelp{},
	}
	for _, r := range a.Rows {
		out.Devices = append(out.Devices, fitRow{r.Name, r.Kind, r.Bytes, r.Flash, r.Taken, r.Fits, r.Batch, r.LimitedArena, r.Extra, r.Why, r.Proven})
	}
	for _, h := range a.Helps {
		out.Helps = append(out.Helps, fitHelp{h.Flags, h.What, h.Need.Arena, h.Need.Resident, h.Extra})
	}
	return out
}

// fitTable prints a row for each device, in bytes.
func fitTable(w io.Writer, a *fit.Answer) error {
	out := csv.NewWriter(w)
	out.Write([]string{"device", "kind", "memory", "flash", "runtime", "arena", "resident", "fits", "largest_batch", "limited_arena", "extra_cost_percent", "why", "proven"})
	for _, r := range a.Rows {
		extra := ""
		if r.Extra != nil {
			extra = strconv.FormatFloat(*r.Extra, 'f', 3, 64)
		}
		out.Write([]string{
			r.Name, string(r.Kind), number(r.Bytes), number(r.Flash), number(r.Taken), number(a.Need.Arena), number(a.Need.Resident),
			strconv.FormatBool(r.Fits), number(r.Batch), number(r.LimitedArena), extra, r.Why, strconv.FormatBool(r.Proven),
		})
	}
	out.Flush()
	return out.Error()
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

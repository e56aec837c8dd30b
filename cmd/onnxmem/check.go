package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// checkCmd compares a plan with limits.
type checkCmd struct {
	File string `arg:"" in:"the input" help:"A plan, a model or a bare problem; - is standard input. The plan of a planned model is verified first; a model is planned for the check, not written; the nodes of a bare problem (JSON, gzipped or not) are ordered and its buffers placed."`

	MaxArena  *units.Size `group:"checks" placeholder:"SIZE" help:"Largest arena, such as 512KiB."`
	MaxPeak   *units.Size `group:"checks" placeholder:"SIZE" help:"Largest peak."`
	MaxTotal  *units.Size `group:"checks" placeholder:"SIZE" help:"Largest sum of arena and resident."`
	Baseline  string      `group:"checks" in:"the baseline" placeholder:"PLAN" help:"An older FILE whose figures are the limits. It is a plan, or beside a bare problem a bare problem. Its peak, arena and total must not be exceeded."`
	MaxGrowth *percent    `group:"checks" placeholder:"PERCENT" help:"Growth allowed over the baseline, such as 2%. Default 0%."`
	Format    string      `group:"output" enum:"text,github" default:"text" help:"Form of the lines. github: exceeded limits as workflow annotations."`
	sourceFlags
}

// Help is the text below the flags.
func (checkCmd) Help() string {
	return `Prints one line for each limit. If one is exceeded, its line says why, and the exit status is 1.

Examples:
  onnxmem check model.onnx --max-arena 512KiB
  onnxmem check model.onnx --baseline model.plan.json --max-growth 2% --format github`
}

// Run reads or makes the plan, and compares.
func (c *checkCmd) Run(e *env) error {
	if err := c.usage(); err != nil {
		return err
	}
	kind, text, err := peek(c.File)
	if err != nil {
		return err
	}
	in, err := bareProblem(c.File, kind, text)
	if err != nil {
		return err
	}
	l := plan.Limits{Peak: (*int64)(c.MaxPeak), Arena: (*int64)(c.MaxArena), Total: (*int64)(c.MaxTotal)}
	if c.MaxGrowth != nil {
		l.Growth = float64(*c.MaxGrowth)
	}
	if in != nil {
		defer in.close()
		return c.problem(e, in, l)
	}
	if c.Baseline != "" {
		if l.Baseline, err = c.baseline(); err != nil {
			return err
		}
	}
	s, err := c.openKind(e, c.File, kind, text)
	if err != nil {
		return err
	}
	if err := c.only(s); err != nil {
		return err
	}
	defer s.close()
	if err := c.point(s); err != nil {
		return err
	}
	if l.Baseline != nil && l.Baseline.Ranges != nil && len(c.At) > 0 {
		dims, _ := c.At.Corner()
		if l.Baseline, err = l.Baseline.At(dims, nil); err != nil {
			return &graph.Error{File: c.Baseline, Offset: -1, Err: err}
		}
	}
	if l.Baseline != nil {
		for _, x := range l.Baseline.Diff(s.plan).Settings {
			e.say("%s: %s", c.Baseline, report.Setting(x))
		}
	}
	return c.gates(e, s, l)
}

// gates compares the plan with the limits; it fails with status 1 if one is exceeded.
func (c *checkCmd) gates(e *env, s *source, l plan.Limits) error {
	gates := s.plan.Gates(l)
	met := true
	for _, g := range gates {
		met = met && g.Met
	}
	if err := c.print(e, s, gates, met); err != nil {
		return err
	}
	if !met {
		return &failure{status: exitFailed}
	}
	return nil
}

// usage checks the command line by itself.
func (c *checkCmd) usage() error {
	switch {
	case c.MaxArena == nil && c.MaxPeak == nil && c.MaxTotal == nil && c.Baseline == "":
		return usagef("nothing to check: expected --max-arena, --max-peak, --max-total or --baseline")
	case c.MaxGrowth != nil && c.Baseline == "":
		return usagef("--max-growth needs --baseline")
	case c.Baseline == "-" && c.File == "-":
		return usagef("FILE and the baseline cannot both come from standard input")
	case c.JSON && c.Format != "text":
		return usagef("expected at most one of --json and --format")
	}
	return nil
}

// baseline reads the older plan.
func (c *checkCmd) baseline() (*plan.Plan, error) {
	p, err := readPlan(c.Baseline)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, &graph.Error{File: c.Baseline, Offset: -1, Err: err}
	}
	return p, nil
}

// print says for each gate whether it is met.
func (c *checkCmd) print(e *env, s *source, gates []plan.Gate, met bool) error {
	if c.JSON {
		return writeJSON(e.stdout, struct {
			File  string      `json:"file"`
			Met   bool        `json:"met"`
			Gates []plan.Gate `json:"gates"`
			plan.Summary
		}{s.name, met, gates, s.plan.Summary})
	}
	for _, g := range gates {
		line := report.Gate(s.plan, g)
		switch {
		case c.Format == "github" && !g.Met:
			fmt.Fprintln(e.stdout, annotation(c.File, g.Figure, line))
		case g.Met:
			fmt.Fprintf(e.stdout, "%s: ok: %s\n", units.Name(s.name), line)
		default:
			fmt.Fprintf(e.stdout, "%s: %s\n", units.Name(s.name), line)
		}
	}
	return nil
}

// annotation is an error in the form that GitHub's workflows show beside a file.
func annotation(file, figure, message string) string {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	where := ""
	if file != "-" {
		where = "file=" + property.Replace(file) + ","
	}
	return fmt.Sprintf("::error %stitle=%s::%s", where, property.Replace("onnxmem: "+figure), data.Replace(message))
}

// percent is a percentage as users write it: 2%, 0.5 %.
type percent float64

// mostPercent is the largest percentage: more growth is no limit.
const mostPercent = 1e6

// UnmarshalText parses a percentage.
func (p *percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || v < 0 || v > mostPercent || math.IsNaN(v) {
		return fmt.Errorf("%q is not a percentage: expected one such as 2%%", text)
	}
	*p = percent(v)
	return nil
}

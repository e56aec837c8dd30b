package batch

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/internal/cell"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/internal/printable"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/report"
)

// Table is the result of a batch.
type Table struct {
	rows         []row
	count        map[string]int // by status
	Ran          int            // number of models that this run worked on
	ArenaBytes   int64          // sum over all models
	ProgramBytes int64          // sum of the peaks in program order
	Assumed      int            // number of models with dimensions that nobody bound
	GivenUp      int            // number of models that were planned without a feature, since the plan was not valid
}

// row is a model in the tables.
type row struct {
	Entry
	plan.Summary
	ranged
	Assumed map[string]int64 // dimensions that nobody bound
	GivenUp []passes.GivenUp // what it was planned without, since the plan was not valid
	Report  string           // path of its report, relative to OUT; "" if there is none
}

// ranged has the figures of a plan for ranges of dimensions; zero of another plan.
type ranged struct {
	Points        int     `json:"points"`
	Refused       int     `json:"refused_points"`
	OptimalPoints int     `json:"optimal_points"`
	WorstRatio    float64 `json:"worst_ratio"` // arena / lower bound
}

// Ratio is the worst ratio of arena and lower bound, rounded up: 1.000 is the bound.
func (r ranged) Ratio() string { return fmt.Sprintf("%.3f", math.Ceil(r.WorstRatio*1000-1e-6)/1000) }

// Fragmentation is the fragmentation of the arena, in per cent.
func (r row) Fragmentation() string { return fmt.Sprintf("%.2f", report.Fragmentation(r.Summary)) }

// Less says by how much the planned peak is below that of the file.
func (r row) Less() string {
	return strings.TrimPrefix(report.Less(r.ProgramPeakBytes, r.PeakBytes), ", ")
}

// Dims lists the assumed dimensions for people.
func (r row) Dims() string { return printable.Text(r.dims()) }

// dims lists the assumed dimensions with their lengths, sorted by name.
func (r row) dims() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(r.Assumed)) {
		list = append(list, fmt.Sprintf("%s=%d", name, r.Assumed[name]))
	}
	return strings.Join(list, " ")
}

// Without lists what was given up for a valid plan.
func (r row) Without() string {
	var list []string
	for _, g := range r.GivenUp {
		list = append(list, g.Feature)
	}
	return strings.Join(list, ", ")
}

// Why says why that was given up; for a model without a plan, it is the error.
func (r row) Why() string {
	text := r.Error
	for _, g := range r.GivenUp {
		text += printable.Escape(g.String()) + "\n"
	}
	return text
}

// Size formats a number of bytes for people.
func (r row) Size(n int64) string { return units.Short(n) }

// NewTable makes the table of entries, in their order. reports: each model has a
// report.
func NewTable(entries []Entry, reports bool) (*Table, error) {
	t := &Table{count: map[string]int{}}
	for _, e := range entries {
		r := row{Entry: e}
		if e.Result != nil {
			known := struct {
				plan.Summary
				ranged
				Assumed map[string]int64 `json:"assumed_dims"`
				GivenUp []passes.GivenUp `json:"given_up"`
			}{}
			if err := json.Unmarshal(e.Result, &known); err != nil {
				return nil, fmt.Errorf("the result of %s: %w", printable.Text(e.Model), err)
			}
			r.Summary, r.ranged, r.Assumed, r.GivenUp = known.Summary, known.ranged, known.Assumed, known.GivenUp
		}
		if e.Status == StatusOK && reports {
			r.Report = filepath.ToSlash(optimize.ReportPath(e.Model))
		}
		t.rows = append(t.rows, r)
		t.count[e.Status]++
		t.ArenaBytes += r.ArenaBytes
		t.ProgramBytes += r.ProgramPeakBytes
		if len(r.Assumed) > 0 {
			t.Assumed++
		}
		if len(r.GivenUp) > 0 {
			t.GivenUp++
		}
	}
	return t, nil
}

// Models is the number of models.
func (t *Table) Models() int { return len(t.rows) }

// Failed is the number of models that were not planned.
func (t *Table) Failed() int { return len(t.rows) - t.count[StatusOK] }

// Totals are the sums as a JSON object.
func (t *Table) Totals() map[string]any {
	return map[string]any{
		"models": len(t.rows), "ran": t.Ran, "ok": t.count[StatusOK], "failed": t.count[StatusFailed],
		"refused": t.count[StatusRefused], "time_outs": t.count[StatusTimeout],
		"assumed_dims": t.Assumed, "given_up": t.GivenUp, "arena_bytes": t.ArenaBytes, "program_order_peak_bytes": t.ProgramBytes,
	}
}

// Print prints the sums.
func (t *Table) Print(w io.Writer) {
	fmt.Fprintf(w, "models               %d, %d done now\n", len(t.rows), t.Ran)
	fmt.Fprintf(w, "planned              %d, arenas of %s together, peaks in program order %s\n",
		t.count[StatusOK], units.Short(t.ArenaBytes), units.Short(t.ProgramBytes))
	if t.Assumed > 0 {
		fmt.Fprintf(w, "assumed dimensions   %d models: results.csv lists what was taken as 1 (see --dim and --dims)\n", t.Assumed)
	}
	if t.GivenUp > 0 {
		fmt.Fprintf(w, "not as asked         %d models: given_up in results.csv names what the plan is without, since it was not valid with it (please report that)\n", t.GivenUp)
	}
	for _, status := range []string{StatusRefused, StatusFailed, StatusTimeout} {
		if n := t.count[status]; n > 0 {
			fmt.Fprintf(w, "%-20s %d\n", status, n)
		}
	}
}

// Files returns results.csv and index.html, by name.
func (t *Table) Files() (map[string][]byte, error) {
	var table, page bytes.Buffer
	w := csv.NewWriter(&table)
	_ = w.Write([]string{
		"model", "status", "nodes", "program_order_peak_bytes", "peak_bytes", "lower_bound_bytes", "arena_bytes",
		"resident_bytes", "schedule_optimal", "placement_optimal", "ms", "error", "assumed_dims",
		"points", "refused_points", "optimal_points", "worst_ratio", "given_up",
	})
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	for _, r := range t.rows {
		figures := make([]string, 8) // empty if not known
		if r.Result != nil {
			figures = []string{
				strconv.Itoa(r.Nodes), n(r.ProgramPeakBytes), n(r.PeakBytes), n(r.LowerBoundBytes), n(r.ArenaBytes),
				n(r.ResidentBytes), strconv.FormatBool(r.ScheduleOptimal), strconv.FormatBool(r.PlacementOptimal),
			}
		}
		ranges := make([]string, 4) // empty without ranges
		if r.Points > 0 {
			ranges = []string{strconv.Itoa(r.Points), strconv.Itoa(r.Refused), strconv.Itoa(r.OptimalPoints), r.Ratio()}
		}
		// The journal has the names unchanged; this table is for spreadsheets.
		model, message := cell.Text(printable.Escape(r.Model)), cell.Text(printable.Escape(r.Error))
		_ = w.Write(slices.Concat([]string{model, r.Status}, figures, []string{strconv.FormatFloat(r.MS, 'f', 0, 64), message, cell.Text(printable.Escape(r.dims()))}, ranges, []string{r.Without()}))
	}
	w.Flush()
	if err := indexPage.Execute(&page, t); err != nil {
		return nil, err
	}
	return map[string][]byte{"results.csv": table.Bytes(), "index.html": page.Bytes()}, nil
}

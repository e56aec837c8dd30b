package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// TextCurve draws the load over the steps for a terminal of the given width in
// characters: the planned order as blocks, the program order as dots where it is
// higher, the lower bound as a line. If there are more steps than columns, a
// column shows the largest load of its steps. p must be consistent (plan.Check).
// With colour it uses the terminal's colours.
func TextCurve(w io.Writer, p *plan.Plan, width int, colour bool) {
	if len(p.Steps) == 0 {
		return
	}
	const rows, label = 14, 12
	c := textCurve{rows: rows, top: float64(max(1, p.Summary.PeakBytes, p.Summary.ProgramPeakBytes)), colour: colour}
	columns := max(10, width-label-2)
	planned := make([]int64, len(p.Steps))
	for i := range p.Steps {
		planned[i] = p.Steps[i].LoadBytes
	}
	c.planned = columnsOf(planned, columns)
	if !slices.Equal(planned, p.ProgramOrder.LoadBytes) {
		c.program = columnsOf(p.ProgramOrder.LoadBytes, columns)
	}
	c.bound = c.row(p.Summary.LowerBoundBytes)
	for r := rows - 1; r >= 0; r-- {
		name := ""
		switch {
		case r == c.row(p.Summary.PeakBytes):
			name = units.Short(p.Summary.PeakBytes)
		case r == c.row(p.Summary.ProgramPeakBytes):
			name = units.Short(p.Summary.ProgramPeakBytes)
		case r == c.bound:
			name = units.Short(p.Summary.LowerBoundBytes)
		}
		fmt.Fprintf(w, "%*s │%s\n", label, name, strings.TrimRight(c.line(r), " "))
	}
	fmt.Fprintf(w, "%*s └%s\n", label, "0 B", strings.Repeat("─", columns))
	last := fmt.Sprint(len(p.Steps) - 1)
	fmt.Fprintf(w, "%*s  0%*s\n", label, "step", columns-1, last)
	key := c.paint("█", blue) + " planned order   "
	if c.program != nil {
		key += c.paint("·", yellow) + " program order   "
	}
	fmt.Fprintf(w, "%*s  %s%s lower bound\n", label, "", key, c.paint("─", red))
}

// Escape sequences of the terminal's colours.
const (
	blue   = "34"
	yellow = "33"
	red    = "31"
)

type textCurve struct {
	rows             int
	top              float64 // bytes at the upper edge of the topmost row
	bound            int     // its row
	planned, program []int64 // by column
	colour           bool
}

// columnsOf maps a load to columns: the largest of each, or the nearest.
func columnsOf(load []int64, columns int) []int64 {
	if len(load) == 0 {
		return nil
	}
	out := make([]int64, columns)
	for c := range out {
		from := c * len(load) / columns
		to := max(from+1, (c+1)*len(load)/columns)
		out[c] = slices.Max(load[from:to])
	}
	return out
}

// eighths is the height of a load in eighths of rows; a load that is not 0 has at
// least one.
func (c *textCurve) eighths(bytes int64) int {
	n := int(float64(bytes) / c.top * float64(8*c.rows))
	if n == 0 && bytes > 0 {
		return 1
	}
	return min(n, 8*c.rows)
}

// row is the row of the top of a load.
func (c *textCurve) row(bytes int64) int { return max(0, (c.eighths(bytes)-1)/8) }

// line is one row.
func (c *textCurve) line(r int) string {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	var out strings.Builder
	for i, load := range c.planned {
		fill := min(8, max(0, c.eighths(load)-8*r))
		switch {
		case fill > 0:
			out.WriteString(c.paint(string(blocks[fill]), blue))
		case c.program != nil && c.program[i] > 0 && c.row(c.program[i]) == r:
			out.WriteString(c.paint("·", yellow))
		case r == c.bound:
			out.WriteString(c.paint("─", red))
		default:
			out.WriteByte(' ')
		}
	}
	return out.String()
}

func (c *textCurve) paint(text, colour string) string {
	if !c.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

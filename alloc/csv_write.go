package alloc

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/internal/cell"
)

// Dialect is the header of a CSV: the names of its columns, in the order of the file
// (see [ReadCSV]). In a dialect with a column "end", last steps are inclusive.
type Dialect []string

// WriteCSV writes buffers for [ReadCSV] in MiniMalloc's dialect: id, lower, upper and
// size, then the columns that [Dialect.Write] adds.
func (p Problem) WriteCSV(w io.Writer, a *Placement) error {
	return Dialect{"id", "lower", "upper", "size"}.Write(w, p, a)
}

// Write writes buffers in this dialect. It appends the columns that the problem needs
// and the dialect lacks: alignment, hint and gaps if a buffer has one, and offset.
// Offsets are those of the placement; without one, the fixed offsets if there are
// any. A buffer without an ID gets its index. An ID that a spreadsheet would take for
// a formula, such as =a or @a, gets a leading apostrophe, which ReadCSV removes: IDs
// may be the names of tensors in untrusted models.
func (d Dialect) Write(w io.Writer, p Problem, a *Placement) error {
	if a != nil && len(a.Offsets) != len(p.Buffers) {
		return fmt.Errorf("offsets: expected one for each of %d buffers, found %d", len(p.Buffers), len(a.Offsets))
	}
	c := csvWriter{p: p, a: a, inclusive: slices.Contains(d, "end")}
	for i := range p.Buffers {
		if err := c.check(i); err != nil {
			return err
		}
	}
	d = append(slices.Clone(d), c.missing(d)...)
	out := bufio.NewWriter(w)
	line := []byte(strings.Join(d, ","))
	for i := range p.Buffers {
		out.Write(append(line, '\n'))
		line = line[:0]
		for k, name := range d {
			if k > 0 {
				line = append(line, ',')
			}
			line = c.append(line, meanings[name], i)
		}
	}
	out.Write(append(line, '\n'))
	return out.Flush()
}

// csvWriter is the state of writing a file.
type csvWriter struct {
	p         Problem
	a         *Placement
	inclusive bool
}

// check returns an error if the dialect cannot represent a buffer.
func (c *csvWriter) check(i int) error {
	b := &c.p.Buffers[i]
	if err := checkID(b.ID); err != nil {
		return fmt.Errorf("%s: %w", c.p.name(i), err)
	}
	if b.Last == math.MaxInt && !c.inclusive {
		return fmt.Errorf("%s: lifetime: expected a last step below %d", c.p.name(i), math.MaxInt)
	}
	return nil
}

// missing lists the columns that the problem needs and the dialect lacks.
func (c *csvWriter) missing(d Dialect) (names []string) {
	var align, hint, gaps, fixed bool
	for i := range c.p.Buffers {
		b := &c.p.Buffers[i]
		align = align || c.p.align(i) > 1
		hint = hint || b.Hint != nil
		gaps = gaps || len(b.Gaps) > 0
		fixed = fixed || b.Fixed != nil
	}
	for _, column := range []struct {
		name string
		used bool
	}{{"alignment", align}, {"hint", hint}, {"gaps", gaps}, {"offset", fixed || c.a != nil}} {
		if column.used && !slices.Contains(d, column.name) {
			names = append(names, column.name)
		}
	}
	return names
}

// append appends the field of buffer i in the column with this meaning.
func (c *csvWriter) append(line []byte, meaning string, i int) []byte {
	b := &c.p.Buffers[i]
	switch meaning {
	case "id":
		if b.ID == "" {
			return strconv.AppendInt(line, int64(i), 10)
		}
		return append(line, cell.Text(b.ID)...)
	case "lower":
		return strconv.AppendInt(line, int64(b.First), 10)
	case "upper":
		return strconv.AppendInt(line, c.upper(b.Last), 10)
	case "size":
		return strconv.AppendInt(line, b.Size, 10)
	case "alignment":
		return strconv.AppendInt(line, c.p.align(i), 10)
	case "hint":
		return appendOptional(line, b.Hint)
	case "gaps":
		for k, g := range b.Gaps {
			if k > 0 {
				line = append(line, ' ')
			}
			line = fmt.Appendf(line, "%d-%d", g.First, c.upper(g.Last))
			if g.From < g.To {
				line = fmt.Appendf(line, "@%d:%d", g.From, g.To)
			}
		}
		return line
	case "offset":
		if c.a != nil {
			return strconv.AppendInt(line, c.a.Offsets[i], 10)
		}
		return appendOptional(line, b.Fixed)
	}
	return line
}

// upper returns a last step in the form of the dialect.
func (c *csvWriter) upper(last int) int64 {
	if c.inclusive {
		return int64(last)
	}
	return int64(last) + 1
}

// appendOptional appends nothing for nil, which [ReadCSV] reads as nil.
func appendOptional(line []byte, x *int64) []byte {
	if x == nil {
		return line
	}
	return strconv.AppendInt(line, *x, 10)
}

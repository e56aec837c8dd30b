package alloc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/onnxmem/onnxmem/internal/cell"
)

// CSVError is an error in a CSV of buffers, with its place.
type CSVError struct {
	Line   int    // from 1; 0: the whole file
	Column string // empty: the whole line
	Err    error
}

func (e *CSVError) Error() string {
	switch {
	case e.Line == 0:
		return e.Err.Error()
	case e.Column == "":
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: column %q: %v", e.Line, e.Column, e.Err)
}

func (e *CSVError) Unwrap() error { return e.Err }

// meanings maps the column names that a header may use to their meanings.
var meanings = map[string]string{
	"id": "id", "buffer": "id", "buffer_id": "id",
	"lower": "lower", "start": "lower", "begin": "lower",
	"upper": "upper", "end": "upper",
	"size": "size", "alignment": "alignment", "hint": "hint", "gaps": "gaps", "offset": "offset",
}

// A small compressed file may inflate without end, so the memory of a line of CSV
// and the number of buffers in a file are bounded.
const (
	maxLine    = 1 << 20 // bytes
	maxBuffers = 1 << 22
)

// ReadCSV reads the buffers of a CSV in MiniMalloc's format: a header that names the
// columns, in any order, then one buffer per line.
//
//	id, buffer, buffer_id    any text without a comma; '=a stands for =a (see [Dialect.Write])
//	lower, start, begin      the first step
//	upper                    the step after the last one
//	end                      the last step; gaps are inclusive then, too
//	size                     bytes
//	alignment, hint, offset  bytes; empty: none; a hint below 0: none; offset: fixed
//	gaps                     such as "7-8 9-10@1:17": steps, and the bytes that remain in use
//
// Empty lines at the end, blanks around fields and "\r\n" are accepted. The problem
// is valid, or the error is a [*CSVError].
func ReadCSV(r io.Reader) (Problem, error) {
	p, _, err := ReadDialect(r)
	return p, err
}

// ReadDialect is [ReadCSV], but also returns the header, for [Dialect.Write].
func ReadDialect(r io.Reader) (Problem, Dialect, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var c csvReader
	blank := 0
	for lines.Scan() {
		c.line++
		text := strings.TrimSpace(lines.Text())
		if c.line == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		var err error
		switch {
		case text == "":
			blank = c.line
			continue
		case c.header == nil:
			err = c.readHeader(text)
		case blank > 0:
			err = &CSVError{Line: blank, Err: errors.New("expected a buffer, found an empty line")}
		default:
			err = c.readBuffer(text)
		}
		if failed := lines.Err(); err != nil && failed != nil {
			err = failed // the line was cut off by it
		}
		if err != nil {
			return Problem{}, nil, err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Problem{}, nil, &CSVError{Line: c.line + 1, Err: fmt.Errorf("expected at most %d bytes in a line", maxLine)}
	case err != nil:
		return Problem{}, nil, err
	case c.header == nil:
		return Problem{}, nil, &CSVError{Err: errors.New("expected a header such as id,lower,upper,size, found nothing")}
	}
	if err := c.problem.Validate(); err != nil {
		return Problem{}, nil, &CSVError{Err: err}
	}
	return c.problem, c.header, nil
}

// csvReader is the state of reading a file.
type csvReader struct {
	line    int
	header  Dialect        // with the names of the file
	column  map[string]int // by meaning: the index of the column
	last    int64          // 0: upper is exclusive; 1: end is inclusive
	fields  []string       // of the current line
	problem Problem
}

func (c *csvReader) readHeader(text string) error {
	c.header = strings.Split(text, ",")
	c.column = map[string]int{}
	for i, name := range c.header {
		name = strings.TrimSpace(name)
		c.header[i] = name
		meaning, ok := meanings[name]
		if !ok {
			return &CSVError{c.line, name, errors.New("unknown: expected id, lower, upper, size, alignment, hint, gaps or offset")}
		}
		if _, duplicate := c.column[meaning]; duplicate {
			return &CSVError{c.line, name, fmt.Errorf("duplicate column for %s", meaning)}
		}
		c.column[meaning] = i
		if name == "end" {
			c.last = 1
		}
	}
	for _, name := range []string{"id", "lower", "upper", "size"} {
		if _, ok := c.column[name]; !ok {
			return &CSVError{Line: c.line, Err: fmt.Errorf("expected a column %q, found %.200q", name, text)}
		}
	}
	return nil
}

func (c *csvReader) readBuffer(text string) error {
	if len(c.problem.Buffers) == maxBuffers {
		return &CSVError{Line: c.line, Err: fmt.Errorf("expected at most %d buffers", maxBuffers)}
	}
	c.fields = strings.Split(text, ",")
	if len(c.fields) != len(c.header) {
		return &CSVError{Line: c.line, Err: fmt.Errorf("expected %d fields, found %d", len(c.header), len(c.fields))}
	}
	first, err := c.number("lower", math.MinInt64+1)
	if err != nil {
		return err
	}
	upper, err := c.number("upper", math.MinInt64+1)
	if err != nil {
		return err
	}
	last := upper - 1 + c.last
	if last < first {
		return c.fault("upper", fmt.Errorf("expected a lifetime of at least one step from %d on, found %d", first, upper))
	}
	b := Buffer{ID: c.field("id"), First: int(first), Last: int(last)}
	if err := checkID(b.ID); err != nil {
		return c.fault("id", err)
	}
	if name := cell.Name(b.ID); checkID(name) == nil {
		b.ID = name
	}
	if b.Size, err = c.number("size", 0); err != nil {
		return err
	}
	if align, err := c.optional("alignment"); err != nil {
		return err
	} else if align != nil {
		b.Align = *align
	}
	if b.Hint, err = c.optional("hint"); err != nil {
		return err
	} else if b.Hint != nil && *b.Hint < 0 {
		b.Hint = nil
	}
	if b.Fixed, err = c.optional("offset"); err != nil {
		return err
	}
	for _, text := range strings.Fields(c.field("gaps")) {
		g, ok := parseGap(text, c.last)
		if !ok {
			return c.fault("gaps", fmt.Errorf("expected steps and bytes such as 9-10@1:17, found %.64q", text))
		}
		b.Gaps = append(b.Gaps, g)
	}
	c.problem.Buffers = append(c.problem.Buffers, b)
	return nil
}

// checkID returns an error if the ID would not survive writing and reading. Readers
// differ in how they treat a carriage return within a line, so it is not allowed.
func checkID(id string) error {
	if strings.ContainsAny(id, ",\r\n") || strings.TrimSpace(id) != id {
		return fmt.Errorf("expected an ID without commas, line ends and blanks around it, found %.64q", id)
	}
	return nil
}

// field returns the text of a column, or the empty string if the file has no such
// column.
func (c *csvReader) field(meaning string) string {
	if i, ok := c.column[meaning]; ok {
		return strings.TrimSpace(c.fields[i])
	}
	return ""
}

func (c *csvReader) number(meaning string, least int64) (int64, error) {
	x, err := strconv.ParseInt(c.field(meaning), 10, 64)
	if err != nil || x < least {
		return 0, c.fault(meaning, fmt.Errorf("expected an integer of at least %d, found %.64q", least, c.field(meaning)))
	}
	return x, nil
}

// optional returns nil for an empty field.
func (c *csvReader) optional(meaning string) (*int64, error) {
	if c.field(meaning) == "" {
		return nil, nil
	}
	x, err := c.number(meaning, math.MinInt64)
	return &x, err
}

func (c *csvReader) fault(meaning string, err error) error {
	return &CSVError{c.line, c.header[c.column[meaning]], err}
}

// parseGap reads the steps a-b, where b is inclusive if last is 1, and the bytes
// after an @ sign.
func parseGap(text string, last int64) (g Gap, ok bool) {
	steps, window, windowed := strings.Cut(text, "@")
	if len(steps) < 2 {
		return g, false
	}
	dash := strings.IndexByte(steps[1:], '-') + 1 // the first step may be below 0
	if dash == 0 {
		return g, false
	}
	first, err1 := strconv.ParseInt(steps[:dash], 10, 64)
	upper, err2 := strconv.ParseInt(steps[dash+1:], 10, 64)
	if err1 != nil || err2 != nil || upper == math.MinInt64 {
		return g, false
	}
	g.First, g.Last = int(first), int(upper-1+last)
	if !windowed {
		return g, true
	}
	from, to, ok := strings.Cut(window, ":")
	g.From, err1 = strconv.ParseInt(from, 10, 64)
	g.To, err2 = strconv.ParseInt(to, 10, 64)
	return g, ok && err1 == nil && err2 == nil
}

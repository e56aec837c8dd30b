package ilp

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteLP writes the program in CPLEX's LP format, with the comment, if there is one, in
// lines of its own at the top. A row with two different bounds becomes two rows, NAME and
// NAME_lower, since not all readers know ranges.
func (p *Program) WriteLP(w io.Writer, comment string) error {
	l := lpWriter{p: p, w: bufio.NewWriter(w)}
	for line := range strings.Lines(comment) {
		l.w.WriteString("\\ " + strings.TrimSuffix(line, "\n") + "\n")
	}
	l.objective()
	l.w.WriteString("Subject To\n")
	for i := range p.Rows {
		l.row(&p.Rows[i])
	}
	l.columns()
	return l.w.Flush()
}

// lpWriter writes one program. A failed write shows when the buffer is flushed.
type lpWriter struct {
	p    *Program
	w    *bufio.Writer
	text []byte // of the sum that is being written
}

// objective writes the objective, named after its first column.
func (l *lpWriter) objective() {
	var terms []Term
	for i, c := range l.p.Columns {
		if c.Objective != 0 {
			terms = append(terms, Term{i, c.Objective})
		}
	}
	name := "objective"
	if len(terms) > 0 {
		name = l.p.Columns[terms[0].Column].Name
	}
	fmt.Fprintf(l.w, "Minimize\n %s:%s\n", name, l.sum(terms))
}

func (l *lpWriter) row(r *Row) {
	terms := r.Terms
	if len(terms) == 0 && len(l.p.Columns) > 0 {
		terms = []Term{{0, 0}} // a row needs a term
	}
	sum := l.sum(terms)
	end := func(suffix, relation string, bound int64) {
		l.w.WriteString(" " + r.Name + suffix + ":")
		l.w.Write(sum)
		l.w.WriteString(relation + strconv.FormatInt(bound, 10) + "\n")
	}
	switch {
	case r.Lower == r.Upper:
		end("", " = ", r.Upper)
	case r.Lower == -Unbounded && r.Upper == Unbounded:
	case r.Lower == -Unbounded:
		end("", " <= ", r.Upper)
	case r.Upper == Unbounded:
		end("", " >= ", r.Lower)
	default:
		end("", " <= ", r.Upper)
		end("_lower", " >= ", r.Lower)
	}
}

// sum spells terms. It breaks lines, since some readers limit their length.
func (l *lpWriter) sum(terms []Term) []byte {
	b, line := l.text[:0], 0
	for i, t := range terms {
		if len(b)-line > 200 {
			b = append(b, "\n "...)
			line = len(b)
		}
		switch {
		case t.Coefficient < 0:
			b = append(b, " -"...)
		case i > 0:
			b = append(b, " +"...)
		}
		if c := t.Coefficient; c != 1 && c != -1 {
			b = append(b, ' ')
			b = append(b, strings.TrimPrefix(strconv.FormatInt(c, 10), "-")...)
		}
		b = append(append(b, ' '), l.p.Columns[t.Column].Name...)
	}
	l.text = b
	return b
}

// columns writes the bounds and the kinds of the columns.
func (l *lpWriter) columns() {
	l.w.WriteString("Bounds\n")
	for _, c := range l.p.Columns {
		if c.binary() {
			continue
		}
		switch below, above := c.Lower == -Unbounded, c.Upper == Unbounded; {
		case below && above:
			fmt.Fprintf(l.w, " %s free\n", c.Name)
		case below:
			fmt.Fprintf(l.w, " -inf <= %s <= %d\n", c.Name, c.Upper)
		case above && c.Lower == 0: // the default
		case above:
			fmt.Fprintf(l.w, " %s >= %d\n", c.Name, c.Lower)
		case c.Lower == c.Upper:
			fmt.Fprintf(l.w, " %s = %d\n", c.Name, c.Lower)
		case c.Lower == 0:
			fmt.Fprintf(l.w, " %s <= %d\n", c.Name, c.Upper)
		default:
			fmt.Fprintf(l.w, " %d <= %s <= %d\n", c.Lower, c.Name, c.Upper)
		}
	}
	l.w.WriteString("Binaries\n")
	for _, c := range l.p.Columns {
		if c.binary() {
			l.w.WriteString(" " + c.Name + "\n")
		}
	}
	l.w.WriteString("Generals\n")
	for _, c := range l.p.Columns {
		if c.Integer && !c.binary() {
			l.w.WriteString(" " + c.Name + "\n")
		}
	}
	l.w.WriteString("End\n")
}

// binary reports whether a column is 0 or 1.
func (c *Column) binary() bool { return c.Integer && c.Lower == 0 && c.Upper == 1 }

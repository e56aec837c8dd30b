package ilp

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteMPS writes the program in the free MPS format, in which names may be long. Every
// bound of an integer column is written out, since readers disagree on what it is by
// default. O(terms) memory, since MPS lists columns where a program lists rows.
func (p *Program) WriteMPS(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "NAME %s\nROWS\n N objective\n", mpsName(p.Name))
	for i := range p.Rows {
		r := &p.Rows[i]
		kind := "L"
		switch {
		case r.Lower == r.Upper:
			kind = "E"
		case r.Lower == -Unbounded && r.Upper == Unbounded:
			kind = "N"
		case r.Upper == Unbounded:
			kind = "G"
		}
		fmt.Fprintf(b, " %s %s\n", kind, r.Name)
	}
	p.mpsColumns(b)
	b.WriteString("RHS\n")
	for i := range p.Rows {
		r := &p.Rows[i]
		switch {
		case r.Upper != Unbounded && r.Upper != 0:
			fmt.Fprintf(b, " RHS %s %d\n", r.Name, r.Upper)
		case r.Upper == Unbounded && r.Lower != -Unbounded && r.Lower != 0:
			fmt.Fprintf(b, " RHS %s %d\n", r.Name, r.Lower)
		}
	}
	p.mpsRanges(b)
	p.mpsBounds(b)
	b.WriteString("ENDATA\n")
	return b.Flush()
}

// mpsName makes one word of a name.
func mpsName(name string) string {
	word := strings.Map(func(r rune) rune {
		if r > ' ' && r <= '~' {
			return r
		}
		return '_'
	}, name)
	if word == "" {
		return "program"
	}
	return word
}

// mpsColumns writes each column with its rows. Those of integers stand between markers.
func (p *Program) mpsColumns(b *bufio.Writer) {
	type entry struct {
		row         int
		coefficient int64
	}
	from := make([]int, len(p.Columns)+1)
	for i := range p.Rows {
		for _, t := range p.Rows[i].Terms {
			from[t.Column+1]++
		}
	}
	for i := range p.Columns {
		from[i+1] += from[i]
	}
	entries := make([]entry, from[len(p.Columns)])
	next := append([]int(nil), from...)
	for i := range p.Rows {
		for _, t := range p.Rows[i].Terms {
			entries[next[t.Column]] = entry{i, t.Coefficient}
			next[t.Column]++
		}
	}
	b.WriteString("COLUMNS\n")
	integers := false
	marker := func(integer bool) {
		if integer != integers {
			fmt.Fprintf(b, " MARKER 'MARKER' '%s'\n", map[bool]string{true: "INTORG", false: "INTEND"}[integer])
			integers = integer
		}
	}
	for i := range p.Columns {
		c := &p.Columns[i]
		marker(c.Integer)
		if c.Objective != 0 || from[i] == from[i+1] {
			fmt.Fprintf(b, " %s objective %d\n", c.Name, c.Objective)
		}
		for _, e := range entries[from[i]:from[i+1]] {
			fmt.Fprintf(b, " %s %s %d\n", c.Name, p.Rows[e.row].Name, e.coefficient)
		}
	}
	marker(false)
}

// mpsRanges writes the rows with two different bounds: Upper is their right side, and the
// range is the distance to Lower.
func (p *Program) mpsRanges(b *bufio.Writer) {
	header := "RANGES\n"
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Lower != -Unbounded && r.Upper != Unbounded && r.Lower != r.Upper {
			fmt.Fprintf(b, "%s RANGE %s %d\n", header, r.Name, uint64(r.Upper)-uint64(r.Lower))
			header = ""
		}
	}
}

func (p *Program) mpsBounds(b *bufio.Writer) {
	b.WriteString("BOUNDS\n")
	for i := range p.Columns {
		c := &p.Columns[i]
		switch below, above := c.Lower == -Unbounded, c.Upper == Unbounded; {
		case c.binary():
			fmt.Fprintf(b, " BV BOUND %s\n", c.Name)
		case below && above:
			fmt.Fprintf(b, " FR BOUND %s\n", c.Name)
		case c.Lower == c.Upper:
			fmt.Fprintf(b, " FX BOUND %s %d\n", c.Name, c.Lower)
		default:
			switch {
			case below:
				fmt.Fprintf(b, " MI BOUND %s\n", c.Name)
			case c.Lower != 0 || c.Integer || c.Upper < 0:
				fmt.Fprintf(b, " LO BOUND %s %d\n", c.Name, c.Lower)
			}
			switch {
			case !above:
				fmt.Fprintf(b, " UP BOUND %s %d\n", c.Name, c.Upper)
			case c.Integer:
				fmt.Fprintf(b, " PL BOUND %s\n", c.Name)
			}
		}
	}
}

package model

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// Write writes the formula in the format OPB. In it, each line behind the objective is a row.
func (f *Formula) Write(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<16)
	b.WriteString("min:")
	f.WriteObjective(b)
	b.WriteString(" ;\n")
	for _, r := range f.Rows {
		for _, l := range r.Lits {
			b.WriteString("1 ")
			b.WriteString(f.Name(l))
			b.WriteByte(' ')
		}
		b.WriteString(">= ")
		b.WriteString(strconv.Itoa(r.Least))
		b.WriteString(" ;\n")
	}
	if f.Held != nil {
		for _, h := range f.Held {
			fmt.Fprintf(b, "-%d %s ", h.Bytes, f.Name(h.Lit))
		}
		fmt.Fprintf(b, ">= %d ;\n", -f.Room)
	}
	return b.Flush()
}

// WriteObjective writes the objective: what is not saved by a pair, less all that pairs could
// save, is written as what a pair saves.
func (f *Formula) WriteObjective(b *bufio.Writer) {
	for _, c := range f.Costs {
		sign := " +"
		if c.Lit&1 == 1 {
			sign = " -"
		}
		b.WriteString(sign)
		b.WriteString(strconv.FormatInt(c.Bytes, 10))
		b.WriteByte(' ')
		b.WriteString(f.Names[c.Lit.Var()])
	}
}

// Name is a literal as it is written.
func (f *Formula) Name(l Lit) string {
	if l&1 == 1 {
		return "~" + f.Names[l.Var()]
	}
	return f.Names[l.Var()]
}

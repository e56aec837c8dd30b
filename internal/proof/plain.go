package proof

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/internal/printable"
)

// WritePlain writes the formula of the claim that no order has less, and its proof, as the part
// of a plan in plain text that proofs/Bound.v checks; or why there is none. If they are of another
// graph than that of which facts tell, its own facts come first.
func (c *Claim) WritePlain(w *bufio.Writer, facts []byte) {
	var formula, text bytes.Buffer
	refused := c.Refused
	if refused == "" && c.Formula == nil {
		if err := c.search(); err != nil {
			refused = err.Error()
		}
	}
	if refused == "" {
		if _, err := write(&formula, &text, c.Formula, c.Bytes, solution(c.Problem, c.Formula, c.Order), (*refuter).refute, c.Poll); err != nil {
			refused = err.Error()
		}
	}
	if refused != "" {
		fmt.Fprintf(w, "unproven %s\n", printable.Line(refused))
		return
	}
	if own := c.Problem.Facts(); !bytes.Equal(own, facts) {
		w.WriteString("graph\n")
		w.Write(own)
	}
	for _, z := range c.Formula.Zones {
		fmt.Fprintf(w, "zone %d", len(z.In))
		for _, n := range append(slices.Clone(z.In), z.Out...) {
			fmt.Fprintf(w, " %d", n)
		}
		w.WriteString("\n")
	}
	last := 0
	if c.Formula.Last {
		last = 1
	}
	fmt.Fprintf(w, "bound %d %d", c.Bytes, last)
	for _, n := range c.Formula.Set {
		fmt.Fprintf(w, " %d", n)
	}
	w.WriteString("\nformula\n")
	w.Write(formula.Bytes())
	w.WriteString("proof\n")
	w.Write(text.Bytes())
}

package schedule

import (
	"io"

	"github.com/onnxmem/onnxmem/ilp"
)

// WriteLP writes the problem as an integer program in CPLEX's LP format, so that any
// solver (HiGHS, CBC, SCIP, Gurobi) can find an order of the smallest peak and check
// ours. The optimum times the unit, which is the greatest common divisor of all sizes,
// is the smallest peak in bytes.
//
// It is OLLA's program for lifetimes (Steiner et al. 2022, equations 1 to 5, 13 and 14)
// with the reductions of their section 4.1 (equations 10 to 12). The program covers the
// whole model of this package: workspaces, outputs, inputs, tensors that nobody reads, the
// precedence of resident tensors and of tensors of 0 bytes, and in-place pairs, which
// OLLA does not have. [ILP] explains the names of columns and rows, and
// [ILPOptions] has the programs with offsets and without reductions.
func WriteLP(w io.Writer, p *Problem) error {
	g, err := p.ILP(ILPOptions{})
	if err != nil {
		return err
	}
	for i := range g.Columns {
		// The rows m bound y and no optimum needs a bound of peak, so that the text can do
		// without.
		if c := &g.Columns[i]; i >= g.layout.firstPair(g.Peak) {
			c.Upper = ilp.Unbounded
		}
	}
	return g.WriteLP(w, g.Comment())
}

// firstPair returns the first column y, or that of the peak.
func (l *layout) firstPair(peak int) int {
	if len(l.y) > 0 {
		return l.y[0]
	}
	return peak
}

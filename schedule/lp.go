package schedule

import (
	"io"
	"slices"

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
// OLLA does not have. [ILP] explains the names of columns and rows, and [ILPOptions] has
// the programs with offsets and without reductions.
func WriteLP(w io.Writer, p *Problem) error {
	g, err := p.ILP(ILPOptions{})
	if err != nil {
		return err
	}
	return g.WriteLP(w)
}

// WriteLP writes the program in CPLEX's LP format, with comments that name nodes and
// in-place pairs. It leaves out the upper bounds of y, which the rows m imply, and that of
// peak, which no optimum needs, unless it was given.
func (g *ILP) WriteLP(w io.Writer) error {
	text := g.Program
	text.Columns = slices.Clone(g.Columns)
	for k := range g.layout.y {
		end := g.Peak
		if k+1 < len(g.layout.y) {
			end = g.layout.y[k+1]
		}
		for i := g.layout.y[k]; i < end; i++ {
			text.Columns[i].Upper = ilp.Unbounded
		}
	}
	if g.layout.opt.UpperBound == 0 {
		text.Columns[g.Peak].Upper = ilp.Unbounded
	}
	return text.WriteLP(w, g.Comment())
}

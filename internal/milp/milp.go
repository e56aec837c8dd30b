// Package milp has the names of package ilp, for solvers.
package milp

import "github.com/onnxmem/onnxmem/ilp"

type (
	Program = ilp.Program
	Column  = ilp.Column
	Row     = ilp.Row
	Term    = ilp.Term
)

// Unbounded is the bound of a column or a row that has none: -Unbounded below, Unbounded
// above.
const Unbounded = ilp.Unbounded

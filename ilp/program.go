package ilp

import (
	"fmt"
	"math"
)

// Unbounded is the bound of a column or a row that has none: -Unbounded below, Unbounded
// above.
const Unbounded = math.MaxInt64

// Program is an integer program: the smallest Objective · x with each column and each row
// between its bounds. All data are integers, so that a solution can be checked without
// rounding.
type Program struct {
	Name    string
	Columns []Column
	Rows    []Row
}

// Column is a variable.
type Column struct {
	Name         string // unique; letters, digits and underscores; begins with a letter
	Lower, Upper int64
	Integer      bool // false: any real number will do, but some optimum has an integer here
	Objective    int64
}

// Row is a linear constraint: Lower ≤ Σ Terms ≤ Upper.
type Row struct {
	Name         string
	Lower, Upper int64
	Terms        []Term // no column occurs twice
}

// Term is Coefficient times the column with that index.
type Term struct {
	Column      int
	Coefficient int64
}

// Add appends a column and returns its index.
func (p *Program) Add(c Column) int {
	p.Columns = append(p.Columns, c)
	return len(p.Columns) - 1
}

// Value returns the objective of a solution, given by one integer per column. The error names
// the first column or row whose bounds the solution violates, or the row or the objective
// that does not fit in 64 bits.
func (p *Program) Value(x []int64) (int64, error) {
	if len(x) != len(p.Columns) {
		return 0, fmt.Errorf("program %s: expected %d values, found %d", p.Name, len(p.Columns), len(x))
	}
	var objective sum
	for i, c := range p.Columns {
		if x[i] < c.Lower || x[i] > c.Upper {
			return 0, fmt.Errorf("column %s: expected %s, found %d", c.Name, between(c.Lower, c.Upper), x[i])
		}
		objective.add(c.Objective, x[i])
	}
	for _, r := range p.Rows {
		var s sum
		for _, t := range r.Terms {
			s.add(t.Coefficient, x[t.Column])
		}
		if s.overflow {
			return 0, fmt.Errorf("row %s: expected a sum that fits in 64 bits", r.Name)
		}
		if s.value < r.Lower || s.value > r.Upper {
			return 0, fmt.Errorf("row %s: expected %s, found %d", r.Name, between(r.Lower, r.Upper), s.value)
		}
	}
	if objective.overflow {
		return 0, fmt.Errorf("program %s: expected an objective that fits in 64 bits", p.Name)
	}
	return objective.value, nil
}

// sum adds products and remembers whether one did not fit.
type sum struct {
	value    int64
	overflow bool
}

func (s *sum) add(a, b int64) {
	if a == 0 || b == 0 {
		return
	}
	product := a * b
	total := s.value + product
	if product/b != a || a == -1 && b == math.MinInt64 || (product > 0) == (s.value > 0) && (total > 0) != (product > 0) {
		s.overflow = true
	}
	s.value = total
}

func between(lower, upper int64) string {
	switch {
	case lower == -Unbounded && upper == Unbounded:
		return "any value"
	case lower == -Unbounded:
		return fmt.Sprintf("at most %d", upper)
	case upper == Unbounded:
		return fmt.Sprintf("at least %d", lower)
	case lower == upper:
		return fmt.Sprint(lower)
	}
	return fmt.Sprintf("%d to %d", lower, upper)
}

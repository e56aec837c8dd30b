// Package ilptest solves tiny integer programs for tests, without a solver.
package ilptest

import (
	"math"

	"github.com/onnxmem/onnxmem/ilp"
)

// Minimum returns the least objective of a program whose columns are all integers between
// bounds, and a solution. It branches on one column after the other, and narrows bounds row
// by row in between. It gives up, with a nil solution and false, after the given number of
// branches; without a solution, it returns a nil one and true. It is made for some dozens of
// columns and small coefficients.
func Minimum(p *ilp.Program, branches int) (value int64, x []int64, done bool) {
	s := search{p: p, rows: p.Rows, touching: make([][]int, len(p.Columns)), left: branches}
	objective := ilp.Row{Lower: -ilp.Unbounded, Upper: math.MaxInt64 / 4}
	lower, upper := make([]int64, len(p.Columns)), make([]int64, len(p.Columns))
	for i, c := range p.Columns {
		lower[i], upper[i] = c.Lower, c.Upper
		if c.Objective != 0 {
			objective.Terms = append(objective.Terms, ilp.Term{Column: i, Coefficient: c.Objective})
		}
	}
	s.rows = append(append([]ilp.Row(nil), p.Rows...), objective)
	all := make([]int, len(s.rows))
	for i, r := range s.rows {
		all[i] = i
		for _, t := range r.Terms {
			s.touching[t.Column] = append(s.touching[t.Column], i)
		}
	}
	s.branch(lower, upper, all, 0)
	return s.best, s.solution, s.left >= 0
}

type search struct {
	p        *ilp.Program
	rows     []ilp.Row // and the objective, which must be less than the best
	touching [][]int   // column -> rows
	left     int
	best     int64
	solution []int64
}

// branch searches between the bounds, which it may overwrite, with rows to look at first.
// Columns before the given one are fixed.
func (s *search) branch(lower, upper []int64, rows []int, column int) {
	if s.left--; s.left < 0 || !s.narrow(lower, upper, rows) {
		return
	}
	for column < len(lower) && lower[column] == upper[column] {
		column++
	}
	if column == len(lower) {
		s.best, s.solution = 0, append([]int64(nil), lower...)
		for i, c := range s.p.Columns {
			s.best += c.Objective * lower[i]
		}
		s.rows[len(s.rows)-1].Upper = s.best - 1
		return
	}
	for side := range 2 {
		low, high := append([]int64(nil), lower...), append([]int64(nil), upper...)
		switch binary := lower[column] == 0 && upper[column] == 1; {
		case (side == 0) != binary: // the least value: second for a binary column, else first
			high[column] = lower[column]
		default:
			low[column] = lower[column] + 1
		}
		s.branch(low, high, append([]int{len(s.rows) - 1}, s.touching[column]...), column)
	}
}

// narrow tightens bounds until no row does so, or returns false if a row cannot hold.
func (s *search) narrow(lower, upper []int64, rows []int) bool {
	queued := make([]bool, len(s.rows))
	for _, r := range rows {
		queued[r] = true
	}
	for len(rows) > 0 {
		i := rows[len(rows)-1]
		rows = rows[:len(rows)-1]
		queued[i] = false
		r := &s.rows[i]
		var least, most int64
		for _, t := range r.Terms {
			a, b := t.Coefficient*lower[t.Column], t.Coefficient*upper[t.Column]
			least, most = least+min(a, b), most+max(a, b)
		}
		if least > r.Upper || most < r.Lower {
			return false
		}
		for _, t := range r.Terms {
			c, k := t.Coefficient, t.Column
			a, b := c*lower[k], c*upper[k]
			low, high := lower[k], upper[k]
			if r.Upper != ilp.Unbounded { // c x ≤ Upper − the least of the others
				if room := r.Upper - least + min(a, b); c > 0 {
					high = min(high, floor(room, c))
				} else if c < 0 {
					low = max(low, -floor(room, -c))
				}
			}
			if r.Lower != -ilp.Unbounded {
				if room := r.Lower - most + max(a, b); c > 0 {
					low = max(low, -floor(-room, c))
				} else if c < 0 {
					high = min(high, floor(-room, -c))
				}
			}
			if low > high {
				return false
			}
			if low != lower[k] || high != upper[k] {
				least += min(c*low, c*high) - min(a, b)
				most += max(c*low, c*high) - max(a, b)
				lower[k], upper[k] = low, high
				for _, other := range s.touching[k] {
					if !queued[other] {
						queued[other] = true
						rows = append(rows, other)
					}
				}
			}
		}
	}
	return true
}

// floor divides by a positive number and rounds down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

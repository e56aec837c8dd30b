package solvers

import "github.com/onnxmem/onnxmem/ilp"

// matrix is a program in floating point, by rows.
type matrix struct {
	cost, lower, upper []float64
	integer            []int32 // 1: an integer
	rowLower, rowUpper []float64
	start, index       []int32
	value              []float64
}

// newMatrix fails if a number is not exact in floating point.
func newMatrix(p *ilp.Program, infinity float64) (*matrix, error) {
	m, exact := &matrix{}, true
	number := func(x int64) float64 {
		switch x {
		case ilp.Unbounded:
			return infinity
		case -ilp.Unbounded:
			return -infinity
		}
		exact = exact && x <= 1<<53 && x >= -1<<53
		return float64(x)
	}
	for _, c := range p.Columns {
		m.cost = append(m.cost, number(c.Objective))
		m.lower, m.upper = append(m.lower, number(c.Lower)), append(m.upper, number(c.Upper))
		kind := int32(0)
		if c.Integer {
			kind = 1
		}
		m.integer = append(m.integer, kind)
	}
	m.start = append(m.start, 0)
	for _, r := range p.Rows {
		m.rowLower, m.rowUpper = append(m.rowLower, number(r.Lower)), append(m.rowUpper, number(r.Upper))
		for _, t := range r.Terms {
			m.index = append(m.index, int32(t.Column))
			m.value = append(m.value, number(t.Coefficient))
		}
		m.start = append(m.start, int32(len(m.index)))
	}
	if !exact {
		return nil, errTooLarge
	}
	return m, nil
}

package ilp

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of cp_model.proto (OR-tools 9.15) that a linear program needs.
const (
	modelName, modelVariable, modelConstraint, modelObjective, modelHint = 1, 2, 3, 4, 6

	variableName, variableDomain                     = 1, 2
	constraintName, constraintLinear                 = 1, 12
	linearVariables, linearCoefs, linearDomain       = 1, 2, 3
	objectiveVariables, objectiveCoefs               = 1, 4
	hintVariables, hintValues                        = 1, 2
	cpsatLimit                                 int64 = 1<<62 - 1
)

// WriteCPSAT writes the program as a CpModelProto, the form of CP-SAT (OR-tools), in
// protobuf's binary encoding. A start solution, if it is not nil, becomes the hint.
//
// CP-SAT has integers only. So each column becomes an integer one, which keeps the optimum
// by the rule of [Column.Integer]. It fails if a column is not bounded on both sides, or if
// a bound or the largest sum of a row is not below 2^62, which CP-SAT refuses.
func (p *Program) WriteCPSAT(w io.Writer, start []int64) error {
	if err := p.checkCPSAT(start); err != nil {
		return err
	}
	c := cpsatWriter{w: bufio.NewWriter(w)}
	c.text(modelName, p.Name)
	c.flush()
	for i := range p.Columns {
		col := &p.Columns[i]
		c.message(modelVariable, func() {
			c.text(variableName, col.Name)
			c.packed(variableDomain, func(add func(int64)) { add(col.Lower); add(col.Upper) })
		})
		c.flush()
	}
	for i := range p.Rows {
		c.row(&p.Rows[i])
		c.flush()
	}
	c.message(modelObjective, func() {
		c.packed(objectiveVariables, func(add func(int64)) {
			for i := range p.Columns {
				if p.Columns[i].Objective != 0 {
					add(int64(i))
				}
			}
		})
		c.packed(objectiveCoefs, func(add func(int64)) {
			for i := range p.Columns {
				if x := p.Columns[i].Objective; x != 0 {
					add(x)
				}
			}
		})
	})
	if start != nil {
		c.hint(start)
	}
	c.flush()
	return c.w.Flush()
}

// checkCPSAT returns an error that names the first column or row that CP-SAT refuses.
func (p *Program) checkCPSAT(start []int64) error {
	if len(p.Columns) > math.MaxInt32 {
		return fmt.Errorf("program %s: expected at most %d columns for CP-SAT, found %d", p.Name, math.MaxInt32, len(p.Columns))
	}
	if start != nil && len(start) != len(p.Columns) {
		return fmt.Errorf("program %s: start solution: expected %d values, found %d", p.Name, len(p.Columns), len(start))
	}
	var objective magnitude
	for i := range p.Columns {
		c := &p.Columns[i]
		if c.Lower < -cpsatLimit || c.Upper > cpsatLimit {
			return fmt.Errorf("column %s: expected bounds below 2^62 for CP-SAT, found %s", c.Name, between(c.Lower, c.Upper))
		}
		objective.add(c.Objective, c)
	}
	if objective.over() {
		return fmt.Errorf("program %s: expected an objective below 2^62 for CP-SAT", p.Name)
	}
	for i := range p.Rows {
		var m magnitude
		for _, t := range p.Rows[i].Terms {
			m.add(t.Coefficient, &p.Columns[t.Column])
		}
		if m.over() {
			return fmt.Errorf("row %s: expected a sum below 2^62 for CP-SAT", p.Rows[i].Name)
		}
	}
	return nil
}

// magnitude is an upper bound of the absolute value of a sum.
type magnitude struct {
	sum   uint64
	large bool
}

func (m *magnitude) add(coefficient int64, c *Column) {
	high, product := bits.Mul64(absolute(coefficient), max(absolute(c.Lower), absolute(c.Upper)))
	sum, carry := bits.Add64(m.sum, product, 0)
	m.sum, m.large = sum, m.large || high != 0 || carry != 0
}

func (m *magnitude) over() bool { return m.large || m.sum > uint64(cpsatLimit) }

func absolute(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// cpsatWriter writes one model, message by message.
type cpsatWriter struct {
	w   *bufio.Writer
	buf []byte
}

func (c *cpsatWriter) row(r *Row) {
	c.message(modelConstraint, func() {
		if r.Name != "" {
			c.text(constraintName, r.Name)
		}
		c.message(constraintLinear, func() {
			c.packed(linearVariables, func(add func(int64)) {
				for _, t := range r.Terms {
					add(int64(t.Column))
				}
			})
			c.packed(linearCoefs, func(add func(int64)) {
				for _, t := range r.Terms {
					add(t.Coefficient)
				}
			})
			c.packed(linearDomain, func(add func(int64)) {
				lower := r.Lower
				if lower == -Unbounded {
					lower = math.MinInt64 // CP-SAT's own number for it; Unbounded is the other one
				}
				add(lower)
				add(r.Upper)
			})
		})
	})
}

// variable writes a variable without a name.
func (c *cpsatWriter) variable(lower, upper int64) {
	c.message(modelVariable, func() {
		c.packed(variableDomain, func(add func(int64)) { add(lower); add(upper) })
	})
}

// hint writes a value of each variable.
func (c *cpsatWriter) hint(values []int64) {
	c.message(modelHint, func() {
		c.packed(hintVariables, func(add func(int64)) {
			for i := range values {
				add(int64(i))
			}
		})
		c.packed(hintValues, func(add func(int64)) {
			for _, x := range values {
				add(x)
			}
		})
	})
}

func (c *cpsatWriter) number(field protowire.Number, x int64) {
	c.buf = protowire.AppendTag(c.buf, field, protowire.VarintType)
	c.buf = protowire.AppendVarint(c.buf, uint64(x))
}

func (c *cpsatWriter) text(field protowire.Number, s string) {
	c.buf = protowire.AppendTag(c.buf, field, protowire.BytesType)
	c.buf = protowire.AppendString(c.buf, s)
}

// message writes a nested message. Its length stands before it, so it is moved when that
// is known.
func (c *cpsatWriter) message(field protowire.Number, body func()) {
	c.buf = protowire.AppendTag(c.buf, field, protowire.BytesType)
	from := len(c.buf)
	body()
	size := len(c.buf) - from
	c.buf = protowire.AppendVarint(c.buf, uint64(size))
	var length [10]byte
	n := copy(length[:], c.buf[from+size:])
	copy(c.buf[from+n:], c.buf[from:from+size])
	copy(c.buf[from:], length[:n])
}

// packed writes a list of numbers.
func (c *cpsatWriter) packed(field protowire.Number, list func(add func(int64))) {
	c.message(field, func() {
		list(func(x int64) { c.buf = protowire.AppendVarint(c.buf, uint64(x)) })
	})
}

func (c *cpsatWriter) flush() {
	c.w.Write(c.buf)
	c.buf = c.buf[:0]
}

package ilp

import (
	"bufio"
	"fmt"
	"io"
)

// The fields of cp_model.proto (OR-tools 9.15) that a packing needs beside those of a program.
const (
	constraintInterval, constraintNoOverlap2D, constraintCumulative = 19, 21, 22
	intervalStart, intervalEnd, intervalSize                        = 4, 5, 6
	noOverlapX, noOverlapY                                          = 1, 2
	cumulativeCapacity, cumulativeIntervals, cumulativeDemands      = 1, 2, 3
	sumVariables, sumCoefs, sumOffset                               = 1, 2, 3
)

// WriteCPSAT writes the packing as a CpModelProto, like [Program.WriteCPSAT]. Its variables
// are the offsets, divided by the alignments, then the largest end, which is the objective.
// Each rectangle is two intervals of a constraint for no overlap in two dimensions. That the
// load of no step is above the largest end is a redundant constraint, which CP-SAT propagates
// better. Offsets to begin with, if they are not nil, become the hint.
func (p *Packing) WriteCPSAT(w io.Writer, start []int64) error {
	if start != nil && len(start) != len(p.Rectangles) {
		return fmt.Errorf("expected %d offsets to begin with, found %d", len(p.Rectangles), len(start))
	}
	c := cpsatWriter{w: bufio.NewWriter(w)}
	end := int64(len(p.Rectangles)) // the variable of the largest end
	for _, r := range p.Rectangles {
		c.variable((r.Lower+r.Align-1)/r.Align, min(r.Upper, p.Most-r.Size)/r.Align)
	}
	c.variable(min(p.Least, p.Most), p.Most)
	for i := range p.Rectangles {
		r, offset := &p.Rectangles[i], int64(i)
		c.row(&Row{Lower: r.Size, Upper: p.Most, Terms: []Term{{i, -r.Align}, {int(end), 1}}})
		c.interval(int64(r.Last)+1-int64(r.First),
			func() { c.number(sumOffset, int64(r.First)) },
			func() { c.number(sumOffset, int64(r.Last)+1) })
		c.interval(r.Size,
			func() { c.sum(offset, r.Align, 0) },
			func() { c.sum(offset, r.Align, r.Size) })
		c.flush()
	}
	// Each rectangle has three constraints: its end, its steps and its bytes.
	every := func(of int64) func(add func(int64)) {
		return func(add func(int64)) {
			for i := range end {
				add(3*i + of)
			}
		}
	}
	c.message(modelConstraint, func() {
		c.message(constraintNoOverlap2D, func() {
			c.packed(noOverlapX, every(1))
			c.packed(noOverlapY, every(2))
		})
	})
	c.message(modelConstraint, func() {
		c.message(constraintCumulative, func() {
			c.message(cumulativeCapacity, func() { c.sum(end, 1, 0) })
			c.packed(cumulativeIntervals, every(1))
			for _, r := range p.Rectangles {
				c.message(cumulativeDemands, func() { c.number(sumOffset, r.Size) })
			}
		})
	})
	c.message(modelObjective, func() {
		c.packed(objectiveVariables, func(add func(int64)) { add(end) })
		c.packed(objectiveCoefs, func(add func(int64)) { add(1) })
	})
	if start != nil {
		hint, top := make([]int64, 0, end+1), p.Least
		for i, r := range p.Rectangles {
			hint, top = append(hint, start[i]/r.Align), max(top, start[i]+r.Size)
		}
		c.hint(append(hint, top))
	}
	c.flush()
	return c.w.Flush()
}

// interval writes an interval of a size, with functions that write its start and its end.
func (c *cpsatWriter) interval(size int64, start, end func()) {
	c.message(modelConstraint, func() {
		c.message(constraintInterval, func() {
			c.message(intervalStart, start)
			c.message(intervalEnd, end)
			c.message(intervalSize, func() { c.number(sumOffset, size) })
		})
	})
}

// sum writes the fields of coefficient · variable + offset.
func (c *cpsatWriter) sum(variable, coefficient, offset int64) {
	c.packed(sumVariables, func(add func(int64)) { add(variable) })
	c.packed(sumCoefs, func(add func(int64)) { add(coefficient) })
	c.number(sumOffset, offset)
}

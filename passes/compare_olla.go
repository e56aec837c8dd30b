package passes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/schedule"
)

// OllaSolver solves OLLA's program in a comparison.
type OllaSolver struct {
	Name   string        // of the row: "CP-SAT"
	Solver ilp.Solver    // nil: it is not there
	Why    string        // why not
	Time   time.Duration // that it gets
}

// maxOllaColumns is the most columns of a program that a solver is given: it did not finish
// 119,000 in 90 s.
const maxOllaColumns = 300_000

// olla adds the rows of OLLA: its own program for lifetimes (Steiner et al. 2022), with its
// section 4, begun with program order as the paper does, and without our bound. The solver's
// gap is between its solution and its bound.
func (c *comparer) olla(p *schedule.Problem, keep func(*Row, placedOrder)) error {
	for _, s := range c.opt.Olla {
		err := c.row(GroupOrder, fmt.Sprintf("olla (%s) %v", s.Name, s.Time), 0, func(r *Row) error {
			if s.Solver == nil {
				r.Left = s.Why
				return nil
			}
			g, err := p.ILP(schedule.ILPOptions{})
			switch {
			case err != nil:
				r.Left = "the program is too large"
				return nil
			case len(g.Columns) > maxOllaColumns:
				r.Left = fmt.Sprintf("the program has %d columns, expected at most %d", len(g.Columns), maxOllaColumns)
				return nil
			}
			began := time.Now()
			order, gap, err := solveOlla(c.ctx, p, g, s)
			if errors.Is(err, ilp.ErrLost) {
				r.Left = err.Error()
				return nil
			}
			if err != nil {
				return err
			}
			r.Time, r.SolverGap = time.Since(began), gap
			o, err := c.place(p, order)
			keep(r, o)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// solveOlla returns the best order that a solver finds, and its gap in per cent of the peak;
// nil: it has no bound.
func solveOlla(ctx context.Context, p *schedule.Problem, g *schedule.ILP, s OllaSolver) (order []int32, gap *float64, err error) {
	complete := func(order []int32) ([]int64, error) {
		e, err := p.Evaluate(order)
		if err != nil {
			return nil, err
		}
		return g.Encode(schedule.Solution{Order: order, Taken: e.Taken})
	}
	opt := ilp.Options{TimeLimit: s.Time, Complete: func(x []int64) ([]int64, error) {
		found, err := g.Decode(x)
		if err != nil {
			return nil, err
		}
		return complete(found.Order)
	}}
	if opt.Start, err = complete(schedule.Program(p)); err != nil {
		return nil, nil, err
	}
	r, err := ilp.Solve(ctx, s.Solver, &g.Program, opt)
	if err != nil {
		return nil, nil, err
	}
	found, err := g.Decode(r.Values)
	if r.Bound != nil && r.Value > 0 {
		percent := 100 * float64(r.Value-*r.Bound) / float64(r.Value)
		gap = &percent
	}
	return found.Order, gap, err
}

package main

import (
	"context"

	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// problem compares a bare problem with the limits. Its baseline is one, too.
func (c *checkCmd) problem(e *env, in *input, l plan.Limits) error {
	switch {
	case c.Limit != nil:
		return usagef("%s is a bare problem: --limit is for a model; onnxmem order has it for problems", in.name)
	case len(c.At) > 0:
		return usagef("%s is a bare problem: --at is for plans of several lengths", in.name)
	case c.PlanPath != "":
		return usagef("%s is a bare problem: --plan is for a planned model", in.name)
	case c.Binds() != "":
		return usagef("%s is a bare problem: %s is for a model", in.name, c.Binds())
	}
	bar := newProgress(e.stderr, 2)
	defer bar.stop()
	bar.step("order")
	if c.Baseline != "" {
		old, err := openInput(c.Baseline)
		if err != nil {
			return err
		}
		defer old.close()
		if l.Baseline, err = c.planProblem(old); err != nil {
			return err
		}
	}
	bar.step("order")
	p, err := c.planProblem(in)
	if err != nil {
		return err
	}
	bar.stop()
	return c.gates(e, &source{name: in.name, plan: p}, l)
}

// planProblem reads a bare problem, orders its nodes and places its buffers.
func (c *checkCmd) planProblem(in *input) (*plan.Plan, error) {
	p, err := in.problem()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if c.TimeLimit > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, c.TimeLimit)
		defer cancel()
	}
	found, err := passes.PlanProblem(ctx, p, optimize.Efforts[c.Effort])
	return found, in.refuse(err)
}

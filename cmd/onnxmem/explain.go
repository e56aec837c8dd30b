package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/explain"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/schedule"
)

// explainCmd explains why the peak is what it is.
type explainCmd struct {
	File string `arg:"" in:"the input" help:"A plan, a model or a bare problem; - is standard input. A model is planned for the explanation, not written; the plan of a planned model is verified first; a bare problem is JSON, gzipped or not."`

	Top int `group:"output" default:"5" placeholder:"N" help:"Tensors at the peak to look at (default 5). For each, the largest first, it says how much the peak would fall without it."`
	sourceFlags
}

// Help is the text below the flags.
func (explainCmd) Help() string {
	return `Shows the buffers at the peak, the nodes that keep them alive, and why no order does better.
For each of the largest tensors at the peak, it computes how far the peak and its proven bound
would fall if that tensor took no memory there (because it is recomputed, swapped, or overwrites
another one), or half of its memory.

Examples:
  onnxmem explain model.onnx --dim batch=8
  onnxmem explain model.onnx --limit 70%
  onnxmem explain problem.json.gz --top 10 --json`
}

// Run reads, explains and prints.
func (c *explainCmd) Run(e *env) error {
	if c.Top < 0 {
		return usagef("--top %d: expected a number of tensors", c.Top)
	}
	x, err := c.explain(e)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(e.stdout, x.JSON())
	}
	x.Print(e.stdout)
	return nil
}

// options are the options of the searches for relief.
func (c *explainCmd) options() (ctx context.Context, opt schedule.ExplainOptions, release func()) {
	ctx, release = context.Background(), func() {}
	if c.TimeLimit > 0 {
		ctx, release = context.WithTimeout(ctx, c.TimeLimit)
	}
	opt = schedule.ExplainOptions{Most: c.Top}
	opt.Effort = optimize.Efforts[c.Effort]
	return ctx, opt, release
}

// explain determines what FILE is, and explains it.
func (c *explainCmd) explain(e *env) (*explain.Explanation, error) {
	kind, text, err := peek(c.File)
	if err != nil {
		return nil, err
	}
	in, err := bareProblem(c.File, kind, text)
	if err != nil {
		return nil, err
	}
	if in != nil {
		defer in.close()
		return c.problem(e, in)
	}
	s, err := c.openKind(e, c.File, kind, text)
	if err != nil {
		return nil, err
	}
	if err := c.only(s); err != nil {
		return nil, err
	}
	defer s.close()
	if s.model == nil {
		if s, err = c.beside(e, s); err != nil {
			return nil, err
		}
		defer s.close()
	}
	if err := c.point(s); err != nil {
		return nil, err
	}
	ctx, opt, release := c.options()
	defer release()
	bar := newProgress(e.stderr, 1)
	defer bar.stop()
	bar.step("explain")
	return explain.Model(ctx, s.name, s.model, s.plan, s.hint, opt)
}

// beside opens the model of a plan, in the plan's folder.
func (c *explainCmd) beside(e *env, s *source) (*source, error) {
	file := s.plan.Model.File
	refused := func(what string) error {
		return &graph.Error{File: s.name, Offset: -1, Err: errors.New(what + ": a plan lacks the graph that an explanation needs")}
	}
	if c.File == "-" || file == "" || file != filepath.Base(file) {
		return nil, refused("expected the planned model instead")
	}
	path := filepath.Join(filepath.Dir(c.File), file)
	if _, err := os.Stat(path); err != nil {
		return nil, refused(fmt.Sprintf("its model %q is not beside it", graph.Short(file)))
	}
	flags := c.sourceFlags
	flags.PlanPath = c.File
	return flags.open(e, path)
}

// problem solves and explains a bare problem.
func (c *explainCmd) problem(e *env, in *input) (*explain.Explanation, error) {
	p, err := in.problem()
	if err != nil {
		return nil, err
	}
	bar := newProgress(e.stderr, 2)
	defer bar.stop()
	bar.step("order")
	ctx, opt, release := c.options()
	defer release()
	r, err := schedule.Solve(ctx, p, schedule.Options{Effort: optimize.Efforts[c.Effort], Progress: bar.showSearch})
	if err != nil {
		return nil, err
	}
	bar.step("explain")
	x, err := schedule.Explain(ctx, p, r.Order, r.Certificates, opt)
	if err != nil {
		return nil, err
	}
	x.Bound = max(x.Bound, r.Bound)
	return explain.Problem(in.name, p, r.Order, x), nil
}

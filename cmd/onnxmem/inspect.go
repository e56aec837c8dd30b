package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/inspect"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
)

// inspectCmd describes a model.
type inspectCmd struct {
	Model   string `arg:"" in:"the model" help:"The model; - is standard input."`
	Tensors bool   `group:"output" help:"List every tensor of the main graph. Its type and size stand beside it."`
	Graph   bool   `group:"output" help:"Print the graph instead, one line a node. It has types, and places if the model is planned."`
	planFlags
}

// Help is the text below the flags.
func (inspectCmd) Help() string {
	return `Examples:
  onnxmem inspect model.onnx
  onnxmem inspect model.onnx --dim batch=8 --tensors --json
  onnxmem inspect planned.onnx --graph`
}

// Run reads the model, plans it in program order, and prints.
func (c *inspectCmd) Run(e *env) error {
	if c.Graph && (c.JSON || c.Tensors) {
		return usagef("--graph: expected neither --json nor --tensors")
	}
	f, err := onnx.Open(c.Model, onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		return err
	}
	defer f.Close()
	if c.Graph {
		return c.graph(e, f)
	}
	in := passes.Inspect(context.Background(), f.Model, c.options(e))
	var option *passes.OptionError
	if errors.As(in.Refused, &option) {
		return option
	}
	if errors.Is(in.Refused, mapped.ErrChanged) { // other findings may be wrong
		return in.Refused
	}
	warn(e, nil, in.Warnings)
	x := inspect.Model{Name: c.Model, File: f, Inspection: in, All: c.Tensors}
	if c.JSON {
		if err := writeJSON(e.stdout, x.JSON()); err != nil {
			return err
		}
	} else {
		x.Print(e.stdout)
	}
	if in.Refused != nil {
		return &failure{status: exitRefused}
	}
	return nil
}

// graph prints the graph of the file. Of a model that inference refuses, it has the types that
// were found before.
func (c *inspectCmd) graph(e *env, f *onnx.File) (err error) {
	defer mapped.Recover(&err, mapped.Watch())
	opt := c.options(e)
	opt.NoVerify = true
	opt.Passes = slices.DeleteFunc(passes.Default(), func(p passes.Pass) bool { return p.Name != "infer" })
	r, refused := passes.Optimize(context.Background(), f.Model, opt)
	var option *passes.OptionError
	if errors.As(refused, &option) {
		return option
	}
	if r != nil {
		warn(e, nil, r.Warnings)
	}
	return cmp.Or(graph.Print(e.stdout, f.Model, graph.PrintOptions{Elements: 8, OwnMetadata: true}), refused)
}

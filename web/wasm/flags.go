//go:build js

package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/onnxmem/onnxmem/internal/optimize"
)

// modelFlags are the flags of the command for what JavaScript can ask about a model.
type modelFlags struct {
	InlineFunctions bool
	Top             int `default:"5"`
	Tensors         bool
	optimize.LimitFlags
	optimize.TrainFlags
	optimize.PlanFlags
}

// parse reads flags as the command does.
func parse[T any](args []string) (*T, error) {
	flags := new(T)
	ended := false
	p, err := kong.New(flags, kong.Name("onnxmem"), kong.NoDefaultHelp(), kong.Writers(io.Discard, io.Discard),
		kong.Exit(func(int) { ended = true }), kong.Vars(optimize.Vars()))
	if err != nil {
		return nil, err
	}
	_, err = p.Parse(args)
	if err != nil || ended {
		return nil, &optimize.UsageError{Text: fmt.Sprint(err)}
	}
	return flags, nil
}

// job is what the command's optimize would do with the flags.
func (f *modelFlags) job(r *request) optimize.Job {
	out := r.Out
	if out == "" {
		out = "planned.onnx"
	}
	return optimize.Job{
		In: r.Name, Out: out, InlineFunctions: f.InlineFunctions, Tool: tool(),
		TrainFlags: f.TrainFlags, LimitFlags: f.LimitFlags, PlanFlags: f.PlanFlags,
	}
}

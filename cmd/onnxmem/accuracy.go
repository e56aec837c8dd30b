package main

import (
	"context"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/optimize"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// accuracy runs a model in 16 bits and the same in float32 with the same inputs, and compares
// their outputs. Both are planned by fast searches: an order changes no result. What keeps them
// from running is said, and is no error. It is nil for a model that stays as it is, and for a step.
func (c *optimizeCmd) accuracy(e *env, t *optimize.Task, opt passes.Options) *optimize.Accuracy {
	switch {
	case opt.Precision == nil || opt.Train != nil:
		return nil
	case c.NoAccuracy:
		return &optimize.Accuracy{Skipped: "--no-accuracy"}
	case c.In == "-":
		return &optimize.Accuracy{Skipped: "the model was read from standard input"}
	case len(t.File.Missing) > 0:
		return &optimize.Accuracy{Skipped: "weights are missing"}
	}
	plain := passes.Options{Dims: map[string]int64{}, Values: opt.Values, SpareDims: true, Effort: schedule.EffortFast, NoVerify: true}
	for name, d := range t.Result.Plan.Dims {
		plain.Dims[name] = d.Value
	}
	a := &optimize.Accuracy{Inputs: "random"}
	if c.Inputs != "" {
		a.Inputs = c.Inputs
	}
	full, names, err := c.results(e, plain)
	if err != nil {
		return &optimize.Accuracy{Skipped: "in float32: " + err.Error()}
	}
	plain.Precision = opt.Precision
	half, _, err := c.results(e, plain)
	if err != nil {
		return &optimize.Accuracy{Skipped: fmt.Sprintf("in %v: %v", opt.Precision.Type, err)}
	}
	for _, name := range names {
		if len(full[name]) != len(half[name]) {
			return &optimize.Accuracy{Skipped: fmt.Sprintf("output %q has %d elements in float32, and %d in %v", graph.Short(name), len(full[name]), len(half[name]), opt.Precision.Type)}
		}
		a.Outputs = append(a.Outputs, errorsOf(name, full[name], half[name]))
	}
	return a
}

// errorsOf compares two outputs. Elements that are infinite, or no number, in both are equal.
func errorsOf(name string, full, half []float64) optimize.OutputError {
	x := optimize.OutputError{Output: name}
	for i, want := range full {
		if got := half[i]; got != want && (got == got || want == want) {
			d := math.Abs(got - want)
			if d != d { // one of them is no number
				d = math.Inf(1)
			}
			if x.Max = max(x.Max, d); math.IsInf(d, 0) {
				x.Infinite++
				continue
			}
			x.Mean += d / float64(len(full))
		}
		if a := math.Abs(want); a == a && !math.IsInf(a, 0) {
			x.Largest = max(x.Largest, a)
		}
	}
	if x.Infinite > 0 {
		x.Max = 0 // JSON has no infinity
	}
	return x
}

// results plans and runs the model, and returns its outputs of floating-point types.
func (c *optimizeCmd) results(e *env, opt passes.Options) (map[string][]float64, []string, error) {
	f, err := onnx.Open(c.In, onnx.ReadOptions{})
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	planned, err := passes.Optimize(context.Background(), f.Model, opt)
	if err != nil {
		return nil, nil, err
	}
	program, err := vm.New(planned.Model, planned.Plan)
	if err != nil {
		return nil, nil, err
	}
	defer program.Close()
	r := &runCmd{Model: c.In, Inputs: c.Inputs}
	given, err := r.given(program, &batches{})
	if err != nil {
		return nil, nil, err
	}
	inputs, err := r.values(e, program, given)
	if err != nil {
		return nil, nil, err
	}
	session, err := program.NewSession(vm.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer session.Close()
	out, err := session.Run(context.Background(), inputs)
	if err != nil {
		return nil, nil, err
	}
	list := map[string][]float64{}
	var names []string
	for _, t := range program.Outputs() {
		if v := out[t.Name]; v.Type.Floating() {
			if reals, ok := v.Reals(); ok {
				list[t.Name], names = append([]float64(nil), reals...), append(names, t.Name)
			}
		}
	}
	return list, names, nil
}

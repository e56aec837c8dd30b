package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes"
)

// trainFlags are the flags that make a training graph.
type trainFlags struct {
	Train            bool               `help:"Make the graph of one training step first: forward, loss, backward, update."`
	Loss             string             `default:"cross-entropy" placeholder:"LOSS" help:"${losses} (default cross-entropy)."`
	LossOutput       string             `placeholder:"NAME" help:"Output that the loss is put on (default: the first)."`
	ClassAxis        *int               `placeholder:"N" help:"Class axis of cross-entropy (default 1; the last for rank 3)."`
	Probabilities    bool               `help:"The output of --loss bce is a probability, not a logit."`
	Optimizer        string             `default:"sgd" placeholder:"NAME" help:"${optimizers} (default sgd)."`
	OptimizerSet     map[string]float64 `placeholder:"K=V" mapsep:"," help:"Constants of the optimizer: momentum, beta1, beta2, epsilon, weight_decay."`
	Trainable        string             `placeholder:"REGEXP" help:"Initializers that are trained (default: by what reads them)."`
	Freeze           string             `placeholder:"REGEXP" help:"Initializers taken off again; nothing is made for what only they need."`
	FreezeStatistics bool               `help:"BatchNormalization keeps its running statistics and uses them."`
	ClipNorm         float64            `placeholder:"X" help:"Scale all gradients so that their common norm is at most X. Keeps every gradient until the last is there."`
	KeepGradients    bool               `help:"Gradients of parameters are outputs."`
	DecayAll         bool               `help:"Weight decay of biases and normalisation weights too."`
}

// options are those of the training graph; nil without --train.
func (f *trainFlags) options() (*autodiff.Options, error) {
	if !f.Train {
		return nil, nil
	}
	opt := &autodiff.Options{
		Loss: f.Loss, LossOutput: f.LossOutput, ClassAxis: f.ClassAxis, Probabilities: f.Probabilities,
		Optimizer: f.Optimizer, Constants: f.OptimizerSet, ClipNorm: f.ClipNorm, DecayAll: f.DecayAll,
		FreezeStatistics: f.FreezeStatistics, KeepGradients: f.KeepGradients,
	}
	for _, p := range []struct {
		flag, text string
		to         **regexp.Regexp
	}{{"--trainable", f.Trainable, &opt.Trainable}, {"--freeze", f.Freeze, &opt.Freeze}} {
		if p.text == "" {
			continue
		}
		r, err := regexp.Compile(p.text)
		if err != nil {
			return nil, &failure{exitUsage, fmt.Sprintf("%s: %v", p.flag, err)}
		}
		*p.to = r
	}
	return opt, nil
}

// defaultParamsPath is OUT with .onnx replaced, else followed, by .params.onnx.
func defaultParamsPath(out string) string { return strings.TrimSuffix(out, ".onnx") + ".params.onnx" }

// warnTraining tells what is not trained, and what looks odd.
func warnTraining(e *env, r *passes.Result) {
	if r.Step == nil {
		return
	}
	const most = 10
	for i, t := range r.Step.LeftOut {
		if i == most {
			fmt.Fprintf(e.stderr, "onnxmem: … and %d more that are not trained (--trainable, -v)\n", len(r.Step.LeftOut)-most)
			break
		}
		fmt.Fprintf(e.stderr, "onnxmem: not trained: %s\n", units.Name(t))
	}
	for _, w := range r.Step.Warnings {
		fmt.Fprintf(e.stderr, "onnxmem: %s\n", w)
	}
}

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/atomicfile"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
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
	Updates          string             `enum:"interleaved,last" default:"interleaved" help:"Each update as soon as its gradient is there (interleaved), or all of them last, for comparison."`
	KeepGradients    bool               `help:"Gradients of parameters are outputs."`
	FusedGradients   bool               `help:"The larger gradients are calls of functions of domain onnxmem, whose bodies stand in the model."`
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
		FreezeStatistics: f.FreezeStatistics, KeepGradients: f.KeepGradients, FusedGradients: f.FusedGradients,
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
	for i, w := range r.Step.Warnings {
		if i == most {
			fmt.Fprintf(e.stderr, "onnxmem: … and %d more of this kind\n", len(r.Step.Warnings)-most)
			break
		}
		fmt.Fprintf(e.stderr, "onnxmem: %s\n", w)
	}
}

// autodiffTime is that of the training graph, 0 without --train.
func (c *optimizeCmd) autodiffTime(r *passes.Result) float64 {
	if r.Step == nil {
		return 0
	}
	return milliseconds(r.Times["train"])
}

// printStep says what a training graph is.
func printStep(w io.Writer, r *passes.Result) {
	var parameters, states int64
	for _, b := range r.Plan.Buffers {
		switch b.Kind {
		case plan.KindParameter:
			parameters += b.Bytes
		case plan.KindState:
			states += b.Bytes
		}
	}
	fmt.Fprintf(w, "training step        %d nodes, %d parameters of %s, states of %s\n",
		r.Plan.Summary.Nodes, len(r.Step.Parameters), units.Bytes(parameters), units.Bytes(states))
}

// mostInline is what a file of parameters may hold itself: writing zeros takes a
// few seconds a gigabyte, and protobuf allows 2 GiB.
const mostInline = 256 << 20

// stageParams writes the first values of parameters and states beside path.
// States, which are zero at first, lie in a file of their own where they are
// large: all in the same zeros.
func stageParams(path string, step *autodiff.Step) ([]*atomicfile.File, error) {
	im, err := onnx.Encode(step.Params)
	if err != nil {
		return nil, err
	}
	var files []*atomicfile.File
	if im.Size > mostInline {
		zeros, err := stageZeros(path+".zeros", step.Params.Graph)
		if err != nil {
			return nil, err
		}
		files = append(files, zeros)
		if im, err = onnx.Encode(step.Params); err != nil {
			return files, err
		}
	}
	p, err := onnx.Stage(path, im)
	if err != nil {
		return files, err
	}
	return append(files, p), nil
}

// stageZeros moves all tensors that are generated, which are zeros, into one
// region of a file.
func stageZeros(path string, g *graph.Graph) (*atomicfile.File, error) {
	size := int64(0)
	for _, t := range g.Tensors {
		if t.Data.Generate != nil {
			t.Data.External = &graph.External{Location: filepath.Base(path), Length: t.Data.Bytes}
			t.Data.Generate = nil
			size = max(size, t.Data.Bytes)
		}
	}
	f, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

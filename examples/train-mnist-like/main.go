// Command train-mnist-like trains a small convolutional network on handwritten-like digits in
// a fixed amount of memory. It writes the network as ONNX and makes one planned training step
// of it. It runs that step inside its arena, with parameters updated in place, and saves the
// network with its new weights.
//
//	go run ./examples/train-mnist-like -steps 100 -dir out
//
// The program draws the pictures itself, from the seed; it downloads nothing. Afterwards
// the folder contains net.onnx, the training step (train.onnx, its plan and its initial
// parameters, which onnxmem run accepts, too), params.onnx for continuing the training,
// and trained.onnx. With -record, it also contains the data and the loss of every step,
// so that another runtime can repeat them: images.f32, labels.i64, losses.f64, row by
// row, little-endian.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

// settings are the flags.
type settings struct {
	dir    string
	steps  int
	every  int
	batch  int
	rate   float64
	seed   uint64
	tests  int
	record bool
}

func main() {
	var c settings
	flag.StringVar(&c.dir, "dir", ".", "folder of the files that are written")
	flag.IntVar(&c.steps, "steps", 100, "steps of training")
	flag.IntVar(&c.every, "every", 10, "steps between two lines")
	flag.IntVar(&c.batch, "batch", 32, "pictures in a step")
	flag.Float64Var(&c.rate, "rate", 0.05, "learning rate")
	flag.Uint64Var(&c.seed, "seed", 1, "of weights and pictures")
	flag.IntVar(&c.tests, "tests", 500, "pictures that the trained network is tested with")
	flag.BoolVar(&c.record, "record", false, "write the data and the losses of all steps, too")
	flag.Parse()
	// Ctrl-C stops the running step.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "train-mnist-like:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c settings, out io.Writer) error {
	if c.steps < 1 || c.every < 1 || c.batch < 1 || c.tests < 1 {
		return fmt.Errorf("expected steps, every, batch and tests of 1 or more")
	}
	if err := os.MkdirAll(c.dir, 0o777); err != nil {
		return err
	}
	source := filepath.Join(c.dir, "net.onnx")
	if err := write(source, network(c.seed)); err != nil {
		return err
	}
	if err := train(ctx, c, source, out); err != nil {
		return err
	}
	right, err := test(ctx, filepath.Join(c.dir, "trained.onnx"), c.tests, c.seed)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d new pictures read right\n", right, c.tests)
	return nil
}

// train makes a training step of a model, runs it, and saves the result.
func train(ctx context.Context, c settings, source string, out io.Writer) error {
	f, err := onnx.Open(source, onnx.ReadOptions{})
	if err != nil {
		return err
	}
	defer f.Close()
	step, err := passes.Optimize(ctx, f.Model, passes.Options{
		Dims:  map[string]int64{"batch": int64(c.batch)},
		Train: &autodiff.Options{Optimizer: "momentum"},
	})
	if err != nil {
		return err
	}
	if err := writeStep(c.dir, step); err != nil {
		return err
	}
	program, err := vm.New(step.Model, step.Plan)
	if err != nil {
		return err
	}
	defer program.Close()
	session, err := program.NewSession(vm.Options{})
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Load(step.Step.Params); err != nil {
		return err
	}

	data := newDigits(c.seed)
	log, err := newRecord(c)
	if err != nil {
		return err
	}
	defer log.close()
	for i := range c.steps {
		images, labels := data.next(c.batch)
		made, err := session.Run(ctx, map[string]vm.Value{
			"image":         vm.Float32s(images, c.batch, 1, side, side),
			"labels":        vm.Int64s(labels, c.batch),
			"learning_rate": vm.Float32s([]float32{float32(c.rate)}),
		})
		if err != nil {
			return err
		}
		loss, _ := made["loss"].Reals()
		if i%c.every == 0 || i == c.steps-1 {
			fmt.Fprintf(out, "step %4d  loss %.4f\n", i, loss[0])
		}
		if err := log.add(images, labels, loss[0]); err != nil {
			return err
		}
	}
	m := session.Memory()
	fmt.Fprintf(out, "arena %d bytes, parameters and states %d, scratch %d\n", m.ArenaBytes, m.StateBytes, m.ScratchBytes)
	if err := session.Save(filepath.Join(c.dir, "params.onnx")); err != nil {
		return err
	}
	original, err := onnx.Open(source, onnx.ReadOptions{}) // f's model is the training step now
	if err != nil {
		return err
	}
	defer original.Close()
	return session.SaveModel(filepath.Join(c.dir, "trained.onnx"), original.Model)
}

// test plans the trained model for one batch and counts the pictures that it classifies
// correctly.
func test(ctx context.Context, path string, count int, seed uint64) (int, error) {
	f, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		return 0, err
	}
	defer f.Close()
	planned, err := passes.Optimize(ctx, f.Model, passes.Options{Dims: map[string]int64{"batch": int64(count)}})
	if err != nil {
		return 0, err
	}
	program, err := vm.New(planned.Model, planned.Plan)
	if err != nil {
		return 0, err
	}
	defer program.Close()
	session, err := program.NewSession(vm.Options{})
	if err != nil {
		return 0, err
	}
	defer session.Close()
	images, labels := newDigits(seed + 1).next(count)
	made, err := session.Run(ctx, map[string]vm.Value{"image": vm.Float32s(images, count, 1, side, side)})
	if err != nil {
		return 0, err
	}
	logits, _ := made["logits"].Reals()
	right := 0
	for i, label := range labels {
		row, best := logits[i*classes:(i+1)*classes], 0
		for k, x := range row {
			if x > row[best] {
				best = k
			}
		}
		if int64(best) == label {
			right++
		}
	}
	return right, nil
}

// writeStep writes the training step, its plan and its initial parameters.
func writeStep(dir string, step *passes.Result) error {
	if err := plan.WriteModel(filepath.Join(dir, "train.onnx"), step.Model, step.Plan, onnx.WriteOptions{}); err != nil {
		return err
	}
	return write(filepath.Join(dir, "train.params.onnx"), step.Step.Params)
}

func write(path string, m *graph.Model) error {
	im, err := onnx.Encode(m)
	if err != nil {
		return err
	}
	return onnx.Write(path, m, im, onnx.WriteOptions{})
}

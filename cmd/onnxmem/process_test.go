//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestProcess: the resident memory of a run is never above the plan's total by more than
// bench/process.py allows any model. All have weights that kernels could pack, 45 to 96 MB, so
// that weights which lie in memory twice, or dequantized, are beyond it.
func TestProcess(t *testing.T) {
	script, err := os.ReadFile("../../bench/process.py")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^PROMISE_MIB = (\d+)\b`).FindSubmatch(script)
	if found == nil {
		t.Fatal("bench/process.py has no PROMISE_MIB")
	}
	promise, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if memory.RunBytes(0, 0) != promise<<20 {
		t.Errorf("optimize promises %d bytes beyond the plan, and bench/process.py %d MiB", memory.RunBytes(0, 0), promise)
	}
	for _, c := range []struct{ name, model, plan string }{
		{"convolutions", "resnet18", ""},
		{"products of many rows", "bert --set layers=2 --set vocab=1000", "--dim sequence=64"},
		{"products of one row", "vgg16 --set width=0.5 --set size=64", ""},
		{"a training step", "resnet18 --set size=64", "--train --optimizer momentum"},
		{"frozen weights", "bert --set layers=2 --set vocab=1000", "--dim sequence=64 --train --lora 4"},
		{"frozen convolutions", "resnet50", "--train --trainable fc"},
		{"products in 16 bits", "bert --set layers=4 --set vocab=1000", "--dim sequence=64 --precision bf16"},
		{"convolutions in 16 bits", "vgg16 --set width=0.75 --set size=64", "--precision fp16"},
		{"quantized weights", "", ""},
		{"adapters of quantized weights", "", "--train --lora 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.model != "" {
				inProcess(t, dir, "model "+c.model+" m.onnx")
			} else {
				quantizedProducts(t, filepath.Join(dir, "m.onnx"))
			}
			var plan struct {
				Most int64 `json:"process_estimate_bytes"`
			}
			if err := json.Unmarshal(inProcess(t, dir, "optimize m.onnx p.onnx --effort fast --json "+c.plan), &plan); err != nil {
				t.Fatal(err)
			}
			var r struct {
				Total int64 `json:"total_bytes"`
				Peak  int64 `json:"process_peak_bytes"`
			}
			if err := json.Unmarshal(inProcess(t, dir, "run p.onnx --steps 2 --json"), &r); err != nil {
				t.Fatal(err)
			}
			if r.Peak == 0 || r.Total == 0 || r.Peak > r.Total+promise<<20 {
				t.Errorf("the process had %d MiB and the plan's total is %d MiB, expected at most %d more", r.Peak>>20, r.Total>>20, promise)
			}
			if r.Peak > plan.Most || plan.Most > 2*r.Peak {
				t.Errorf("the process had %d MiB, but optimize says that it takes at most about %d", r.Peak>>20, plan.Most>>20)
			}
		})
	}
}

// quantizedProducts writes a chain of products whose weights are 24 MiB of bytes, and 96 MiB of reals.
func quantizedProducts(t *testing.T, path string) {
	const width, layers = 1024, 24
	b := graph.NewBuilder("quantized", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 16, width))
	for i := range layers {
		name := fmt.Sprintf("layer%d", i)
		bytes := make([]byte, width*width)
		for j := range bytes {
			bytes[j] = byte(j*37 + i)
		}
		scales := make([]float32, width)
		for j := range scales {
			scales[j] = 1e-4
		}
		w := b.Initializer(name+".weight", &graph.Data{Type: graph.Int8, Dims: []int64{width, width}, Raw: bytes})
		r := b.Node("DequantizeLinear", name+".real", w, b.Floats(name+".scale", []int64{width}, scales))
		x = b.Node("Relu", name+".relu", b.Node("MatMul", name+".product", x, r))
	}
	b.Output(x)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := im.WriteTo(f); err != nil {
		t.Fatal(err)
	}
}

// inProcess runs a command line in a process of its own, as users do who set nothing of Go's,
// and returns its standard output.
func inProcess(t *testing.T, dir, line string) []byte {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	var out, errs bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = dir, &out, &errs
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GOGC=") && !strings.HasPrefix(v, "GOMEMLIMIT=") { // make test sets them
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, lineVariable+"="+strings.Join(strings.Fields(line), "\n"))
	if err := c.Run(); err != nil {
		t.Fatalf("onnxmem %s: %v: %s", line, err, &errs)
	}
	return out.Bytes()
}

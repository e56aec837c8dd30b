package alloc

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
)

// trainingRun returns three runs of a training graph in program order, as an eager
// framework executes them. Resident tensors are allocated first and kept. Each run
// allocates the inputs, then the outputs of each node, and frees the rest at its end.
func trainingRun(tb testing.TB, path string) Problem {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			tb.Fatal(err)
		}
	}
	var g struct {
		Nodes   []struct{}
		Tensors []struct {
			Bytes            int64
			Producer         int
			Consumers        []int
			Resident, Output bool
		}
	}
	if err := json.NewDecoder(r).Decode(&g); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	const runs = 3
	period := len(g.Nodes) + 2 // the inputs, the nodes, the end
	var p Problem
	for _, t := range g.Tensors {
		if t.Resident {
			p.Buffers = append(p.Buffers, Buffer{Size: t.Bytes, First: -1, Last: runs * period})
		}
	}
	for run := range runs {
		for _, t := range g.Tensors {
			if t.Resident {
				continue
			}
			last := t.Producer
			for _, n := range t.Consumers {
				last = max(last, n)
			}
			if t.Output {
				last = len(g.Nodes)
			}
			p.Buffers = append(p.Buffers, Buffer{Size: t.Bytes, First: run*period + t.Producer + 1, Last: run*period + last + 1})
		}
	}
	return p
}

// TestPyTorchTraining: the peaks that PyTorch reported for these graphs.
func TestPyTorchTraining(t *testing.T) {
	dir := datafolder.Path(t, "training")
	for _, row := range rows(t, filepath.Join(dir, "expected.csv")) {
		got := PyTorch(trainingRun(t, filepath.Join(dir, row["file"])))
		allocated, reserved := number(t, row["cuda_allocated_peak"]), number(t, row["cuda_reserved_peak"])
		if got.MaxAllocated != allocated || got.Reserved != reserved {
			t.Errorf("%s: allocated %d, reserved %d, want %d, %d", row["file"], got.MaxAllocated, got.Reserved, allocated, reserved)
		}
	}
}

// TestSimulatorsInstances: reserved bytes as multiples of the largest load, computed by
// other code. The heaps there did not round to 16 bytes, so the third digit may differ.
func TestSimulatorsInstances(t *testing.T) {
	want := map[string]map[string]float64{
		"minimalloc-A.1048576": {"pytorch": 2.000, "onnxruntime-bfc": 3.000, "malloc-first-fit": 1.534, "malloc-best-fit": 2.033, "no-reuse": 14.373},
		"minimalloc-J.1048576": {"pytorch": 2.120, "onnxruntime-bfc": 3.180, "malloc-first-fit": 1.605, "malloc-best-fit": 1.648, "no-reuse": 13.945},
		"somas-resnet50":       {"pytorch": 1.114, "onnxruntime-bfc": 1.417, "malloc-first-fit": 1.009, "malloc-best-fit": 1.003, "no-reuse": 2.259},
		"somas-bert_base":      {"pytorch": 1.011, "onnxruntime-bfc": 1.096, "malloc-first-fit": 1.004, "malloc-best-fit": 1.004, "no-reuse": 3.584},
		"somas-pangu_2.6B":     {"pytorch": 1.466, "onnxruntime-bfc": 1.555, "malloc-first-fit": 1.122, "malloc-best-fit": 1.119, "no-reuse": 50.024},
		"tflite-inception_v3":  {"pytorch": 3.285, "onnxruntime-bfc": 2.022, "malloc-first-fit": 1.343, "malloc-best-fit": 1.343, "no-reuse": 6.824},
	}
	for _, x := range instances(t, 20000) {
		for _, s := range Simulators {
			got := float64(s.Func(x.problem).Reserved) / float64(x.bound)
			if w, ok := want[x.name][s.Name]; ok && math.Abs(w-got) > 0.0015 {
				t.Errorf("%s: %s: reserved %.4f, want %.3f", x.name, s.Name, got, w)
			}
			t.Logf("%-22s %-22s %.3f", x.name, s.Name, got)
		}
	}
}

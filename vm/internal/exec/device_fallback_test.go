package exec

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// fallback returns the operators of a model's nodes that run on the host, once its shapes
// are known. Nodes that compute nothing but shapes are not among them.
func fallback(t *testing.T, d *cuda.Device, file *onnx.File, opt passes.Options) []string {
	t.Helper()
	r, err := passes.Optimize(context.Background(), file.Model, opt)
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.New(r.Model, r.Plan, func(r *store.Refusal) error { return errors.New("too much memory") })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := NewSession(p, lower.Options{Device: d, Uncompiled: true, MemoryLimit: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return slices.Sorted(maps.Keys(s.gpu.fallback(s.main)))
}

// fallback returns the operators of the nodes of a frame that run on the host on more than
// shapes and constants.
func (g *gpuSession) fallback(f *lower.Frame) map[string]int {
	count := map[string]int{}
	fixed := map[*values.Tensor]bool{}
	for _, st := range f.Steps {
		if st.Device || st.Run == nil && !st.Late {
			continue
		}
		only := true
		for _, t := range st.In {
			only = only && (t == nil || t.Const || fixed[t] || ops.OfShape(st.Node()))
		}
		for _, t := range st.Out {
			if t != nil {
				fixed[t] = only
			}
		}
		if !only && st.Node().Semantics.Call == nil {
			count[st.Node().OpName()]++
		}
	}
	return count
}

// TestBuiltInsStayOnDevice: no node of a built-in network or of its training steps runs on
// the host. Make sweeps tries each optimizer with each network, make test one.
func TestBuiltInsStayOnDevice(t *testing.T) {
	fake.Use(t)
	d, err := cuda.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	small := map[string]string{"width": "0.25", "classes": "10", "vocab": "50", "layers": "2", "hidden": "32", "heads": "4", "ff": "64"}
	for i, n := range models.Networks() {
		t.Run(n.Name, func(t *testing.T) {
			opt := models.Options{Set: map[string]string{}, Dims: map[string]int64{}}
			for _, p := range n.Settings {
				if v, is := small[p.Name]; is {
					opt.Set[p.Name] = v
				}
			}
			for _, p := range n.Dims {
				opt.Dims[p.Name] = 4
			}
			m, err := models.Build(n.Name, opt)
			if err != nil {
				t.Fatal(err)
			}
			file := written(t, m)
			if ops := fallback(t, d, file, passes.Options{Effort: schedule.EffortFast}); len(ops) > 0 {
				t.Errorf("inference: %v run on the host", ops)
			}
			optimizers := []string{"sgd", "momentum", "adamw"}
			if !sweep.On() {
				optimizers = optimizers[i%3 : i%3+1]
			}
			for _, optimizer := range optimizers {
				file := written(t, m)
				if ops := fallback(t, d, file, passes.Options{Effort: schedule.EffortFast, Train: &autodiff.Options{Optimizer: optimizer}}); len(ops) > 0 {
					t.Errorf("training step with %s: %v run on the host", optimizer, ops)
				}
			}
		})
	}
}

// TestZooOnDevice: at least 45 of the zoo's 47 models have no node on the host. The folder
// must have the models with their weights.
func TestZooOnDevice(t *testing.T) {
	folder := os.Getenv("ONNXMEM_TEST_ZOO")
	if folder == "" {
		t.Skip("ONNXMEM_TEST_ZOO names no folder with the zoo and its weights (make crosscheck makes build/crosscheck/zoo)")
	}
	fake.Use(t).Memory(1 << 40)
	d, err := cuda.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	files, _ := filepath.Glob(filepath.Join(folder, "*.onnx"))
	whole, all := 0, 0
	for _, path := range files {
		if name := filepath.Base(path); strings.Contains(name, ".run.") || strings.Contains(name, ".ALL.") || strings.Contains(name, ".EXTENDED.") {
			continue // made of a model of the zoo
		}
		file, err := onnx.Open(path, onnx.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ops := fallback(t, d, file, passes.Options{Effort: schedule.EffortFast})
		file.Close()
		all++
		if len(ops) == 0 {
			whole++
			continue
		}
		t.Logf("%s: %s", strings.TrimSuffix(filepath.Base(path), ".onnx"), strings.Join(ops, ", "))
	}
	if whole < 45 {
		t.Errorf("%d of %d models run on the device alone, expected 45", whole, all)
	}
}

// written writes a model and opens its file.
func written(t *testing.T, m *graph.Model) *onnx.File {
	t.Helper()
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := im.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := onnx.Open(path, onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

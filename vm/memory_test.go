package vm_test

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

// BenchmarkTouched runs the planned model $ONNXMEM_PLANNED ten times and reports the
// process's resident memory afterwards, without the mapped model and weights and without
// the memory that was resident after a run of a four-node model. Beside it, it reports
// the memory according to the plan and the session. bench/memory.py makes the table.
func BenchmarkTouched(b *testing.B) {
	file := os.Getenv("ONNXMEM_PLANNED")
	if file == "" {
		b.Skip("set ONNXMEM_PLANNED to a planned model")
	}
	small, _ := planned(b, chain(b))
	s := newSession(b, small, vm.Options{Workers: 1})
	if _, err := s.Run(context.Background(), noise(small)); err != nil {
		b.Fatal(err)
	}
	base := resident(b)

	text, err := os.Open(strings.TrimSuffix(file, ".onnx") + ".plan.json")
	if err != nil {
		b.Fatal(err)
	}
	defer text.Close()
	p, err := plan.Read(text)
	if err != nil {
		b.Fatal(err)
	}
	f, err := onnx.Open(file, onnx.ReadOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	program, err := vm.New(f.Model, p)
	if err != nil {
		b.Fatal(err)
	}
	defer program.Close()
	if s, err = program.NewSession(vm.Options{Workers: 1}); err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	inputs := noise(program)
	const runs = 10
	var before, after runtime.MemStats
	for i := range runs {
		if i == 1 { // the first run finds the shapes of dynamic tensors
			runtime.ReadMemStats(&before)
		}
		if _, err := s.Run(context.Background(), inputs); err != nil {
			b.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	m := s.Memory()
	b.ReportMetric(float64(resident(b)-base), "touched-B")
	b.ReportMetric(float64(m.ArenaBytes), "arena-B")
	b.ReportMetric(float64(m.StateBytes), "states-B")
	b.ReportMetric(float64(m.DynamicBytes), "dynamic-B")
	b.ReportMetric(float64(m.PackedBytes), "packed-B")
	b.ReportMetric(float64(m.ScratchBytes), "scratch-B")
	b.ReportMetric(float64(m.DecodedBytes), "decoded-B")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/(runs-1), "heap-allocs/step")
	b.ReportMetric(float64(len(p.Steps)), "nodes")
}

// resident returns the process's resident bytes, without mapped models and weights.
func resident(t testing.TB) int64 {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip("no /proc/self/smaps on this system")
	}
	defer f.Close()
	total, weights := int64(0), false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) > 0 && strings.Contains(words[0], "-"): // a mapping: addresses, ..., its file
			ext := filepath.Ext(words[len(words)-1])
			weights = ext == ".onnx" || ext == ".bin"
		case len(words) > 1 && words[0] == "Rss:" && !weights:
			n, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			total += n << 10
		}
	}
	return total
}

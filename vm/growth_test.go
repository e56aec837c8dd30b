//go:build linux

package vm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// runtimeBytes is what Go's runtime takes once in a process, beside what sessions count.
const runtimeBytes = 4 << 20

// growthVariable names the limit under which TestGrowth, run by itself, runs a model.
const growthVariable = "ONNXMEM_GROWTH"

// mixed writes a model with a table of 32 MiB of which Gather reads 8 rows, a weight of 16
// MiB that is packed, and a constant of 16 MiB that is read in place.
func mixed(t *testing.T, path string) {
	t.Helper()
	n := newNet()
	n.weight("table", 8192, 1024)
	n.weight("w", 1024, 4096)
	n.weight("c", 1024, 4096)
	list := make([]any, 8)
	for i := range list {
		list[i] = int64(1000 * i)
	}
	n.constant("rows", graph.Int64, []int64{8}, list...)
	n.input("x", 1, 1024)
	n.input("z", 1024, 4096)
	n.node("Gather", "e", "table", "rows")
	n.node("Add", "s", "e", "x")
	n.node("MatMul", "y", "s", "w")
	n.node("Add", "v", "z", "c")
	n.output("y", 8, 4096)
	n.output("v", 1024, 4096)
	n.write(t, path)
}

// TestGrowth: a process grows by no more than the memory limit under which the model runs,
// and what Go's runtime takes once. The limit is the smallest one.
func TestGrowth(t *testing.T) {
	folder := os.Getenv(growthVariable)
	if folder == "" {
		folder = t.TempDir()
		mixed(t, filepath.Join(folder, "m.onnx"))
	}
	path := filepath.Join(folder, "m.onnx")
	if os.Getenv(growthVariable) != "" {
		growth(t, path)
		return
	}
	for _, unpacked := range []bool{false, true} {
		t.Run(fmt.Sprintf("unpacked=%v", unpacked), func(t *testing.T) {
			p, s := session(t, path, passes.Options{}, vm.Options{Workers: 1, NoPack: unpacked})
			m := s.Memory()
			s.Close()
			limit := m.Bytes() + m.DecodedBytes + m.PackedBytes + m.FileBytes
			if m.FileBytes < 16<<20 || m.FileBytes > 18<<20 && !unpacked || m.FileBytes > 34<<20 {
				t.Errorf("counts %d bytes in files, expected the constant that is read in place, and rows", m.FileBytes)
			}
			over := vm.Options{Workers: 1, NoPack: unpacked, MemoryLimit: limit - 1}
			if _, err := p.NewSession(over); err == nil || !strings.Contains(err.Error(), "weights in their files") {
				t.Errorf("a limit of one byte less: got %v", err)
			}
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), exe, "-test.run=^TestGrowth$", "-test.v")
			c.Env = append(os.Environ(), growthVariable+"="+folder, "GOGC=100", "GOMEMLIMIT=off", fmt.Sprintf("ONNXMEM_GROWTH_LIMIT=%d %v", limit, unpacked))
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var r struct{ Before, Peak int64 }
			_, text, _ := strings.Cut(string(out), "figures: ")
			text, _, _ = strings.Cut(text, "\n")
			if err := json.Unmarshal([]byte(text), &r); err != nil || r.Before == 0 {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("grew by %d of %d KiB", (r.Peak-r.Before)>>10, limit>>10)
			if r.Peak-r.Before > limit+runtimeBytes || r.Peak-r.Before < limit/2 {
				t.Errorf("the process grew by %d bytes under a limit of %d", r.Peak-r.Before, limit)
			}
		})
	}
}

// growth runs the model and prints the memory of the process before and at its peak.
func growth(t *testing.T, path string) {
	var limit int64
	var unpacked bool
	if _, err := fmt.Sscan(os.Getenv("ONNXMEM_GROWTH_LIMIT"), &limit, &unpacked); err != nil {
		t.Fatal(err)
	}
	x, z := vm.Float32s(make([]float32, 1024), 1, 1024), vm.Float32s(make([]float32, 1<<22), 1024, 4096)
	p, _ := program(t, path, passes.Options{})
	debug.FreeOSMemory()
	before := memory.Process().Resident
	s := newSession(t, p, vm.Options{Workers: 1, NoPack: unpacked, MemoryLimit: limit})
	for range 2 {
		if _, err := s.Run(t.Context(), map[string]vm.Value{"x": x, "z": z}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(struct{ Before, Peak int64 }{before, memory.Process().Peak})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("figures: %s\n", list)
}

//go:build cuda

package vm_test

import (
	"bytes"
	"errors"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// gpu opens the first GPU; without one, the test is skipped.
func gpu(t *testing.T) *cuda.Device {
	t.Helper()
	d, err := cuda.Open("cuda")
	if errors.Is(err, driver.ErrNoDriver) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// mixed writes a model of nodes on the device and, between them, one that has no device
// kernel.
func mixed(t *testing.T) string {
	n := newNet()
	n.input("x", 4, 8)
	n.weight("w", 4, 8)
	n.node("Mul", "a", "x", "w")
	n.node("Softmax", "b", "a")
	n.node("NonZero", "c", "b")
	n.node("Add", "y", "b", "w")
	n.output("y", 4, 8)
	n.g.Tensors[n.tensor("c")].Output = true
	n.g.Outputs = append(n.g.Outputs, n.tensor("c"))
	n.g.Tensors[n.tensor("c")].Declared = &graph.Declared{Type: graph.TensorOf(graph.Int64, 2, graph.Unknown), Symbols: make([]string, 2)}
	path := filepath.Join(t.TempDir(), "mixed.onnx")
	n.write(t, path)
	return path
}

// Gorgonia's CUDA machine calls every node of a session with a device, at every step that
// is not replayed, and the results are those of the CPU.
func TestCUDAMachineRunsEveryNode(t *testing.T) {
	d := gpu(t)
	p, r := program(t, mixed(t), passes.Options{})
	in := map[string]vm.Value{"x": ramp([]graph.Dim{4, 8})}
	want, err := newSession(t, p, vm.Options{}).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, p, vm.Options{Device: d})
	if got := s.DeviceUse().Machine; got != "gorgonia's CUDA machine" {
		t.Errorf("machine %q", got)
	}
	if s.Engines() != 1 {
		t.Errorf("%d engines, expected 1", s.Engines())
	}
	for range 3 {
		got, err := s.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.Model.Graph.Nodes); s.CalledByMachine() != n {
			t.Errorf("the machine called %d nodes, expected %d", s.CalledByMachine(), n)
		}
		if diff := largest(t, got["y"], want["y"]); diff > 1e-6 {
			t.Errorf("y differs by %g", diff)
		}
		if !bytes.Equal(got["c"].Data, want["c"].Data) {
			t.Error("c differs")
		}
	}
}

// largest returns the largest difference of two lists of reals.
func largest(t *testing.T, a, b vm.Value) (diff float64) {
	t.Helper()
	x, _ := a.Reals()
	y, _ := b.Reals()
	if len(x) != len(y) || len(x) == 0 {
		t.Fatalf("%v, expected %v", a, b)
	}
	for i := range x {
		diff = max(diff, x[i]-y[i], y[i]-x[i])
	}
	return diff
}

// A training step is the same, bit for bit, whether gorgonia's machine runs it or the
// recording of an earlier step; the machine is not called for the latter.
func TestCUDAMachineAndReplay(t *testing.T) {
	d := gpu(t)
	p, r := trained(t, classifier(t))
	run := func(opt vm.Options) (losses []float64, s *vm.Session) {
		s = newSession(t, p, opt)
		if err := s.Load(r.Step.Params); err != nil {
			t.Fatal(err)
		}
		return advance(t, s, 4), s
	}
	want, by := run(vm.Options{Device: d, NoReplay: true})
	if n := len(r.Model.Graph.Nodes); by.CalledByMachine() != n {
		t.Errorf("the machine called %d nodes, expected %d", by.CalledByMachine(), n)
	}
	got, _ := run(vm.Options{Device: d})
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("step %d: loss %v with replay, %v without", i, got[i], want[i])
		}
	}
}

// Gorgonia's machine takes no device memory: what is in use is what the session says, from
// its start to its end.
func TestCUDAMachineTakesNoMemory(t *testing.T) {
	d := gpu(t)
	if !strings.HasPrefix(d.Name(), "Fake") {
		t.Skip("a real driver counts device memory in pages, and other processes use it")
	}
	used := func() int64 {
		if err := d.Enter(); err != nil {
			t.Fatal(err)
		}
		defer d.Leave()
		free, total, err := d.Memory()
		if err != nil {
			t.Fatal(err)
		}
		return total - free
	}
	before := used()
	p, _ := program(t, mixed(t), passes.Options{})
	s := newSession(t, p, vm.Options{Device: d})
	u := s.DeviceUse()
	want := before
	for _, bytes := range []int64{u.ArenaBytes, u.ResidentBytes, u.ConstantBytes, u.ScratchBytes} {
		if bytes > 0 {
			want += max(bytes, 256) // the least that a block takes
		}
	}
	started := used()
	if started != want {
		t.Errorf("%d B of device memory are in use, expected %d: %+v", started, want, u)
	}
	for range 2 {
		if _, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{4, 8})}); err != nil {
			t.Fatal(err)
		}
		if now := used(); now != started {
			t.Errorf("%d B are in use after a run, %d before", now, started)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after := used(); after != before {
		t.Errorf("%d B are in use after the session, %d before", after, before)
	}
}

// The goroutines that gorgonia starts for a device end with the session.
func TestCUDAMachineEnds(t *testing.T) {
	d := gpu(t)
	p, _ := program(t, mixed(t), passes.Options{})
	for range 20 {
		if err := newSession(t, p, vm.Options{Device: d}).Close(); err != nil {
			t.Fatal(err)
		}
	}
	stacks := make([]byte, 1<<20)
	for range 1000 { // a goroutine that was told to end may not have yet
		stacks = stacks[:runtime.Stack(stacks[:cap(stacks)], true)]
		if !bytes.Contains(stacks, []byte("gorgonia.org/gorgonia")) {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("goroutines of gorgonia are left:\n%s", stacks)
}

// A session without a device opens no GPU in the CUDA build: its nodes have no CUDADo.
func TestCPUSessionOfCUDABuild(t *testing.T) {
	p, _ := program(t, mixed(t), passes.Options{})
	s := newSession(t, p, vm.Options{})
	if _, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{4, 8})}); err != nil {
		t.Fatal(err)
	}
	if s.Engines() != 0 || s.CalledByMachine() != 0 || s.DeviceUse() != nil {
		t.Errorf("%d engines, %d calls, %v: expected none", s.Engines(), s.CalledByMachine(), s.DeviceUse())
	}
}

// Gorgonia's CUDA build logs no line when a program starts, and the program's own lines
// are logged.
func TestNoLineAtStart(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestLogs$")
	cmd.Env = append(os.Environ(), "ONNXMEM_TEST_LOG=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if got := stderr.String(); !strings.HasSuffix(got, "a line of the program\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("the log has %q", got)
	}
}

// TestLogs is the program of TestNoLineAtStart.
func TestLogs(t *testing.T) {
	if os.Getenv("ONNXMEM_TEST_LOG") != "" {
		log.Print("a line of the program")
	}
}

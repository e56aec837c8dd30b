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
	"sync"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// cudaMachine: gorgonia's CUDA machine runs the nodes of sessions with a device.
const cudaMachine = true

// calledByMachine is the number of nodes that gorgonia's CUDA machine called in the last run of a
// session.
func calledByMachine(s *vm.Session) int { return s.CalledByMachine() }

// machineDevice opens the fake driver's GPU; with ONNXMEM_TEST_GPU set, the first one of the
// machine, and f is nil.
func machineDevice(t *testing.T) (d *cuda.Device, f *fake.Fake) {
	t.Helper()
	if os.Getenv("ONNXMEM_TEST_GPU") == "" {
		f = fake.Use(t)
	}
	d, err := cuda.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, f
}

// mixedNet writes a model of nodes on the device and, between them, one that has no device
// kernel.
func mixedNet(t *testing.T) string {
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
	d, _ := machineDevice(t)
	p, r := program(t, mixedNet(t), passes.Options{})
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
		if diff := biggestDifference(t, got["y"], want["y"]); diff > 1e-6 {
			t.Errorf("y differs by %g", diff)
		}
		if !bytes.Equal(got["c"].Data, want["c"].Data) {
			t.Error("c differs")
		}
	}
}

// biggestDifference returns the largest difference of two lists of reals.
func biggestDifference(t *testing.T, a, b vm.Value) (diff float64) {
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
	d, _ := machineDevice(t)
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

// Sessions on one device have a machine each, and may run at the same time.
func TestCUDAMachinesAtTheSameTime(t *testing.T) {
	d, _ := machineDevice(t)
	p, _ := program(t, mixedNet(t), passes.Options{})
	in := map[string]vm.Value{"x": ramp([]graph.Dim{4, 8})}
	sums := make([][]byte, 4)
	var g sync.WaitGroup
	for i := range sums {
		g.Go(func() {
			s, err := p.NewSession(vm.Options{Device: d})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for range 3 {
				out, err := s.Run(t.Context(), in)
				if err != nil {
					t.Error(err)
					return
				}
				sums[i] = bytes.Clone(out["y"].Data)
			}
		})
	}
	g.Wait()
	for i := range sums {
		if !bytes.Equal(sums[i], sums[0]) {
			t.Errorf("session %d differs from the first", i)
		}
	}
}

// Gorgonia's machine takes no device memory: what is allocated is what the session says, and
// nothing is allocated after its start.
func TestCUDAMachineTakesNoMemory(t *testing.T) {
	d, f := machineDevice(t)
	if f == nil {
		t.Skip("a real driver counts memory in pages, and no allocations")
	}
	before := f.Counters()
	p, _ := program(t, mixedNet(t), passes.Options{})
	s := newSession(t, p, vm.Options{Device: d})
	u := s.DeviceUse()
	const least = 256     // bytes of a block
	want := uint64(least) // of the word that tells of wrong indices
	for _, bytes := range []int64{u.ArenaBytes, u.ResidentBytes, u.ConstantBytes, u.ScratchBytes} {
		if bytes > 0 {
			want += uint64(max(bytes, least))
		}
	}
	started := f.Counters()
	if got := started.LiveBytes - before.LiveBytes; got != want {
		t.Errorf("%d B are allocated, expected %d: %+v", got, want, u)
	}
	for range 3 {
		if _, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{4, 8})}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.Counters().Allocations - started.Allocations; n != 0 {
		t.Errorf("%d allocations after the start", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after := f.Counters(); after.LiveBlocks != before.LiveBlocks {
		t.Errorf("%d blocks are left after the session, %d before", after.LiveBlocks, before.LiveBlocks)
	}
}

// A session that any of its allocations fails ends with an error that says so, and leaves
// nothing: gorgonia, which would wait forever, allocates nothing.
func TestCUDAMachineWithoutRoom(t *testing.T) {
	d, f := machineDevice(t)
	if f == nil {
		t.Skip("a real driver fails no allocation when asked to")
	}
	p, _ := program(t, mixedNet(t), passes.Options{})
	before := f.Counters()
	for n := 1; ; n++ {
		f.FailAllocation(n)
		s, err := p.NewSession(vm.Options{Device: d})
		if err == nil {
			if n == 1 {
				t.Error("no allocation failed")
			}
			f.FailAllocation(0)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("allocation %d: %v", n, err)
		}
		if after := f.Counters(); after.LiveBlocks != before.LiveBlocks {
			t.Errorf("allocation %d: %d blocks are left, %d before", n, after.LiveBlocks, before.LiveBlocks)
		}
	}
}

// The goroutines that gorgonia starts for a device end with the session.
func TestCUDAMachineEnds(t *testing.T) {
	d, _ := machineDevice(t)
	p, _ := program(t, mixedNet(t), passes.Options{})
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
	p, _ := program(t, mixedNet(t), passes.Options{})
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
func TestCUDABuildIsQuiet(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCUDABuildLogs$")
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

// TestCUDABuildLogs is the program of TestCUDABuildIsQuiet.
func TestCUDABuildLogs(t *testing.T) {
	if os.Getenv("ONNXMEM_TEST_LOG") != "" {
		log.Print("a line of the program")
	}
}

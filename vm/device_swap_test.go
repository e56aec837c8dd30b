package vm_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// TestDeviceSwap: swapped tensors come back with the same bits, in every order of work.
func TestDeviceSwap(t *testing.T) {
	d, f := onDevice(t)
	plain, _ := planListed(t, swapModel(t, false))
	want, _ := runSteps(t, plain, vm.Options{Device: d}, nil, 1)
	p, r := planListed(t, swapModel(t, true))
	for _, mode := range modes {
		if f != nil {
			f.Mode(mode)
			f.Strict(mode == "lazy")
		}
		s := newSession(t, p, vm.Options{Device: d})
		for range 3 {
			got, err := s.Run(t.Context(), inputsOf(p))
			if err != nil {
				t.Fatal(err)
			}
			sameBits(t, mode, got, want)
		}
		if s.Memory().HostBytes != r.Pools[2].Bytes {
			t.Errorf("a host pool of %d bytes, expected %d", s.Memory().HostBytes, r.Pools[2].Bytes)
		}
	}
}

// overlappedSwaps writes a model whose transfers all run beside nodes, in which tensors take
// the places of others that are away: those of the arena and those of the host pool. A copy
// that is made too early or too late has other bits.
func overlappedSwaps(t testing.TB, swaps bool) string {
	t.Helper()
	n := newNet()
	out, in := graph.SwapOut, graph.SwapIn
	if !swaps {
		out, in = "Identity", "Identity"
	}
	n.input("x", 16, 256)
	n.node(out, "x.host", "x") // a graph input
	n.node("Relu", "a", "x")
	n.node(out, "a.host", "a")
	n.node("LpNormalization", "b", "a")
	n.node(out, "b.host", "b")
	n.node("Neg", "c", "b")
	n.node("LpNormalization", "d", "c")
	n.node(in, "a.back", "a.host")
	n.node("LpNormalization", "e", "d")
	n.node("Add", "f", "e", "a.back")
	n.node(out, "f.host", "f") // the host pool has room where a was
	n.node("LpNormalization", "g", "f")
	n.node(in, "b.back", "b.host")
	n.node("LpNormalization", "h", "g")
	n.node("Mul", "i", "h", "b.back")
	n.node(in, "f.back", "f.host")
	n.node("LpNormalization", "j", "i")
	n.node("Add", "k", "j", "f.back")
	n.node(in, "x.back", "x.host")
	n.node("LpNormalization", "l", "k")
	n.node("LpNormalization", "m", "l")
	n.node("LpNormalization", "n", "m")
	n.node("LpNormalization", "o", "n")
	n.node("Sub", "y", "o", "x.back")
	n.output("y", 16, 256)
	path := filepath.Join(t.TempDir(), fmt.Sprintf("overlapped-%t.onnx", swaps))
	n.write(t, path)
	return path
}

// TestDeviceSwapOfGroups: a tensor that leaves for the host pool amid elementwise nodes, which
// otherwise run as one kernel, is made before.
func TestDeviceSwapOfGroups(t *testing.T) {
	d, f := onDevice(t)
	model := func(swaps bool) string {
		n := newNet()
		out, in := graph.SwapOut, graph.SwapIn
		if !swaps {
			out, in = "Identity", "Identity"
		}
		n.input("x", 16, 256)
		n.node("Relu", "a", "x")
		n.node("Neg", "b", "a")
		n.node("Exp", "c", "b")
		n.node("Sqrt", "d", "c")
		n.node(out, "a.host", "a") // which leaves behind the step that makes it
		n.node("LpNormalization", "e", "d")
		n.node("LpNormalization", "f", "e")
		n.node(in, "a.back", "a.host")
		n.node("LpNormalization", "g", "f")
		n.node("Sub", "y", "g", "a.back")
		n.output("y", 16, 256)
		path := filepath.Join(t.TempDir(), fmt.Sprintf("groups-%t.onnx", swaps))
		n.write(t, path)
		return path
	}
	plain, _ := planListed(t, model(false))
	want, _, err := stepsOf(t, plain, vm.Options{Device: d}, 3)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := planListed(t, model(true))
	for _, mode := range modes {
		if f != nil {
			f.Mode(mode)
		}
		got, _, err := stepsOf(t, p, vm.Options{Device: d}, 3)
		if err != nil {
			t.Fatal(err)
		}
		if !equal(got, want) {
			t.Errorf("%s: other bits than without transfers", mode)
		}
	}
}

// stepsOf are the outputs of a new session's first steps, whose inputs differ.
func stepsOf(t testing.TB, p *vm.Program, opt vm.Options, steps int) (list [][]byte, s *vm.Session, err error) {
	t.Helper()
	s = newSession(t, p, opt)
	for k := range steps {
		x := make([]float32, 16*256)
		for i := range x {
			x[i] = float32((37*i+k)%101-50) / 25
		}
		out, err := s.Run(t.Context(), map[string]vm.Value{"x": vm.Float32s(x, 16, 256)})
		if err != nil {
			return nil, s, err
		}
		list = append(list, bytes.Clone(out["y"].Data))
	}
	return list, s, nil
}

// equal reports whether two lists of outputs have the same bits.
func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// TestDeviceSwapReplayed: steps with transfers are replayed, with other inputs than those of
// the recording, and give the bits of a plan without transfers in every order of work.
func TestDeviceSwapReplayed(t *testing.T) {
	d, f := onDevice(t)
	plain, _ := planListed(t, overlappedSwaps(t, false))
	want, _, err := stepsOf(t, plain, vm.Options{Device: d, NoReplay: true}, 5)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := planListed(t, overlappedSwaps(t, true))
	for _, mode := range modes {
		if f != nil {
			f.Mode(mode)
			f.Strict(mode == "lazy")
		}
		for _, c := range []struct {
			what     string
			opt      vm.Options
			replayed int
		}{
			{"replayed", vm.Options{Device: d}, 3},
			{"by the machine", vm.Options{Device: d, NoReplay: true}, 0},
			{"a file, which is not pinned", vm.Options{Device: d, HostFile: filepath.Join(t.TempDir(), "host")}, 0},
		} {
			if f != nil {
				f.ResetCounters()
			}
			got, s, err := stepsOf(t, p, c.opt, 5)
			if err != nil {
				t.Fatal(err)
			}
			if f != nil && mode == "lazy" {
				// Seven transfers of a step have nodes between their begin and their end. A
				// file is not pinned, so the host waits for each.
				if n := f.Counters().Beside; c.opt.HostFile == "" && n < 5*7 {
					t.Errorf("%s: %d kernels and copies of 5 steps had others beside them, expected %d or more", c.what, n, 5*7)
				}
			}
			if !equal(got, want) {
				t.Errorf("%s, %s: other bits than without transfers", mode, c.what)
			}
			if n := s.DeviceUse().ReplayedSteps; n != c.replayed {
				t.Errorf("%s, %s: %d steps of 5 were replayed, expected %d", mode, c.what, n, c.replayed)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDeviceMissingWait: each wait for an event that is left out is found: in some order of
// work the bits are wrong, or the driver refuses the recording. So the tests above would
// find an event that the session forgets.
func TestDeviceMissingWait(t *testing.T) {
	d, f := onDevice(t)
	if f == nil {
		t.Skip("a GPU's driver forgets no wait")
	}
	p, _ := planListed(t, overlappedSwaps(t, true))
	for _, c := range []struct {
		what  string
		opt   vm.Options
		steps int
		first func(waits int) int // wait that is left out
	}{
		{"by the machine", vm.Options{Device: d, NoReplay: true}, 1, func(int) int { return 1 }},
		{"recorded", vm.Options{Device: d}, 3, func(waits int) int { return waits/2 + 1 }}, // in the second step
	} {
		f.Mode("eager")
		want, _, err := stepsOf(t, p, c.opt, c.steps)
		if err != nil {
			t.Fatal(err)
		}
		f.ResetCounters()
		if _, _, err := stepsOf(t, p, c.opt, c.steps); err != nil {
			t.Fatal(err)
		}
		waits := int(f.Counters().Waits)
		found := map[string]int{}
		for n := c.first(waits); n <= waits; n++ {
			mode := findsMissing(t, p, d, f, c.opt, want, n)
			if mode == "" {
				t.Errorf("%s: no order of work shows that wait %d of %d is missing", c.what, n, waits)
			}
			found[mode]++
		}
		t.Logf("%s: %d waits, found by %v", c.what, waits, slices.Sorted(maps.Keys(found)))
	}
}

// findsMissing returns the first mode in which a session without its n-th wait gives other
// outputs than it should, or fails; "" if there is none.
func findsMissing(t *testing.T, p *vm.Program, d *cuda.Device, f *fake.Fake, opt vm.Options, want [][]byte, n int) string {
	t.Helper()
	list := slices.Clone(modes)
	for seed := 6; seed < 40; seed++ {
		list = append(list, fmt.Sprintf("random:%d", seed))
	}
	for _, mode := range list {
		f.Mode(mode)
		f.SkipWait(n)
		got, s, err := stepsOf(t, p, opt, len(want))
		f.SkipWait(0)
		if failed := s.Close(); failed != nil {
			t.Fatal(failed)
		}
		if err != nil || !equal(got, want) {
			return mode
		}
	}
	return ""
}

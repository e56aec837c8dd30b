package vm_test

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// TestDeviceLibrary: with cuBLAS, a training step gives nearly the results of onnxmem's own
// kernels. It gives the same bits with every tensor apart, in every order of work, replayed
// and poisoned. So it does with its workspaces in the plan, where nothing is allocated beside
// it.
func TestDeviceLibrary(t *testing.T) {
	if d, f := onDevice(t); f != nil {
		f.UseBLAS(t)
		libraryOnDevice(t, d, f.Mode)
	} else {
		libraryOnDevice(t, d, nil)
	}
}

func libraryOnDevice(t *testing.T, d *cuda.Device, mode func(string)) {
	const steps = 3
	file := smallNetworks[4].file(t)
	opt := passes.Options{Train: &autodiff.Options{Optimizer: "sgd"}}
	p, r := program(t, file, opt)
	own, s := runSteps(t, p, vm.Options{Device: d, NoBLAS: true}, params(r), 1)
	if u := s.DeviceUse(); u.Library != "" || u.NoLibrary != nil {
		t.Errorf("with NoBLAS: %q, %v: expected none, and no reason", u.Library, u.NoLibrary)
	}
	once, _ := runSteps(t, p, vm.Options{Device: d, NoReplay: true}, params(r), 1)
	nearly(t, once, own, 1e-3)
	want, s := runSteps(t, p, vm.Options{Device: d, NoReplay: true}, params(r), steps)
	use := s.DeviceUse()
	if use.Library == "" && mode == nil {
		t.Skip(use.NoLibrary)
	}
	if !strings.HasPrefix(use.Library, "cuBLAS ") || use.LibraryNodes < 10 || use.LibraryPath == "" {
		t.Fatalf("%q computed the products of %d nodes, expected cuBLAS, of many", use.Library, use.LibraryNodes)
	}
	if n := strings.Count(s.Lowered(), "cuBLAS\n"); n != use.LibraryNodes {
		t.Errorf("cuBLAS is the algorithm of %d nodes, expected %d", n, use.LibraryNodes)
	}
	replayed, s := runSteps(t, p, vm.Options{Device: d}, params(r), steps)
	sameBits(t, "replayed", replayed, want)
	if n := s.DeviceUse().ReplayedSteps; n != steps-2 {
		t.Errorf("%d of %d steps were replayed, expected all after the second", n, steps)
	}
	apart, _ := runSteps(t, p, vm.Options{Device: d, Separate: true}, params(r), steps)
	sameBits(t, "apart", apart, want)

	opt.Workspaces = s.Workspaces()
	if opt.Workspaces.Products != use.Library {
		t.Errorf("recorded with %q, expected %q", opt.Workspaces.Products, use.Library)
	}
	p, r = program(t, file, opt)
	planned, s := runSteps(t, p, vm.Options{Device: d}, params(r), steps)
	sameBits(t, "in workspaces", planned, want)
	if n := s.DeviceUse().ScratchBytes; n != 0 {
		t.Errorf("%d bytes of scratch beside the arena, expected none", n)
	}
	poisoned, _ := runSteps(t, p, vm.Options{Device: d, Poison: true}, params(r), 1)
	sameBits(t, "poisoned", poisoned, once)
	if mode == nil {
		return
	}
	for _, m := range modes[2:4] {
		mode(m)
		again, _ := runSteps(t, p, vm.Options{Device: d}, params(r), steps)
		sameBits(t, m, again, want)
	}
	mode("lazy")
}

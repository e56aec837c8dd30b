package vm_test

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda"
)

// TestDeviceConvolutions: with cuDNN, a training step gives nearly the results of onnxmem's
// own kernels. It gives the same bits with every tensor apart, in every order of work,
// replayed and poisoned. So it does with its workspaces in the plan, where nothing is
// allocated beside it. A closed session leaves nothing in the library.
func TestDeviceConvolutions(t *testing.T) {
	d, f := onDevice(t)
	if f == nil {
		convolutionsOnDevice(t, d, nil)
		return
	}
	f.UseDNN(t)
	t.Run("sessions", func(t *testing.T) { convolutionsOnDevice(t, d, f.Mode) })
	if n := f.Counters().LiveObjects; n != 0 {
		t.Errorf("%d handles and descriptors of cuDNN are left", n)
	}
}

func convolutionsOnDevice(t *testing.T, d *cuda.Device, mode func(string)) {
	const steps = 3
	file := smallNetworks[0].file(t)
	p, _ := program(t, file, passes.Options{})
	own, _ := runSteps(t, p, vm.Options{Device: d, NoDNN: true}, nil, 1)
	got, _ := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true}, nil, 1)
	nearly(t, got, own, 2e-4)

	opt := passes.Options{Train: &autodiff.Options{Optimizer: "sgd"}}
	p, r := program(t, file, opt)
	var s *vm.Session
	own, s = runSteps(t, p, vm.Options{Device: d, NoDNN: true}, params(r), 1)
	if u := s.DeviceUse(); u.ConvolutionLibrary != "" || u.NoConvolutionLibrary != nil || u.RefusedConvolutions != nil {
		t.Errorf("with NoDNN: %q, %v, %v: expected none, and no reason", u.ConvolutionLibrary, u.NoConvolutionLibrary, u.RefusedConvolutions)
	}
	once, _ := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true, NoReplay: true}, params(r), 1)
	nearly(t, once, own, 5e-2) // normalization over few elements enlarges what rounding does
	want, s := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true, NoReplay: true}, params(r), steps)
	use := s.DeviceUse()
	if use.ConvolutionLibrary == "" && mode == nil {
		t.Skip(use.NoConvolutionLibrary)
	}
	if !strings.HasPrefix(use.ConvolutionLibrary, "cuDNN ") || use.ConvolutionNodes < 10 || use.ConvolutionLibraryPath == "" {
		t.Fatalf("%q computed %d convolutions, expected cuDNN, and many; refused: %v", use.ConvolutionLibrary, use.ConvolutionNodes, use.RefusedConvolutions)
	}
	if n := strings.Count(s.Lowered(), "cuDNN\n"); n != use.ConvolutionNodes {
		t.Errorf("cuDNN is the algorithm of %d nodes, expected %d", n, use.ConvolutionNodes)
	}
	replayed, s := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true}, params(r), steps)
	sameBits(t, "replayed", replayed, want)
	if n := s.DeviceUse().ReplayedSteps; n != steps-2 {
		t.Errorf("%d of %d steps were replayed, expected all after the second", n, steps)
	}
	apart, _ := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true, Separate: true}, params(r), steps)
	sameBits(t, "apart", apart, want)

	opt.Workspaces = s.Workspaces()
	if opt.Workspaces.Convolutions != use.ConvolutionLibrary {
		t.Errorf("recorded with %q, expected %q", opt.Workspaces.Convolutions, use.ConvolutionLibrary)
	}
	p, r = program(t, file, opt)
	planned, s := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true}, params(r), steps)
	sameBits(t, "in workspaces", planned, want)
	if n := s.DeviceUse().ScratchBytes; n != 0 {
		t.Errorf("%d bytes of scratch beside the arena, expected none", n)
	}
	poisoned, _ := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true, Poison: true}, params(r), 1)
	sameBits(t, "poisoned", poisoned, once)
	if mode == nil {
		return
	}
	for _, m := range modes[2:4] {
		mode(m)
		again, _ := runSteps(t, p, vm.Options{Device: d, DNNFloat32: true}, params(r), steps)
		sameBits(t, m, again, want)
	}
	mode("lazy")
}

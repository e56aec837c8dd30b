package vm_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestDeviceConstants: the sessions of a program on one device share its constants, also
// while they run at the same time. They count once, are copied once, and go with the last
// session.
func TestDeviceConstants(t *testing.T) {
	d, f := onDevice(t)
	if f == nil {
		t.Skip("a GPU does not count its allocations")
	}
	p, _ := program(t, smallNetworks[0].file(t), passes.Options{})
	want, _ := runSteps(t, p, vm.Options{Device: d}, nil, 1)
	p, r := program(t, smallNetworks[0].file(t), passes.Options{})
	empty := f.Counters()
	first, err := p.NewSession(vm.Options{Device: d})
	if err != nil {
		t.Fatal(err)
	}
	one := f.Counters()
	shared := first.DeviceUse().SharedBytes
	if shared < r.Plan.Pools[1].Bytes || first.DeviceUse().ResidentBytes != r.Plan.Pools[1].Bytes {
		t.Errorf("%d bytes are shared, %d resident: expected the plan's resident pool of %d", shared, first.DeviceUse().ResidentBytes, r.Plan.Pools[1].Bytes)
	}
	own := int64(one.LiveBytes-empty.LiveBytes) - shared
	second, err := p.NewSession(vm.Options{Device: d, MemoryLimit: shared + 2*own})
	if err != nil {
		t.Fatal(err)
	}
	two := f.Counters()
	if got := int64(two.LiveBytes - one.LiveBytes); got != own {
		t.Errorf("the second session takes %d bytes, the first one %d beside %d of constants", got, own, shared)
	}
	if got := two.UploadedBytes - one.UploadedBytes; got >= uint64(shared) {
		t.Errorf("%d bytes are uploaded again", got)
	}
	var limit *vm.LimitError
	if _, err := p.NewSession(vm.Options{Device: d, MemoryLimit: shared + 2*own}); !errors.As(err, &limit) {
		t.Errorf("a third session within the limit for two: %v", err)
	}
	var both sync.WaitGroup
	for _, s := range []*vm.Session{first, second} {
		both.Go(func() {
			for range 3 {
				got, err := s.Run(t.Context(), inputsOf(p))
				if err != nil {
					t.Error(err)
					return
				}
				sameBits(t, "at the same time", got, want)
			}
		})
	}
	both.Wait()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := second.Run(t.Context(), inputsOf(p))
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "after the other session was closed", got, want)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if left := f.Counters().LiveBytes; left != empty.LiveBytes {
		t.Errorf("%d bytes are left behind", left-empty.LiveBytes)
	}
	again, _ := runSteps(t, p, vm.Options{Device: d}, nil, 1)
	sameBits(t, "copied again", again, want)
}

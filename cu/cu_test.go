package cu_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/onnxmem/onnxmem/vm/cuda/fake"
	"gorgonia.org/cu"
	cublas "gorgonia.org/cu/blas"
)

// A context is the device's primary one, gorgonia's number 0 is the device of the context
// that is current, and an engine's memory is none.
func TestCUDAContext(t *testing.T) {
	f := fake.Use(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if n, err := cu.NumDevices(); n != 1 || err != nil {
		t.Fatalf("%d devices, %v", n, err)
	}
	d, err := cu.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.MakeContext(cu.SchedAuto)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := d.MakeContext(cu.SchedAuto); other != c || err != nil {
		t.Errorf("another context %v, %v, expected the same", other, err)
	}
	if current, err := cu.GetDevice(0); current != d || err != nil {
		t.Errorf("device %v, %v, expected %v", current, err, d)
	}
	if list, err := d.Attributes(cu.WarpSize, cu.MaxThreadsPerBlock); err != nil || list[0] != 32 || list[1] != 1024 {
		t.Errorf("attributes %v, %v", list, err)
	}
	f.ResetCounters()
	if p, err := cu.MemAllocManaged(266, cu.AttachGlobal); p != 0 || err != nil || f.Counters().Allocations != 0 {
		t.Errorf("memory at %v, %v, after %d allocations", p, err, f.Counters().Allocations)
	}
	f.Memory(1) // a device that is full
	if free, _, err := cu.MemInfo(); err != nil || free < 266 {
		t.Errorf("%d B are free, %v: less than gorgonia asks for", free, err)
	}
}

// The engine's goroutine runs functions until the context is closed, and what gorgonia's
// own operators would ask for gives an error.
func TestCUDABatchedContext(t *testing.T) {
	fake.Use(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := cu.NumDevices(); err != nil {
		t.Fatal(err)
	}
	c, err := cu.Device(0).MakeContext(cu.SchedAuto)
	if err != nil {
		t.Fatal(err)
	}
	b := cu.NewBatchedContext(cu.CtxFromCUContext(0, c, cu.SchedAuto), 0)
	ended := make(chan struct{})
	go func() {
		for range 2 {
			f := <-b.Work()
			b.ErrChan() <- f()
		}
		<-b.WorkAvailable()
		close(ended)
	}()
	failed := errors.New("failed")
	if err := b.Do(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := b.Do(func() error { return failed }); err != failed {
		t.Errorf("got %v, expected the function's error", err)
	}
	if b.Error() != nil {
		t.Errorf("an error before anything was missing: %v", b.Error())
	}
	b.Memcpy(0, 0, 1)
	if _, err := b.MemAlloc(1); !errors.Is(err, cu.ErrMissing) || !errors.Is(b.Errors(), cu.ErrMissing) {
		t.Errorf("got %v and %v", err, b.Errors())
	}
	var products cublas.Standard
	products.Sger(1, 1, 1, nil, 1, nil, 1, nil, 1)
	if !errors.Is(products.Err(), cu.ErrMissing) {
		t.Errorf("got %v", products.Err())
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

package vm_test

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// allocatingSession is a program of which every kind of session allocates something.
type allocatingSession struct {
	name     string
	program  func(t *testing.T) (*vm.Program, *graph.Model) // and the parameters; nil if it has none
	swaps    bool                                           // there is a host pool, which is pinned
	replayed int                                            // steps of 4, unless the option says no
}

var allocatingSessions = []allocatingSession{
	{name: "inference", replayed: 2, program: func(t *testing.T) (*vm.Program, *graph.Model) {
		p, _ := program(t, smallNetworks[0].file(t), passes.Options{})
		return p, nil
	}},
	{name: "training", replayed: 2, program: func(t *testing.T) (*vm.Program, *graph.Model) {
		p, r := program(t, classifier(t), passes.Options{Train: &autodiff.Options{Optimizer: "adamw"}})
		return p, r.Step.Params
	}},
	{name: "swaps", swaps: true, replayed: 2, program: func(t *testing.T) (*vm.Program, *graph.Model) {
		p, _ := planListed(t, overlappedSwaps(t, true))
		return p, nil
	}},
	{name: "swaps of sizes that depend on data", swaps: true, program: func(t *testing.T) (*vm.Program, *graph.Model) {
		p, _ := planListed(t, swapModel(t, true))
		return p, nil
	}},
	{name: "If", program: functionsFile("bodies")},
	{name: "Loop and Scan", program: functionsFile("loops")},
	{name: "functions", program: functionsFile("calls")},
}

// functionsFile plans a model of testdata.
func functionsFile(name string) func(t *testing.T) (*vm.Program, *graph.Model) {
	return func(t *testing.T) (*vm.Program, *graph.Model) {
		p, _ := program(t, filepath.Join("..", "testdata", "functions", name+".onnx"), passes.Options{})
		return p, nil
	}
}

// live is what a process has of the driver: device memory, pinned memory, and handles.
func live(f *fake.Fake) [3]uint64 {
	c := f.Counters()
	return [3]uint64{c.LiveBytes, c.LivePinned, c.LiveHandles}
}

// TestDeviceAllocatesAtTheStart: a session allocates, compiles and loads when it is made, and
// nothing while it runs, and what it has is freed when it is closed. Each allocation that fails
// on the way, of device memory or of the pinned host pool, is a clean error that leaves nothing.
func TestDeviceAllocatesAtTheStart(t *testing.T) {
	d, f := onDevice(t)
	if f == nil {
		t.Skip("a GPU does not count its allocations")
	}
	for _, c := range allocatingSessions {
		t.Run(c.name, func(t *testing.T) {
			p, load := c.program(t)
			inputs := inputsOf(p)
			if load != nil {
				values, err := vm.OpenInitializers(load)
				if err != nil {
					t.Fatal(err)
				}
				defer values.Close()
				maps.Copy(inputs, values.Values)
			}
			for what, opt := range map[string]vm.Options{
				"replayed":       {Device: d},
				"by the machine": {Device: d, NoReplay: true},
				"poisoned":       {Device: d, Poison: true},
				"apart":          {Device: d, Separate: true},
			} {
				empty, began := live(f), f.Counters()
				s, err := p.NewSession(opt)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				made := f.Counters()
				if c.swaps && !opt.Separate != (made.LivePinned > 0) {
					t.Errorf("%s: %d bytes of pinned memory", what, made.LivePinned)
				}
				for range 4 {
					if _, err := s.Run(t.Context(), inputs); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				ran := f.Counters()
				for name, n := range map[string]uint64{
					"allocations": ran.Allocations - made.Allocations, "allocations of pinned memory": ran.Pinned - made.Pinned, "frees": ran.Frees - made.Frees,
					"loaded modules": ran.Modules - made.Modules, "compilations": ran.Compiles - made.Compiles,
				} {
					if n > 0 {
						t.Errorf("%s: %d %s while it runs", what, n, name)
					}
				}
				want := c.replayed
				if opt.NoReplay || opt.Poison || c.swaps && opt.Separate { // tensors that are apart leave for memory that is not pinned
					want = 0
				}
				if u := s.DeviceUse(); u.ReplayedSteps != want {
					t.Errorf("%s: %d of 4 steps were replayed, expected %d", what, u.ReplayedSteps, want)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if left := live(f); left != empty {
					t.Errorf("%s: device memory, pinned memory and handles %v, before the session %v", what, left, empty)
				}
				all := int(made.Allocations - began.Allocations + made.Pinned - began.Pinned)
				if all == 0 {
					t.Errorf("%s: no allocation", what)
				}
				t.Logf("%s: each of %d allocations fails once", what, all)
				for n := 1; n <= all; n++ {
					f.FailAllocation(n)
					_, err := p.NewSession(opt)
					f.FailAllocation(0)
					if !errors.Is(err, driver.ErrOutOfMemory) {
						t.Errorf("%s: allocation %d of %d fails: %v", what, n, all, err)
					}
					if left := live(f); left != empty {
						t.Errorf("%s: allocation %d of %d fails: device memory, pinned memory and handles %v, before it %v", what, n, all, left, empty)
					}
				}
			}
		})
	}
}

package vm_test

import (
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// TestDevicePlans: plans of every kind run on a device: in slices, in slices that call
// functions, in several pools, and with nodes that run again (swaps: TestDeviceSwap). They give
// what the network gives as a whole, and the same bits with every tensor apart and dead bytes
// poisoned. No node runs on the host.
func TestDevicePlans(t *testing.T) {
	d, f := onDevice(t)
	sweepOnFake(t, f)
	n := smallNetworks[0]
	file := n.file(t)
	whole, r := program(t, file, passes.Options{})
	want, _ := runSteps(t, whole, vm.Options{Device: d}, nil, 1)
	peak := r.Plan.Summary.PeakBytes
	step := func() *autodiff.Options { return &autodiff.Options{Optimizer: "sgd"} }
	bert := smallNetwork{"bert", map[string]string{"vocab": "50", "positions": "16", "layers": "1", "hidden": "16", "heads": "2", "ff": "32"}, map[string]int64{"batch": 4, "sequence": 16}}
	steps := bert.file(t)
	trained, r := program(t, steps, passes.Options{Train: step(), Effort: schedule.EffortFast})
	params := r.Step.Params
	wantStep, _ := runSteps(t, trained, vm.Options{Device: d}, params, 1)
	for _, c := range []struct {
		what   string
		file   string
		opt    passes.Options
		before map[string]vm.Value
	}{
		{"slices", file, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000}, want},
		{"compact slices", file, passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000, Compact: true}, want},
		{"pools", file, passes.Options{Pools: []passes.Pool{{Name: "fast", Capacity: peak / 8 &^ 63}, {Name: "slow", Capacity: 2 * peak}}}, want},
		{"repeated nodes", steps, passes.Options{Train: step(), Effort: schedule.EffortFast, Limit: &passes.Limit{Percent: 60}}, wantStep},
	} {
		t.Run(c.what, func(t *testing.T) {
			p, r := program(t, c.file, c.opt)
			load := params
			if c.opt.Train == nil {
				load = nil
			}
			got, s := runSteps(t, p, vm.Options{Device: d}, load, 1)
			nearly(t, got, c.before, 2e-3)
			u := s.DeviceUse()
			if u.FallbackNodes > 0 {
				t.Errorf("on the CPU: %d nodes (%v)", u.FallbackNodes, u.FallbackOps)
			}
			if arena := r.Plan.Summary.ArenaBytes; u.ArenaBytes != arena {
				t.Errorf("an arena of %d bytes on the device, planned %d", u.ArenaBytes, arena)
			}
			inputs := inputsOf(p)
			if load != nil {
				values, err := vm.OpenInitializers(load)
				if err != nil {
					t.Fatal(err)
				}
				defer values.Close()
				for name, v := range values.Values {
					inputs[name] = v
				}
			}
			check, err := p.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Device: d, Poison: true})
			if err != nil || !check.Identical() {
				t.Errorf("planned and apart: %+v, %v", check, err)
			}
		})
	}
}

// TestDeviceLate: nodes whose shapes depend on data run on the host between nodes on the
// device, with the results of the CPU; the session counts them and what it copies for them.
func TestDeviceLate(t *testing.T) {
	d, f := onDevice(t)
	n := newNet()
	n.input("x", 6, 8)
	n.weight("w", 6, 8)
	n.node("Mul", "a", "x", "w")
	n.node("Softmax", "b", "a") // on the device
	n.node("Relu", "c", "x")
	n.node("NonZero", "where", "c") // as many columns as x has positive elements
	n.node("Transpose", "at", "where")
	n.node("GatherND", "picked", "b", "at")
	n.node("Exp", "e", "picked")
	n.node("ReduceSum", "s", "e") // a known shape again
	n.node("Mul", "y", "b", "s")
	n.output("y", 6, 8)
	path := filepath.Join(t.TempDir(), "late.onnx")
	n.write(t, path)
	p, _ := program(t, path, passes.Options{})
	checkOnDevice(t, p, d, f, nil, 3)
	_, s := runSteps(t, p, vm.Options{Device: d}, nil, 3)
	u := s.DeviceUse()
	if u.FallbackNodes != 5 || u.FallbackBytes == 0 || u.Syncs == 0 || u.ReplayedSteps != 0 {
		t.Errorf("%d nodes (%v) run on the host, %d bytes are copied with %d waits, %d steps replayed: expected 5 nodes, some of each, and none replayed", u.FallbackNodes, u.FallbackOps, u.FallbackBytes, u.Syncs, u.ReplayedSteps)
	}
	// With other data, other shapes.
	in := inputsOf(p)
	in["x"] = ramp([]graph.Dim{6, 8})
	for i := range in["x"].Data {
		in["x"].Data[i] ^= byte(i * 128 % 256) // some signs change
	}
	want, err := newSession(t, p, vm.Options{}).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	nearly(t, got, want, 2e-5)
}

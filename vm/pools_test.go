package vm_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// Networks in several pools give the same bits as in one arena. In slices they move fewer
// bytes in the slow pools.
func TestPools(t *testing.T) {
	for _, n := range smallNetworks[:2] {
		t.Run(n.name, func(t *testing.T) {
			large(t, n.name, "mobilenet_v2")
			file := n.file(t)
			arena, r := program(t, file, passes.Options{})
			inputs := inputsOf(arena)
			want, _ := runSteps(t, arena, vm.Options{}, nil, 1)
			peak := r.Plan.Summary.PeakBytes
			opt := passes.Options{Pools: []passes.Pool{{Name: "fast", Capacity: peak / 8 &^ 63}, {Name: "middle", Capacity: peak / 4}, {Name: "slow", Capacity: 2 * peak}}}
			whole, r := program(t, file, opt)
			used := map[string]bool{}
			for _, b := range r.Plan.Buffers {
				used[b.Pool] = true
			}
			if !used["fast"] || !used["middle"] || !used["slow"] {
				t.Errorf("pools %v: expected buffers in all of them", used)
			}
			got, _ := runSteps(t, whole, vm.Options{}, nil, 1)
			sameBits(t, "in pools", got, want)
			before := r.Plan.Summary.SlowTrafficBytes

			opt.Pools = slices.Delete(opt.Pools, 1, 2)
			opt.Slices = passes.SlicesExact
			sliced, r := program(t, file, opt)
			s := r.Plan.Summary
			if r.Plan.Slices == nil || s.SlowTrafficBytes >= before || s.SlowTrafficBoundBytes > s.SlowTrafficBytes {
				t.Errorf("slow traffic %d B in slices, at least %d, %d without", s.SlowTrafficBytes, s.SlowTrafficBoundBytes, before)
			}
			got, _ = runSteps(t, sliced, vm.Options{}, nil, 1)
			sameBits(t, "in slices", got, want)
			check, err := sliced.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true})
			if err != nil || !check.Identical() {
				t.Errorf("planned and apart: %+v, %v", check, err)
			}
			t.Logf("slow traffic %d B whole, %d in slices, at least %d", before, s.SlowTrafficBytes, s.SlowTrafficBoundBytes)
		})
	}
}

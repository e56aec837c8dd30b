package vm_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/randmodel"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// shifted is ramp with all numbers greater by some.
func shifted(shape []graph.Dim, by float32) vm.Value {
	v := ramp(shape)
	for i := 0; i < len(v.Data); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(v.Data[i:])) + by
		binary.LittleEndian.PutUint32(v.Data[i:], math.Float32bits(x))
	}
	return v
}

// TestAliasesOfRandomModels: with aliases a run has the bits of a run in which every
// tensor has its own memory and all nodes copy, writes no byte that is not live, and stays
// within its tensors.
func TestAliasesOfRandomModels(t *testing.T) {
	seeds := uint64(40)
	if sweep.On() {
		seeds = 150
	}
	used := 0
	for seed := range seeds {
		path := write(t, randmodel.Joins(seed, 4+int(seed%20)), "joins")
		p, r := program(t, path, passes.Options{Aliases: passes.AliasesOn})
		if r.Plan.Sharing.Aliases {
			used++
		}
		var runs []map[string]vm.Value
		for run := range 2 {
			values := map[string]vm.Value{}
			for i, in := range p.Inputs() {
				values[in.Name] = shifted(in.Type.Shape, float32(3*run+i)-1.25)
			}
			runs = append(runs, values)
		}
		for _, opt := range []vm.Options{{Poison: true, Workers: 2}, {Guard: vm.GuardEnd}} {
			found, err := p.CheckRun(t.Context(), runs, opt)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !found.Identical() {
				t.Fatalf("seed %d: other bits than apart: %v", seed, found.First)
			}
		}
	}
	if used < int(seeds)/3 {
		t.Errorf("%d of %d plans have aliases: nothing is tested", used, seeds)
	}
}

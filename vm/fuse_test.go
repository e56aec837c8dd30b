package vm_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// The step that computes a product applies an activation that overwrites it, unless
// another node reads the product. The profile names both steps, and the bits are those of
// a run without in-place results.
func TestActivationsAreFused(t *testing.T) {
	n := newNet()
	n.input("x", 4, 8)
	n.weight("w1", 8, 16)
	n.weight("w2", 16, 8)
	n.weight("w3", 8, 8)
	n.node("MatMul", "a", "x", "w1")
	n.node("Relu", "b", "a")
	n.node("MatMul", "c", "b", "w2")
	n.node("Sigmoid", "d", "c")
	n.node("Mul", "e", "c", "d")
	n.node("MatMul", "f", "e", "w3")
	n.node("Tanh", "y", "f")
	n.output("y", 4, 8)
	path := filepath.Join(t.TempDir(), "net.onnx")
	n.write(t, path)
	for _, c := range []struct {
		name string
		opt  passes.Options
		want map[string]float64
	}{
		{"in place", passes.Options{}, map[string]float64{"b": 0, "y": 5}},
		{"nothing in place", passes.Options{NoInplace: true}, map[string]float64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := session(t, path, c.opt, vm.Options{Poison: true})
			inputs := map[string]vm.Value{"x": ramp([]graph.Dim{4, 8})}
			profile := s.Profile()
			for range 2 {
				if _, err := s.Run(t.Context(), inputs); err != nil {
					t.Fatal(err)
				}
			}
			var trace bytes.Buffer
			if err := profile.Write(&trace); err != nil {
				t.Fatal(err)
			}
			var read struct {
				TraceEvents []struct {
					Name string
					Ph   string
					Dur  float64
					Args map[string]any
				}
			}
			if err := json.Unmarshal(trace.Bytes(), &read); err != nil {
				t.Fatal(err)
			}
			got, nodes := map[string]float64{}, 0
			for _, e := range read.TraceEvents {
				if e.Ph == "X" {
					nodes++
					if fastest, is := e.Args["fastest_us"].(float64); !is || fastest <= 0 || fastest > max(e.Dur, 0.001) {
						t.Errorf("%s: the fastest run took %v us, the last %v", e.Name, e.Args["fastest_us"], e.Dur)
					}
					if by, is := e.Args["within_step"]; is {
						got[e.Name] = by.(float64)
					}
				}
			}
			if nodes != 7 || len(got) != len(c.want) {
				t.Errorf("%d nodes, fused: %v, want 7 and %v", nodes, got, c.want)
			}
			for name, step := range c.want {
				if got[name] != step {
					t.Errorf("%s: got %v, want step %v", name, got[name], step)
				}
			}
			found, err := p.CheckRun(t.Context(), []map[string]vm.Value{inputs}, vm.Options{Poison: true})
			if err != nil || !found.Identical() || found.First != nil {
				t.Errorf("got %+v, %v", found, err)
			}
		})
	}
}

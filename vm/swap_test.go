package vm_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

// swapModel writes a model whose tensors are swapped out and back in all possible ways.
// Without swaps it has Identity instead.
func swapModel(t testing.TB, swaps bool) string {
	n := newNet()
	out, in := graph.SwapOut, graph.SwapIn
	if !swaps {
		out, in = "Identity", "Identity"
	}
	n.input("x", 64, 1024)
	n.node(out, "x.host", "x") // a graph input
	n.node("Relu", "a", "x")
	n.node("Sigmoid", "b", "a")
	n.node(out, "a.host", "a") // the transfer begins at its own step
	n.node("Tanh", "c", "b")
	n.node("Exp", "d", "c")
	n.node(out, "b.host", "b") // the transfer may begin a step earlier
	n.node(in, "a.back", "a.host")
	n.node(out, "a.host2", "a.back") // out again as soon as it is back
	n.node("Sigmoid", "e", "d")
	n.node(in, "b.back", "b.host")
	n.node(in, "b.back2", "b.host") // back twice from one copy
	n.node(in, "a.back2", "a.host2")
	n.node("Add", "f", "e", "b.back")
	n.node("Mul", "g", "f", "a.back2")
	n.node("Add", "h", "g", "b.back2")
	n.node(in, "x.back", "x.host")
	n.node("Sub", "y", "h", "x.back")
	n.node("NonZero", "places", "y") // its size is known only at run time
	n.node(out, "places.host", "places")
	n.node(in, "places.back", "places.host")
	n.node("Size", "count", "places.back")
	n.node(out, "y.host", "y")
	n.node(in, "unread", "y.host") // no step waits for it
	n.output("y", 64, 1024)
	n.output("unread", 64, 1024)
	n.declare("count").Declared.Type = graph.TensorOf(graph.Int64)
	n.g.Tensors[n.tensor("count")].Output = true
	n.g.Outputs = append(n.g.Outputs, n.tensor("count"))
	path := filepath.Join(t.TempDir(), fmt.Sprintf("swap-%t.onnx", swaps))
	n.write(t, path)
	return path
}

// planListed plans a model in the order of its file.
func planListed(t testing.TB, path string) (*vm.Program, *plan.Plan) {
	t.Helper()
	p, r := program(t, path, passes.Options{Schedule: "program"})
	return p, r.Plan
}

// TestSwap: swapped tensors come back with the same bits, with the host pool in memory and
// in a file, run after run.
func TestSwap(t *testing.T) {
	plainProgram, _ := planListed(t, swapModel(t, false))
	plain := newSession(t, plainProgram, vm.Options{})
	program, p := planListed(t, swapModel(t, true))
	if pool := p.Pools[2]; pool.Name != plan.Host || pool.Bytes == 0 {
		t.Fatalf("pools %v", p.Pools)
	}
	for _, c := range []struct {
		name string
		opt  vm.Options
	}{
		{"in memory", vm.Options{}},
		{"in a file, with poison", vm.Options{HostFile: filepath.Join(t.TempDir(), "host"), Poison: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSession(t, program, c.opt)
			if m := s.Memory(); m.HostBytes != p.Pools[2].Bytes || m.ArenaBytes != p.Pools[0].Bytes {
				t.Errorf("%+v, pools %v", m, p.Pools)
			}
			for k := range 20 {
				x := ramp([]graph.Dim{64, 1024})
				for i := range x.Data[:64] {
					x.Data[4*i+1] = byte(k)
				}
				want, err := plain.Run(t.Context(), map[string]vm.Value{"x": x})
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Run(t.Context(), map[string]vm.Value{"x": x})
				if err != nil {
					t.Fatal(err)
				}
				for name, w := range want {
					if !bytes.Equal(got[name].Data, w.Data) {
						t.Fatalf("run %d: %s differs from that of the model without transfers", k, name)
					}
				}
			}
		})
	}
	check, err := program.CheckRun(t.Context(), []map[string]vm.Value{{"x": ramp([]graph.Dim{64, 1024})}}, vm.Options{Poison: true})
	if err != nil || !check.Identical() {
		t.Errorf("%+v, %v", check, err)
	}
}

// TestSwapHostFile: the host file must be new, and is removed afterwards.
func TestSwapHostFile(t *testing.T) {
	program, _ := planListed(t, swapModel(t, true))
	path := filepath.Join(t.TempDir(), "host")
	s, err := program.NewSession(vm.Options{HostFile: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), map[string]vm.Value{"x": ramp([]graph.Dim{64, 1024})}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := program.NewSession(vm.Options{HostFile: path}); err == nil || !strings.Contains(err.Error(), "exists already: expected the path of a new file") {
		t.Errorf("a file that is there: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("it holds %q, %v", b, err)
	}
}

// TestSwapAfterFailure: a failed run leaves no transfer in progress, and the next run is
// right.
func TestSwapAfterFailure(t *testing.T) {
	n := newNet()
	n.input("x", 64, 1024)
	n.input("i", 1)
	n.declare("i").Declared.Type = graph.TensorOf(graph.Int64, 1)
	n.g.Tensors[n.tensor("i")].Input = true
	n.node("Relu", "a", "x")
	n.node("Sigmoid", "b", "a")
	n.node("Gather", "c", "b", "i") // fails if i is out of range
	n.node(graph.SwapOut, "a.host", "a")
	n.node(graph.SwapIn, "a.back", "a.host")
	n.node("Add", "y", "a.back", "c")
	n.output("y", 64, 1024)
	path := filepath.Join(t.TempDir(), "failing.onnx")
	n.write(t, path)
	program, p := planListed(t, path)
	if b := bufferOf(t, p, "a.host"); b.First >= int(n.g.Tensors[n.tensor("a.host")].Maker) {
		t.Fatalf("a leaves from step %d on: expected earlier than SwapOut", b.First)
	}
	s := newSession(t, program, vm.Options{})
	x := ramp([]graph.Dim{64, 1024})
	index := func(i byte) vm.Value {
		return vm.Value{Type: graph.Int64, Shape: []int{1}, Data: []byte{i, 0, 0, 0, 0, 0, 0, 0}}
	}
	want, err := s.Run(t.Context(), map[string]vm.Value{"x": x, "i": index(3)})
	if err != nil {
		t.Fatal(err)
	}
	first := bytes.Clone(want["y"].Data)
	for range 5 {
		if _, err := s.Run(t.Context(), map[string]vm.Value{"x": x, "i": index(99)}); err == nil {
			t.Fatal("an index outside passes")
		}
		got, err := s.Run(t.Context(), map[string]vm.Value{"x": x, "i": index(3)})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got["y"].Data, first) {
			t.Fatal("after a run that failed the results differ")
		}
	}
}

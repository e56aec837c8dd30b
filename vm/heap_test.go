package vm_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestHeapOfNodes: what a session keeps of many small nodes is bounded for each, and Trim takes
// nothing that a session needs.
func TestHeapOfNodes(t *testing.T) {
	const nodes = 3000
	const most = 640 // bytes of Go's heap for a node in a session: 517 with Go 1.26
	n := newNet()
	n.input("t0", 2, 16)
	for i := range nodes {
		x, y := fmt.Sprintf("t%d", i), fmt.Sprintf("t%d", i+1)
		if i%2 == 0 {
			n.node("Tanh", y, x)
		} else {
			n.node("Add", y, x, "t0")
		}
	}
	n.output(fmt.Sprintf("t%d", nodes), 2, 16)
	path := filepath.Join(t.TempDir(), "many.onnx")
	n.write(t, path)
	p, r := program(t, path, passes.Options{})
	whole, buffers := newSession(t, p, vm.Options{Workers: 1}), len(r.Plan.Buffers)
	p.Trim()
	if len(r.Plan.Steps) > 0 || buffers > 8 && len(r.Plan.Buffers) == buffers {
		t.Errorf("after Trim, the plan has %d steps and %d of %d buffers", len(r.Plan.Steps), len(r.Plan.Buffers), buffers)
	}
	before := liveHeap()
	trimmed := newSession(t, p, vm.Options{Workers: 1})
	if each := (liveHeap() - before) / nodes; each > most {
		t.Errorf("a session of %d nodes keeps %d bytes for each, expected at most %d", nodes, each, most)
	}
	inputs := noise(p)
	want, err := whole.Run(context.Background(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := trimmed.Run(context.Background(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range want {
		if !bytes.Equal(v.Data, got[name].Data) {
			t.Errorf("%q differs after Trim", name)
		}
	}
	if _, err := p.NewSession(vm.Options{Poison: true}); err == nil {
		t.Error("a poisoned session of a trimmed program: expected an error")
	}
}

// liveHeap is what is in use in Go's heap after a collection.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one's finalizers freed
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

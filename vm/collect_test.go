package vm_test

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"weak"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestClosedSessionIsCollected: a process that runs many models keeps no memory of a
// closed session.
func TestClosedSessionIsCollected(t *testing.T) {
	n := newNet()
	n.input("x", 4)
	n.node("Exp", "y", "x")
	n.output("y", 4)
	path := filepath.Join(t.TempDir(), "exp.onnx")
	n.write(t, path)
	p, _ := program(t, path, passes.Options{})
	closed := func() weak.Pointer[vm.Session] {
		s, err := p.NewSession(vm.Options{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(context.Background(), noise(p)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return weak.Make(s)
	}()
	for range 5 { // objects with a cleanup are freed by a later collection
		runtime.GC()
	}
	if closed.Value() != nil {
		t.Error("the session is still reachable")
	}
}

package vm_test

import (
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// dense writes a network of two products with constant weights of 128 KiB.
func dense(t *testing.T, path string, seed int) {
	t.Helper()
	n := newNet()
	for range seed {
		n.draw.Uint64()
	}
	n.input("x", 4, 128)
	n.weight("w", 128, 256)
	n.weight("v", 256, 128)
	n.node("MatMul", "h", "x", "w")
	n.node("Relu", "a", "h")
	n.node("MatMul", "y", "a", "v")
	n.output("y", 4, 128)
	n.write(t, path)
}

// Programs of one file share their packed weights; those of a file that was replaced by
// another have their own. The last session that closes leaves none, and another one begins
// again.
func TestProgramsSharePackedWeights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dense.onnx")
	dense(t, path, 0)
	x := map[string]vm.Value{"x": ramp([]graph.Dim{4, 128})}
	run := func(s *vm.Session) string {
		t.Helper()
		out, err := s.Run(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		return string(out["y"].Data)
	}
	count := func(packs, users int) {
		t.Helper()
		if p, u := vm.SharedPacks(); p != packs || u != users {
			t.Fatalf("%d packed constants with %d users, expected %d with %d", p, u, packs, users)
		}
	}
	count(0, 0)
	first, a := session(t, path, passes.Options{}, vm.Options{Workers: 1})
	want := run(a)
	count(2, 2)
	b := newSession(t, first, vm.Options{Workers: 1}) // of the same program
	count(2, 2)
	_, c := session(t, path, passes.Options{}, vm.Options{Workers: 1}) // of another one of the file
	count(2, 4)
	if got := run(c); got != want {
		t.Error("a program that did not pack has other results")
	}
	if a, c := a.Memory().PackedBytes, c.Memory().PackedBytes; a != c || a == 0 {
		t.Errorf("%d and %d packed bytes, expected as many in both programs", a, c)
	}
	dense(t, path, 1) // another file of the name
	_, d := session(t, path, passes.Options{}, vm.Options{Workers: 1})
	count(4, 6)
	if got := run(d); got == want {
		t.Error("a program of another file has the results of the first")
	}
	for i, s := range []*vm.Session{a, d, c} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			count(4, 6) // b uses those of the first program
		}
	}
	count(2, 2)
	if got := run(b); got != want {
		t.Error("after the others were closed, the results differ")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	count(0, 0)
	again := newSession(t, first, vm.Options{Workers: 1})
	count(2, 2)
	if got := run(again); got != want {
		t.Error("a session after the last has other results")
	}
}

// Sessions of several programs of a file come and go at the same time.
func TestProgramsSharePackedWeightsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dense.onnx")
	dense(t, path, 0)
	x := map[string]vm.Value{"x": ramp([]graph.Dim{4, 128})}
	var programs []*vm.Program
	for range 2 {
		p, _ := program(t, path, passes.Options{})
		programs = append(programs, p)
	}
	results := make(chan string)
	const each = 8
	for i := range 2 * len(programs) {
		go func() {
			for range each {
				results <- func() string {
					s, err := programs[i%len(programs)].NewSession(vm.Options{Workers: 1})
					if err != nil {
						return err.Error()
					}
					defer s.Close()
					out, err := s.Run(t.Context(), x)
					if err != nil {
						return err.Error()
					}
					return string(out["y"].Data)
				}()
			}
		}()
	}
	first := <-results
	if len(first) != 4*4*128 {
		t.Fatal(first)
	}
	for range 2*len(programs)*each - 1 {
		if r := <-results; r != first {
			t.Fatalf("a session has another result: %.100q", r)
		}
	}
}

package vm_test

import (
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// A session that is closed leaves nothing: no byte is counted, and the process has no more
// mappings than after the first one.
func TestClosedSessionsLeaveNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dense.onnx")
	dense(t, path, 0)
	products, _ := program(t, path, passes.Options{})
	small := classifier(t)
	training, _ := trained(t, small)
	ranged := rangedProgram(t, smallBERT(t), map[string]string{"batch": "1..3", "sequence": "1..16"})
	draw := rand.New(rand.NewPCG(5, 5))
	for _, c := range []struct {
		name   string
		p      *vm.Program
		inputs func() map[string]vm.Value
	}{
		{"products", products, func() map[string]vm.Value { return map[string]vm.Value{"x": ramp([]graph.Dim{4, 128})} }},
		{"training", training, func() map[string]vm.Value { return withStates(t, training) }},
		{"ranges", ranged, func() map[string]vm.Value { return inputsAt(t, ranged, randomPoint(draw, ranged), 1) }},
	} {
		for _, opt := range []vm.Options{{}, {Poison: true}, {Separate: true}, {Guard: vm.GuardEnd}} {
			before := 0
			for i := range 3 {
				s, err := c.p.NewSession(opt)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if _, err := s.Run(t.Context(), c.inputs()); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if c.p.Taken() == 0 {
					t.Errorf("%s, %+v: nothing is counted while a session is open", c.name, opt)
				}
				for range 2 { // the second does nothing
					if err := s.Close(); err != nil {
						t.Fatalf("%s: %v", c.name, err)
					}
				}
				if n := c.p.Taken(); n != 0 {
					t.Errorf("%s, %+v: %d bytes are counted after the session was closed", c.name, opt, n)
				}
				debug.FreeOSMemory()
				switch now := mappings(t); {
				case i == 0:
					before = now
				case now > before+2: // of Go's own memory
					t.Errorf("%s, %+v: %d mappings after session %d, %d after the first", c.name, opt, now, i+1, before)
				}
			}
		}
	}
	if packs, users := vm.SharedPacks(); packs != 0 || users != 0 {
		t.Errorf("%d packed constants with %d users are left", packs, users)
	}
}

// withStates returns random values of all inputs, parameters and states included.
func withStates(t *testing.T, p *vm.Program) map[string]vm.Value {
	t.Helper()
	values := map[string]vm.Value{}
	for i, in := range append(p.Inputs(), p.States()...) {
		v, err := vm.Random(in, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		values[in.Name] = v
	}
	return values
}

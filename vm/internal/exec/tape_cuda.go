//go:build cuda

package exec

import (
	"fmt"
	"runtime"

	"gorgonia.org/gorgonia"

	"github.com/onnxmem/onnxmem/vm/internal/quiet"
)

// deviceMachine is what runs the nodes of a session with a device, for people.
const deviceMachine = "gorgonia's CUDA machine"

func init() { quiet.End() }

// launch is an instruction of a session with a device, in the CUDA build. Gorgonia makes
// a CUDA machine for a program that has operators with CUDADo, and calls that in place of
// Do. It is a type of its own because such a machine needs a GPU.
type launch struct{ *instruction }

var _ gorgonia.CUDADoer = &launch{}

// operator returns the operator that gorgonia runs for an instruction.
func operator(o *instruction, onDevice bool) gorgonia.Op {
	if !onDevice {
		return o
	}
	return &launch{o}
}

// CUDADo runs the node as Do does, on the device and in the memory of the session.
// Gorgonia's memory for the output is nil, since CallsExtern is false.
func (l *launch) CUDADo(gorgonia.External, gorgonia.Device, gorgonia.Value, ...gorgonia.Value) (gorgonia.Value, error) {
	l.p.tape.outside++
	return l.Do()
}

// ReturnsPtr is false for the first node. Gorgonia makes an engine for each device that a
// program wants bytes of, and looks for one after each node; an output that is no pointer
// wants four bytes, which are never used.
func (l *launch) ReturnsPtr() bool { return l.at != 0 }

// newMachine compiles the operators of a graph. Gorgonia panics where it cannot make a
// CUDA machine. The device's context must be current: it says which GPU is meant.
func newMachine(g *gorgonia.ExprGraph) (_ gorgonia.VM, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			panic(r)
		case error:
			err = fmt.Errorf("gorgonia's CUDA machine: %w", r)
		default:
			panic(r)
		}
	}()
	m := gorgonia.NewTapeMachine(g)
	if engines := m.Engines(); len(engines) > 0 {
		// Close copies the engine, with its mutex: its goroutine must have begun by then.
		err = engines[0].Context().Do(func() error { return nil })
	}
	return m, err
}

// CalledByMachine returns how many nodes of the last run gorgonia's CUDA machine called: for tests.
func (s *Session) CalledByMachine() int { return s.tape.outside }

// Engines returns how many devices gorgonia has opened for the session: for tests.
func (s *Session) Engines() int { return len(s.tape.machine.(gorgonia.CUDAMachine).Engines()) }

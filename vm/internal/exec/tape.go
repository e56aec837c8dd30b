package exec

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"reflect"
	"runtime"
	"runtime/debug"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	gotensor "gorgonia.org/tensor"

	"github.com/onnxmem/onnxmem/internal/bug"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// token is the type of all gorgonia nodes; the real types stand in the frames.
var token = gorgonia.TensorType{Dims: 1, Of: gotensor.Float32}

// player is gorgonia's tape machine with one operator without children for each step of
// a tape, or for a few steps of a long one (mostInstructions). Gorgonia runs the operators
// in the order of their creation. Tapes with as many steps can share a player, since it
// takes longer to compile than they do.
type player struct {
	machine gorgonia.VM  // nil: no steps
	all     func() error // runs the machine
	tape    *tape        // what it plays
	steps   int
}

// tape is the main graph for a player: its nodes in the order in which they run.
type tape struct {
	*player
	s       *Session
	owns    bool // the player is no other tape's
	list    []*lower.Step
	next    int // the next step to run
	fault   error
	outside int // calls by gorgonia's CUDA machine in the last run

	copier *hostCopier // nil: no tensor leaves the arena

	before []func(st *lower.Step, at int)       // called for each node, before it runs
	after  []func(st *lower.Step, at int) error // called after it has run
}

// instruction is a step, or some that follow each other, as a gorgonia operator.
type instruction struct {
	p       *player
	at, end int // its steps
	serial  uint32
	result  view
}

// mostInstructions is about how many operators gorgonia gets on a CPU: each takes 0.9 KiB, longer
// to compile than a step, and 0.4 µs of each run. A tape with more steps has several in an operator.
const mostInstructions = 32

// newTape makes the tape of a frame, and a player for it if there is none yet.
func newTape(s *Session, f *lower.Frame, p *player) (t *tape, err error) {
	t = &tape{player: p, s: s, list: f.Steps}
	if p == nil {
		t.owns = true
		t.player, err = newPlayer(len(f.Steps), s.gpu != nil)
	}
	return t, err
}

// newPlayer compiles a player. Gorgonia merges nodes with equal 32-bit hashes without
// comparing them, so a node that would be merged gets another serial number.
func newPlayer(steps int, onDevice bool) (*player, error) {
	p := &player{steps: steps}
	if steps == 0 {
		return p, nil
	}
	g := gorgonia.NewGraph()
	// Gorgonia compiles no graph without an input.
	gorgonia.NewScalar(g, gorgonia.Float32, gorgonia.WithName("inputs"), gorgonia.WithValue(float32(0)))
	serial := uint32(0)
	each := 1
	if !onDevice {
		each = 1 + (steps-1)/mostInstructions
	}
	for i := 0; i < steps; i += each {
		o := &instruction{p: p, at: i, end: min(i+each, steps)}
		op := operator(o, onDevice)
		for before := len(g.AllNodes()); len(g.AllNodes()) == before; {
			serial++
			o.serial = serial
			gorgonia.NewUniqueNode(gorgonia.In(g), gorgonia.WithType(token), gorgonia.WithOp(op), gorgonia.WithShape(1),
				gorgonia.WithName(fmt.Sprintf("%d", serial)))
		}
	}
	var err error
	if p.machine, err = newMachine(g); err != nil {
		return p, err
	}
	if p.all = p.machine.RunAll; (steps-1)/each < mostDirect && !onDevice {
		if all := direct(p.machine); all != nil {
			p.all = all
		}
	}
	return p, nil
}

// mostDirect is the number of operators up to which the machine runs in the goroutine of the
// caller. RunAll starts a goroutine on another thread and waits for it: the two threads wake
// each other. Run does not, but at the end it binds the values of all nodes again. Best
// times in µs of a chain of small nodes on an AMD EPYC with AVX2, RunAll and Run:
//
//	nodes      4    64   256  1000
//	RunAll  10.4  33.4   108   440
//	Run      3.0  25.8   100   428
const mostDirect = 1000

// direct returns a function that runs the program of a tape machine in the goroutine of the
// caller, as RunAll does in one of its own. It calls the machine's method Run, whose
// argument, the instructions, has a type without an exported name. It returns nil if the
// machine of another version of gorgonia has no such method or program.
func direct(machine gorgonia.VM) func() error {
	m := reflect.ValueOf(machine)
	run, prog := m.MethodByName("Run"), m.MethodByName("Prog")
	if !run.IsValid() || !prog.IsValid() || prog.Type().NumIn() != 0 || prog.Type().NumOut() != 1 || run.Type().NumIn() != 1 || run.Type().NumOut() != 1 {
		return nil
	}
	p := prog.Call(nil)[0]
	if p.Kind() != reflect.Pointer || p.Elem().Kind() != reflect.Struct {
		return nil
	}
	list := p.Elem().FieldByName("instructions")
	if !list.IsValid() || list.Type() != run.Type().In(0) {
		return nil
	}
	args := []reflect.Value{reflect.NewAt(list.Type(), list.Addr().UnsafePointer()).Elem()}
	return func() error {
		err, _ := run.Call(args)[0].Interface().(error)
		return err
	}
}

// run runs all nodes once.
func (t *tape) run() error {
	if t.steps == 0 {
		return nil
	}
	t.player.tape = t
	t.next, t.outside, t.fault = 0, 0, nil
	defer t.copier.waitAll()
	t.machine.Reset()
	if err := t.all(); err != nil {
		if t.fault != nil {
			return t.fault
		}
		return err
	}
	if t.next != t.steps {
		return fmt.Errorf("gorgonia ran %d steps, expected %d", t.next, t.steps)
	}
	return nil
}

// Do runs the kernels of its steps, which write into the arena, and returns a view of the
// output of the last.
func (o *instruction) Do(...gorgonia.Value) (v gorgonia.Value, err error) {
	// The setting is per goroutine, and gorgonia may start one for each run.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	t := o.p.tape
	g := t.s.gpu
	if o.at == 0 {
		if err := g.enter(); err != nil {
			return nil, t.fail(o.at, err)
		}
		if err := g.begins(); err != nil {
			g.leave()
			return nil, t.fail(o.at, err)
		}
	}
	at := o.at
	defer func() {
		if r := recover(); r != nil {
			err = t.fail(at, t.s.panicked(r))
		}
		if err != nil || o.end == t.steps {
			if failed := g.ends(err); failed != nil && err == nil {
				err = t.fail(at, failed)
			}
			g.leave()
		}
	}()
	for ; ; at++ {
		if t.next != at {
			return nil, t.fail(at, fmt.Errorf("gorgonia runs step %d, expected step %d", at, t.next))
		}
		t.next++
		if err := t.do(at, g); err != nil {
			return nil, t.fail(at, err)
		}
		if at == o.end-1 {
			break
		}
	}
	o.result.t = nil
	if st := t.list[at]; len(st.Out) > 0 {
		o.result.t = st.Out[0]
	}
	return &o.result, nil
}

// do runs a step.
func (t *tape) do(at int, g *gpuSession) error {
	st := t.list[at]
	if t.copier != nil {
		if err := t.copier.before(at); err != nil {
			return err
		}
	}
	if g != nil && g.copier != nil {
		if err := g.copier.before(at); err != nil {
			return err
		}
	}
	for _, f := range t.before {
		f(st, at)
	}
	if err := t.s.do(st); err != nil {
		return err
	}
	for _, f := range t.after {
		if err := f(st, at); err != nil {
			return err
		}
	}
	return nil
}

// panicked turns the value of a panic into an error: a stopped run, a refused node,
// a memory fault, or a bug of ours.
func (s *Session) panicked(r any) error {
	b := bug.Recovered("", r)
	if d, is := b.Value.(values.DeviceError); is {
		return d.Err
	}
	if err := s.stopped(b.Value); err != nil {
		return err
	}
	if err := form.Refused(b.Value); err != nil { // the model is to blame
		return err
	}
	if err := s.faultOf(b.Value); err != nil && s.Mem.Guard == nil && errors.Is(err, ErrFault) {
		b.Value = err // a bug: keep its stack
	} else if err != nil {
		return err
	}
	return b
}

// fail records the error of a step for run, because gorgonia wraps it in its own text.
func (t *tape) fail(at int, err error) error {
	t.fault = t.list[at].Wrap(err)
	return t.fault
}

// Arity is 0: without children, gorgonia keeps the order of creation.
func (o *instruction) Arity() int    { return 0 }
func (o *instruction) Type() hm.Type { return hm.NewFnType(token) }
func (o *instruction) InferShape(...gorgonia.DimSizer) (gotensor.Shape, error) {
	return gotensor.Shape{1}, nil
}
func (o *instruction) ReturnsPtr() bool     { return true }
func (o *instruction) CallsExtern() bool    { return false }
func (o *instruction) OverwritesInput() int { return -1 }

// WriteHash makes every instruction different.
func (o *instruction) WriteHash(h hash.Hash) { fmt.Fprintf(h, "onnxmem %d", o.serial) }

// Hashcode is the hash of the serial number.
func (o *instruction) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *instruction) String() string { return fmt.Sprintf("steps %d to %d", o.at, o.end-1) }

// view is the first output of a node as a gorgonia value. It holds no elements: they
// lie in the arena.
type view struct{ t *values.Tensor }

// Shape is the tensor's shape.
func (v *view) Shape() gotensor.Shape { return gotensor.Shape(v.t.Shape) }

// Size is the number of elements.
func (v *view) Size() int { return v.t.Len() }

// Data is nil: the elements may lie on another device.
func (v *view) Data() any { return nil }

// Dtype is always float32: gorgonia never looks at the elements.
func (v *view) Dtype() gotensor.Dtype { return gotensor.Float32 }

// Uintptr is the tensor's address; 0 for a node without a first output.
func (v *view) Uintptr() uintptr {
	if v.t == nil {
		return 0
	}
	return uintptr(v.t.At)
}

// MemSize is 0: the elements are none of gorgonia's memory.
func (v *view) MemSize() uintptr { return 0 }

// Format prints the tensor's name.
func (v *view) Format(s fmt.State, _ rune) { fmt.Fprint(s, v.t.Name) }

// close closes the player, if it is no other tape's.
func (t *tape) close() error {
	if t.player == nil || !t.owns {
		return nil
	}
	return t.player.close()
}

// close ends the machine, and lets the garbage collector free it. Gorgonia sets a
// finalizer on it, and its operators refer back to it through the session. Go never
// collects a cycle that contains an object with a finalizer, so without close each
// session would stay until the process ends.
func (p *player) close() error {
	p.tape = nil
	if p.machine == nil {
		return nil
	}
	runtime.SetFinalizer(p.machine, nil)
	return p.machine.Close()
}

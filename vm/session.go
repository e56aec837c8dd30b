package vm

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Options says how a session runs. The zero value is a sound default.
type Options struct {
	Workers int    // goroutines that share the work of a kernel; 0: one for each core
	Seed    uint64 // of what operators draw at random
	// MemoryLimit is how many bytes the arena, the parameters and states, and
	// the scratch may take together, without the host pool; NewSession gives a
	// *LimitError beyond it. 0: any.
	MemoryLimit int64
	// Apart gives every tensor a storage of its own and runs the nodes in
	// another topological order: what a planned run is held against.
	Apart bool
	// Poison fills the bytes of a buffer with signalling numbers as soon as it
	// dies, and the scratch of a kernel before it runs, and looks whether any byte
	// that is not live was written: in the arena before it is used again, at the
	// end of a run, and, to name the node, after every step of a second run with
	// the same inputs; around a storage that lies apart, when it is made. Where
	// tensors lie apart, the numbers are others: CheckRun sees what was made of
	// them.
	Poison bool
	// HostFile is where the plan's host pool lies: a file that does not exist yet,
	// which is mapped, and removed by Close at the latest. "": in ordinary memory.
	HostFile string
	// NoPack leaves constant weights of convolutions and matrix products as
	// they lie in the file: no memory beside the plan's, but slower. Results
	// are the same bits.
	NoPack bool

	watch *comparer // of CheckReference
}

// Session runs a program. It serves one goroutine at a time; several sessions
// of one program share its weights and nothing else.
type Session struct {
	pr   *Program
	opt  Options
	pool *work.Pool
	main *frame
	tape *tape

	guard *guard    // of Options.Poison
	watch *comparer // of CheckReference; nil: nobody looks

	arena, resident *block
	host            *block   // what has left the arena; nil: nothing does
	own             []*block // of Options.Apart
	side            side     // dynamic tensors
	scratch         *block
	shared, each    int // bytes of scratch: for all parts of a kernel, for each worker

	step    uint64          // runs so far
	ready   map[string]bool // parameters and states that have values
	outputs map[string]Value
	missing unsupported
}

// NewSession lays out memory and prepares a kernel for every node. It fails,
// with an error of type *graph.Error, where a node has no kernel.
func (p *Program) NewSession(opt Options) (*Session, error) {
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	s := &Session{pr: p, opt: opt, watch: opt.watch, pool: work.New(opt.Workers), ready: map[string]bool{}, outputs: map[string]Value{}}
	if err := s.build(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) build() error {
	p := s.pr.p
	var err error
	if s.arena, err = newBlock(poolBytes(p, plan.Arena), "arena"); err != nil {
		return err
	}
	if s.resident, err = newBlock(poolBytes(p, plan.Resident), "resident pool"); err != nil {
		return err
	}
	if bytes := poolBytes(p, plan.Host); bytes > 0 && !s.opt.Apart {
		if s.host, err = newHostBlock(s.opt.HostFile, bytes); err != nil {
			return err
		}
	}
	b := &builder{s: s, bodies: p.Subgraphs, layouts: map[*graph.Graph]*layout{}}
	area, err := b.mainArea()
	if err != nil {
		return err
	}
	if s.main, err = b.frame(s.pr.m.Graph, s.pr.m.Opsets, nil, nil, area, s.pr.values); err != nil {
		return refuse(s.pr.m, "%w", err)
	}
	if err := s.missing.err(); err != nil {
		return s.named(err)
	}
	if err := s.growScratch(); err != nil {
		return err
	}
	if most := s.opt.MemoryLimit; most > 0 && s.Memory().Bytes() > most {
		return &LimitError{File: fileOf(s.pr.m), Needs: s.Memory(), Limit: most}
	}
	if s.tape, err = newTape(s.main); err != nil {
		return err
	}
	if s.host != nil {
		s.tape.haul = newHauler(s.main, p)
	}
	if s.opt.Poison {
		s.guard = newGuard(s)
		s.guard.begin()
		s.tape.after = append(s.tape.after, s.guard.after)
	}
	return nil
}

func poolBytes(p *plan.Plan, name string) int64 {
	for _, pool := range p.Pools {
		if pool.Name == name {
			return pool.Bytes
		}
	}
	return 0
}

// Close gives the session's memory back. What Run gave must not be used
// afterwards.
func (s *Session) Close() error {
	s.pool.Close()
	if s.tape != nil {
		s.tape.haul.close()
		s.tape.haul = nil
	}
	var first error
	for _, b := range append(s.own, s.arena, s.resident, s.host, s.scratch) {
		if err := b.free(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Memory is what a session takes, in bytes.
type Memory struct {
	ArenaBytes   int64
	StateBytes   int64 // parameters and states, of the resident pool
	DynamicBytes int64 // tensors that the plan leaves out, so far
	ScratchBytes int64 // of kernels
	HostBytes    int64 // what has left the arena for the host, wherever that is
	DecodedBytes int64 // constants that do not lie in a file as kernels read them; shared by sessions
	PackedBytes  int64 // weights once more, as the micro-kernels want them; shared by sessions
	ApartBytes   int64 // with Options.Apart: all tensors
}

// LimitError says that a session needs more than Options.MemoryLimit. Nothing has
// run then.
type LimitError struct {
	File  string
	Needs Memory
	Limit int64 // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: needs %s: arena %s, parameters and states %s, scratch %s: expected at most %s", e.File, units.Bytes(e.Needs.Bytes()),
		units.Short(e.Needs.ArenaBytes), units.Short(e.Needs.StateBytes), units.Short(e.Needs.ScratchBytes), units.Bytes(e.Limit))
}

// Bytes is the sum, but for what is shared and for what lies on the host.
func (m Memory) Bytes() int64 {
	return m.ArenaBytes + m.StateBytes + m.DynamicBytes + m.ScratchBytes + m.ApartBytes
}

// Memory tells what the session takes now.
func (s *Session) Memory() Memory {
	m := Memory{
		ArenaBytes: poolBytes(s.pr.p, plan.Arena), DynamicBytes: s.side.total,
		ScratchBytes: int64(s.shared + s.each*s.pool.Workers()), DecodedBytes: s.pr.consts.decoded,
		PackedBytes: s.pr.consts.packed,
	}
	for i := range s.pr.p.Buffers {
		if b := &s.pr.p.Buffers[i]; b.Kind == plan.KindParameter || b.Kind == plan.KindState {
			m.StateBytes += b.Bytes
		}
	}
	for _, b := range s.own {
		m.ApartBytes += int64(len(b.m))
	}
	if s.host != nil {
		m.HostBytes = poolBytes(s.pr.p, plan.Host)
	}
	if len(s.own) > 0 {
		m.ArenaBytes = 0
	}
	return m
}

// growScratch makes the scratch as large as the prepared kernels ask for.
func (s *Session) growScratch() error {
	bytes := int64(s.shared) + int64(s.each)*int64(s.pool.Workers())
	if s.scratch != nil && int64(len(s.scratch.m)) >= bytes {
		s.pool.SetScratch(s.scratch.base, s.scratch.at(int64(s.shared)), s.each)
		return nil
	}
	if err := s.scratch.free(); err != nil {
		return err
	}
	b, err := newBlock(bytes, "scratch")
	if err != nil {
		return err
	}
	s.scratch = b
	s.pool.SetScratch(b.base, b.at(int64(s.shared)), s.each)
	return nil
}

// Set gives a parameter or state its value; it stays until a step updates it.
func (s *Session) Set(name string, v Value) error {
	if _, is := s.pr.state[name]; !is {
		return fmt.Errorf("%q is no parameter or state of the model", graph.Short(name))
	}
	if err := s.put(name, v); err != nil {
		return err
	}
	s.ready[name] = true
	return nil
}

// Run runs the model once. inputs has a value for every graph input; one for a
// parameter or state may be left out once it was given. The outputs lie in the
// session's memory and are good until its next Run or Close: Clone what is to be
// kept.
func (s *Session) Run(inputs map[string]Value) (map[string]Value, error) {
	s.main.release()
	if s.guard != nil && len(s.own) == 0 {
		s.guard.begin()
	}
	for _, id := range s.main.g.Inputs {
		name := s.main.g.Tensors[id].Name
		v, given := inputs[name]
		_, state := s.pr.state[name]
		switch {
		case given && state:
			if err := s.Set(name, v); err != nil {
				return nil, err
			}
		case given:
			if err := s.put(name, v); err != nil {
				return nil, err
			}
		case !state:
			return nil, s.badInput(id, "no value given: expected %v", s.main.g.Tensors[id].Type)
		case !s.ready[name]:
			return nil, s.badInput(id, "a %s without a first value: expected %v (give it once, or set it)", "parameter or state", s.main.g.Tensors[id].Type)
		}
	}
	for name := range inputs {
		if !slices.ContainsFunc(s.main.g.Inputs, func(t graph.TensorID) bool { return s.main.g.Tensors[t].Name == name }) {
			return nil, refuse(s.pr.m, "%q is no input of the model", graph.Short(name))
		}
	}
	if err := s.tape.run(); err != nil {
		if s.guard.unsure(err) {
			s.guard.each = true
			if _, exact := s.Run(inputs); exact != nil {
				err = exact
			}
			s.guard.each = false
		}
		return nil, s.named(err)
	}
	s.step++
	for _, id := range s.main.g.Outputs {
		t := s.main.tensors[id]
		s.outputs[s.main.g.Tensors[id].Name] = Value{t.Type, t.Shape, unsafe.Slice((*byte)(t.At), t.Bytes())}
	}
	if s.opt.Apart {
		s.carry()
	}
	return s.outputs, nil
}

// carry copies what takes the place of parameters and states over them, where
// they do not share one buffer.
func (s *Session) carry() {
	for _, id := range s.main.g.Inputs {
		next, is := s.pr.state[s.main.g.Tensors[id].Name]
		if !is {
			continue
		}
		to := s.main.tensors[id]
		copy(unsafe.Slice((*byte)(to.At), to.Bytes()), s.outputs[next].Data)
	}
}

// named puts the model's file into an error that lacks it.
func (s *Session) named(err error) error {
	if e, ok := err.(*graph.Error); ok && e.File == "" {
		e.File = fileOf(s.pr.m)
	}
	return err
}

// badInput makes an error about a graph input.
func (s *Session) badInput(id graph.TensorID, format string, args ...any) error {
	e := graph.Errorf(format, args...)
	e.Tensor = s.main.g.Tensors[id].Name
	return s.named(e)
}

// put copies the value of a graph input to its place.
func (s *Session) put(name string, v Value) error {
	for _, id := range s.main.g.Inputs {
		g := s.main.g.Tensors[id]
		if g.Name != name {
			continue
		}
		t := s.main.tensors[id]
		if g.Type.Kind != graph.KindTensor {
			return s.badInput(id, "is a %v: no kernel for such inputs", g.Type.Kind)
		}
		if v.Type != g.Type.Elem || g.Type.Ranked && !fits(g.Type.Shape, v.Shape) {
			return s.badInput(id, "is %v, expected %v", v, g.Type)
		}
		size, err := sizeOf(v.Type, v.Shape)
		if err == nil && size != int64(len(v.Data)) {
			err = fmt.Errorf("has %d bytes of elements, expected %d for %v", len(v.Data), size, v)
		}
		if err != nil {
			return s.badInput(id, "%w", err)
		}
		if !t.exact {
			t.Type = v.Type
			if err := s.resize(t, v.Shape); err != nil {
				return s.badInput(id, "%w", err)
			}
		}
		copy(unsafe.Slice((*byte)(t.At), size), v.Data)
		return nil
	}
	return fmt.Errorf("%q is no input of the model", graph.Short(name))
}

// fits reports whether a shape is one of those that a tensor can have.
func fits(want []graph.Dim, shape []int) bool {
	if len(want) != len(shape) {
		return false
	}
	for i, d := range want {
		if most, ok := d.Max(); d.Exact() && int(d) != shape[i] || ok && shape[i] > int(most) {
			return false
		}
	}
	return true
}

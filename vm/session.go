package vm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Options says how a session runs. The zero value is a sound default.
type Options struct {
	Workers int    // goroutines that share the work of a kernel; 0: one for each core
	Seed    uint64 // of what operators draw at random
	// MemoryLimit is how many bytes the sessions of the program may take
	// together: arenas, parameters and states, scratch, host pools in memory,
	// tensors whose size depends on data, and what is made of constants. What is
	// beyond it is not taken: NewSession or Run give an error that wraps a
	// *LimitError. 0: what the machine, or the container, has free when the
	// program takes its first; less than 0: any.
	MemoryLimit int64
	// Held is how many bytes the caller holds that count against a MemoryLimit
	// above 0, too, such as the values of inputs.
	Held int64
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
	// Guard puts every tensor, constants and kernels' scratch too, into pages of
	// its own, one end at a page that cannot be accessed: an access outside of
	// it ends the run with an error that wraps ErrFault and names the node and
	// the tensor, or, for a write on the other side, ErrStray. It goes with
	// Apart; of Poison nothing is left to do then.
	Guard Guard
	// HostFile is where the plan's host pool lies: a file that does not exist yet,
	// which is mapped, and removed by Close at the latest. "": in ordinary memory.
	HostFile string
	// NoPack leaves constant weights of convolutions and matrix products as
	// they lie in the file: no memory beside the plan's, but slower. Results
	// are the same bits.
	NoPack bool

	judge *comparer // of CheckReference
}

// Session runs a program. It serves one goroutine at a time; several sessions
// of one program share its weights, a limit of memory, and nothing else.
type Session struct {
	pr   *Program
	opt  Options
	mem  *share
	pool *work.Pool
	main *frame
	tape *tape

	ctx    context.Context      // of the run
	done   <-chan struct{}      // that of the context that stops the workers
	deaf   func()               // ends that; nil: no context does
	now    atomic.Pointer[step] // the node that runs, or ran last
	update int                  // the first step that writes over a parameter or state

	watch  *watcher   // of Options.Poison
	guard  *guard     // of Options.Guard
	consts *constants // the program's, or those of a guarded session
	judge  *comparer  // of CheckReference; nil: nobody compares

	arena, resident *block
	host            *block   // what has left the arena; nil: nothing does
	own             []*block // of Options.Apart
	side            side     // dynamic tensors
	scratch         *block
	shared, each    int // bytes of scratch: for all parts of a kernel, for each worker
	frames          []*frame
	greedy          *step // whose kernel asked for the most scratch
	tables, aside   int64 // bytes of lists that kernels keep; of those in the side pool

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
	s := &Session{pr: p, opt: opt, judge: opt.judge, pool: work.New(opt.Workers), ready: map[string]bool{}, outputs: map[string]Value{}}
	s.ctx, s.consts = context.Background(), p.consts
	s.mem = &share{of: p.consts.mem.of, bound: opt.bound()}
	s.side.mem = s.mem
	if err := s.build(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// blocks takes the memory of the pools.
func (s *Session) blocks() error {
	if s.opt.Guard != GuardOff {
		var err error
		if s.guard, err = newGuard(s.opt.Guard, s.mem); err != nil {
			return err
		}
		s.side.guard = s.guard
		s.consts = newConstants(s.pr.m, s.mem.of)
		s.consts.guard = s.guard
		return nil
	}
	p := s.pr.p
	var arena int64 // where tensors lie apart it has none
	if !s.opt.Apart {
		arena = poolBytes(p, plan.Arena)
	}
	bytes := plus(arena, stateBytes(p))
	if s.opt.HostFile == "" && !s.opt.Apart {
		bytes = plus(bytes, poolBytes(p, plan.Host))
	}
	// Of the resident pool no other page is ever touched.
	err := s.mem.take(bytes)
	if err != nil {
		return err
	}
	if s.arena, err = newBlock(arena, "arena"); err != nil {
		return err
	}
	if s.resident, err = newBlock(poolBytes(p, plan.Resident), "resident pool"); err != nil {
		return err
	}
	if bytes := poolBytes(p, plan.Host); bytes > 0 && !s.opt.Apart {
		s.host, err = newHostBlock(s.opt.HostFile, bytes)
	}
	return err
}

func (s *Session) build() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p := s.pr.p
	if err := s.blocks(); err != nil {
		return s.over(err, nil)
	}
	b := &builder{s: s, bodies: p.Subgraphs, layouts: map[*graph.Graph]*layout{}}
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked(r)
			if b.at != nil {
				err = b.at.wrap(err)
			}
			err = s.named(err)
		}
	}()
	area, err := b.mainArea()
	if err != nil {
		return s.over(err, nil)
	}
	if s.main, err = b.frame(s.pr.m.Graph, s.pr.m.Opsets, nil, nil, area, s.pr.values); err != nil {
		return refuse(s.pr.m, "%w", err)
	}
	if err := s.missing.err(); err != nil {
		return s.named(err)
	}
	if err := s.growScratch(); err != nil {
		return s.over(err, s.greedy)
	}
	if s.tape, err = newTape(s.main); err != nil {
		return err
	}
	s.update = s.firstUpdate()
	if s.host != nil {
		s.tape.copier = newHostCopier(s.main, p)
	}
	if err := s.consts.unchanged(); err != nil {
		return err
	}
	if s.opt.Poison && s.guard == nil {
		s.watch = newWatcher(s)
		s.watch.begin()
		s.tape.after = append(s.tape.after, s.watch.after)
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

// Close frees the session's memory. Outputs of Run must not be used afterwards.
func (s *Session) Close() error {
	s.forget()
	s.pool.Close()
	if s.tape != nil {
		s.tape.copier.close()
		s.tape.copier = nil
		s.tape.release()
	}
	var first error
	for _, b := range append(s.own, s.arena, s.resident, s.host, s.scratch) {
		if err := b.free(); err != nil && first == nil {
			first = err
		}
	}
	if err := s.side.close(); err != nil && first == nil {
		first = err
	}
	if s.guard != nil {
		if err := errors.Join(s.consts.close(), s.guard.close()); err != nil && first == nil {
			first = err
		}
	}
	s.mem.close()
	return first
}

// Memory is what a session takes, in bytes.
type Memory struct {
	ArenaBytes   int64
	StateBytes   int64 // parameters and states, of the resident pool
	DynamicBytes int64 // tensors that the plan leaves out, so far
	ScratchBytes int64 // of kernels
	TableBytes   int64 // lists that kernels keep, on Go's heap
	HostBytes    int64 // what has left the arena for the host, wherever that is
	DecodedBytes int64 // constants that do not lie in a file as kernels read them; shared by sessions
	PackedBytes  int64 // weights once more, as the micro-kernels want them; shared by sessions
	ApartBytes   int64 // with Options.Apart or Options.Guard: all tensors
}

// Bytes is the sum, but for what is shared and for what lies on the host.
func (m Memory) Bytes() int64 {
	return m.ArenaBytes + m.StateBytes + m.DynamicBytes + m.ScratchBytes + m.TableBytes + m.ApartBytes
}

// Memory tells what the session takes now.
func (s *Session) Memory() Memory {
	m := Memory{
		ArenaBytes: poolBytes(s.pr.p, plan.Arena), DynamicBytes: s.side.total - s.aside,
		ScratchBytes: s.scratchBytes(), TableBytes: s.tables, StateBytes: stateBytes(s.pr.p),
	}
	m.DecodedBytes, m.PackedBytes = s.consts.bytesMade()
	for _, b := range s.own {
		m.ApartBytes += int64(len(b.m))
	}
	if s.host != nil {
		m.HostBytes = poolBytes(s.pr.p, plan.Host)
	}
	if s.guard != nil {
		m.ApartBytes = s.guard.bytes
	}
	if len(s.own) > 0 || s.guard != nil {
		m.ArenaBytes = 0
	}
	return m
}

// over completes the error of a session that would take more than its limit with
// what it needs; at is the node that asks for the most.
func (s *Session) over(err error, at *step) error {
	e, is := err.(*LimitError)
	if !is {
		return err
	}
	e.Needs = s.Memory()
	if at != nil {
		return s.named(at.wrap(err))
	}
	return s.blame(refuse(s.pr.m, "%w", err), e.Limit)
}

// blame names the largest tensor of the plan where it alone is beyond the limit.
func (s *Session) blame(err error, limit int64) error {
	var largest *plan.Buffer
	for i := range s.pr.p.Buffers {
		b := &s.pr.p.Buffers[i]
		if b.Pool == plan.Arena && len(b.Tensors) > 0 && b.Bytes > limit && (largest == nil || b.Bytes > largest.Bytes) {
			largest = b
		}
	}
	var e *graph.Error
	if largest == nil || !errors.As(err, &e) {
		return err
	}
	e.Tensor = largest.Tensors[0]
	for i, n := range s.pr.m.Graph.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 && s.pr.m.Graph.Tensors[t].Name == e.Tensor {
				e.Node = s.pr.m.Graph.Label(graph.NodeID(i))
			}
		}
	}
	return err
}

// stateBytes is what the parameters and states of a plan take.
func stateBytes(p *plan.Plan) int64 {
	var sum int64
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Kind == plan.KindParameter || b.Kind == plan.KindState {
			sum += b.Bytes
		}
	}
	return sum
}

// scratchBytes is what the prepared kernels ask for.
func (s *Session) scratchBytes() int64 {
	each, workers := int64(s.each), int64(s.pool.Workers())
	if each > math.MaxInt64/workers {
		return math.MaxInt64
	}
	return plus(int64(s.shared), each*workers)
}

// growScratch makes the scratch as large as the prepared kernels ask for.
func (s *Session) growScratch() error {
	if s.guard != nil {
		return nil
	}
	bytes, has := s.scratchBytes(), int64(0)
	if s.scratch != nil {
		has = int64(len(s.scratch.m))
	}
	if s.scratch != nil && has >= bytes {
		s.pool.SetScratch(s.scratch.base, s.scratch.at(int64(s.shared)), s.each)
		return nil
	}
	if err := s.mem.take(bytes - has); err != nil {
		return err
	}
	if err := s.scratch.free(); err != nil {
		return err
	}
	s.scratch = nil
	b, err := newBlock(bytes, "scratch")
	if err != nil {
		s.mem.give(bytes)
		return err
	}
	s.scratch = b
	s.pool.SetScratch(b.base, b.at(int64(s.shared)), s.each)
	return nil
}

// Set gives a parameter or state its value; it stays until a step updates it.
func (s *Session) Set(name string, v Value) (err error) {
	defer mapped.Recover(&err, mapped.Watch()) // v may lie in a file
	if _, is := s.pr.state[name]; !is {
		return fmt.Errorf("%q is no parameter or state of the model", graph.Short(name))
	}
	if err := s.put(name, v, copyWhole); err != nil {
		return err
	}
	s.ready[name] = true
	return nil
}

// Run runs the model once. inputs has a value for every graph input; one for a
// parameter or state may be left out once it was given. The outputs lie in the
// session's memory and are good until its next Run or Close: Clone what is to be
// kept. Where ctx ends before the run does, the run ends within some milliseconds,
// with an error that wraps ErrStopped and the context's cause and names the node
// that ran; the session can run again. Parameters and states that a run which
// failed had begun to update are lost: they must be given again.
func (s *Session) Run(ctx context.Context, inputs map[string]Value) (out map[string]Value, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	s.until(ctx)
	s.tape.next = 0
	defer func() {
		if r := recover(); r != nil {
			if err = s.stopped(r); err == nil {
				panic(r)
			}
			err = refuse(s.pr.m, "%w", err)
		}
		if err != nil {
			s.torn()
			s.side.reset(s.frames)
		}
	}()
	return s.attempt(inputs)
}

// attempt runs once and does not clean up after an error.
func (s *Session) attempt(inputs map[string]Value) (map[string]Value, error) {
	s.main.release()
	if s.watch != nil && len(s.own) == 0 {
		s.watch.begin()
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
			if err := s.put(name, v, s.copyBytes); err != nil {
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
		if s.watch.unsure(err) {
			s.watch.each = true
			if _, exact := s.attempt(inputs); exact != nil {
				err = exact
			}
			s.watch.each = false
		}
		return nil, s.named(err)
	}
	if err := s.guard.lookAll(); err != nil {
		return nil, refuse(s.pr.m, "%w", err)
	}
	if err := s.consts.unchanged(); err != nil {
		return nil, err
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
		copyWhole(unsafe.Slice((*byte)(to.At), to.Bytes()), s.outputs[next].Data)
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

// copyWhole copies bytes, whatever happens: half of a state would be none.
func copyWhole(to, from []byte) { copy(to, from) }

// put copies the value of a graph input to its place.
func (s *Session) put(name string, v Value, copy func(to, from []byte)) error {
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

package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Options says how a session runs. The zero value is a sound default.
type Options struct {
	Workers int    // goroutines that share the work of a kernel; 0: one for each core
	Seed    uint64 // of the operators that draw random numbers
	// MemoryLimit is the number of bytes by which all sessions of the program may enlarge the
	// process together. It counts arenas, parameters and states, scratch, host pools in
	// memory, and tensors whose size depends on data. It counts decoded or prepacked
	// constants, pages of mapped files, and Go's heap for nodes and tensors, which is
	// estimated. Pages are those of constants that kernels read in place, or of 16 MiB that
	// are being packed. Of a table from which only Gather and its like read rows, as many
	// rows count as one run reads, since the system takes pages back that stay from earlier
	// runs. What Go's runtime takes once in a process, some MiB, is not among them.
	//
	// An allocation beyond the limit is not made: NewSession or Run returns an error
	// that wraps a *LimitError. 0: the memory that the machine, or the container, has
	// free at the program's first allocation, against which pages of files do not count;
	// negative: no limit. With a Device it is a limit on the device's memory, and the
	// device's free memory counts.
	MemoryLimit int64
	// Held is the number of bytes that the caller holds, such as the values of
	// inputs. They also count against a MemoryLimit above 0, except on a Device.
	Held int64
	// Separate gives every tensor its own storage and runs the nodes in another
	// topological order. CheckRun compares a planned run with such a run.
	Separate bool
	// Poison fills the bytes of a buffer with signalling NaNs as soon as the buffer dies, and
	// a kernel's scratch before the kernel runs. It checks that no byte outside the live
	// buffers was written. Each part of the arena is checked before it is used again, and all
	// of it at the end of a run. To name the node, it is checked after every step of a second
	// run with the same inputs. With Separate, it checks the margins around each tensor when
	// the tensor is produced, and poisons with other numbers, so that CheckRun sees results
	// that were computed from poison.
	Poison bool
	// Guard puts every tensor, including constants and kernels' scratch, on pages
	// of its own, with one end against a page that cannot be accessed. An access
	// past that end stops the run with an error that wraps ErrFault and names the
	// node and the tensor; a write past the other end gives ErrStray. It combines
	// with Separate, and makes Poison redundant.
	Guard Guard
	// HostFile is the path of the file that holds the plan's host pool. The file
	// must not exist yet; it is mapped, and removed by Close at the latest. "": the
	// host pool lies in ordinary memory.
	HostFile string
	// NoPack leaves the constant weights of convolutions and matrix products in the
	// layout of the file. That takes no memory beyond the plan's, but is slower.
	// The results are the same bits.
	NoPack bool
	// Without names rewriters of the lowering that are left out ([Lowering]), to find the one
	// at fault. An unknown name, or a needed rewriter, is an error ([CheckWithout]).
	Without []string
	// CheckLowering checks, before the first and after each rewriter, that each node is in
	// exactly one task, and that what a task reads is there when it runs. It is slow.
	CheckLowering bool

	// Device is the GPU that runs the nodes; nil: the cores of this machine. It must
	// stay open until the session is closed. Nodes without a device kernel run on the
	// host. NoPack and Guard have no meaning on a device.
	Device *cuda.Device
	// NoReplay keeps gorgonia's machine in charge of every step on a device. Else the
	// steps from the third on are launched as one CUDA graph, recorded from the second,
	// where no node depends on the host. The results are the same bits.
	NoReplay bool

	// LeaveUpdates leaves the new values of parameters, states and caches out of what Run
	// returns; Updates returns them. They stay where the next run reads them. A session on
	// a device would else copy all of them to the host at every run, which may take longer
	// than the run itself.
	LeaveUpdates bool

	// NoBLAS keeps products on a device in onnxmem's own kernels. Else cuBLAS computes those
	// of float32, float16 and bfloat16 where it is there: the results differ in rounding.
	NoBLAS bool

	// NoDNN keeps convolutions on a device in onnxmem's own kernels. Else cuDNN computes those
	// of float16 and bfloat16 where it is there: the results differ in rounding.
	NoDNN bool

	// DNNFloat32 has cuDNN compute convolutions of float32, too. Without TF32 it was slower
	// than onnxmem's own kernels on the GPU that was measured (docs/gpu.md).
	DNNFloat32 bool

	comparer   *comparer // of CheckReference
	uncompiled bool      // device kernels are not compiled: the session cannot run
}

// Session runs a program. Only one goroutine may use it at a time. Several sessions
// of one program share its weights and its memory limit, and nothing else.
type Session struct {
	pr     *Program
	opt    Options
	consts *constants // the program's, or those of a guarded session
	pool   *work.Pool
	main   *frame
	frames []*frame
	tape   *tape

	mem     store.Store
	scratch scratch
	boxed   boxed
	states  states
	control control
	watch   watch

	gpu    *device   // of Options.Device; nil: there is none
	points *bindings // of a plan for ranges of dimensions: the session runs at none itself
	outer  *Session  // of the session of one point: the one with the points

	missing unsupported
}

// NewSession lays out memory and prepares a kernel for every node. It fails, with
// an error of type *graph.Error, if a node has no kernel.
//
// If the plan is for ranges of dimensions, it does that for each point when Run first
// meets its shapes, and keeps the last 32 points. The arena grows, in address space that
// is reserved at once, to that of the largest point so far. Such a session takes no
// device; the program of one point (At) does.
func (p *Program) NewSession(opt Options) (*Session, error) {
	if p.ranged != nil && opt.Device != nil {
		return nil, refuse(p.m, "a plan for ranges of dimensions: expected no device, or the lengths for which it is to run (Program.At)")
	}
	if err := CheckWithout(opt.Without); err != nil {
		return nil, err
	}
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	return p.session(opt, nil)
}

// session makes a session. outer is the one of all points, if the program is at one of
// them.
func (p *Program) session(opt Options, outer *Session) (*Session, error) {
	s := &Session{pr: p, opt: opt, outer: outer, consts: p.consts, watch: watch{comparer: opt.comparer}}
	s.states = states{ready: map[string]bool{}, outputs: map[string]Value{}}
	s.control.ctx = context.Background()
	if outer == nil {
		s.pool = work.New(opt.Workers)
	} else {
		s.pool, s.control.ctx, s.control.step, s.states.ready = outer.pool, outer.control.ctx, outer.control.step, outer.states.ready
	}
	s.mem.Share = &store.Share{Of: p.consts.mem.Of, Bound: opt.bound()}
	s.mem.Side.Mem, s.boxed.texts.mem = s.mem.Share, s.mem.Share
	if opt.Guard == GuardOff && !opt.Separate {
		s.mem.Side.Records()
	}
	if p.trimmed && (opt.Device != nil || opt.Guard != GuardOff || opt.Poison) {
		return nil, errors.New("the program was trimmed: expected no device, guard or poison")
	}
	if opt.Device != nil {
		if opt.Guard != GuardOff {
			return nil, errors.New("guarded pages are memory of the host: expected no device")
		}
		s.opt.NoPack = true
		if err := opt.Device.Enter(); err != nil {
			return nil, err
		}
		defer opt.Device.Leave()
	}
	if outer == nil {
		p.consts.enter()
	}
	if err := s.build(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// takeBlocks allocates the memory of the pools.
func (s *Session) takeBlocks() error {
	if s.opt.Guard != GuardOff {
		var err error
		if s.mem.Guard, err = store.NewGuard(s.opt.Guard == GuardFront, s.mem.Share); err != nil {
			return err
		}
		s.mem.Side.Guard = s.mem.Guard
		s.consts = newConstants(s.pr.m, s.mem.Of)
		s.consts.guard = s.mem.Guard
		return nil
	}
	p := s.pr.p
	if s.sharesMemory() {
		if r := s.outer.mem.Resident; r != nil {
			s.mem.Resident = &store.Block{Bytes: r.Bytes, Base: r.Base, Shared: true}
		}
		s.outer.points.lendHost(s)
		var err error
		s.mem.Arena, err = s.outer.points.block(poolBytes(p, plan.Arena))
		return err
	}
	var arena int64 // 0 if tensors are separate
	if !s.opt.Separate {
		arena = poolBytes(p, plan.Arena)
	}
	// No other page of the resident pool is ever touched.
	bytes := units.Add(arena, stateBytes(p))
	from, end := statesOf(p)
	switch {
	case s.opt.Device != nil:
		bytes = units.Add(arena, end-from)
	case s.opt.HostFile == "" && !s.opt.Separate:
		bytes = units.Add(bytes, poolBytes(p, plan.Host))
	}
	err := s.mem.Take(bytes)
	if err != nil {
		return err
	}
	if s.mem.Arena, err = store.NewBlock(arena, "arena"); err != nil {
		return err
	}
	if s.mem.Resident, err = store.NewBlock(poolBytes(p, plan.Resident), "resident pool"); err != nil {
		return err
	}
	if bytes := poolBytes(p, plan.Host); bytes > 0 && !s.opt.Separate {
		if s.opt.Device != nil && s.opt.HostFile == "" {
			s.mem.Host, err = store.NewPinnedBlock(s.opt.Device, bytes)
		} else {
			s.mem.Host, err = store.NewHostBlock(s.opt.HostFile, bytes)
		}
		if err != nil {
			return err
		}
	}
	if s.opt.Device == nil {
		return nil
	}
	if s.gpu, err = newDevice(s, s.opt.Device); err != nil {
		return err
	}
	if arena > 0 {
		if err := s.gpu.mirror(s.mem.Arena, "arena"); err != nil {
			return err
		}
	}
	return s.gpu.mirrorPart(s.mem.Resident, from, end, "parameters and states")
}

func (s *Session) build() (err error) {
	if s.pr.ranged != nil {
		if s.points, err = newBindings(s); err != nil {
			return err
		}
		return s.hold()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	p := s.pr.p
	if err := s.takeBlocks(); err != nil {
		return s.overLimit(err, nil)
	}
	b := &builder{s: s, bodies: p.Subgraphs, layouts: map[*graph.Graph]*layout{}, shapes: map[string][]int{}, rewriters: s.rewriters()}
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
		return s.overLimit(err, nil)
	}
	if s.main, err = b.frame(s.pr.m.Graph, s.pr.m.Opsets, nil, nil, area, s.pr.values); err != nil {
		if e, is := err.(*LimitError); is { // no node is to blame
			return s.overLimit(e, nil)
		}
		return refuse(s.pr.m, "%w", err)
	}
	if err := s.missing.err(); err != nil {
		return s.named(err)
	}
	if err := s.countInFile(); err != nil {
		return s.overLimit(err, nil)
	}
	if err := s.growScratch(); err != nil {
		return s.overLimit(err, s.scratch.largest)
	}
	if s.opt.Poison && s.gpu != nil {
		if s.gpu.poison, err = s.gpu.kernels.NewPoison(); err != nil {
			return err
		}
	}
	if err := s.gpu.ready(); err != nil {
		return s.overLimit(err, nil)
	}
	if s.tape, err = newTape(s.main, s.outer.player()); err != nil {
		return err
	}
	s.boxed.texts.keep()
	made := map[string]bool{}
	for _, update := range s.pr.state {
		made[update] = true
	}
	s.states.updates = map[graph.TensorID]bool{}
	for _, id := range s.main.g.Outputs {
		s.states.updates[id] = made[s.main.g.Tensors[id].Name]
	}
	s.states.first = s.firstUpdate()
	if err := s.prepareSwaps(); err != nil {
		return err
	}
	if s.gpu != nil {
		s.gpu.tally()
		s.gpu.replay = newReplay(s.gpu)
	}
	s.consts.drop()
	if err := s.consts.unchanged(); err != nil {
		return err
	}
	if s.opt.Poison && s.mem.Guard == nil {
		s.watch.poison = newWatcher(s)
		s.watch.poison.begin()
		s.tape.after = append(s.tape.after, s.watch.poison.after)
	}
	if s.outer != nil { // which has the caches
		return nil
	}
	return s.Reset()
}

func poolBytes(p *plan.Plan, name string) int64 {
	for _, pool := range p.Pools {
		if pool.Name == name {
			return pool.Bytes
		}
	}
	return 0
}

// prepareSwaps prepares the transfers between the arena and the host pool.
func (s *Session) prepareSwaps() (err error) {
	switch {
	case s.mem.Host == nil:
	case s.gpu != nil:
		s.gpu.copier, err = newDeviceCopier(s.gpu, s.main, s.pr.p)
	default:
		s.tape.copier = newHostCopier(s.main, s.pr.p)
	}
	return err
}

// Close frees the session's memory. Outputs of Run must not be used afterwards.
func (s *Session) Close() error {
	s.stopListening()
	whole := s.points.close()
	s.points = nil
	if s.outer == nil {
		s.pool.Close()
	}
	if d := s.opt.Device; d != nil && d.Enter() == nil {
		defer d.Leave() // device memory and pinned memory are freed in its context
	}
	first := errors.Join(whole, s.gpu.close())
	s.gpu = nil // its handles are gone; a second Close finds nothing
	if s.tape != nil {
		s.tape.copier.close()
		s.tape.copier = nil
		if err := s.tape.close(); first == nil {
			first = err
		}
	}
	if s.sharesMemory() {
		s.scratch.block = nil // the outer session's
	}
	for _, b := range append(s.mem.Own, s.mem.Arena, s.mem.Resident, s.mem.Host, s.scratch.block) {
		if err := b.Free(); err != nil && first == nil {
			first = err
		}
	}
	if err := s.mem.Side.Close(); err != nil && first == nil {
		first = err
	}
	if s.mem.Guard != nil {
		if err := errors.Join(s.consts.close(), s.mem.Guard.Close()); err != nil && first == nil {
			first = err
		}
	}
	s.mem.Close()
	if s.outer == nil && !s.control.closed {
		if err := s.pr.consts.leave(); err != nil && first == nil {
			first = err
		}
	}
	s.control.closed = true
	return first
}

// Memory lists the memory of a session, in bytes.
type Memory struct {
	ArenaBytes    int64
	StateBytes    int64 // parameters and states, in the resident pool
	DynamicBytes  int64 // tensors that the plan leaves out, so far
	ScratchBytes  int64 // of kernels
	TableBytes    int64 // tables that kernels keep
	HostBytes     int64 // the host pool, in memory or in a file
	DecodedBytes  int64 // constants that the file encodes differently, and copies of small ones; shared by sessions
	PackedBytes   int64 // weights in the layout of the micro-kernels; shared by sessions
	FileBytes     int64 // constants that kernels read in mapped files; shared by sessions
	SeparateBytes int64 // with Options.Separate or Options.Guard: all tensors
	HeapBytes     int64 // Go's heap for nodes and tensors, estimated from above
}

// Bytes is the sum of all but the shared and the host bytes.
func (m Memory) Bytes() int64 {
	return m.ArenaBytes + m.StateBytes + m.DynamicBytes + m.ScratchBytes + m.TableBytes + m.SeparateBytes + m.HeapBytes
}

// Memory returns the session's current use of memory.
func (s *Session) Memory() Memory {
	m := Memory{
		ArenaBytes: poolBytes(s.pr.p, plan.Arena), DynamicBytes: s.mem.Side.Total - s.mem.SideTables,
		ScratchBytes: s.scratchBytes(), TableBytes: s.mem.Tables, StateBytes: stateBytes(s.pr.p), HeapBytes: s.mem.Heap,
	}
	m.DecodedBytes, m.PackedBytes, m.FileBytes = s.consts.bytesMade()
	for _, b := range s.mem.Own {
		m.SeparateBytes += int64(len(b.Bytes))
	}
	if s.mem.Host != nil {
		m.HostBytes = poolBytes(s.pr.p, plan.Host)
	}
	if s.mem.Guard != nil {
		m.SeparateBytes = s.mem.Guard.Bytes
	}
	if len(s.mem.Own) > 0 || s.mem.Guard != nil {
		m.ArenaBytes = 0
	}
	if s.points != nil {
		s.points.memory(&m)
	}
	return m
}

// Dynamic says how the tensors that the plan leaves out were placed so far. Of a session for
// ranges of dimensions, it is the sum over its points.
func (s *Session) Dynamic() ReplayUse {
	use := ReplayUse(s.mem.Side.Use())
	if s.points != nil {
		for _, at := range s.points.list {
			use.add(at.Dynamic())
		}
	}
	return use
}

// overLimit adds the session's needs to a *LimitError, and returns other errors as
// they are. at is the node that asks for the most scratch, or nil.
func (s *Session) overLimit(err error, at *step) error {
	e, is := err.(*LimitError)
	if !is {
		return err
	}
	e.Needs = s.Memory()
	if !e.Free {
		e.unpacked = s.unpackedMore()
	}
	if s.opt.Device != nil {
		e.Constants = constantBytesOn(s.pr)
		if s.gpu != nil {
			e.Needs.ScratchBytes = units.Add(e.Needs.ScratchBytes, s.gpu.queue.ScratchBytes())
			e.Needs.TableBytes = units.Add(e.Needs.TableBytes, s.gpu.queue.TableBytes())
		}
	}
	if at != nil {
		return s.named(at.wrap(err))
	}
	return s.nameLargest(refuse(s.pr.m, "%w", err), e.Limit)
}

// nameLargest names the plan's largest tensor in the error if that tensor alone
// exceeds the limit.
func (s *Session) nameLargest(err error, limit int64) error {
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

// statesOf returns the bytes [from, end) of the resident pool in which the parameters and
// states lie; 0, 0 if there are none.
func statesOf(p *plan.Plan) (from, end int64) {
	from = math.MaxInt64
	for i := range p.Buffers {
		if b := &p.Buffers[i]; plan.Stays(b.Kind) {
			from, end = min(from, b.Offset), max(end, b.Offset+b.Bytes)
		}
	}
	return min(from, end), end
}

// stateBytes is the size of a plan's parameters and states.
func stateBytes(p *plan.Plan) int64 {
	var sum int64
	for i := range p.Buffers {
		if b := &p.Buffers[i]; plan.Stays(b.Kind) {
			sum += b.Bytes
		}
	}
	return sum
}

// scratchBytes is the size of the scratch that the prepared kernels ask for.
func (s *Session) scratchBytes() int64 {
	each, workers := int64(s.scratch.each), int64(s.pool.Workers())
	if each > math.MaxInt64/workers {
		return math.MaxInt64
	}
	return units.Add(units.Add(int64(s.scratch.shared), int64(s.scratch.keep)), each*workers)
}

// growScratch makes the scratch as large as the prepared kernels need.
func (s *Session) growScratch() error {
	if s.mem.Guard != nil {
		return nil
	}
	owner := s
	if s.sharesMemory() {
		owner = s.outer
	}
	bytes, has := s.scratchBytes(), int64(0)
	if owner.scratch.block != nil {
		has = int64(len(owner.scratch.block.Bytes))
	}
	if owner.scratch.block == nil || has < bytes {
		if err := owner.mem.Take(bytes - has); err != nil {
			return err
		}
		if err := owner.scratch.block.Free(); err != nil {
			return err
		}
		owner.scratch.block = nil
		b, err := store.NewBlock(bytes, "scratch")
		if err != nil {
			owner.mem.Give(bytes)
			return err
		}
		owner.scratch.block = b
	}
	s.scratch.block = owner.scratch.block
	s.pool.SetScratch(s.scratch.block.Base, s.scratch.block.At(int64(s.scratch.shared+s.scratch.keep)), s.scratch.each)
	return nil
}

// sharesMemory reports whether the arena and the scratch of a session are those of all
// points.
func (s *Session) sharesMemory() bool { return s.outer != nil && s.outer.points.shared() }

// Set sets the value of a parameter or state, which stays until a step updates it.
func (s *Session) Set(name string, v Value) (err error) {
	defer mapped.Recover(&err, mapped.Watch()) // v may lie in a file
	if _, is := s.pr.state[name]; !is {
		return fmt.Errorf("%q is no parameter or state of the model", graph.Short(name))
	}
	if err := s.setInput(name, v, copyWhole); err != nil {
		return err
	}
	s.states.ready[name] = true
	delete(s.states.fresh, name)
	return nil
}

// Run runs the model once. inputs must have a value for every graph input, except
// for parameters and states that already have one. The outputs lie in the session's
// memory and are valid until its next Run or Close; Clone those that are needed for
// longer. If ctx ends first, the run stops within some milliseconds, with an error
// that wraps ErrStopped and the context's cause and names the running node; the
// session can run again. A run that fails after it began to update parameters and
// states loses them: they must be set again.
func (s *Session) Run(ctx context.Context, inputs map[string]Value) (out map[string]Value, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	s.listen(ctx)
	if s.points != nil {
		return s.points.run(ctx, inputs)
	}
	s.tape.next = 0
	defer func() {
		if r := recover(); r != nil {
			if err = s.stopped(r); err == nil {
				d, is := r.(deviceError)
				if !is {
					panic(r)
				}
				err = d.error
			}
			err = refuse(s.pr.m, "%w", err)
		}
		if err != nil {
			s.dropTornStates()
			s.resetSide()
			s.unboxAll()
		}
	}()
	return s.attempt(inputs)
}

// attempt runs the model once and does not clean up after an error.
func (s *Session) attempt(inputs map[string]Value) (map[string]Value, error) {
	if err := s.gpu.enter(); err != nil {
		return nil, err
	}
	defer s.gpu.leave()
	if err := s.gpu.begin(); err != nil {
		return nil, err
	}
	s.main.release()
	s.boxed.texts.drop()
	if err := s.beginSide(); err != nil {
		return nil, err
	}
	if s.watch.poison != nil && len(s.mem.Own) == 0 {
		s.watch.poison.begin()
	}
	for _, id := range s.main.g.Inputs {
		name := s.main.g.Tensors[id].Name
		v, given := inputs[name]
		planned, bound := s.pr.given[name]
		if bound && !given {
			v, given = planned, true
		}
		_, state := s.pr.state[name]
		switch {
		case bound && !bytes.Equal(v.Data, planned.Data) && v.Type == planned.Type && slices.Equal(v.Shape, planned.Shape):
			return nil, s.badInput(id, "is %v, but the plan was made for %v: plan again with --value %s=%v", v.Literal(), planned.Literal(), graph.Short(name), v.Literal())
		case given && state:
			if err := s.Set(name, v); err != nil {
				return nil, err
			}
		case given:
			if err := s.setInput(name, v, s.copyBytes); err != nil {
				return nil, err
			}
		case !state:
			return nil, s.badInput(id, "no value given: expected %v", s.main.g.Tensors[id].Type)
		case !s.states.ready[name]:
			return nil, s.badInput(id, "a %s without a first value: expected %v (give it once, or set it)", "parameter or state", s.main.g.Tensors[id].Type)
		}
	}
	for name := range inputs {
		if !slices.ContainsFunc(s.main.g.Inputs, func(t graph.TensorID) bool { return s.main.g.Tensors[t].Name == name }) {
			return nil, refuse(s.pr.m, "%q is no input of the model", graph.Short(name))
		}
	}
	if err := s.runStep(); err != nil {
		if s.watch.poison.unsure(err) {
			s.watch.poison.everyStep = true
			if _, exact := s.attempt(inputs); exact != nil {
				err = exact
			}
			s.watch.poison.everyStep = false
		}
		return nil, s.named(err)
	}
	if err := s.gpu.fault(); err != nil {
		return nil, s.named(err)
	}
	if err := s.mem.Guard.CheckAll(); err != nil {
		return nil, refuse(s.pr.m, "%w", err)
	}
	if err := s.consts.unchanged(); err != nil {
		return nil, err
	}
	s.control.step++
	if err := s.readOutputs(s.states.outputs, func(update bool) bool { return !update || !s.opt.LeaveUpdates }); err != nil {
		return nil, err
	}
	if s.opt.Separate {
		if err := s.copyStates(); err != nil {
			return nil, err
		}
	}
	s.gpu.carry(s)
	s.mem.Side.End()
	return s.states.outputs, s.gpu.finish()
}

// readOutputs adds the values of the outputs that are wanted to a map: of new values of
// parameters, states and caches, or of others.
func (s *Session) readOutputs(to map[string]Value, wanted func(update bool) bool) error {
	var list []graph.TensorID
	var tensors []*tensor
	for _, id := range s.main.g.Outputs {
		if wanted(s.states.updates[id]) {
			list, tensors = append(list, id), append(tensors, s.main.tensors[id])
		}
	}
	s.onHost(tensors...) // at once: the host waits for the device once
	for i, t := range tensors {
		v, err := s.value(t)
		if err != nil {
			return s.named(aboutTensor(t.name, err))
		}
		to[s.main.g.Tensors[list[i]].Name] = v
	}
	return nil
}

// Updates returns the new values of parameters, states and caches that the last run made, by
// the names of the outputs. They lie in the session's memory, as those of Run, and are valid
// until its next Run, Set, Reset, Restore or Close.
func (s *Session) Updates() (made map[string]Value, err error) {
	if s.control.step == 0 {
		return nil, errors.New("no run has made new values of parameters and states")
	}
	if err := s.gpu.enter(); err != nil {
		return nil, err
	}
	defer s.gpu.leave()
	defer func() {
		if r := recover(); r != nil {
			d, is := r.(deviceError)
			if !is {
				panic(r)
			}
			made, err = nil, refuse(s.pr.m, "%w", d.error)
		}
	}()
	made = map[string]Value{}
	return made, s.readOutputs(made, func(update bool) bool { return update })
}

// copyStates copies the new values of parameters and states over the old ones, for
// sessions in which the two do not share a buffer.
func (s *Session) copyStates() error {
	made, err := s.Updates()
	if err != nil {
		return err
	}
	for _, id := range s.main.g.Inputs {
		next, is := s.pr.state[s.main.g.Tensors[id].Name]
		if !is {
			continue
		}
		to := s.main.tensors[id]
		copyWhole(unsafe.Slice((*byte)(to.At), to.Bytes()), made[next].Data)
		s.wroteOnHost(to)
	}
	return nil
}

// named adds the name of the model's file to an error that lacks it.
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

// copyWhole copies bytes without polling for a stop: half a state is useless.
func copyWhole(to, from []byte) { copy(to, from) }

// setInput copies the value of a graph input to its place.
func (s *Session) setInput(name string, v Value, copy func(to, from []byte)) error {
	for _, id := range s.main.g.Inputs {
		g := s.main.g.Tensors[id]
		if g.Name != name {
			continue
		}
		t := s.main.tensors[id]
		if s.takesShape(name, v) {
			s.shapeState(name, v.Shape)
		} else if !v.is(g.Type) {
			return s.badInput(id, "is %v, expected %v", v, g.Type)
		}
		s.wroteOnHost(t)
		if g.Type.Kind != graph.KindTensor {
			b, err := s.boxOf(v)
			if err == nil {
				s.release(t)
				err = s.put(t, b)
			}
			if err != nil {
				return s.badInput(id, "%w", err)
			}
			return nil
		}
		if err := v.check(); err != nil {
			return s.badInput(id, "%w", err)
		}
		if !t.exact {
			t.Type = v.Type
			if err := s.resize(t, v.Shape); err != nil {
				return s.badInput(id, "%w", err)
			}
		}
		if v.Type == graph.String {
			if err := s.store(bytesOf(t), v.Strings); err != nil {
				return s.badInput(id, "%w", err)
			}
			return nil
		}
		copyIn(bytesOf(t), v.Data)
		return nil
	}
	return fmt.Errorf("%q is no input of the model", graph.Short(name))
}

// copyIn copies the elements of an input. If they lie in a mapped file, such as that of the
// initial parameters, its pages are given back piece by piece.
func copyIn(to, from []byte) {
	for len(from) > dropAfter {
		copyIn(to[:dropAfter], from[:dropAfter])
		to, from = to[dropAfter:], from[dropAfter:]
	}
	copy(to, from)
	mapped.Release(unsafe.Pointer(unsafe.SliceData(from)), len(from))
}

// fits reports whether a shape matches the declared dimensions and their bounds.
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

package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/device"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Session runs a program. Only one goroutine may use it at a time. Several sessions
// of one program share its weights and its memory limit, and nothing else.
type Session struct {
	lower.Site
	main *lower.Frame
	tape *tape

	states  states
	control control
	watch   watch

	gpu    *gpuSession // on Options.Device; nil: there is none
	points *bindings   // of a plan for ranges of dimensions: the session runs at none itself
	outer  *Session    // of the session of one point: the one with the points
}

// NewSession lays out memory and prepares a kernel for every node. It fails, with
// an error of type *graph.Error, if a node has no kernel.
//
// If the plan is for ranges of dimensions, it does that for each point when Run first
// meets its shapes, and keeps the last 32 points. The arena grows, in address space that
// is reserved at once, to that of the largest point so far. Such a session takes no
// device; the program of one point (At) does.
func NewSession(p *program.Program, opt lower.Options) (*Session, error) {
	return newSession(p, opt, nil)
}

// newSession is NewSession with a comparer of each node's results, or nil.
func newSession(p *program.Program, opt lower.Options, w *comparer) (*Session, error) {
	if p.IsRanged() && opt.Device != nil {
		return nil, program.Refuse(p.Model, "a plan for ranges of dimensions: expected no device, or the lengths for which it is to run (Program.At)")
	}
	if err := lower.CheckWithout(opt.Without); err != nil {
		return nil, err
	}
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	return sessionOf(p, opt, nil, w)
}

// sessionOf makes a session. outer is the one of all points, if the program is at one of
// them.
func sessionOf(p *program.Program, opt lower.Options, outer *Session, w *comparer) (*Session, error) {
	s := &Session{Site: lower.Site{Program: p, Options: opt, Constants: p.Constants}, outer: outer, watch: watch{comparer: w}}
	s.Flow = controls{s}
	if w != nil {
		s.Compared, w.control = w, &s.control
	}
	if s.sharesMemory() {
		s.Lender = &outer.Site
	}
	s.states = states{ready: map[string]bool{}, outputs: map[string]values.Value{}}
	s.control.ctx = context.Background()
	if outer == nil {
		s.Pool = work.New(opt.Workers)
	} else {
		s.Pool, s.control.ctx, s.Runs, s.states.ready = outer.Pool, outer.control.ctx, outer.Runs, outer.states.ready
	}
	s.Mem.Share = &store.Share{Of: p.Constants.Mem.Of, Bound: opt.Bound()}
	s.Mem.Side.Mem, s.Texts.Mem = s.Mem.Share, s.Mem.Share
	if opt.Guard == lower.GuardOff && !opt.Separate {
		s.Mem.Side.Records()
	}
	if p.Trimmed && (opt.Device != nil || opt.Guard != lower.GuardOff || opt.Poison) {
		return nil, errors.New("the program was trimmed: expected no device, guard or poison")
	}
	if opt.Device != nil {
		if opt.Guard != lower.GuardOff {
			return nil, errors.New("guarded pages are memory of the host: expected no device")
		}
		s.Options.NoPack = true
		if err := opt.Device.Enter(); err != nil {
			return nil, err
		}
		defer opt.Device.Leave()
	}
	if outer == nil {
		p.Constants.Enter()
	}
	if err := s.build(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// takeBlocks allocates the memory of the pools.
func (s *Session) takeBlocks() error {
	if s.Options.Guard != lower.GuardOff {
		var err error
		if s.Mem.Guard, err = store.NewGuard(s.Options.Guard == lower.GuardFront, s.Mem.Share); err != nil {
			return err
		}
		s.Mem.Side.Guard = s.Mem.Guard
		s.Constants = constants.New(s.Program.Model, s.Mem.Of)
		s.Constants.Guard = s.Mem.Guard
		return nil
	}
	p := s.Program.Plan
	if s.sharesMemory() {
		if r := s.outer.Mem.Resident; r != nil {
			s.Mem.Resident = &store.Block{Bytes: r.Bytes, Base: r.Base, Shared: true}
		}
		s.outer.points.lendHost(s)
		var err error
		s.Mem.Arena, err = s.outer.points.block(program.PoolBytes(p, plan.Arena))
		return err
	}
	var arena int64 // 0 if tensors are separate
	if !s.Options.Separate {
		arena = program.PoolBytes(p, plan.Arena)
	}
	// No other page of the resident pool is ever touched.
	bytes := units.Add(arena, program.StateBytes(p))
	from, end := program.StatesOf(p)
	switch {
	case s.Options.Device != nil:
		bytes = units.Add(arena, end-from)
	case s.Options.HostFile == "" && !s.Options.Separate:
		bytes = units.Add(bytes, program.PoolBytes(p, plan.Host))
	}
	err := s.Mem.Take(bytes)
	if err != nil {
		return err
	}
	if s.Mem.Arena, err = store.NewBlock(arena, "arena"); err != nil {
		return err
	}
	if s.Mem.Resident, err = store.NewBlock(program.PoolBytes(p, plan.Resident), "resident pool"); err != nil {
		return err
	}
	if bytes := program.PoolBytes(p, plan.Host); bytes > 0 && !s.Options.Separate {
		if s.Options.Device != nil && s.Options.HostFile == "" {
			s.Mem.Host, err = store.NewPinnedBlock(s.Options.Device, bytes)
		} else {
			s.Mem.Host, err = store.NewHostBlock(s.Options.HostFile, bytes)
		}
		if err != nil {
			return err
		}
	}
	if s.Options.Device == nil {
		return nil
	}
	if s.GPU, err = device.NewRoom(s.Options.Device, s.Program, &s.Mem, device.Libraries{NoBLAS: s.Options.NoBLAS, NoDNN: s.Options.NoDNN, Float32: s.Options.DNNFloat32}); err != nil {
		return err
	}
	s.Device, s.gpu = s.GPU, &gpuSession{Memory: s.GPU, s: s}
	if arena > 0 {
		if err := s.gpu.Mirror(s.Mem.Arena, "arena"); err != nil {
			return err
		}
	}
	return s.gpu.MirrorPart(s.Mem.Resident, from, end, "parameters and states")
}

func (s *Session) build() (err error) {
	if s.Program.IsRanged() {
		if s.points, err = newBindings(s); err != nil {
			return err
		}
		return s.hold()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := s.takeBlocks(); err != nil {
		return s.overLimit(err, nil)
	}
	b := lower.NewBuilder(&s.Site)
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked(r)
			err = s.named(b.Wrap(err))
		}
	}()
	area, err := b.MainArea()
	if err != nil {
		return s.overLimit(err, nil)
	}
	if s.main, err = b.Frame(s.Program.Model.Graph, s.Program.Model.Opsets, nil, nil, area, s.Program.Known); err != nil {
		if e, is := err.(*store.Refusal); is { // no node is to blame
			return s.overLimit(e, nil)
		}
		return program.Refuse(s.Program.Model, "%w", err)
	}
	if s.watch.comparer != nil {
		s.watch.comparer.main = s.main
	}
	if err := s.Missing.Err(); err != nil {
		return s.named(err)
	}
	if err := s.CountInFile(); err != nil {
		return s.overLimit(err, nil)
	}
	if err := s.GrowScratch(); err != nil {
		return s.overLimit(err, s.Scratch.Largest)
	}
	if s.Options.Poison && s.gpu != nil {
		if s.gpu.Poison, err = s.gpu.Kernels.NewPoison(); err != nil {
			return err
		}
	}
	if err := s.gpu.ready(); err != nil {
		return s.overLimit(err, nil)
	}
	if s.tape, err = newTape(s, s.main, s.outer.player()); err != nil {
		return err
	}
	s.Texts.Keep()
	made := map[string]bool{}
	for _, update := range s.Program.Next {
		made[update] = true
	}
	s.states.updates = map[graph.TensorID]bool{}
	for _, id := range s.main.Graph.Outputs {
		s.states.updates[id] = made[s.main.Graph.Tensors[id].Name]
	}
	s.states.first = s.firstUpdate()
	if err := s.prepareSwaps(); err != nil {
		return err
	}
	if s.gpu != nil {
		s.gpu.tally()
		s.gpu.replay = newReplay(s.gpu)
	}
	s.Constants.Drop()
	if err := s.Constants.Unchanged(); err != nil {
		return err
	}
	if s.Options.Poison && s.Mem.Guard == nil {
		s.watch.poison = newWatcher(s)
		s.watch.poison.begin()
		s.tape.after = append(s.tape.after, s.watch.poison.after)
	}
	if s.outer != nil { // which has the caches
		return nil
	}
	return s.Reset()
}

// prepareSwaps prepares the transfers between the arena and the host pool.
func (s *Session) prepareSwaps() (err error) {
	switch {
	case s.Mem.Host == nil:
	case s.gpu != nil:
		s.gpu.copier, err = newDeviceCopier(s.gpu, s.main, s.Program.Plan)
	default:
		s.tape.copier = newHostCopier(s.main, s.Program.Plan)
	}
	return err
}

// Close frees the session's memory. Outputs of Run must not be used afterwards.
func (s *Session) Close() error {
	s.stopListening()
	whole := s.points.close()
	s.points = nil
	if s.outer == nil {
		s.Pool.Close()
	}
	if d := s.Options.Device; d != nil && d.Enter() == nil {
		defer d.Leave() // device memory and pinned memory are freed in its context
	}
	first := errors.Join(whole, s.gpu.close())
	s.GPU, s.gpu, s.Device = nil, nil, nil // its handles are gone; a second Close finds nothing
	if s.tape != nil {
		s.tape.copier.close()
		s.tape.copier = nil
		if err := s.tape.close(); first == nil {
			first = err
		}
	}
	if s.sharesMemory() {
		s.Scratch.Block = nil // the outer session's
	}
	for _, b := range append(s.Mem.Own, s.Mem.Arena, s.Mem.Resident, s.Mem.Host, s.Scratch.Block) {
		if err := b.Free(); err != nil && first == nil {
			first = err
		}
	}
	if err := s.Mem.Side.Close(); err != nil && first == nil {
		first = err
	}
	if s.Mem.Guard != nil {
		if err := errors.Join(s.Constants.Close(), s.Mem.Guard.Close()); err != nil && first == nil {
			first = err
		}
	}
	s.Mem.Close()
	if s.outer == nil && !s.control.closed {
		if err := s.Program.Constants.Leave(); err != nil && first == nil {
			first = err
		}
	}
	s.control.closed = true
	return first
}

// Memory returns the session's current use of memory.
func (s *Session) Memory() store.Memory {
	m := store.Memory{
		ArenaBytes: program.PoolBytes(s.Program.Plan, plan.Arena), DynamicBytes: s.Mem.Side.Total - s.Mem.SideTables,
		ScratchBytes: s.ScratchBytes(), TableBytes: s.Mem.Tables, StateBytes: program.StateBytes(s.Program.Plan), HeapBytes: s.Mem.Heap,
	}
	m.DecodedBytes, m.PackedBytes, m.FileBytes = s.Constants.BytesMade()
	for _, b := range s.Mem.Own {
		m.SeparateBytes += int64(len(b.Bytes))
	}
	if s.Mem.Host != nil {
		m.HostBytes = program.PoolBytes(s.Program.Plan, plan.Host)
	}
	if s.Mem.Guard != nil {
		m.SeparateBytes = s.Mem.Guard.Bytes
	}
	if len(s.Mem.Own) > 0 || s.Mem.Guard != nil {
		m.ArenaBytes = 0
	}
	if s.points != nil {
		s.points.memory(&m)
	}
	return m
}

// Dynamic says how the tensors that the plan leaves out were placed so far. Of a session for
// ranges of dimensions, it is the sum over its points.
func (s *Session) Dynamic() store.Use {
	use := s.Mem.Side.Use()
	if s.points != nil {
		for _, at := range s.points.list {
			use.Add(at.Dynamic())
		}
	}
	return use
}

// overLimit adds the session's needs to a refused allocation, and returns other errors as
// they are. at is the node that asks for the most scratch, or nil.
func (s *Session) overLimit(err error, at *lower.Step) error {
	e, is := err.(*store.Refusal)
	if !is {
		return err
	}
	e.Needs = s.Memory()
	if !e.Free {
		e.Unpacked = s.UnpackedMore()
	}
	if s.Options.Device != nil {
		e.Constants = program.ConstantBytesOn(s.Program)
		if s.gpu != nil {
			e.Needs.ScratchBytes = units.Add(e.Needs.ScratchBytes, s.gpu.Queue.ScratchBytes())
			e.Needs.TableBytes = units.Add(e.Needs.TableBytes, s.gpu.Queue.TableBytes())
		}
	}
	if at != nil {
		return s.named(at.Wrap(err))
	}
	return s.nameLargest(program.Refuse(s.Program.Model, "%w", err), e.Limit)
}

// nameLargest names the plan's largest tensor in the error if that tensor alone
// exceeds the limit.
func (s *Session) nameLargest(err error, limit int64) error {
	var largest *plan.Buffer
	for i := range s.Program.Plan.Buffers {
		b := &s.Program.Plan.Buffers[i]
		if b.Pool == plan.Arena && len(b.Tensors) > 0 && b.Bytes > limit && (largest == nil || b.Bytes > largest.Bytes) {
			largest = b
		}
	}
	var e *graph.Error
	if largest == nil || !errors.As(err, &e) {
		return err
	}
	e.Tensor = largest.Tensors[0]
	for i, n := range s.Program.Model.Graph.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 && s.Program.Model.Graph.Tensors[t].Name == e.Tensor {
				e.Node = s.Program.Model.Graph.Label(graph.NodeID(i))
			}
		}
	}
	return err
}

// sharesMemory reports whether the arena and the scratch of a session are those of all
// points.
func (s *Session) sharesMemory() bool { return s.outer != nil && s.outer.points.shared() }

// Set sets the value of a parameter or state, which stays until a step updates it.
func (s *Session) Set(name string, v values.Value) (err error) {
	defer mapped.Recover(&err, mapped.Watch()) // v may lie in a file
	if _, is := s.Program.Next[name]; !is {
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
func (s *Session) Run(ctx context.Context, inputs map[string]values.Value) (out map[string]values.Value, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	s.listen(ctx)
	if s.points != nil {
		return s.points.run(ctx, inputs)
	}
	s.tape.next = 0
	defer func() {
		if r := recover(); r != nil {
			if err = s.stopped(r); err == nil {
				d, is := r.(values.DeviceError)
				if !is {
					panic(r)
				}
				err = d.Err
			}
			err = program.Refuse(s.Program.Model, "%w", err)
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
func (s *Session) attempt(inputs map[string]values.Value) (map[string]values.Value, error) {
	if err := s.gpu.enter(); err != nil {
		return nil, err
	}
	defer s.gpu.leave()
	if err := s.gpu.begin(); err != nil {
		return nil, err
	}
	s.main.Release()
	s.Texts.Drop()
	if err := s.beginSide(); err != nil {
		return nil, err
	}
	if s.watch.poison != nil && len(s.Mem.Own) == 0 {
		s.watch.poison.begin()
	}
	for _, id := range s.main.Graph.Inputs {
		name := s.main.Graph.Tensors[id].Name
		v, given := inputs[name]
		planned, bound := s.Program.Given[name]
		if bound && !given {
			v, given = planned, true
		}
		_, state := s.Program.Next[name]
		switch {
		case bound && !bytes.Equal(v.Data, planned.Data) && v.Type == planned.Type && slices.Equal(v.Shape, planned.Shape):
			return nil, s.badInput(id, "is %v, but the plan was made for %v: plan again with --value %s=%v", v.Literal(), planned.Literal(), graph.Short(name), v.Literal())
		case given && state:
			if err := s.Set(name, v); err != nil {
				return nil, err
			}
		case given:
			if err := s.setInput(name, v, s.CopyBytes); err != nil {
				return nil, err
			}
		case !state:
			return nil, s.badInput(id, "no value given: expected %v", s.main.Graph.Tensors[id].Type)
		case !s.states.ready[name]:
			return nil, s.badInput(id, "a %s without a first value: expected %v (give it once, or set it)", "parameter or state", s.main.Graph.Tensors[id].Type)
		}
	}
	for name := range inputs {
		if !slices.ContainsFunc(s.main.Graph.Inputs, func(t graph.TensorID) bool { return s.main.Graph.Tensors[t].Name == name }) {
			return nil, program.Refuse(s.Program.Model, "%q is no input of the model", graph.Short(name))
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
	if err := s.Mem.Guard.CheckAll(); err != nil {
		return nil, program.Refuse(s.Program.Model, "%w", err)
	}
	if err := s.Constants.Unchanged(); err != nil {
		return nil, err
	}
	s.Runs++
	if err := s.readOutputs(s.states.outputs, func(update bool) bool { return !update || !s.Options.LeaveUpdates }); err != nil {
		return nil, err
	}
	if s.Options.Separate {
		if err := s.copyStates(); err != nil {
			return nil, err
		}
	}
	s.gpu.carry(s)
	s.Mem.Side.End()
	return s.states.outputs, s.gpu.finish()
}

// readOutputs adds the values of the outputs that are wanted to a map: of new values of
// parameters, states and caches, or of others.
func (s *Session) readOutputs(to map[string]values.Value, wanted func(update bool) bool) error {
	var list []graph.TensorID
	var tensors []*values.Tensor
	for _, id := range s.main.Graph.Outputs {
		if wanted(s.states.updates[id]) {
			list, tensors = append(list, id), append(tensors, s.main.Tensors[id])
		}
	}
	s.ToHost(tensors...) // at once: the host waits for the device once
	for i, t := range tensors {
		v, err := s.ValueOf(t)
		if err != nil {
			return s.named(values.About(t.Name, err))
		}
		to[s.main.Graph.Tensors[list[i]].Name] = v
	}
	return nil
}

// Updates returns the new values of parameters, states and caches that the last run made, by
// the names of the outputs. They lie in the session's memory, as those of Run, and are valid
// until its next Run, Set, Reset, Restore or Close.
func (s *Session) Updates() (made map[string]values.Value, err error) {
	if s.Runs == 0 {
		return nil, errors.New("no run has made new values of parameters and states")
	}
	if err := s.gpu.enter(); err != nil {
		return nil, err
	}
	defer s.gpu.leave()
	defer func() {
		if r := recover(); r != nil {
			d, is := r.(values.DeviceError)
			if !is {
				panic(r)
			}
			made, err = nil, program.Refuse(s.Program.Model, "%w", d.Err)
		}
	}()
	made = map[string]values.Value{}
	return made, s.readOutputs(made, func(update bool) bool { return update })
}

// copyStates copies the new values of parameters and states over the old ones, for
// sessions in which the two do not share a buffer.
func (s *Session) copyStates() error {
	made, err := s.Updates()
	if err != nil {
		return err
	}
	for _, id := range s.main.Graph.Inputs {
		next, is := s.Program.Next[s.main.Graph.Tensors[id].Name]
		if !is {
			continue
		}
		to := s.main.Tensors[id]
		copyWhole(unsafe.Slice((*byte)(to.At), to.Bytes()), made[next].Data)
		s.WroteOnHost(to)
	}
	return nil
}

// named adds the name of the model's file to an error that lacks it.
func (s *Session) named(err error) error {
	if e, ok := err.(*graph.Error); ok && e.File == "" {
		e.File = program.FileOf(s.Program.Model)
	}
	return err
}

// badInput makes an error about a graph input.
func (s *Session) badInput(id graph.TensorID, format string, args ...any) error {
	e := graph.Errorf(format, args...)
	e.Tensor = s.main.Graph.Tensors[id].Name
	return s.named(e)
}

// copyWhole copies bytes without polling for a stop: half a state is useless.
func copyWhole(to, from []byte) { copy(to, from) }

// setInput copies the value of a graph input to its place.
func (s *Session) setInput(name string, v values.Value, copy func(to, from []byte)) error {
	for _, id := range s.main.Graph.Inputs {
		g := s.main.Graph.Tensors[id]
		if g.Name != name {
			continue
		}
		t := s.main.Tensors[id]
		if s.takesShape(name, v) {
			s.shapeState(name, v.Shape)
		} else if !v.Is(g.Type) {
			return s.badInput(id, "is %v, expected %v", v, g.Type)
		}
		s.WroteOnHost(t)
		if g.Type.Kind != graph.KindTensor {
			b, err := s.BoxOf(v)
			if err == nil {
				s.Release(t)
				err = s.Put(t, b)
			}
			if err != nil {
				return s.badInput(id, "%w", err)
			}
			return nil
		}
		if err := v.Check(); err != nil {
			return s.badInput(id, "%w", err)
		}
		if !t.Exact {
			t.Type = v.Type
			if err := s.Resize(t, v.Shape); err != nil {
				return s.badInput(id, "%w", err)
			}
		}
		if v.Type == graph.String {
			if err := s.StoreTexts(values.BytesOf(t), v.Strings); err != nil {
				return s.badInput(id, "%w", err)
			}
			return nil
		}
		copyIn(values.BytesOf(t), v.Data)
		return nil
	}
	return fmt.Errorf("%q is no input of the model", graph.Short(name))
}

// copyIn copies the elements of an input. If they lie in a mapped file, such as that of the
// initial parameters, its pages are given back piece by piece.
func copyIn(to, from []byte) {
	for len(from) > constants.Piece {
		copyIn(to[:constants.Piece], from[:constants.Piece])
		to, from = to[constants.Piece:], from[constants.Piece:]
	}
	copy(to, from)
	mapped.Release(unsafe.Pointer(unsafe.SliceData(from)), len(from))
}

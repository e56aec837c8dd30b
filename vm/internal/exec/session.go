package exec

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
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

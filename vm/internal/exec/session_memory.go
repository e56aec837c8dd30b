package exec

import (
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/device"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

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
	if s.Options.Device == nil {
		s.Mem.Arena.Huge()
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
	if s.GPU, err = device.NewRoom(s.Options.Device, s.Program, &s.Mem, device.Libraries{NoBLAS: s.Options.NoBLAS, NoDNN: s.Options.NoDNN, Float32: s.Options.DNNFloat32, TF32: s.Options.TF32}); err != nil {
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

// sharesMemory reports whether the arena and the scratch of a session are those of all
// points.
func (s *Session) sharesMemory() bool { return s.outer != nil && s.outer.points.shared() }

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

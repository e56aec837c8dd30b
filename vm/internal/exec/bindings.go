package exec

import (
	"context"
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/pages"
	"github.com/onnxmem/onnxmem/vm/internal/program"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// mostBindings is the number of points for which a session keeps what it prepared.
const mostBindings = 32

// bindings are the points at which a session of a plan for ranges of dimensions has run. Each
// has a session of its own, with the types, the addresses, the kernels and the tape of its
// shapes. They share the workers, the scratch, gorgonia's machine, the program's constants,
// the room of the caches, the host pool, and an arena, whose address space is that of the largest lengths.
// They share the parameters and states, which have one type at all points.
type bindings struct {
	s      *Session   // that the caller has
	list   []*Session // the least recently used first; the last one ran last
	most   int        // sessions in the list
	bound  int        // sessions that were made so far
	arena  *pages.Room
	host   *store.Block // for tensors that are swapped out, with the bytes of the largest lengths; nil: none is
	open   int64        // bytes of the arena that may be touched, and are counted
	player *player      // of all tapes; nil: none was made yet
	record *Profile     // that the caller asked for; else nil
}

// newBindings reserves the arena. Guarded pages and separate tensors would take memory for
// each point, so a session with these prepares every new point again.
func newBindings(s *Session) (*bindings, error) {
	b := &bindings{s: s, most: mostBindings}
	if s.Options.Guard != lower.GuardOff || s.Options.Separate {
		b.most = 1
		return b, nil
	}
	if bytes := program.PoolBytes(s.Program.Plan, plan.Host); bytes > 0 {
		if s.Options.HostFile == "" {
			if err := s.Mem.Take(bytes); err != nil {
				return nil, s.overLimit(err, nil)
			}
		}
		var err error
		if b.host, err = store.NewHostBlock(s.Options.HostFile, bytes); err != nil {
			return nil, err
		}
	}
	var err error
	b.arena, err = pages.Reserve(program.PoolBytes(s.Program.Plan, plan.Arena))
	if err != nil {
		err = errors.Join(err, b.host.Free())
	}
	return b, err
}

// player returns the player of the tapes of all points; nil if there is none yet.
func (s *Session) player() *player {
	if s == nil {
		return nil
	}
	return s.points.player
}

// shared reports whether the points of a session have one arena and scratch.
func (b *bindings) shared() bool { return b.arena != nil }

// block returns the first bytes of the arena, which no other point uses now.
func (b *bindings) block(bytes int64) (*store.Block, error) {
	if bytes > b.open {
		if err := b.s.Mem.Take(bytes - b.open); err != nil {
			return nil, err
		}
		if err := b.arena.Open(bytes); err != nil {
			b.s.Mem.Give(bytes - b.open)
			return nil, err
		}
		b.open = bytes
	}
	return &store.Block{Bytes: b.arena.Bytes(bytes), Base: b.arena.At(), Shared: true}, nil
}

// lendHost gives the host pool to the session of a point.
func (b *bindings) lendHost(s *Session) {
	if b.host != nil {
		s.Mem.Host = &store.Block{Bytes: b.host.Bytes, Base: b.host.Base, Name: b.host.Name, Shared: true}
	}
}

// run runs the session of the inputs' shapes.
func (b *bindings) run(ctx context.Context, inputs map[string]values.Value) (map[string]values.Value, error) {
	s, err := b.bind(inputs)
	if err != nil {
		return nil, b.s.named(err)
	}
	if b.record != nil && s.watch.record != b.record {
		s.recordInto(b.record)
	}
	if err := s.GrowScratch(); err != nil { // another point has used it
		return nil, s.overLimit(err, s.Scratch.Largest)
	}
	if err := b.shape(s, inputs); err != nil {
		return nil, err
	}
	clear(b.s.states.fresh)
	if !b.shared() {
		if err := b.lend(s); err != nil {
			return nil, err
		}
	}
	s.Runs = b.s.Runs
	out, err := s.Run(ctx, inputs)
	b.s.Runs = s.Runs
	if err == nil && !b.shared() {
		err = b.takeBack(s)
	}
	return out, err
}

// bind returns the session of the inputs' shapes, and makes it if there is none.
func (b *bindings) bind(inputs map[string]values.Value) (*Session, error) {
	pr := b.s.Program
	dims, err := pr.PointFor(inputs)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(b.list, func(s *Session) bool { return s.Program.IsAt(dims) }); i >= 0 {
		s := b.list[i]
		if err := pr.CheckLengths(s.Program, inputs); err != nil {
			return nil, err
		}
		b.list = append(slices.Delete(b.list, i, i+1), s)
		return s, nil
	}
	at, err := pr.At(dims)
	if err != nil {
		return nil, err
	}
	if err := pr.CheckLengths(at, inputs); err != nil {
		return nil, err
	}
	if len(b.list) == b.most {
		if err := b.drop(); err != nil {
			return nil, err
		}
	}
	s, err := sessionOf(at, b.s.Options, b.s, nil)
	if err != nil {
		return nil, err
	}
	b.player, s.tape.owns = s.tape.player, false
	b.bound++
	b.list = append(b.list, s)
	return s, nil
}

// drop closes the session of the point that was not used for longest.
func (b *bindings) drop() error {
	s := b.list[0]
	b.list = slices.Delete(b.list, 0, 1)
	return s.Close()
}

// close closes the sessions of all points and frees what they share.
func (b *bindings) close() (err error) {
	if b == nil {
		return nil
	}
	for len(b.list) > 0 {
		err = errors.Join(err, b.drop())
	}
	if b.player != nil {
		err = errors.Join(err, b.player.close())
		b.player = nil
	}
	if b.arena != nil {
		err = errors.Join(err, b.arena.Release())
		b.arena = nil
	}
	err = errors.Join(err, b.host.Free())
	b.host = nil
	return err
}

// memory adds what the sessions of all points take.
func (b *bindings) memory(m *store.Memory) {
	m.ArenaBytes = b.open
	if b.host != nil {
		m.HostBytes = int64(len(b.host.Bytes))
	}
	if b.s.Scratch.Block != nil {
		m.ScratchBytes = int64(len(b.s.Scratch.Block.Bytes))
	}
	for _, s := range b.list {
		of := s.Memory()
		m.DynamicBytes += of.DynamicBytes
		m.TableBytes += of.TableBytes
		m.HeapBytes += of.HeapBytes
		m.SeparateBytes += of.SeparateBytes
		if !b.shared() {
			m.ScratchBytes = max(m.ScratchBytes, of.ScratchBytes)
		}
	}
}

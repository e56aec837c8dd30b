package exec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/store"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// poison is the pattern of a session.
func (s *Session) poison() store.Poison {
	if s.Options.Separate {
		return store.Enormous
	}
	return store.Signalling
}

// poisonScratch fills a kernel's shared scratch and that of each worker with poison
// before the kernel runs. A guarded session does so in useScratch.
func (s *Session) poisonScratch(st *lower.Step) {
	p, c := s.poison(), st.Call()
	if st.Device {
		s.gpu.SpoilScratch(p)
		return
	}
	p.Spoil(s.Scratch.Block.Bytes[:c.SharedBytes], 0)
	for k := range s.Pool.Workers() {
		off := s.Scratch.Shared + s.Scratch.Keep + k*s.Scratch.Each
		p.Spoil(s.Scratch.Block.Bytes[off:off+c.EachBytes], int64(off))
	}
}

// watcher checks the bytes of a session that are not live. It checks a buffer's bytes
// just before the buffer becomes live, and all dead bytes at the end of a run, so
// each dead byte is read once between two uses, whatever the number of nodes. A
// changed byte proves a stray write, but not which node made it: the run is then
// repeated, and all dead bytes are checked after each node.
type watcher struct {
	s         *Session
	order     []*plan.Buffer       // of the arena, by offset
	born      [][]*plan.Buffer     // by first step
	dying     [][]*plan.Buffer     // by the step after which nothing reads them
	until     map[*plan.Buffer]int // that step
	live      []*plan.Buffer       // at the step that runs, by offset
	everyStep bool                 // look at all dead bytes after each node
	dead      []*plan.Buffer       // buffers that have died and still hold their bytes
}

func newWatcher(s *Session) *watcher {
	steps := len(s.main.Steps)
	w := &watcher{s: s, born: make([][]*plan.Buffer, steps+1), dying: make([][]*plan.Buffer, steps+1), until: map[*plan.Buffer]int{}}
	read := map[string]int{}    // the last step at which a task reads a tensor, maybe after its last reader
	written := map[string]int{} // the first step at which a task writes a tensor, maybe before its maker
	for i, st := range s.main.Steps {
		if task := st.Task(); task != nil {
			for _, p := range task.Reads {
				if !p.Of.Const {
					read[p.Of.Name] = i
				}
			}
			for _, p := range task.Writes {
				if at, is := written[p.Of.Name]; !is || i < at {
					written[p.Of.Name] = i
				}
			}
		}
	}
	for i := range s.Program.Plan.Buffers {
		if b := &s.Program.Plan.Buffers[i]; b.Pool == plan.Arena && b.Bytes > 0 {
			w.order = append(w.order, b)
		}
	}
	slices.SortFunc(w.order, byOffset)
	for _, b := range w.order {
		first, last := min(b.First, steps), min(b.Last, steps)
		for _, t := range b.Tensors {
			last = max(last, read[t])
			if at, is := written[t]; is {
				first = min(first, at)
			}
		}
		w.born[first] = append(w.born[first], b)
		w.until[b] = last
		w.dying[last] = append(w.dying[last], b)
	}
	return w
}

func byOffset(a, b *plan.Buffer) int { return cmp.Compare(a.Offset, b.Offset) }

// begin poisons the arena before a run. The inputs are written afterwards.
func (w *watcher) begin() {
	w.dead = w.dead[:0]
	for _, b := range w.s.Mem.Own {
		w.spoil(b, 0, int64(len(b.Bytes)))
	}
	if len(w.s.Mem.Own) == 0 {
		w.spoil(w.s.Mem.Arena, 0, int64(len(w.s.Mem.Arena.Bytes)))
		w.live = append(w.live[:0], w.born[0]...)
	}
}

// spoil is poison.spoil of bytes [off, end) of a block, with polls for a stop. On a device
// it spoils its memory.
func (w *watcher) spoil(b *store.Block, off, end int64) {
	if w.s.gpu != nil {
		w.s.gpu.Spoil(b, off, end, w.s.poison())
		return
	}
	w.s.Pool.Steps(int(end-off), func(i, j int) { w.s.poison().Spoil(b.Bytes[off+int64(i):off+int64(j)], off+int64(i)) })
}

// firstChanged is poison.firstChanged of bytes [off, end) of a block, or of its device
// memory.
func (w *watcher) firstChanged(b *store.Block, off, end int64) int64 {
	if w.s.gpu != nil {
		return w.s.gpu.FirstChanged(b, off, end, w.s.poison())
	}
	k := int64(-1)
	w.s.Pool.Steps(int(end-off), func(i, j int) {
		if k < 0 {
			if k = w.s.poison().FirstChanged(b.Bytes[off+int64(i):off+int64(j)], off+int64(i)); k >= 0 {
				k += int64(i)
			}
		}
	})
	return k
}

// after checks, once a step has run, the buffers that become live at the next step,
// or all dead bytes after the last step, and poisons the buffers that die.
func (w *watcher) after(st *lower.Step, at int) error {
	if len(w.s.Mem.Own) > 0 {
		return w.checkMargins(st, at)
	}
	last := at == len(w.s.main.Steps)-1
	if last || w.everyStep {
		if err := w.check(st, at, 0, int64(len(w.s.Mem.Arena.Bytes))); err != nil || last {
			return err
		}
	} else {
		for _, b := range w.born[at+1] {
			if err := w.check(st, at, b.Offset, b.Offset+b.Bytes); err != nil {
				return err
			}
		}
	}
	w.dead = append(w.dead, w.dying[at]...)
	w.live = slices.DeleteFunc(w.live, func(b *plan.Buffer) bool { return w.until[b] <= at })
	for _, b := range w.dead {
		w.spoilBetween(b.Offset, b.Offset+b.Bytes)
	}
	w.dead = w.dead[:0]
	w.live = append(w.live, w.born[at+1]...)
	slices.SortFunc(w.live, byOffset)
	return nil
}

// spoilBetween spoils the bytes [from, end) of the arena, except those of live buffers: one
// of a group may lie where another that died within the group was.
func (w *watcher) spoilBetween(from, end int64) {
	for _, b := range w.live {
		if b.Offset >= end {
			break
		}
		if b.Offset > from {
			w.spoil(w.s.Mem.Arena, from, b.Offset)
		}
		from = max(from, b.Offset+b.Bytes)
	}
	if from < end {
		w.spoil(w.s.Mem.Arena, from, end)
	}
}

// unsure reports whether the error is a stray write whose node is unknown.
func (w *watcher) unsure(err error) bool {
	return w != nil && len(w.s.Mem.Own) == 0 && !w.everyStep && errors.Is(err, ErrStray)
}

// check fails if one of the bytes [from, end) of the arena is dead at a step and has
// changed.
func (w *watcher) check(st *lower.Step, at int, from, end int64) error {
	for _, b := range w.live {
		if b.Offset > from {
			if err := w.checkDead(st, at, from, min(b.Offset, end)); err != nil {
				return err
			}
		}
		if from = max(from, b.Offset+b.Bytes); from >= end {
			return nil
		}
	}
	return w.checkDead(st, at, from, end)
}

// checkDead fails if one of the bytes [from, end) of the arena, all dead, has changed.
func (w *watcher) checkDead(st *lower.Step, at int, from, end int64) error {
	if from >= end {
		return nil
	}
	k := w.firstChanged(w.s.Mem.Arena, from, end)
	switch {
	case k < 0:
		return nil
	case w.everyStep:
		return st.Wrap(fmt.Errorf("%w at step %d: byte %d of the arena, which holds nothing at that step%s", ErrStray, at, from+k, w.nearest(from+k)))
	}
	return st.Wrap(fmt.Errorf("%w at step %d or before it, not made again by a second run: byte %d of the arena, which holds nothing at that step%s", ErrStray, at, from+k, w.nearest(from+k)))
}

// nearest names a buffer that holds the byte at another step.
func (w *watcher) nearest(off int64) string {
	for _, b := range w.order {
		if b.Offset <= off && off < b.Offset+b.Bytes {
			name := "a workspace"
			if len(b.Tensors) > 0 {
				name = fmt.Sprintf("tensor %q", graph.Short(b.Tensors[0]))
			}
			return fmt.Sprintf(" (%s has it at steps %d-%d)", name, b.First, b.Last)
		}
	}
	return ""
}

// ownOf returns the block of separate tensors that holds t, or nil.
func (s *Session) ownOf(t *values.Tensor) *store.Block {
	for _, b := range s.Mem.Own {
		if uintptr(t.At)-uintptr(b.Base) < uintptr(len(b.Bytes)) {
			return b
		}
	}
	return nil
}

// checkMargins checks the bytes around each separate output of a node.
func (w *watcher) checkMargins(st *lower.Step, at int) error {
	for _, t := range st.Out {
		// Strings of known shape have a place in the side pool, without margins.
		if t == nil || t.Room == 0 || t.Const || t.Type == graph.String {
			continue
		}
		b := w.s.ownOf(t)
		if b == nil {
			continue
		}
		off := int64(uintptr(t.At) - uintptr(b.Base))
		for _, side := range []struct {
			from int64
			what string
		}{{off - lower.MarginBytes, "before"}, {off + t.Room, "behind"}} {
			if w.firstChanged(b, side.from, side.from+lower.MarginBytes) >= 0 {
				return st.Wrap(fmt.Errorf("%w at step %d: a byte %s tensor %q", ErrStray, at, side.what, graph.Short(t.Name)))
			}
		}
	}
	return nil
}

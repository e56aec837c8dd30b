package vm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// poison is an eight-byte pattern that fills bytes which nothing may read. signalling
// is a NaN as a float64 and as either float32, signalling in its lower half, and
// beyond every index as an integer. Sessions with separate tensors use enormous, a finite number, so that
// the two runs of a check differ if a kernel computes with poison.
type poison uint64

const (
	signalling poison = 0x7ff4_beef_7fa1_beef
	enormous   poison = 0x7e37_e43c_7e37_e43c // 6e37 as a float32, 8e299 as a float64
)

// poison is the pattern of a session.
func (s *Session) poison() poison {
	if s.opt.Separate {
		return enormous
	}
	return signalling
}

// at is the byte of the pattern at an offset of a block.
func (p poison) at(off int64) byte { return byte(p >> (off % 8 * 8)) }

// spoil fills b, which begins at offset off of its block, with poison.
func (p poison) spoil(b []byte, off int64) {
	n := min(len(b), 64)
	for i := range b[:n] {
		b[i] = p.at(off + int64(i))
	}
	for ; n < len(b); n *= 2 { // n is a multiple of 8, so the pattern continues
		copy(b[n:], b[:n])
	}
}

// firstChanged returns the index of the first byte that is no longer poison, or -1.
func (p poison) firstChanged(b []byte, off int64) int64 {
	i := 0
	for ; i < len(b) && (off+int64(i))%8 != 0; i++ {
		if b[i] != p.at(off+int64(i)) {
			return int64(i)
		}
	}
	for ; i+8 <= len(b) && *(*poison)(unsafe.Pointer(&b[i])) == p; i += 8 {
	}
	for ; i < len(b); i++ {
		if b[i] != p.at(off+int64(i)) {
			return int64(i)
		}
	}
	return -1
}

// poisonScratch fills a kernel's shared scratch and that of each worker with poison
// before the kernel runs. A guarded session does so in useScratch.
func (s *Session) poisonScratch(st *step) {
	p, c := s.poison(), st.call()
	if st.device {
		s.gpu.spoilScratch(p)
		return
	}
	p.spoil(s.scratch.block.m[:c.SharedBytes], 0)
	for k := range s.pool.Workers() {
		off := s.scratch.shared + s.scratch.keep + k*s.scratch.each
		p.spoil(s.scratch.block.m[off:off+c.EachBytes], int64(off))
	}
}

// ErrStray is wrapped by the error of a write outside of the node's own tensors.
var ErrStray = errors.New("stray write")

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
	steps := len(s.main.steps)
	w := &watcher{s: s, born: make([][]*plan.Buffer, steps+1), dying: make([][]*plan.Buffer, steps+1), until: map[*plan.Buffer]int{}}
	read := map[string]int{}
	for _, t := range s.main.tensors {
		if t != nil && t.readUntil > 0 {
			read[t.name] = int(t.readUntil)
		}
	}
	for i := range s.pr.p.Buffers {
		if b := &s.pr.p.Buffers[i]; b.Pool == plan.Arena && b.Bytes > 0 {
			w.order = append(w.order, b)
		}
	}
	slices.SortFunc(w.order, byOffset)
	for _, b := range w.order {
		w.born[min(b.First, steps)] = append(w.born[min(b.First, steps)], b)
		last := min(b.Last, steps)
		for _, t := range b.Tensors {
			last = max(last, read[t])
		}
		w.until[b] = last
		w.dying[last] = append(w.dying[last], b)
	}
	return w
}

func byOffset(a, b *plan.Buffer) int { return cmp.Compare(a.Offset, b.Offset) }

// begin poisons the arena before a run. The inputs are written afterwards.
func (w *watcher) begin() {
	w.dead = w.dead[:0]
	for _, b := range w.s.mem.own {
		w.spoil(b, 0, int64(len(b.m)))
	}
	if len(w.s.mem.own) == 0 {
		w.spoil(w.s.mem.arena, 0, int64(len(w.s.mem.arena.m)))
		w.live = append(w.live[:0], w.born[0]...)
	}
}

// spoil is poison.spoil of bytes [off, end) of a block, with polls for a stop. On a device
// it spoils its memory.
func (w *watcher) spoil(b *block, off, end int64) {
	if w.s.gpu != nil {
		w.s.gpu.spoil(b, off, end, w.s.poison())
		return
	}
	w.s.pool.Steps(int(end-off), func(i, j int) { w.s.poison().spoil(b.m[off+int64(i):off+int64(j)], off+int64(i)) })
}

// firstChanged is poison.firstChanged of bytes [off, end) of a block, or of its device
// memory.
func (w *watcher) firstChanged(b *block, off, end int64) int64 {
	if w.s.gpu != nil {
		return w.s.gpu.firstChanged(b, off, end, w.s.poison())
	}
	k := int64(-1)
	w.s.pool.Steps(int(end-off), func(i, j int) {
		if k < 0 {
			if k = w.s.poison().firstChanged(b.m[off+int64(i):off+int64(j)], off+int64(i)); k >= 0 {
				k += int64(i)
			}
		}
	})
	return k
}

// after checks, once a step has run, the buffers that become live at the next step,
// or all dead bytes after the last step, and poisons the buffers that die.
func (w *watcher) after(st *step, at int) error {
	if len(w.s.mem.own) > 0 {
		return w.checkMargins(st, at)
	}
	last := at == len(w.s.main.steps)-1
	if last || w.everyStep {
		if err := w.check(st, at, 0, int64(len(w.s.mem.arena.m))); err != nil || last {
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
	// What the nodes of a group on a device read must stay until their kernel runs, with
	// the last of them.
	if w.s.gpu == nil || st.fusedInto == nil {
		w.live = slices.DeleteFunc(w.live, func(b *plan.Buffer) bool { return w.until[b] <= at })
		for _, b := range w.dead {
			w.spoilBetween(b.Offset, b.Offset+b.Bytes)
		}
		w.dead = w.dead[:0]
	}
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
			w.spoil(w.s.mem.arena, from, b.Offset)
		}
		from = max(from, b.Offset+b.Bytes)
	}
	if from < end {
		w.spoil(w.s.mem.arena, from, end)
	}
}

// unsure reports whether the error is a stray write whose node is unknown.
func (w *watcher) unsure(err error) bool {
	return w != nil && len(w.s.mem.own) == 0 && !w.everyStep && errors.Is(err, ErrStray)
}

// check fails if one of the bytes [from, end) of the arena is dead at a step and has
// changed.
func (w *watcher) check(st *step, at int, from, end int64) error {
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
func (w *watcher) checkDead(st *step, at int, from, end int64) error {
	if from >= end {
		return nil
	}
	k := w.firstChanged(w.s.mem.arena, from, end)
	switch {
	case k < 0:
		return nil
	case w.everyStep:
		return st.wrap(fmt.Errorf("%w at step %d: byte %d of the arena, which holds nothing at that step%s", ErrStray, at, from+k, w.nearest(from+k)))
	}
	return st.wrap(fmt.Errorf("%w at step %d or before it, not made again by a second run: byte %d of the arena, which holds nothing at that step%s", ErrStray, at, from+k, w.nearest(from+k)))
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
func (s *Session) ownOf(t *tensor) *block {
	for _, b := range s.mem.own {
		if uintptr(t.At)-uintptr(b.base) < uintptr(len(b.m)) {
			return b
		}
	}
	return nil
}

// checkMargins checks the bytes around each separate output of a node.
func (w *watcher) checkMargins(st *step, at int) error {
	for _, t := range st.out {
		// Strings of known shape have a place in the side pool, without margins.
		if t == nil || t.room == 0 || t.Const || t.Type == graph.String {
			continue
		}
		b := w.s.ownOf(t)
		if b == nil {
			continue
		}
		off := int64(uintptr(t.At) - uintptr(b.base))
		for _, side := range []struct {
			from int64
			what string
		}{{off - marginBytes, "before"}, {off + t.room, "behind"}} {
			if w.firstChanged(b, side.from, side.from+marginBytes) >= 0 {
				return st.wrap(fmt.Errorf("%w at step %d: a byte %s tensor %q", ErrStray, at, side.what, graph.Short(t.name)))
			}
		}
	}
	return nil
}

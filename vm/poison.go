package vm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// poison fills bytes that nothing may read. It is a number that signals as a
// float32 and as a float64, and is far outside of any index as an integer. Where
// tensors lie apart, another one is used, which is finite: what a kernel makes
// of bytes that it must not read then differs between the two runs of a check.
type poison uint64

const (
	signalling poison = 0x7ff4_beef_7fa1_beef
	enormous   poison = 0x7e37_e43c_7e37_e43c // 6e37 as a float32, 8e299 as a float64
)

// poison is that of a session.
func (s *Session) poison() poison {
	if s.opt.Apart {
		return enormous
	}
	return signalling
}

// at is the byte of a block at an offset.
func (p poison) at(off int64) byte { return byte(p >> (off % 8 * 8)) }

// spoil fills bytes with poison; off is where they begin in their block.
func (p poison) spoil(b []byte, off int64) {
	n := min(len(b), 64)
	for i := range b[:n] {
		b[i] = p.at(off + int64(i))
	}
	for ; n < len(b); n *= 2 { // what is there is whole words, so the pattern goes on
		copy(b[n:], b[:n])
	}
}

// spoiled gives the first byte that is no poison any more, -1 if there is none.
func (p poison) spoiled(b []byte, off int64) int64 {
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

// spoilScratch fills what a kernel has asked for, of the scratch for all parts
// and of each worker's, before it runs: it may hold anything then. A guarded
// session does so by itself.
func (s *Session) spoilScratch(c *kernel.Invocation) {
	p := s.poison()
	p.spoil(s.scratch.m[:c.SharedBytes], 0)
	for k := range s.pool.Workers() {
		off := s.shared + k*s.each
		p.spoil(s.scratch.m[off:off+c.EachBytes], int64(off))
	}
}

// A write outside of the node's own tensors fails with an error that wraps ErrStray.
var ErrStray = errors.New("stray write")

// watcher watches the bytes of a session that are not live. What comes alive is
// looked at just before, and all that is dead at the end of a run: every dead
// byte is read once between two lives, whatever the number of nodes. A byte
// that changed tells of a stray write, but not whose it was; the run is then
// repeated, and all dead bytes are looked at after each node.
type watcher struct {
	s     *Session
	order []*plan.Buffer   // of the arena, by offset
	born  [][]*plan.Buffer // by first step
	dying [][]*plan.Buffer // by last step
	live  []*plan.Buffer   // at the step that runs, by offset
	each  bool             // look at all dead bytes after each node
}

func newWatcher(s *Session) *watcher {
	steps := len(s.main.steps)
	w := &watcher{s: s, born: make([][]*plan.Buffer, steps+1), dying: make([][]*plan.Buffer, steps+1)}
	for i := range s.pr.p.Buffers {
		if b := &s.pr.p.Buffers[i]; b.Pool == plan.Arena && b.Bytes > 0 {
			w.order = append(w.order, b)
		}
	}
	slices.SortFunc(w.order, byOffset)
	for _, b := range w.order {
		w.born[min(b.First, steps)] = append(w.born[min(b.First, steps)], b)
		w.dying[min(b.Last, steps)] = append(w.dying[min(b.Last, steps)], b)
	}
	return w
}

func byOffset(a, b *plan.Buffer) int { return cmp.Compare(a.Offset, b.Offset) }

// begin spoils all that is not live at step 0. Inputs are put in their places
// afterwards.
func (w *watcher) begin() {
	for _, b := range w.s.own {
		w.spoil(b.m, 0)
	}
	if len(w.s.own) == 0 {
		w.spoil(w.s.arena.m, 0)
		w.live = append(w.live[:0], w.born[0]...)
	}
}

// spoil is spoil, with polls.
func (w *watcher) spoil(b []byte, off int64) {
	w.s.pool.Steps(len(b), func(i, j int) { w.s.poison().spoil(b[i:j], off+int64(i)) })
}

// after looks, once a step has run, at the bytes that the next one brings to
// life, or at all dead ones after the last, and spoils what dies.
func (w *watcher) after(st *step, at int) error {
	if len(w.s.own) > 0 {
		return w.apart(st, at)
	}
	last := at == len(w.s.main.steps)-1
	if last || w.each {
		if err := w.look(st, at, 0, int64(len(w.s.arena.m))); err != nil || last {
			return err
		}
	} else {
		for _, b := range w.born[at+1] {
			if err := w.look(st, at, b.Offset, b.Offset+b.Bytes); err != nil {
				return err
			}
		}
	}
	for _, b := range w.dying[at] {
		w.spoil(w.s.arena.m[b.Offset:b.Offset+b.Bytes], b.Offset)
	}
	w.live = slices.DeleteFunc(w.live, func(b *plan.Buffer) bool { return b.Last <= at })
	w.live = append(w.live, w.born[at+1]...)
	slices.SortFunc(w.live, byOffset)
	return nil
}

// unsure reports whether a stray write was found, but not which node made it.
func (w *watcher) unsure(err error) bool {
	return w != nil && len(w.s.own) == 0 && !w.each && errors.Is(err, ErrStray)
}

// look finds the first of some bytes of the arena that is dead at a step and
// has changed.
func (w *watcher) look(st *step, at int, from, end int64) error {
	for _, b := range w.live {
		if b.Offset > from {
			if err := w.dead(st, at, from, min(b.Offset, end)); err != nil {
				return err
			}
		}
		if from = max(from, b.Offset+b.Bytes); from >= end {
			return nil
		}
	}
	return w.dead(st, at, from, end)
}

// dead holds bytes of the arena that nothing has against the pattern.
func (w *watcher) dead(st *step, at int, from, end int64) error {
	if from >= end {
		return nil
	}
	k := int64(-1)
	w.s.pool.Steps(int(end-from), func(i, j int) {
		if k < 0 {
			if k = w.s.poison().spoiled(w.s.arena.m[from+int64(i):from+int64(j)], from+int64(i)); k >= 0 {
				k += int64(i)
			}
		}
	})
	switch {
	case k < 0:
		return nil
	case w.each:
		return st.wrap(fmt.Errorf("%w at step %d: byte %d of the arena, which holds nothing at that step%s", ErrStray, at, from+k, w.nearest(from+k)))
	}
	return st.wrap(fmt.Errorf("%w at step %d or before it, not made again by a second run: byte %d of the arena, which holds nothing at that step%s", ErrStray, at, from+k, w.nearest(from+k)))
}

// nearest names a buffer that has the byte at another step.
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

// apart looks at the bytes around the storages of the outputs of a node.
func (w *watcher) apart(st *step, at int) error {
	for _, t := range st.out {
		if t == nil || t.room == 0 || t.Const {
			continue
		}
		for _, side := range []struct {
			from unsafe.Pointer
			what string
		}{{unsafe.Add(t.At, -marginBytes), "before"}, {unsafe.Add(t.At, t.room), "behind"}} {
			// A storage begins at a multiple of 64 bytes of its block.
			if k := w.s.poison().spoiled(unsafe.Slice((*byte)(side.from), marginBytes), 0); k >= 0 {
				return st.wrap(fmt.Errorf("%w at step %d: a byte %s tensor %q", ErrStray, at, side.what, graph.Short(t.name)))
			}
		}
	}
	return nil
}

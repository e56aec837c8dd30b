package vm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// poison is a number that signals as a float32 and as a float64, and is far
// outside of any index as an integer.
const poison = 0x7ff4_beef_7fa1_beef

var poisonWord = binary.LittleEndian.AppendUint64(nil, poison)

// spoil fills bytes with poison; off is where they begin in their block.
func spoil(b []byte, off int64) {
	for i := range b {
		b[i] = poisonWord[(off+int64(i))%8]
	}
}

// spoiled gives the first byte that is no poison any more, -1 if there is none.
func spoiled(b []byte, off int64) int64 {
	i := 0
	for ; i < len(b) && (off+int64(i))%8 != 0; i++ {
		if b[i] != poisonWord[(off+int64(i))%8] {
			return int64(i)
		}
	}
	for ; i+8 <= len(b) && *(*uint64)(unsafe.Pointer(&b[i])) == poison; i += 8 {
	}
	for ; i < len(b); i++ {
		if b[i] != poisonWord[(off+int64(i))%8] {
			return int64(i)
		}
	}
	return -1
}

// ErrStray is what a write where nothing of the node's own lies wraps.
var ErrStray = errors.New("stray write")

// guard watches the bytes of a session that are not live.
type guard struct {
	s     *Session
	order []*plan.Buffer // of the arena, by offset
}

func newGuard(s *Session) *guard {
	w := &guard{s: s}
	for i := range s.pr.p.Buffers {
		if b := &s.pr.p.Buffers[i]; b.Pool == plan.Arena && b.Bytes > 0 {
			w.order = append(w.order, b)
		}
	}
	slices.SortFunc(w.order, func(a, b *plan.Buffer) int { return cmp.Compare(a.Offset, b.Offset) })
	return w
}

// begin spoils all that is not live at step 0. Inputs are put in their places
// afterwards.
func (w *guard) begin() {
	for _, b := range w.s.own {
		spoil(b.m, 0)
	}
	if len(w.s.own) == 0 {
		spoil(w.s.arena.m, 0)
	}
}

// after looks at all bytes that are not live at a step once it has run, and
// spoils what dies there.
func (w *guard) after(st *step, at int) error {
	if len(w.s.own) > 0 {
		return w.apart(st, at)
	}
	free := int64(0)
	check := func(to int64) error {
		if to <= free {
			return nil
		}
		if k := spoiled(w.s.arena.m[free:to], free); k >= 0 {
			return st.wrap(fmt.Errorf("%w at step %d: byte %d of the arena, which holds nothing at that step%s", ErrStray, at, free+k, w.nearest(free+k)))
		}
		return nil
	}
	for _, b := range w.order {
		if b.First <= at && at <= b.Last {
			if err := check(b.Offset); err != nil {
				return err
			}
			free = max(free, b.Offset+b.Bytes)
		}
	}
	if err := check(int64(len(w.s.arena.m))); err != nil {
		return err
	}
	for _, b := range w.order {
		if b.Last == at && at < len(w.s.main.steps)-1 {
			spoil(w.s.arena.m[b.Offset:b.Offset+b.Bytes], b.Offset)
		}
	}
	return nil
}

// nearest names a buffer that has the byte at another step.
func (w *guard) nearest(off int64) string {
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
func (w *guard) apart(st *step, at int) error {
	for _, t := range st.out {
		if t == nil || t.room == 0 || t.Const {
			continue
		}
		for _, side := range []struct {
			from unsafe.Pointer
			what string
		}{{unsafe.Add(t.At, -guardBytes), "before"}, {unsafe.Add(t.At, t.room), "behind"}} {
			// A storage begins at a multiple of 64 bytes of its block.
			if k := spoiled(unsafe.Slice((*byte)(side.from), guardBytes), 0); k >= 0 {
				return st.wrap(fmt.Errorf("%w at step %d: a byte %s tensor %q", ErrStray, at, side.what, graph.Short(t.name)))
			}
		}
	}
	return nil
}

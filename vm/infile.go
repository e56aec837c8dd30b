package vm

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// window is the alignment of the pages that may become resident when one byte of them is
// read: Linux maps the 16 pages around it that are in its cache.
const window = 64 << 10

// inFile counts the pages of mapped files that the sessions of a program make resident. The
// system takes them back when it needs memory, so they do not count against the memory that
// is free.
type inFile struct {
	whole   []addresses              // constants that kernels read in place, in windows
	rows    map[unsafe.Pointer]int64 // bytes of the rows that kernels read of others
	counted int64                    // what is in the account, of sessions with a limit
}

// addresses is a range of addresses.
type addresses struct{ from, end uintptr }

// bytes is the sum.
func (f *inFile) bytes() int64 {
	sum := int64(0)
	for _, e := range f.whole {
		sum += int64(e.end - e.from)
	}
	for at, bytes := range f.rows {
		k, _ := slices.BinarySearchFunc(f.whole, uintptr(at), func(e addresses, at uintptr) int { return cmp.Compare(e.end, at+1) })
		if k == len(f.whole) || f.whole[k].from > uintptr(at) {
			sum += bytes
		}
	}
	return sum
}

// merge sorts the ranges and unites those that meet.
func (f *inFile) merge() {
	slices.SortFunc(f.whole, func(a, b addresses) int { return cmp.Compare(a.from, b.from) })
	list := f.whole[:0]
	for _, e := range f.whole {
		if n := len(list); n > 0 && e.from <= list[n-1].end {
			list[n-1].end = max(list[n-1].end, e.end)
			continue
		}
		list = append(list, e)
	}
	f.whole = list
}

// countInFile counts what the session's kernels read in mapped files: the constant inputs
// that they have not packed. It fails if a MemoryLimit is given and they exceed what is left
// of it. A device, or a guard, has copies of the constants.
func (s *Session) countInFile() error {
	if s.gpu != nil || s.mem.Guard != nil {
		return nil
	}
	return s.consts.countInFile(s.readInFile, s.opt.bound())
}

// readInFile calls found for each constant that some kernel of the session reads in place,
// with the bytes that it makes resident at most.
func (s *Session) readInFile(found func(t *kernel.Tensor, bytes int64)) {
	for _, f := range s.frames {
		for _, st := range f.steps {
			if st.absorbed() || st.readsNothing() {
				continue
			}
			reads := func(i int, t *kernel.Tensor, packed []*kernel.Tensor) {
				if t != nil && t.Const && !slices.Contains(packed, t) && !st.hasPacked(t) {
					found(t, st.bytesRead(i, t))
				}
			}
			for i, t := range st.in {
				reads(i, t.kernels(), st.packed())
			}
			if j := st.has().joined; j != nil {
				for i, t := range j.call.In {
					reads(i, t, j.call.Packed)
				}
			}
		}
	}
}

// source is a part of a constant that a kernel has packed.
type source struct {
	at    unsafe.Pointer
	bytes int64
}

// packs notes what the step's kernel has packed.
func (st *step) packs(k form.PackKey) {
	if k.At == nil || slices.ContainsFunc(st.has().sources, func(s source) bool { return s.at == k.At }) {
		return
	}
	if bytes, err := k.Type.SizeBytes(units.Mul(int64(k.Len), int64(k.K))); err == nil {
		own := st.own()
		own.sources = append(own.sources, source{k.At, bytes})
	}
}

// hasPacked reports whether the step's kernel has packed all of a constant.
func (st *step) hasPacked(t *kernel.Tensor) bool {
	left := int64(t.Bytes())
	for _, s := range st.has().sources {
		if uintptr(s.at)-uintptr(t.At) < uintptr(t.Bytes()) {
			left -= s.bytes
		}
	}
	return left <= 0
}

// unpackedMore is by how much more of mapped files would be resident if the session's kernels
// had packed nothing.
func (s *Session) unpackedMore() int64 {
	from := map[unsafe.Pointer]int64{}
	for _, f := range s.frames {
		for _, st := range f.steps {
			if st == nil {
				continue
			}
			for _, x := range st.has().sources {
				from[x.at] = max(from[x.at], x.bytes)
			}
		}
	}
	c := s.consts
	c.mu.Lock()
	defer c.mu.Unlock()
	more := c.inFile.bytes() - c.fileBytes()
	for at, bytes := range from {
		if mapped.Holds(at) {
			more += bytes
		}
	}
	return more
}

// readsNothing reports whether a step reads no bytes in a run: its output is a shape, or a
// constant.
func (st *step) readsNothing() bool {
	return ops.OfShape(st.n()) || len(st.out) == 1 && st.out[0] != nil && st.out[0].Const
}

// bytesRead is how much a step makes resident of its constant input i in one run. A node that
// reads rows of a table reads no more rows than it writes.
func (st *step) bytesRead(i int, t *kernel.Tensor) int64 {
	all := int64(t.Bytes())
	if i > 0 || len(st.out) == 0 || st.out[0] == nil || !st.out[0].exact || !ops.ReadsRows(st.n()) {
		return all
	}
	out := &st.out[0].Tensor
	row := 1 // elements side by side in both
	for k := 1; k <= min(len(t.Shape), len(out.Shape)) && t.Shape[len(t.Shape)-k] == out.Shape[len(out.Shape)-k]; k++ {
		row *= t.Shape[len(t.Shape)-k]
	}
	if row == 0 || out.Len() == 0 {
		return 0
	}
	rows := int64(out.Len() / row)
	each := (int64(out.Bytes())/rows+window-1)/window*window + window // it may begin and end within windows
	return min(all, units.Mul(rows, each))
}

// countInFile adds the constants that a session reads in place.
func (c *constants) countInFile(read func(found func(t *kernel.Tensor, bytes int64)), within store.Bound) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &c.inFile
	read(func(t *kernel.Tensor, bytes int64) {
		switch {
		case bytes == 0 || !mapped.Holds(t.At):
		case bytes < int64(t.Bytes()):
			if f.rows == nil {
				f.rows = map[unsafe.Pointer]int64{}
			}
			f.rows[t.At] = max(f.rows[t.At], bytes)
		default:
			from := uintptr(t.At)
			f.whole = append(f.whole, addresses{from / window * window, (from + uintptr(bytes) + window - 1) / window * window})
		}
	})
	f.merge()
	more := c.fileBytes() - f.counted
	if within.Limit <= 0 || more <= 0 {
		return nil
	}
	if err := c.mem.Within(more, within); err != nil {
		return err
	}
	f.counted += more
	return nil
}

// fileBytes is how much of mapped files is resident at most: what kernels read in place and,
// while a session is built, two pieces of what they pack.
func (c *constants) fileBytes() int64 { return max(c.inFile.bytes(), min(c.packed, 2*dropAfter)) }

package constants

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Window is the alignment of the pages that may become resident when one byte of them is
// read: Linux maps the 16 pages around it that are in its cache.
const Window = 64 << 10

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

// CountInFile adds the constants that a session reads in place.
func (c *Set) CountInFile(read func(found func(t *kernel.Tensor, bytes int64)), within store.Bound) error {
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
			f.whole = append(f.whole, addresses{from / Window * Window, (from + uintptr(bytes) + Window - 1) / Window * Window})
		}
	})
	f.merge()
	more := c.fileBytes() - f.counted
	if within.Limit <= 0 || more <= 0 {
		return nil
	}
	if err := c.Mem.Within(more, within); err != nil {
		return err
	}
	f.counted += more
	return nil
}

// fileBytes is how much of mapped files is resident at most: what kernels read in place and,
// while a session is built, two pieces of what they pack.
func (c *Set) fileBytes() int64 { return max(c.inFile.bytes(), min(c.packed, 2*Piece)) }

// UnpackedMore is by how much more of mapped files would be resident if kernels had packed nothing.
// from has the bytes that they packed, by where they begin.
func (c *Set) UnpackedMore(from map[unsafe.Pointer]int64) int64 {
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

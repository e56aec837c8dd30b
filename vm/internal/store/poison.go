package store

import (
	"errors"
	"unsafe"
)

// Poison is an eight-byte pattern that fills bytes which nothing may read. signalling
// is a NaN as a float64 and as either float32, signalling in its lower half, and
// beyond every index as an integer. Sessions with separate tensors use enormous, a finite number, so that
// the two runs of a check differ if a kernel computes with poison.
type Poison uint64

const (
	Signalling Poison = 0x7ff4_beef_7fa1_beef
	Enormous   Poison = 0x7e37_e43c_7e37_e43c // 6e37 as a float32, 8e299 as a float64
)

// At is the byte of the pattern at an offset of a block.
func (p Poison) At(off int64) byte { return byte(p >> (off % 8 * 8)) }

// Spoil fills b, which begins at offset off of its block, with poison.
func (p Poison) Spoil(b []byte, off int64) {
	n := min(len(b), 64)
	for i := range b[:n] {
		b[i] = p.At(off + int64(i))
	}
	for ; n < len(b); n *= 2 { // n is a multiple of 8, so the pattern continues
		copy(b[n:], b[:n])
	}
}

// FirstChanged returns the index of the first byte that is no longer poison, or -1.
func (p Poison) FirstChanged(b []byte, off int64) int64 {
	i := 0
	for ; i < len(b) && (off+int64(i))%8 != 0; i++ {
		if b[i] != p.At(off+int64(i)) {
			return int64(i)
		}
	}
	for ; i+8 <= len(b) && *(*Poison)(unsafe.Pointer(&b[i])) == p; i += 8 {
	}
	for ; i < len(b); i++ {
		if b[i] != p.At(off+int64(i)) {
			return int64(i)
		}
	}
	return -1
}

// ErrStray is wrapped by the error of a write outside of the node's own tensors.
var ErrStray = errors.New("stray write")

package gemm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// shiftingBytes holds the arguments of the functions that lay bytes of an image tap by tap:
// those of shifting for a strip of 16 columns. Package asm addresses the fields by their
// offsets.
type shiftingBytes struct {
	dst             *byte
	src             unsafe.Pointer // of the first channel
	tap, first, end *shift         // where to begin, and the taps of a channel
	count           int            // depths, 1 or more
	srcStep         int            // bytes from one channel to the next
	pad             byte           // what lies outside of the image
}

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(shiftingBytes{}.count) ^ 40 | unsafe.Offsetof(shiftingBytes{}.srcStep) ^ 48 | unsafe.Offsetof(shiftingBytes{}.pad) ^ 56)

//go:noescape
func shiftBytes1AVX512(p *shiftingBytes)

//go:noescape
func shiftBytes2AVX512(p *shiftingBytes)

// layShifted is lay for the strips that shifts accepts, where AVX-512 masks bytes; it
// reports whether it wrote this one.
func (m *ByteImage) layShifted(stage []byte, first, k, deep int) bool {
	if deep == 0 || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512VL || !m.shifts(integerColumns, first) {
		return false
	}
	taps := m.taps()
	volume, _ := m.strides()
	var list [mostShifts]shift
	m.fillShifts(&list, first, integerColumns, m.corner(first), 1)
	p := shiftingBytes{
		dst: &stage[:deep*integerColumns][0], src: unsafe.Add(m.At, k/taps*volume), tap: &list[k%taps], first: &list[0],
		end:   (*shift)(unsafe.Add(unsafe.Pointer(&list), taps*int(unsafe.Sizeof(shift{})))),
		count: deep, srcStep: volume, pad: byte(m.Zero),
	}
	if m.Stride[2] == 1 {
		shiftBytes1AVX512(&p)
	} else {
		shiftBytes2AVX512(&p)
	}
	return true
}

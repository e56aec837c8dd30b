package gemm

import "unsafe"

//go:noescape
func largestRowsAVX512(dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step int)

//go:noescape
func sumRowsAVX512(dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step int)

//go:noescape
func largestAlong1AVX512(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, evens *[16]int32)

//go:noescape
func largestAlong2AVX512(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, evens *[16]int32)

//go:noescape
func sumAlong1AVX512(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, evens *[16]int32)

//go:noescape
func sumAlong2AVX512(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, evens *[16]int32)

// joinRows joins count rows of an image, 1 or more, to as many vectors as there are masks.
// The first begins off bytes after src, and they are step bytes apart.
func joinRows(sum bool, dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step int) {
	if sum {
		sumRowsAVX512(dst, src, off, masks, vectors, count, step)
		return
	}
	largestRowsAVX512(dst, src, off, masks, vectors, count, step)
}

// joinAlong joins taps of a row, which are step bytes apart, for vectors of outputs; last is
// the mask of the last.
func joinAlong(sum bool, stride int, dst, src unsafe.Pointer, vectors, taps, step int, last uint64) {
	switch {
	case sum && stride == 1:
		sumAlong1AVX512(dst, src, vectors, taps, step, last, &evens)
	case sum:
		sumAlong2AVX512(dst, src, vectors, taps, step, last, &evens)
	case stride == 1:
		largestAlong1AVX512(dst, src, vectors, taps, step, last, &evens)
	default:
		largestAlong2AVX512(dst, src, vectors, taps, step, last, &evens)
	}
}

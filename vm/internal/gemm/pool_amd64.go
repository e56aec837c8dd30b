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

//go:noescape
func largestRowsAVX2(dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step int)

//go:noescape
func sumRowsAVX2(dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step int)

//go:noescape
func largestAlong1AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64)

//go:noescape
func largestAlong2AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64)

//go:noescape
func sumAlong1AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64)

//go:noescape
func sumAlong2AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64)

// joinRows joins count rows of an image, 1 or more, to as many vectors as there are masks.
// The first begins off bytes after src, and they are step bytes apart.
func joinRows(sum bool, dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step int) {
	switch wide := chosen == avx512; {
	case sum && wide:
		sumRowsAVX512(dst, src, off, masks, vectors, count, step)
	case sum:
		sumRowsAVX2(dst, src, off, masks, vectors, count, step)
	case wide:
		largestRowsAVX512(dst, src, off, masks, vectors, count, step)
	default:
		largestRowsAVX2(dst, src, off, masks, vectors, count, step)
	}
}

// joinAlong joins taps of a row, which are step bytes apart, for vectors of outputs; last is
// the mask of the last.
func joinAlong(sum bool, stride int, dst, src unsafe.Pointer, vectors, taps, step int, last uint64) {
	if chosen == avx2 {
		switch {
		case sum && stride == 1:
			sumAlong1AVX2(dst, src, vectors, taps, step, last)
		case sum:
			sumAlong2AVX2(dst, src, vectors, taps, step, last)
		case stride == 1:
			largestAlong1AVX2(dst, src, vectors, taps, step, last)
		default:
			largestAlong2AVX2(dst, src, vectors, taps, step, last)
		}
		return
	}
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

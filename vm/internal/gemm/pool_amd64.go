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
func largestRowsAVX2(dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step, results, dstNext, srcNext int)

//go:noescape
func sumRowsAVX2(dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step, results, dstNext, srcNext int)

//go:noescape
func largestAlong1AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, rows, dstNext, srcNext int)

//go:noescape
func largestAlong2AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, rows, dstNext, srcNext int)

//go:noescape
func sumAlong1AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, rows, dstNext, srcNext int)

//go:noescape
func sumAlong2AVX2(dst, src unsafe.Pointer, vectors, taps, step int, last uint64, rows, dstNext, srcNext int)

// joinRows joins count rows of an image, 1 or more, to as many vectors as there are masks.
// The first begins off bytes after src, and they are step bytes apart. There are so many
// results: the next one is written dstNext bytes behind the one before, and its rows are
// srcNext bytes behind those of that.
func joinRows(sum bool, dst, src unsafe.Pointer, off int, masks *uint16, vectors, count, step, results, dstNext, srcNext int) {
	if chosen == avx2 && sum {
		sumRowsAVX2(dst, src, off, masks, vectors, count, step, results, dstNext, srcNext)
		return
	}
	if chosen == avx2 {
		largestRowsAVX2(dst, src, off, masks, vectors, count, step, results, dstNext, srcNext)
		return
	}
	for r := range results {
		if sum {
			sumRowsAVX512(unsafe.Add(dst, r*dstNext), src, off+r*srcNext, masks, vectors, count, step)
		} else {
			largestRowsAVX512(unsafe.Add(dst, r*dstNext), src, off+r*srcNext, masks, vectors, count, step)
		}
	}
}

// joinAlong joins taps of rows, which are step bytes apart, for vectors of outputs; last is
// the mask of the last vector. The rows and their results are srcNext and dstNext apart.
func joinAlong(sum bool, stride int, dst, src unsafe.Pointer, vectors, taps, step int, last uint64, rows, dstNext, srcNext int) {
	if chosen == avx2 {
		switch {
		case sum && stride == 1:
			sumAlong1AVX2(dst, src, vectors, taps, step, last, rows, dstNext, srcNext)
		case sum:
			sumAlong2AVX2(dst, src, vectors, taps, step, last, rows, dstNext, srcNext)
		case stride == 1:
			largestAlong1AVX2(dst, src, vectors, taps, step, last, rows, dstNext, srcNext)
		default:
			largestAlong2AVX2(dst, src, vectors, taps, step, last, rows, dstNext, srcNext)
		}
		return
	}
	for r := range rows {
		to, from := unsafe.Add(dst, r*dstNext), unsafe.Add(src, r*srcNext)
		switch {
		case sum && stride == 1:
			sumAlong1AVX512(to, from, vectors, taps, step, last, &evens)
		case sum:
			sumAlong2AVX512(to, from, vectors, taps, step, last, &evens)
		case stride == 1:
			largestAlong1AVX512(to, from, vectors, taps, step, last, &evens)
		default:
			largestAlong2AVX512(to, from, vectors, taps, step, last, &evens)
		}
	}
}

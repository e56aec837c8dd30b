package gemm

import "unsafe"

//go:noescape
func nibblesAVX2x1(p *nibblePanel)

//go:noescape
func nibblesAVX2x4(p *nibblePanel)

//go:noescape
func nibbleBytesAVX2x1(p *nibblePanel)

//go:noescape
func nibbleBytesAVX2x4(p *nibblePanel)

//go:noescape
func nibblesAVX512x1(p *nibblePanel)

//go:noescape
func nibblesAVX512x2(p *nibblePanel)

//go:noescape
func nibblesAVX512x4(p *nibblePanel)

//go:noescape
func nibblesAVX512x8(p *nibblePanel)

//go:noescape
func nibbleBytesVNNIx1(p *nibblePanel)

//go:noescape
func nibbleBytesVNNIx2(p *nibblePanel)

//go:noescape
func nibbleBytesVNNIx4(p *nibblePanel)

//go:noescape
func nibbleBytesVNNIx8(p *nibblePanel)

//go:noescape
func nibbleTileAVX2(rows, columns, scales, sums *float32, chunks, halves int)

//go:noescape
func nibbleTileAVX512(rows, columns, scales, sums *float32, chunks, halves int)

//go:noescape
func widenNibblesAVX2(dst *float32, numbers, zeros *byte, halves, step int)

//go:noescape
func widenNibblesAVX512(dst *float32, numbers, zeros *byte, halves, step int)

// The offsets that package asm relies on: any other offset does not compile.
const _ = -(unsafe.Offsetof(nibblePanel{}.numbers) ^ 8 | unsafe.Offsetof(nibblePanel{}.scales) ^ 16 | unsafe.Offsetof(nibblePanel{}.zeros) ^ 24 |
	unsafe.Offsetof(nibblePanel{}.tile) ^ 32 | unsafe.Offsetof(nibblePanel{}.rowScales) ^ 40 | unsafe.Offsetof(nibblePanel{}.sums) ^ 48 |
	unsafe.Offsetof(nibblePanel{}.blocks) ^ 56 | unsafe.Offsetof(nibblePanel{}.chunks) ^ 64 | unsafe.Offsetof(nibblePanel{}.halves) ^ 72 |
	unsafe.Offsetof(nibblePanel{}.strip) ^ 80 | unsafe.Offsetof(nibblePanel{}.lines) ^ 88)

// wideNibbles reports whether the micro-kernels of AVX-512 are in use.
func wideNibbles(whole bool) bool { return chosen == avx512 && !whole || whole && vnni() }

// nibbleRows is the number of rows of the largest micro-kernel.
func nibbleRows(whole bool) int {
	switch {
	case wideNibbles(whole):
		return mostNibbleRows
	case chosen == plain:
		return 1
	}
	return 4
}

// nibbleWidth is the number of columns of the micro-kernel for m rows.
func nibbleWidth(m int, whole bool) int {
	switch {
	case wideNibbles(whole):
		return nibbleStrip * min(8/m, 4)
	case m == 4:
		return nibbleStrip / 2
	}
	return nibbleStrip
}

// run calls the micro-kernel for m rows.
func (w *nibblePanel) run(m int, whole bool) {
	if chosen == plain {
		w.plain(whole)
		return
	}
	switch {
	case wideNibbles(whole) && whole:
		switch m {
		case 1:
			nibbleBytesVNNIx1(w)
		case 2:
			nibbleBytesVNNIx2(w)
		case 4:
			nibbleBytesVNNIx4(w)
		default:
			nibbleBytesVNNIx8(w)
		}
	case wideNibbles(whole):
		switch m {
		case 1:
			nibblesAVX512x1(w)
		case 2:
			nibblesAVX512x2(w)
		case 4:
			nibblesAVX512x4(w)
		default:
			nibblesAVX512x8(w)
		}
	case whole && m == 4:
		nibbleBytesAVX2x4(w)
	case whole:
		nibbleBytesAVX2x1(w)
	case m == 4:
		nibblesAVX2x4(w)
	default:
		nibblesAVX2x1(w)
	}
}

// nibbleTile adds the products of a group of rows with a strip of columns that were widened
// to sums, chunk by chunk.
func nibbleTile(rows, columns, scales, sums *float32, chunks, halves int) {
	if chosen == avx512 {
		nibbleTileAVX512(rows, columns, scales, sums, chunks, halves)
		return
	}
	nibbleTileAVX2(rows, columns, scales, sums, chunks, halves)
}

// widenNibbles writes the numbers of 16 columns less their zero points, at 16·halves depths
// that are step bytes apart.
func widenNibbles(dst *float32, numbers, zeros *byte, halves, step int) {
	if chosen == avx512 {
		widenNibblesAVX512(dst, numbers, zeros, halves, step)
		return
	}
	widenNibblesAVX2(dst, numbers, zeros, halves, step)
}

package gemm

import "unsafe"

//go:noescape
func weighHalvesAVX2(p *blockSliding, boxes *blockBox, count int)

//go:noescape
func weighBlocksAVX2(p *blockSliding, boxes *blockBox, count int)

//go:noescape
func largestBlocksAVX2(p *blockSliding, boxes *blockBox, count int)

//go:noescape
func averageBlocksAVX2(p *blockSliding, boxes *blockBox, count int)

//go:noescape
func weighBlocksAVX512(p *blockSliding, boxes *blockBox, count int)

//go:noescape
func largestBlocksAVX512(p *blockSliding, boxes *blockBox, count int)

//go:noescape
func averageBlocksAVX512(p *blockSliding, boxes *blockBox, count int)

//go:noescape
func sumBlocksAVX2(sums *[BlockLen]float64, src unsafe.Pointer, n int)

//go:noescape
func sumBlocksAVX512(sums *[BlockLen]float64, src unsafe.Pointer, n int)

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(blockSliding{}.taps) ^ 24 | unsafe.Offsetof(blockSliding{}.bias) ^ 32 | unsafe.Offsetof(blockSliding{}.flag) ^ 40 | unsafe.Offsetof(blockSliding{}.high) ^ 52 |
	unsafe.Offsetof(blockBox{}.taps) ^ 16 | unsafe.Offsetof(blockBox{}.columns) ^ 32 | unsafe.Offsetof(blockBox{}.pixels) ^ 48 | unsafe.Offsetof(blockBox{}.srcNext) ^ 64 |
	unsafe.Offsetof(blockBox{}.srcStep) ^ 80 | unsafe.Offsetof(blockBox{}.stride) ^ 88 | unsafe.Offsetof(blockBox{}.divisor) ^ 92 | unsafe.Sizeof(blockBox{}) ^ 96)

// run computes boxes.
func (p *blockSliding) run(join Join, half bool, boxes []blockBox) {
	first, n := &boxes[0], len(boxes)
	switch wide := chosen == avx512; {
	case half:
		weighHalvesAVX2(p, first, n)
	case join == Weigh && wide:
		weighBlocksAVX512(p, first, n)
	case join == Weigh:
		weighBlocksAVX2(p, first, n)
	case join == Average && wide:
		averageBlocksAVX512(p, first, n)
	case join == Average:
		averageBlocksAVX2(p, first, n)
	case wide:
		largestBlocksAVX512(p, first, n)
	default:
		largestBlocksAVX2(p, first, n)
	}
}

// sumBlocks adds up n pixels, a multiple of 16 that is not 0.
func sumBlocks(sums *[BlockLen]float64, src unsafe.Pointer, n int) {
	if chosen == avx512 {
		sumBlocksAVX512(sums, src, n)
	} else {
		sumBlocksAVX2(sums, src, n)
	}
}

package simd

import "unsafe"

// BoxBlock is eight boxes: their y1, their x1, their y2 and their x2. A box of NaN meets
// no box.
type BoxBlock [4][8]float32

// Meeting returns the index of the first block with a box that may meet box, which holds
// y1, x1, y2 and x2: along both axes, each begins before the other ends. It returns
// len(blocks) if there is none.
func Meeting(blocks []BoxBlock, box *[4]float32) int {
	if available && len(blocks) > 0 {
		return meetingAVX2((*float32)(unsafe.Pointer(&blocks[0])), len(blocks), &box[0])
	}
	for i := range blocks {
		b := &blocks[i]
		for k := range 8 {
			if b[0][k] < box[2] && b[1][k] < box[3] && box[0] < b[2][k] && box[1] < b[3][k] {
				return i
			}
		}
	}
	return len(blocks)
}

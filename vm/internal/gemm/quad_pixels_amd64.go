package gemm

import "unsafe"

//go:noescape
func quadTiles12x16VNNI(p *quadTiles)

//go:noescape
func quadTiles9x16VNNI(p *quadTiles)

//go:noescape
func quadTiles6x16VNNI(p *quadTiles)

//go:noescape
func quadTiles3x16VNNI(p *quadTiles)

//go:noescape
func quadTiles1x16VNNI(p *quadTiles)

//go:noescape
func quadTiles12x32VNNI(p *quadTiles)

//go:noescape
func quadTiles9x32VNNI(p *quadTiles)

//go:noescape
func quadTiles6x32VNNI(p *quadTiles)

//go:noescape
func quadTiles3x32VNNI(p *quadTiles)

//go:noescape
func quadTiles1x32VNNI(p *quadTiles)

//go:noescape
func weigh1QuadsVNNI(p *quadWeighing)

//go:noescape
func weigh1QuadsTwiceVNNI(p *quadWeighing)

//go:noescape
func weigh2QuadsVNNI(p *quadWeighing)

//go:noescape
func weigh2QuadsTwiceVNNI(p *quadWeighing)

// Any other offset does not compile.
const (
	_ = -(unsafe.Offsetof(quadTiles{}.src) ^ 8 | unsafe.Offsetof(quadTiles{}.step) ^ 16 | unsafe.Offsetof(quadTiles{}.deltas) ^ 32 |
		unsafe.Offsetof(quadTiles{}.count) ^ 40 | unsafe.Offsetof(quadTiles{}.weights) ^ 48 | unsafe.Offsetof(quadTiles{}.scales) ^ 64 |
		unsafe.Offsetof(quadTiles{}.tiles) ^ 72 | unsafe.Offsetof(quadTiles{}.mask) ^ 80 | unsafe.Offsetof(quadTiles{}.words) ^ 88 |
		unsafe.Offsetof(quadTiles{}.flip) ^ 90)
	_ = -(unsafe.Offsetof(quadWeighing{}.count) ^ 8 | unsafe.Offsetof(quadWeighing{}.block) ^ 16 | unsafe.Offsetof(quadWeighing{}.channel) ^ 32 |
		unsafe.Offsetof(quadWeighing{}.quads) ^ 40 | unsafe.Offsetof(quadWeighing{}.step) ^ 48 | unsafe.Offsetof(quadWeighing{}.size) ^ 64 |
		unsafe.Offsetof(quadWeighing{}.words) ^ 72 | unsafe.Offsetof(quadWeighing{}.flip) ^ 74 | unsafe.Offsetof(quadWeighing{}.outFlip) ^ 75)
	_ = -(unsafe.Offsetof(quadSegment{}.second) ^ 8 | unsafe.Offsetof(quadSegment{}.step) ^ 16 | unsafe.Offsetof(quadSegment{}.taps) ^ 24 |
		unsafe.Offsetof(quadSegment{}.pixels) ^ 32 | unsafe.Sizeof(quadSegment{}) ^ 40)
)

// run calls the function for tiles of so many pixels and columns.
func (p *quadTiles) run(rows, columns int) {
	two := columns > integerColumns
	switch { // a function in a variable would move p to the heap
	case rows == 12 && two:
		quadTiles12x32VNNI(p)
	case rows == 12:
		quadTiles12x16VNNI(p)
	case rows == 9 && two:
		quadTiles9x32VNNI(p)
	case rows == 9:
		quadTiles9x16VNNI(p)
	case rows == 6 && two:
		quadTiles6x32VNNI(p)
	case rows == 6:
		quadTiles6x16VNNI(p)
	case rows == 3 && two:
		quadTiles3x32VNNI(p)
	case rows == 3:
		quadTiles3x16VNNI(p)
	case two:
		quadTiles1x32VNNI(p)
	default:
		quadTiles1x16VNNI(p)
	}
}

// run calls the function for so many rows of the output, and 64 channels of each pixel or 32 of two.
func (p *quadWeighing) run(rows int, twice bool) {
	switch {
	case rows == 2 && twice:
		weigh2QuadsTwiceVNNI(p)
	case rows == 2:
		weigh2QuadsVNNI(p)
	case twice:
		weigh1QuadsTwiceVNNI(p)
	default:
		weigh1QuadsVNNI(p)
	}
}

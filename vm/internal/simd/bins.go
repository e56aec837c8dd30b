package simd

import "unsafe"

// Bins are the bins of a region of an image, whose means of bilinear samples Means computes for some
// planes: rows of up to 16 bins, with a list of Samples for each row.
type Bins struct {
	Dst       unsafe.Pointer // the first bin
	Plane     unsafe.Pointer
	Samples   *Samples // Rows times Each
	Rows      int
	Each      int // samples of a bin
	Planes    int
	PlaneStep int     // bytes from a plane to the next
	DstStep   int     // bytes between the bins of two planes
	RowStep   int     // bytes between two rows of bins
	Read      uint32  // a bit for each element that may be read of those from Top or Bottom on
	Write     uint32  // a bit for each bin of a row
	Total     float32 // what the sums are divided by
}

// Samples are a sample of each bin of a row, between four elements of a plane: two of a row of the
// image and two of another. Weights are those of top left, top right, bottom left and bottom right.
type Samples struct {
	Top, Bottom int       // bytes from the plane to the first of 32 elements of the rows
	Left, Right [16]int32 // which of the elements
	Weights     [4][16]float32
}

package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// What attention operators do to a row of scores before its softmax.

// capScores replaces each x by most·tanh(x/most), unless most is 0.
func capScores(c *Invocation, row []float32, most float32) {
	if most == 0 {
		return
	}
	for from, to := range c.Pieces(len(row)) {
		for j, x := range row[from:to] {
			row[from+j] = most * float32(math.Tanh(float64(x/most)))
		}
	}
}

// addScores adds the first elements of a list.
func addScores(c *Invocation, row, list []float32) {
	for from, to := range c.Pieces(len(row)) {
		simd.Add(row[from:to], row[from:to], list[from:to])
	}
}

// addToScores adds one number.
func addToScores(c *Invocation, row []float32, x float32) {
	for from, to := range c.Pieces(len(row)) {
		simd.AddScalar(row[from:to], row[from:to], x)
	}
}

// addToUnseen adds a number to the scores of keys of which a mask has 0.
func addToUnseen(c *Invocation, row []float32, mask []int32, x float32) {
	for from, to := range c.Pieces(len(row)) {
		for j, seen := range mask[from:to] {
			if seen <= 0 {
				row[from+j] += x
			}
		}
	}
}

// rowOfScores is the row of a tensor that fits scores, for query i of head h.
func rowOfScores(t *Tensor, b, h, i int) []float32 {
	s := t.Shape
	line := (min(b, s[0]-1)*s[1]+min(h, s[1]-1))*s[2] + i
	return span[float32](element[float32](t, line*s[3]), s[3])
}

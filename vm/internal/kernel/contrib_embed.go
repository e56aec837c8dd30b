package kernel

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// makeEmbedLayerNorm normalizes the sums of rows of tables. Output 1 is the number of ones in
// the mask of each sequence, as ONNX Runtime's kernel counts whatever mask_index_type is; output 2
// are the sums.
func makeEmbedLayerNorm(c *Invocation) (Run, error) {
	f, err := c.Embed()
	if err != nil {
		return nil, err
	}
	for _, t := range []*Tensor{f.Words, f.Positions, f.Segments, f.Scale, f.Shift} {
		if t != nil && t.Type != graph.Float32 {
			return nil, unsupported(t.Type)
		}
	}
	n := f.Hidden
	out := c.Out[0]
	row := func(t *Tensor, at int) []float32 { return span[float32](element[float32](t, at*n), n) }
	part := func(i, _ int) {
		place := i % f.Length
		if f.Places != nil {
			place = int(data[int32](f.Places)[i%f.Places.Len()])
		}
		d, words, places := row(out, i), row(f.Words, int(data[int32](f.IDs)[i])), row(f.Positions, place)
		for from, to := range c.Pieces(n) {
			simd.Add(d[from:to], words[from:to], places[from:to])
			if f.Segments != nil {
				simd.Add(d[from:to], d[from:to], row(f.Segments, int(data[int32](f.Parts)[i]))[from:to])
			}
			if c.HasOut(2) {
				copy(row(c.Out[2], i)[from:to], d[from:to])
			}
		}
		mean, inverse := moments(c, d, float64(f.Epsilon))
		for from, to := range c.Pieces(n) {
			r := d[from:to]
			simd.Standardize(r, r, mean, inverse)
			simd.Mul(r, r, data[float32](f.Scale)[from:to])
			simd.Add(r, r, data[float32](f.Shift)[from:to])
		}
	}
	return func(w *work.Pool) error {
		for _, t := range []struct {
			i         int
			at, table *Tensor
		}{{0, f.IDs, f.Words}, {1, f.Parts, f.Segments}, {8, f.Places, f.Positions}} {
			if t.at == nil {
				continue
			}
			for k, at := range data[int32](t.at) {
				if k&form.Often == 0 {
					c.Poll()
				}
				if at < 0 || int(at) >= t.table.Shape[0] {
					return fmt.Errorf("input %d: element %d is %d, expected one in [0, %d)", t.i, k, at, t.table.Shape[0])
				}
			}
		}
		if c.HasOut(1) {
			countOnes(c, data[int32](c.Out[1]), f.Mask)
		}
		w.For(f.Batch*f.Length, part)
		return nil
	}, nil
}

// countOnes sets d to the number of ones in each row of a mask, or to 0 without one.
func countOnes(c *Invocation, d []int32, mask *Tensor) {
	fillAll(c, d, 0)
	if mask == nil || len(d) == 0 {
		return
	}
	length := mask.Len() / len(d)
	m := c.Meter()
	for b := range d {
		m.Add(length)
		for _, v := range data[int32](mask)[b*length : (b+1)*length] {
			if v == 1 {
				d[b]++
			}
		}
	}
}

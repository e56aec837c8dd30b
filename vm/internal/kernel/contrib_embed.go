package kernel

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// EmbedForm is what the inputs of an EmbedLayerNormalization node of ONNX Runtime say: each
// token is the sum of a row of Words, one of Positions and, if there are any, one of Segments.
type EmbedForm struct {
	Batch, Length, Hidden      int
	IDs, Places, Parts         *Tensor // int32 rows of the three tables; Places and Parts may be nil
	Words, Positions, Segments *Tensor
	Scale, Shift               *Tensor
	Mask                       *Tensor // of the ones in each sequence, output 1 has the number; may be nil
	Epsilon                    float32
}

// Embed reads the form of an EmbedLayerNormalization node.
func (c *Invocation) Embed() (*EmbedForm, error) {
	f := &EmbedForm{
		IDs: c.In[0], Words: c.in(2), Positions: c.in(3), Scale: c.in(5), Shift: c.in(6), Mask: c.in(7), Places: c.in(8),
		Epsilon: c.Float("epsilon", 1e-12),
	}
	if f.Words == nil || f.Positions == nil || f.Scale == nil || f.Shift == nil {
		return nil, fmt.Errorf("an input from 2 to 6 is missing: expected tables of words and positions, scale and shift")
	}
	if c.Has(1) && c.Has(4) {
		f.Parts, f.Segments = c.In[1], c.In[4]
	}
	f.Batch, f.Length, f.Hidden = f.IDs.Shape[0], f.IDs.Shape[1], f.Words.Shape[1]
	same := f.IDs.Shape
	for _, t := range []struct {
		i    int
		t    *Tensor
		want []int
	}{{1, f.Parts, same}, {3, f.Positions, nil}, {4, f.Segments, nil}, {5, f.Scale, []int{f.Hidden}}, {6, f.Shift, []int{f.Hidden}}, {7, f.Mask, same}, {8, f.Places, same}} {
		switch {
		case t.t == nil:
			continue
		case t.want == nil && t.t.rank() == 2 && t.t.Shape[1] == f.Hidden, slices.Equal(t.t.Shape, t.want),
			t.i == 8 && slices.Equal(t.t.Shape, []int{1, f.Length}):
		default:
			return nil, fmt.Errorf("input %d has shape %v, expected %v, or rows of %d elements", t.i, t.t.Shape, t.want, f.Hidden)
		}
	}
	for _, t := range []*Tensor{f.IDs, f.Parts, f.Mask, f.Places} {
		if t != nil && t.Type != graph.Int32 {
			return nil, unsupported(t.Type)
		}
	}
	if f.Places == nil && f.Length > f.Positions.Shape[0] {
		return nil, fmt.Errorf("input 3 has %d positions, expected one for each of %d tokens", f.Positions.Shape[0], f.Length)
	}
	return f, nil
}

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
		for from, to := range c.pieces(n) {
			simd.Add(d[from:to], words[from:to], places[from:to])
			if f.Segments != nil {
				simd.Add(d[from:to], d[from:to], row(f.Segments, int(data[int32](f.Parts)[i]))[from:to])
			}
			if c.HasOut(2) {
				copy(row(c.Out[2], i)[from:to], d[from:to])
			}
		}
		mean, inverse := moments(c, d, float64(f.Epsilon))
		for from, to := range c.pieces(n) {
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
				if k&often == 0 {
					c.poll()
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
	m := meter{c: c}
	for b := range d {
		m.add(length)
		for _, v := range data[int32](mask)[b*length : (b+1)*length] {
			if v == 1 {
				d[b]++
			}
		}
	}
}

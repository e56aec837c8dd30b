package form

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Embed is what the inputs of an EmbedLayerNormalization node of ONNX Runtime say: each
// token is the sum of a row of Words, one of Positions and, if there are any, one of Segments.
type Embed struct {
	Batch, Length, Hidden      int
	IDs, Places, Parts         *Tensor // int32 rows of the three tables; Places and Parts may be nil
	Words, Positions, Segments *Tensor
	Scale, Shift               *Tensor
	Mask                       *Tensor // of the ones in each sequence, output 1 has the number; may be nil
	Epsilon                    float32
}

// Embed reads the form of an EmbedLayerNormalization node.
func (c *Call) Embed() (*Embed, error) {
	f := &Embed{
		IDs: c.In[0], Words: c.Input(2), Positions: c.Input(3), Scale: c.Input(5), Shift: c.Input(6), Mask: c.Input(7), Places: c.Input(8),
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
		case t.want == nil && t.t.Rank() == 2 && t.t.Shape[1] == f.Hidden, slices.Equal(t.t.Shape, t.want),
			t.i == 8 && slices.Equal(t.t.Shape, []int{1, f.Length}):
		default:
			return nil, fmt.Errorf("input %d has shape %v, expected %v, or rows of %d elements", t.i, t.t.Shape, t.want, f.Hidden)
		}
	}
	for _, t := range []*Tensor{f.IDs, f.Parts, f.Mask, f.Places} {
		if t != nil && t.Type != graph.Int32 {
			return nil, Unsupported(t.Type)
		}
	}
	if f.Places == nil && f.Length > f.Positions.Shape[0] {
		return nil, fmt.Errorf("input 3 has %d positions, expected one for each of %d tokens", f.Positions.Shape[0], f.Length)
	}
	return f, nil
}

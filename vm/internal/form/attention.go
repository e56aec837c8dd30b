package form

import (
	"math"
)

// HeadLayout is the layout of queries, keys or values: the strides, in elements, from
// one batch, head and position to the next. The elements of one position are
// contiguous.
type HeadLayout struct{ Batch, Head, Position int }

// HeadsFirst is the layout [batch heads positions size].
func HeadsFirst(count, positions, size int) HeadLayout {
	return HeadLayout{count * positions * size, positions * size, size}
}

// PositionsFirst is the layout [batch positions heads·size].
func PositionsFirst(count, positions, size int) HeadLayout {
	return HeadLayout{count * positions * size, size, count * size}
}

// HeadsIn returns the layout of input i, which is PositionsFirst with three axes, and
// HeadsFirst with four. The attribute gives the number of heads that share three axes.
func (c *Call) HeadsIn(i int, attr string) (h HeadLayout, count, positions, size int) {
	return c.In[i].heads(c.Int(attr, 0))
}

// heads returns the layout of a tensor of heads; shared is their number if it has three axes.
func (t *Tensor) heads(shared int) (h HeadLayout, count, positions, size int) {
	s := t.Shape
	if len(s) == 4 {
		return HeadsFirst(s[1], s[2], s[3]), s[1], s[2], s[3]
	}
	return PositionsFirst(shared, s[1], s[2]/shared), shared, s[1], s[2] / shared
}

// Attention is what the shapes and attributes of an Attention node say. Its heads of
// queries share those of keys and values in groups of Heads/KVHeads. Keys are Past ones,
// if any, and then Fresh ones.
type Attention struct {
	Batch, Heads, KVHeads int
	Queries, Past, Fresh  int        // positions
	Size, ValueSize       int        // of queries and keys; of values
	Q, Key, Value, Y      HeadLayout // of inputs 0 to 2 and output 0
	Scale, Cap            float32    // scores are scaled, and capped unless Cap is 0
	Causal                bool
	Left, Right           int // keys that are seen before and after a query's own; -1: all
	Stage                 int // of the scores in output 3: 0 scaled, 1 capped, 2 masked, 3 softmax

	MaskSteps [3]int // strides of the mask (input 3) by batch, head and query
	MaskWidth int    // number of keys that the mask is for
}

// Keys is the number of keys, of the past and new ones.
func (f *Attention) Keys() int { return f.Past + f.Fresh }

// Attention reads the form of an Attention node.
func (c *Call) Attention() *Attention {
	f := &Attention{
		Batch: c.In[0].Shape[0], Cap: c.Float("softcap", 0), Causal: c.Int("is_causal", 0) != 0, Stage: c.Int("qk_matmul_output_mode", 0),
	}
	f.Q, f.Heads, f.Queries, f.Size = c.HeadsIn(0, "q_num_heads")
	f.Key, f.KVHeads, f.Fresh, _ = c.HeadsIn(1, "kv_num_heads")
	f.Value, _, _, f.ValueSize = c.HeadsIn(2, "kv_num_heads")
	f.Y = HeadsFirst(f.Heads, f.Queries, f.ValueSize)
	if c.In[0].Rank() == 3 {
		f.Y = PositionsFirst(f.Heads, f.Queries, f.ValueSize)
	}
	if c.Has(4) {
		f.Past = c.In[4].Shape[2]
	}
	f.Scale = c.Float("scale", float32(1/math.Sqrt(float64(max(f.Size, 1)))))
	widest := f.Queries + f.Keys() // a wider window has no effect
	f.Left, f.Right = max(-1, min(c.Int("left_window_size", -1), widest)), max(-1, min(c.Int("right_window_size", -1), widest))
	if m := c.Input(3); m != nil {
		f.MaskWidth = m.Shape[m.Rank()-1]
		n := f.MaskWidth
		for i := range m.Rank() - 1 {
			k := m.Shape[m.Rank()-2-i]
			if k != 1 {
				f.MaskSteps[2-i] = n
			}
			n *= k
		}
	}
	return f
}

// Rotary is what the shapes and attributes of a RotaryEmbedding node say. The cosines
// and sines of a line are those of Half angles, one for each pair of elements of a head.
// The line is the place in the batch or, with IDs, the position that they hold: of each
// place, or, if First, of the first place of each sequence.
type Rotary struct {
	Cosines, Sines, IDs  *Tensor // IDs may be nil
	Batch, Heads, Places int
	Layout               HeadLayout // of input 0 and the output
	Size, Half, Lines    int
	First, Interleaved   bool
	shared, Position     int
}

// Rotary reads the form of a RotaryEmbedding node of ai.onnx.
func (c *Call) Rotary() *Rotary {
	return c.rotary(&Rotary{Cosines: c.In[1], Sines: c.In[2], IDs: c.Input(3), shared: c.Int("num_heads", 0), Position: 3})
}

// rotary completes a form that has the inputs and the number of heads that share three axes.
func (c *Call) rotary(f *Rotary) *Rotary {
	x := c.In[0]
	f.Batch, f.Interleaved = x.Shape[0], c.Int("interleaved", 0) != 0
	f.Layout, f.Heads, f.Places, f.Size = x.heads(f.shared)
	if f.Half = c.Int("rotary_embedding_dim", 0) / 2; f.Half == 0 {
		f.Half = f.Size / 2
	}
	f.Lines = f.Cosines.Len() / f.Half
	f.First = f.IDs != nil && f.IDs.Rank() == 1 && f.Batch*f.Places != 0
	return f
}

// Ends is the number of positions that IDs may hold, from 0 on.
func (f *Rotary) Ends() int {
	if f.First {
		return f.Lines - f.Places + 1
	}
	return f.Lines
}

// FitsScores reports whether a tensor has a row for each query of each head of each element
// of the batch; both of these axes may have one row for all.
func (t *Tensor) FitsScores(batch, heads, queries int) bool {
	s := t.Shape
	return len(s) == 4 && (s[0] == 1 || s[0] == batch) && (s[1] == 1 || s[1] == heads) && s[2] == queries
}

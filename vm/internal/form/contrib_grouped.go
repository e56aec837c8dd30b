package form

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Grouped is what the shapes and attributes of a GroupQueryAttention node of ONNX Runtime
// say. Its heads of queries share those of keys and values. The inputs are queries, keys and
// values, or all of them in one, and past keys and values. For each element of the batch
// follows the number of its keys less 1, then the largest of these numbers. Cosines and sines
// turn queries and new keys. The last are positions, what is added to the scores, and a score
// without a value for each head.
//
// A step is the first one if there are no more keys in all than new ones. Past keys are
// not attended to then. Outputs 1 and 2 are past and new keys and values. If they have room
// for no more positions than the past, they may be the same memory, and positions behind the
// new ones stay as they were; else there are zeros.
type Grouped struct {
	Batch, Queries       int
	Heads, KVHeads, Size int
	Past, Room           int        // positions of the past, and in the outputs for keys and values
	Q, K, V              HeadLayout // the new ones; if In[1] is omitted, they lie in input 0 in turn
	Scale, Cap           float32    // scores are scaled, and capped unless Cap is 0
	Causal               bool
	Window               int  // keys that a query sees, its own included; 0: all
	Turns                bool // queries and new keys are turned
	Interleaved          bool // the elements of a pair that is turned are neighbours
	Smooth               bool // there is a score of 0 without a value; input 11 has others
}

// GroupedAttention reads the form of a GroupQueryAttention node.
func (c *Call) GroupedAttention() (*Grouped, error) {
	x := c.In[0]
	switch {
	case c.Int("sliding_window_cache", 0) != 0:
		return nil, Unsupportedf("sliding_window_cache")
	case c.Has(12) || c.Has(13) || c.Has(3) && c.In[3].Type != x.Type:
		return nil, Unsupportedf("quantized past keys and values (k_quant_type, v_quant_type)")
	case c.Has(14) || c.Has(15):
		return nil, Unsupportedf("norms of queries and keys (inputs 14 and 15)")
	case c.HasOut(3):
		return nil, Unsupportedf("scores as an output (qk_output)")
	case c.Has(3) != c.Has(4):
		return nil, fmt.Errorf("past keys without past values: expected both or none of inputs 3 and 4")
	case !c.Has(5) || !c.Has(6):
		return nil, fmt.Errorf("inputs 5 and 6 are the numbers of keys: expected both")
	}
	f := &Grouped{
		Batch: x.Shape[0], Queries: x.Shape[1], Heads: c.Int("num_heads", 0), KVHeads: c.Int("kv_num_heads", 0),
		Scale: c.Float("scale", 0), Cap: max(0, c.Float("softcap", 0)), Causal: c.Int("causal", 1) != 0, Window: max(0, c.Int("local_window_size", -1)),
		Turns: c.Int("do_rotary", 0) != 0, Interleaved: c.Int("rotary_interleaved", 0) != 0, Smooth: c.Int("smooth_softmax", 0) == 1,
	}
	wide := x.Shape[2]
	if c.Has(1) {
		f.Size = wide / f.Heads
		shape := []int{f.Batch, f.Queries, f.KVHeads * f.Size}
		for i := 1; i < 3; i++ {
			if !slices.Equal(c.In[i].Shape, shape) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v: as many positions as queries", i, c.In[i].Shape, shape)
			}
		}
		f.Q = PositionsFirst(f.Heads, f.Queries, f.Size)
		f.K = PositionsFirst(f.KVHeads, f.Queries, f.Size)
	} else {
		f.Size = wide / (f.Heads + 2*f.KVHeads)
		f.Q = HeadLayout{f.Queries * wide, f.Size, wide}
		f.K = f.Q
	}
	f.V = f.K
	if f.Scale == 0 {
		f.Scale = float32(1 / math.Sqrt(float64(max(f.Size, 1))))
	}
	if c.Has(3) {
		f.Past = c.In[3].Shape[2]
		for i := 3; i < 5; i++ {
			if want := []int{f.Batch, f.KVHeads, f.Past, f.Size}; !slices.Equal(c.In[i].Shape, want) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v", i, c.In[i].Shape, want)
			}
		}
	}
	f.Room = f.Past + f.Queries
	for i := 1; i < 3; i++ {
		if c.HasOut(i) {
			f.Room = c.Out[i].Shape[2]
		}
	}
	if c.In[5].Len() != f.Batch || c.In[6].Len() != 1 || c.In[5].Type != graph.Int32 || c.In[6].Type != graph.Int32 {
		return nil, fmt.Errorf("inputs 5 and 6 have shapes %v and %v, expected a number of keys for each of %d elements of the batch, and one for all", c.In[5].Shape, c.In[6].Shape, f.Batch)
	}
	if !f.Causal && f.Window > 0 {
		return nil, fmt.Errorf("local_window_size is %d, expected -1 where causal is 0", f.Window)
	}
	if b := c.Input(10); b != nil && !b.FitsScores(f.Batch, f.Heads, f.Queries) {
		return nil, fmt.Errorf("input 10 has shape %v, expected [%d or 1, %d or 1, %d, keys]", b.Shape, f.Batch, f.Heads, f.Queries)
	}
	if s := c.Input(11); s != nil && s.Len() != f.Heads {
		return nil, fmt.Errorf("input 11 has shape %v, expected %d scores, one for each head", s.Shape, f.Heads)
	}
	if !f.Turns {
		return f, nil
	}
	cos, sin, ids := c.Input(7), c.Input(8), c.Input(9)
	switch {
	case cos == nil || sin == nil:
		return nil, fmt.Errorf("do_rotary is 1, but inputs 7 and 8 are missing: expected cosines and sines")
	case cos.Rank() != 2 || !slices.Equal(cos.Shape, sin.Shape) || 2*cos.Shape[1] > f.Size:
		return nil, fmt.Errorf("input 7 has shape %v and input 8 %v: expected positions and pairs, as many in both, and at most %d elements in the pairs", cos.Shape, sin.Shape, f.Size)
	case ids != nil && (ids.Type != graph.Int64 || ids.Len() != f.Batch*f.Queries):
		return nil, fmt.Errorf("input 9 has shape %v, expected [%d %d], a position for each query", ids.Shape, f.Batch, f.Queries)
	}
	return f, nil
}

package form

// FlashAttention is what the shapes and attributes of an attention that keeps no scores, or of
// its gradient, say: q [Batch, Heads, Queries, Size], k [Batch, Groups, Size, Keys], v [Batch,
// Groups, Keys, ValueSize]. Heads/Groups heads of queries share one of keys and values.
type FlashAttention struct {
	Batch, Heads, Groups int
	Queries, Keys        int
	Size, ValueSize      int
	Scale, Fill          float32 // Fill takes the place of scores that keep (input 4) does not keep
	Safe                 bool    // weights that are NaN are 0
	BiasSteps, KeepSteps [4]int  // strides of inputs 3 and 4 by batch, head, query and key
	OneBias, AllKept     bool    // there is one element for all scores
}

// FlashAttention reads the form of the node.
func (c *Call) FlashAttention() *FlashAttention {
	q, k, v := c.In[0].Shape, c.In[1].Shape, c.In[2].Shape
	f := &FlashAttention{
		Batch: q[0], Heads: q[1], Groups: k[1], Queries: q[2], Keys: k[3], Size: q[3], ValueSize: v[3],
		Scale: c.Float("scale", 1), Fill: c.Float("fill", 0), Safe: c.Int("safe", 0) != 0,
	}
	f.BiasSteps, f.KeepSteps = broadcastSteps(c.In[3].Shape), broadcastSteps(c.In[4].Shape)
	f.OneBias, f.AllKept = c.In[3].Len() == 1, c.In[4].Len() == 1
	return f
}

// broadcastSteps are the strides with which a tensor broadcasts to four axes.
func broadcastSteps(shape []int) (steps [4]int) {
	n := 1
	for i := range shape {
		a := len(shape) - 1 - i
		if shape[a] != 1 {
			steps[3-i] = n
		}
		n *= shape[a]
	}
	return steps
}

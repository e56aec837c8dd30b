package ops

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// contribAttentions are ONNX Runtime's attention operators.
var contribAttentions = family{"com.microsoft", []Op{
	{Name: "Attention", Class: Product, Precision: Half, Infer: projectedAttention(0, 4), FLOPs: projectedFLOPs, Weights: []int{1, 2}, Kinds: []string{"product", "bias"}, Biases: []int{2}},
	{Name: "QAttention", Class: Product, Infer: projectedAttention(2, 8), FLOPs: projectedFLOPs},
	{Name: "DecoderMaskedSelfAttention", Class: Product, Precision: Half, Infer: projectedAttention(0, 4), FLOPs: projectedFLOPs},
	{Name: "PackedAttention", Class: Product, Precision: Half, Infer: packedAttention},
	{Name: "MultiHeadAttention", Class: Product, Precision: Half, Infer: multiHeadAttention(6, 8), FLOPs: scoredFLOPs},
	{Name: "DecoderMaskedMultiHeadAttention", Class: Product, Precision: Half, Infer: multiHeadAttention(5, -1), FLOPs: scoredFLOPs},
	{Name: "PackedMultiHeadAttention", Class: Product, Precision: Half, Infer: packedMultiHeadAttention},
	{Name: "GroupQueryAttention", Class: Product, Precision: Half, Updates: true, Infer: groupQueryAttention, Inplace: overPast, FLOPs: scoredFLOPs},
	{Name: "SparseAttention", Class: Product, Precision: Half, Infer: sparseAttention},
	{Name: "LongformerAttention", Class: Product, Precision: Half, Infer: longformerAttention},
	{Name: "LinearAttention", Class: Product, Precision: Half, Infer: linearAttention},
	{Name: "RotaryEmbedding", Class: Other, Infer: rotaryEmbedding(2, 3, 1), Inplace: overFirst, FLOPs: perElement(3)},
	{Name: "MRotaryEmbedding", Class: Other, Infer: multiRotaryEmbedding, Inplace: overFirst, FLOPs: perElement(3)},
	{Name: "GemmaRotaryEmbedding", Class: Other, Infer: gemmaRotaryEmbedding},
}}

// valueSize is the hidden size of the value in merged weights [input q+k+v]: a
// third, or the last of qkv_hidden_sizes.
func valueSize(c *Call) (graph.Dim, error) {
	merged := c.DimOf(1, 1)
	if len(c.Ints("qkv_hidden_sizes")) > 0 {
		sizes, err := attr.List(c.Node, "qkv_hidden_sizes", 3, 1, 1)
		if err != nil {
			return 0, err
		}
		if sum := graph.Dim(sizes[0] + sizes[1] + sizes[2]); differ(sum, merged) {
			return 0, c.BadInput(1, "%s columns, as many as qkv_hidden_sizes %d states", sum, sizes)
		}
		return graph.Dim(sizes[2]), nil
	}
	third, ok := DivDim(merged, 3)
	if !ok {
		return 0, c.BadInput(1, "a multiple of 3 columns: query, key and value")
	}
	return third, nil
}

// projectedAttention covers Attention and its variants, which first multiply the
// input [batch sequence input] by the merged weights. The result has the element
// type of input elem; the state [2 batch heads total size] grows by the sequence
// unless past and present share a buffer.
func projectedAttention(elem, past int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(max(elem, 1) + 1); err != nil {
			return err
		}
		if err := c.WantRank(0, 3); err != nil {
			return err
		}
		if err := c.WantShape(1, "a row per element of the last axis of input 0", c.DimOf(0, 2), graph.Unknown); err != nil {
			return err
		}
		if err := c.WantShape(2, "a bias per column of input 1", c.DimOf(1, 1)); err != nil {
			return err
		}
		count, err := c.Positive("num_heads", 0)
		if err != nil {
			return err
		}
		hidden, err := valueSize(c)
		if err != nil {
			return err
		}
		size, ok := DivDim(hidden, count)
		if !ok {
			return c.Errf("num_heads is %d, expected a divisor of the hidden size %s", count, hidden)
		}
		batch, seq := c.DimOf(0, 0), c.DimOf(0, 1)
		state := []graph.Dim{2, batch, graph.Dim(count), graph.Unknown, size}
		if err := c.WantShape(past, "2, batch, heads, past, head size", state...); err != nil {
			return err
		}
		c.Set(0, c.In[elem].Elem, []graph.Dim{batch, seq, hidden})
		switch {
		case !c.Has(past):
			state[3] = seq
		case c.Int("past_present_share_buffer", 0) != 0:
			state[3] = c.DimOf(past, 3)
		default:
			state[3] = AddDims(c.DimOf(past, 3), seq)
		}
		c.Set(1, c.In[elem].Elem, state)
		return nil
	}
}

// projectedFLOPs counts the multiply-adds of the projection, and of a query and
// key, and scores and value, without a past.
func projectedFLOPs(c *Call) int64 {
	projection := MulDims(elements(c.Arg(0).Type), c.DimOf(1, 1))
	scores := MulDims(elements(c.OutType(0)), MulDims(c.DimOf(0, 1), 2))
	return opCount(2, AddDims(projection, scores))
}

// scoredFLOPs counts the multiply-adds of query and key, and of scores and value.
// The number of keys is that of the present if it is an output, else the number
// of places of the query or the key.
func scoredFLOPs(c *Call) int64 {
	keys := c.DimOf(0, 1)
	switch present := c.OutType(1); {
	case len(present.Shape) == 4:
		keys = present.Shape[2]
	case c.Has(1) && c.In[1].Rank() == 4:
		keys = c.DimOf(1, 2)
	case c.Has(1):
		keys = c.DimOf(1, 1)
	}
	return opCount(2, elements(c.OutType(0)), keys, 2)
}

// packedAttention covers PackedAttention: tokens without padding.
func packedAttention(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.WantRank(0, 2); err != nil {
		return err
	}
	if err := c.WantShape(1, "a row per element of the last axis of input 0", c.DimOf(0, 1), graph.Unknown); err != nil {
		return err
	}
	hidden, err := valueSize(c)
	if err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(0, 0), hidden})
	return nil
}

// multiHeadAttention covers MultiHeadAttention and its decoder's form. Query
// [batch sequence hidden], or all three packed [batch sequence heads 3 size]; key
// [batch kv hidden], or key and value packed [batch kv heads 2 size], or the past
// itself [batch heads kv size]. The past is input past; the input shared, or the
// attribute past_present_share_buffer, says that it has room for the present. The
// fourth output, the scores, has its declared type.
func multiHeadAttention(past, shared int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(1); err != nil {
			return err
		}
		if err := c.WantRank(0, 3, 5); err != nil {
			return err
		}
		count, err := c.Positive("num_heads", 0)
		if err != nil {
			return err
		}
		elem := c.In[0].Elem
		batch, seq := c.DimOf(0, 0), c.DimOf(0, 1)
		key, value, err := keyAndValue(c, count)
		if err != nil {
			return err
		}
		if differ(batch, key.batch) {
			return c.BadInput(1, "batch %s to match input 0 %s", batch, graph.ShapeString(c.In[0].Shape))
		}
		total := key.seq
		switch {
		case !c.Has(past):
		case shared >= 0 && c.Has(shared) || c.Int("past_present_share_buffer", 0) != 0 || c.Arg(1).Rank() == 4:
			total = c.DimOf(past, 2)
		default:
			total = AddDims(c.DimOf(past, 2), key.seq)
		}
		for i, h := range []heads{key, value} {
			if err := c.WantShape(past+i, "batch, heads, past, head size", batch, h.count, graph.Unknown, h.size); err != nil {
				return err
			}
			c.Set(1+i, elem, heads{batch, h.count, total, h.size}.fourAxes())
		}
		c.Set(0, elem, heads{batch, value.count, seq, value.size}.threeAxes())
		c.Set(3, graph.Undefined, []graph.Dim{batch, graph.Dim(count), seq, total})
		return nil
	}
}

// keyAndValue reads inputs 1 and 2 of MultiHeadAttention, or finds them packed
// into an earlier input.
func keyAndValue(c *Call, count int64) (key, value heads, err error) {
	n := graph.Dim(count)
	batch, seq := c.DimOf(0, 0), c.DimOf(0, 1)
	size := func(i int, hidden graph.Dim, parts int64) graph.Dim {
		d, ok := DivDim(hidden, count*parts)
		if !ok && err == nil {
			err = c.BadInput(i, "a multiple of num_heads %d as hidden size", count)
		}
		return d
	}
	one := func(i int) heads {
		switch a := c.In[i]; a.Rank() {
		case 3:
			return heads{a.Shape[0], n, a.Shape[1], size(i, a.Shape[2], 1)}
		case 4:
			return heads{a.Shape[0], a.Shape[1], a.Shape[2], a.Shape[3]}
		case 5:
			return heads{a.Shape[0], n, a.Shape[1], a.Shape[4]}
		case -1:
			return heads{batch, n, graph.Unknown, graph.Unknown}
		}
		if err == nil {
			err = c.BadInput(i, "rank 3, 4 or 5")
		}
		return heads{}
	}
	switch {
	case c.Has(1) && c.Has(2):
		key, value = one(1), one(2)
	case c.Has(1):
		key = one(1)
		value = key
	case c.Arg(0).Rank() == 5:
		key = heads{batch, n, seq, c.DimOf(0, 4)}
		value = key
	default:
		key = heads{batch, n, seq, size(0, c.DimOf(0, 2), 3)}
		value = key
	}
	return key, value, err
}

// packedMultiHeadAttention covers PackedMultiHeadAttention: query [tokens
// hidden], or all three packed [tokens heads 3 size].
func packedMultiHeadAttention(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.WantRank(0, 2, 4); err != nil {
		return err
	}
	hidden := c.DimOf(0, 1)
	switch {
	case c.Has(2):
		hidden = c.DimOf(2, 1)
	case c.In[0].Rank() == 4:
		hidden = MulDims(c.DimOf(0, 1), c.DimOf(0, 3))
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(0, 0), hidden})
	return nil
}

// groupedHeads returns the size of a head and the number of new keys, for a query
// [batch sequence heads·size] with a key, or with key and value packed into it.
func groupedHeads(c *Call) (count, kvCount, size, kvSeq graph.Dim, err error) {
	for i := range 3 {
		if err := c.WantRank(i, 3); err != nil {
			return 0, 0, 0, 0, err
		}
	}
	n, err := c.Positive("num_heads", 0)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	kv, err := c.Positive("kv_num_heads", 0)
	if err != nil {
		return 0, 0, 0, 0, err
	}
	if n%kv != 0 {
		return 0, 0, 0, 0, c.Errf("num_heads is %d, expected a multiple of kv_num_heads %d", n, kv)
	}
	if c.Has(1) != c.Has(2) {
		return 0, 0, 0, 0, c.Errf("key and value are used together: expected both or none")
	}
	parts := n
	kvSeq = c.DimOf(1, 1)
	if !c.Has(1) {
		parts, kvSeq = n+2*kv, c.DimOf(0, 1)
	}
	size, ok := DivDim(c.DimOf(0, 2), parts)
	if !ok {
		return 0, 0, 0, 0, c.BadInput(0, "a multiple of %d along axis 2", parts)
	}
	if want := MulDims(size, graph.Dim(kv)); differ(c.DimOf(1, 2), want) {
		return 0, 0, 0, 0, c.BadInput(1, "%s along axis 2: kv_num_heads heads of input 0's size", want)
	}
	return graph.Dim(n), graph.Dim(kv), size, kvSeq, nil
}

// groupQueryAttention covers GroupQueryAttention. The present has the length of
// the past or, if that is less, of input total_sequence_length; if its value is
// not known, at most past and new keys together.
func groupQueryAttention(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	count, kvCount, size, kvSeq, err := groupedHeads(c)
	if err != nil {
		return err
	}
	elem := c.In[0].Elem
	batch, seq := c.DimOf(0, 0), c.DimOf(0, 1)
	cache, width, past := elem, size, graph.Dim(0)
	if c.Has(3) {
		cache, past = c.In[3].Elem, c.DimOf(3, 2)
		if c.In[3].Ranked {
			width = c.DimOf(3, 3) // half of size where two elements share a byte
		}
	}
	for i := 3; i < 5; i++ {
		if err := c.WantShape(i, "batch, kv_num_heads, past, head size", batch, kvCount, graph.Unknown, width); err != nil {
			return err
		}
	}
	total, err := c.lengthArg(6, "total_sequence_length")
	if err != nil {
		return err
	}
	present := boundOf(AddDims(past, kvSeq))
	switch {
	case c.Has(3) && c.Int("sliding_window_cache", 0) != 0:
		present = past
	case total.Exact() && past.Exact():
		present = max(total, past)
	case !c.Has(3):
		present = kvSeq
	}
	scores := present
	if total.Exact() {
		scores = total
	}
	c.Set(0, elem, []graph.Dim{batch, seq, MulDims(count, size)})
	c.Set(1, cache, []graph.Dim{batch, kvCount, present, width})
	c.Set(2, cache, []graph.Dim{batch, kvCount, present, width})
	c.Set(3, elem, []graph.Dim{batch, count, seq, scores})
	return nil
}

// overPast: present keys and values with room for no more than the past ones may overwrite
// them.
func overPast(c *Call) []graph.Alias { return append(overInput(c, 1, 3), overInput(c, 2, 4)...) }

// sparseAttention covers SparseAttention, whose past has room for the present.
func sparseAttention(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	for i := 3; i < 5; i++ {
		if !c.Has(i) {
			return c.Errf("input %d is missing: expected the past key and value", i)
		}
		if err := c.WantRank(i, 4); err != nil {
			return err
		}
	}
	count, _, size, _, err := groupedHeads(c)
	if err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(0, 0), c.DimOf(0, 1), MulDims(count, size)})
	c.SetType(1, c.In[3].Type)
	c.SetType(2, c.In[4].Type)
	return nil
}

func longformerAttention(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.WantRank(0, 3); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// multiRotaryEmbedding covers MRotaryEmbedding, whose positions have an axis
// for time, height and width.
func multiRotaryEmbedding(c *Call) error {
	if err := c.Tensors(4); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// gemmaRotaryEmbedding turns query (input 1) and key (input 3).
func gemmaRotaryEmbedding(c *Call) error {
	if err := c.Tensors(5); err != nil {
		return err
	}
	c.SetType(0, c.In[1].Type)
	c.SetType(1, c.In[3].Type)
	return nil
}

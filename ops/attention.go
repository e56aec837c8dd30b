package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// attentions are the attention operators of ai.onnx.
var attentions = family{"", []Op{
	{Name: "Attention", Class: Product, Precision: Half, Beside: []int{3}, Infer: attention, Cut: cutAttention, FLOPs: attentionFLOPs, Check: checkAttention, Optional: afterFirst},
	{Name: "RotaryEmbedding", Class: Other, Infer: rotaryEmbedding(1, 2, 3), Cut: cutRotaryEmbedding, Inplace: overFirst, FLOPs: perElement(3), Check: checkRotaryEmbedding},
	{Name: "LinearAttention", Class: Product, Precision: Half, Infer: linearAttention},
}}

// previewAttentions lists the attention operators of ai.onnx.preview.
var previewAttentions = family{"ai.onnx.preview", []Op{
	{Name: "FlexAttention", Class: Product, Precision: Half, Infer: flexAttention, FLOPs: attentionFLOPs},
}}

// heads is a query, key or value: [batch heads sequence size], in whichever
// layout.
type heads struct{ batch, count, seq, size graph.Dim }

// fourAxes is the shape of h with an axis for the heads.
func (h heads) fourAxes() []graph.Dim { return []graph.Dim{h.batch, h.count, h.seq, h.size} }

// threeAxes is the shape of h with the heads merged into the last axis.
func (h heads) threeAxes() []graph.Dim {
	return []graph.Dim{h.batch, h.seq, MulDims(h.count, h.size)}
}

// headsOf reads input i: rank 4 [batch heads sequence size], or rank 3 [batch
// sequence heads·size], for which the attribute gives the number of heads.
func headsOf(c *Call, i int, attr string) (heads, error) {
	h := heads{graph.Unknown, graph.Unknown, graph.Unknown, graph.Unknown}
	switch a := c.In[i]; {
	case !a.Ranked:
	case len(a.Shape) == 4:
		h = heads{a.Shape[0], a.Shape[1], a.Shape[2], a.Shape[3]}
	case len(a.Shape) == 3:
		n, err := c.Positive(attr, 0)
		if err != nil {
			return h, err
		}
		size, ok := DivDim(a.Shape[2], n)
		if !ok {
			return h, c.BadInput(i, "a multiple of %s %d along axis 2", attr, n)
		}
		h = heads{a.Shape[0], graph.Dim(n), a.Shape[1], size}
	default:
		return h, c.BadInput(i, "rank 3 or 4")
	}
	return h, nil
}

// queryKeyValue reads inputs 0 to 2 and checks that they match.
func queryKeyValue(c *Call, qAttr, kvAttr string) (q, k, v heads, err error) {
	if q, err = headsOf(c, 0, qAttr); err != nil {
		return
	}
	if k, err = headsOf(c, 1, kvAttr); err != nil {
		return
	}
	if v, err = headsOf(c, 2, kvAttr); err != nil {
		return
	}
	switch {
	case differ(q.batch, k.batch) || differ(q.size, k.size):
		err = c.BadInput(1, "batch %s and head size %s to match input 0 %s", q.batch, q.size, graph.ShapeString(c.In[0].Shape))
	case differ(k.batch, v.batch) || differ(k.count, v.count) || differ(k.seq, v.seq):
		err = c.BadInput(2, "batch %s, %s heads and sequence length %s to match input 1 %s", k.batch, k.count, k.seq, graph.ShapeString(c.In[1].Shape))
	case q.count.Exact() && k.count > 0 && q.count%k.count != 0 && c.Node.Domain != "com.microsoft":
		err = c.BadInput(0, "a multiple of the %s heads of input 1, not %s", k.count, q.count)
	}
	q.batch = TakeDim(q.batch, k.batch)
	return
}

// attention covers Attention of versions 23 to 25: the present key and value are
// the past ones followed by the new ones.
func attention(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	q, k, v, err := queryKeyValue(c, "q_num_heads", "kv_num_heads")
	if err != nil {
		return err
	}
	if c.Has(4) != c.Has(5) {
		return c.Errf("past_key and past_value are used together: expected both or none")
	}
	total := k.seq
	if c.Has(4) {
		if err := c.WantShape(4, "the past of input 1", k.batch, k.count, graph.Unknown, k.size); err != nil {
			return err
		}
		if err := c.WantShape(5, "the past of input 2", v.batch, v.count, c.DimOf(4, 2), v.size); err != nil {
			return err
		}
		total = AddDims(k.seq, TakeDim(c.DimOf(4, 2), c.DimOf(5, 2)))
	}
	elem := c.In[0].Elem
	out := heads{q.batch, q.count, q.seq, v.size}
	switch c.In[0].Rank() {
	case 4:
		c.Set(0, elem, out.fourAxes())
	case 3:
		c.Set(0, elem, out.threeAxes())
	default:
		c.SetUnranked(0, elem)
	}
	c.Set(1, c.In[1].Elem, heads{k.batch, k.count, total, k.size}.fourAxes())
	c.Set(2, c.In[2].Elem, heads{v.batch, v.count, total, v.size}.fourAxes())
	c.Set(3, elem, heads{q.batch, q.count, q.seq, total}.fourAxes())
	return nil
}

// checkAttention: several heads of the query may share one of the key; the mask
// broadcasts to [batch heads queries keys], but may cover fewer keys; there is
// one length per batch entry.
func checkAttention(c *Call) error {
	q, k, _, err := queryKeyValue(c, "q_num_heads", "kv_num_heads")
	if err != nil {
		return err
	}
	if k.count == 0 && q.count != 0 {
		return c.BadInput(1, "at least 1 head for the %v of input 0", q.count)
	}
	if mode := c.Int("qk_matmul_output_mode", 0); len(c.Out) > 3 && c.Out[3].Present && (mode < 0 || mode > 3) {
		return c.Errf("qk_matmul_output_mode is %d, expected 0 to 3", mode)
	}
	if err := c.WantShape(6, "a number of keys for each of the batch", q.batch); err != nil {
		return err
	}
	total := k.seq
	if c.Has(4) {
		total = AddDims(total, c.DimOf(4, 2))
	}
	want := heads{q.batch, q.count, q.seq, total}.fourAxes()
	if mask := c.Arg(3); mask.Present {
		n := len(mask.Shape)
		fits := n >= 1 && n <= len(want)
		for a := 1; fits && a <= n; a++ {
			have, most := mask.Shape[n-a], want[len(want)-a]
			fits = have == most || a > 1 && have == 1 || a == 1 && have < most
		}
		if !fits {
			return c.BadInput(3, "one that broadcasts to %s, or with fewer keys on the last axis", graph.ShapeString(want))
		}
	}
	return nil
}

// attentionFLOPs counts the multiply-adds of the two products.
func attentionFLOPs(c *Call) int64 {
	q, errQ := headsOf(c, 0, "q_num_heads")
	k, errK := headsOf(c, 1, "kv_num_heads")
	v, errV := headsOf(c, 2, "kv_num_heads")
	if errQ != nil || errK != nil || errV != nil {
		return 0
	}
	total := k.seq
	if c.Has(4) {
		total = AddDims(total, c.DimOf(4, 2))
	}
	return opCount(2, q.batch, q.count, q.seq, total, AddDims(k.size, v.size))
}

// rotaryEmbedding returns the Infer of a rotary embedding whose caches and
// positions are the given inputs. It turns pairs of elements, so the output has
// the input's type.
func rotaryEmbedding(cos, sin, positions int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(max(cos, sin) + 1); err != nil {
			return err
		}
		if err := c.WantRank(0, 3, 4); err != nil {
			return err
		}
		if a := c.In[cos]; a.Ranked {
			if err := c.WantShape(sin, "the shape of the cosines", a.Shape...); err != nil {
				return err
			}
		}
		if err := c.WantRank(positions, 1, 2); err != nil {
			return err
		}
		c.SetType(0, c.In[0].Type)
		return nil
	}
}

// checkRotaryEmbedding: pairs within each head are turned by an angle, from
// [batch places pairs] or from a table [positions pairs] with one row per
// position.
func checkRotaryEmbedding(c *Call) error {
	x, err := headsOf(c, 0, "num_heads")
	if err != nil {
		return err
	}
	turned := c.Int("rotary_embedding_dim", 0)
	if turned == 0 {
		turned = int64(x.size)
	}
	if turned < 2 || turned%2 != 0 || turned > int64(x.size) {
		return c.Errf("%d elements of a head are turned, expected an even number from 2 to %v, the size of a head of input 0%s", turned, x.size, c.inputName(0))
	}
	pairs := graph.Dim(turned / 2)
	if !c.Has(3) {
		return c.WantShape(1, "an angle for each place and pair", x.batch, x.seq, pairs)
	}
	if err := c.WantShape(1, "an angle for each position and pair", graph.Unknown, pairs); err != nil {
		return err
	}
	return c.WantShape(3, "a position for each place", x.batch, x.seq)
}

// linearAttention covers LinearAttention: query [B T Hq·dk], key [B T Hkv·dk],
// value [B T Hkv·dv]; the carried state is [B Hkv dk dv]. In com.microsoft Hkv
// may exceed Hq, and state_window W keeps W states.
func linearAttention(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	for i := range 3 {
		if err := c.WantRank(i, 3); err != nil {
			return err
		}
	}
	for _, attr := range []string{"q_num_heads", "kv_num_heads"} {
		if _, err := c.Positive(attr, 0); err != nil {
			return err
		}
	}
	q, k, v, err := queryKeyValue(c, "q_num_heads", "kv_num_heads")
	if err != nil {
		return err
	}
	if differ(q.seq, k.seq) {
		return c.BadInput(1, "sequence length %s to match input 0 %s", q.seq, graph.ShapeString(c.In[0].Shape))
	}
	queries, count := graph.Dim(c.Int("q_num_heads", 0)), graph.Dim(c.Int("kv_num_heads", 0))
	state := []graph.Dim{q.batch, count, TakeDim(k.size, q.size), v.size}
	if w := c.Int("state_window", 0); w > 0 && c.Node.Domain == "com.microsoft" {
		state = append([]graph.Dim{graph.Dim(w)}, state...)
	}
	if err := c.WantShape(3, "batch, kv_num_heads, key size, value size", state...); err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{q.batch, TakeDim(q.seq, k.seq), MulDims(max(queries, count), v.size)})
	elem := c.In[0].Elem
	if c.Has(3) {
		elem = c.In[3].Elem
	}
	c.Set(1, elem, state)
	return nil
}

// flexAttention covers FlexAttention: rank 4 only. Its bodies change the
// scores and the probabilities, both [batch heads query key], and must keep
// their shape.
func flexAttention(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	for i := range 3 {
		if err := c.WantRank(i, 4); err != nil {
			return err
		}
	}
	q, k, v, err := queryKeyValue(c, "", "")
	if err != nil {
		return err
	}
	elem := c.In[0].Elem
	c.Set(0, elem, heads{q.batch, q.count, q.seq, v.size}.fourAxes())
	inside := graph.Float32
	if elem == graph.Float64 {
		inside = elem
	}
	if p := graph.DType(c.Int("softmax_precision", 0)); p != graph.Undefined {
		if !p.Floating() {
			return c.Errf("softmax_precision is %d, expected a floating-point type", int64(p))
		}
		inside = p
	}
	scores := graph.TensorOf(inside, heads{q.batch, q.count, q.seq, k.seq}.fourAxes()...)
	for _, name := range []string{"score_mod", "prob_mod"} {
		a := c.Node.Attr(name)
		if a == nil || a.Graph == nil {
			continue
		}
		if len(a.Graph.Inputs) != 1 || len(a.Graph.Outputs) != 1 {
			return c.Errf("%s has %d inputs and %d outputs, expected 1 and 1", name, len(a.Graph.Inputs), len(a.Graph.Outputs))
		}
		outs, err := c.inferBody(a.Graph, []Arg{{Present: true, Type: scores}})
		if err != nil {
			return err
		}
		if !mayBe(outs[0].Type, scores) {
			return c.Errf("%s gives %v, expected %v", name, outs[0].Type, scores)
		}
	}
	return nil
}

// mayBe reports whether nothing known of t contradicts want.
func mayBe(t, want graph.Type) bool {
	if t.Kind == graph.KindUnknown {
		return true
	}
	if t.Kind != want.Kind || t.Elem != graph.Undefined && t.Elem != want.Elem {
		return false
	}
	if !t.Ranked {
		return true
	}
	if len(t.Shape) != len(want.Shape) {
		return false
	}
	for i, d := range t.Shape {
		if differ(d, want.Shape[i]) {
			return false
		}
	}
	return true
}

// cutAttention: of [batch heads queries size] or [batch queries heads·size], the batch;
// heads that stand on an axis of their own; and queries, unless the places of keys decide
// which of them a query sees. Outputs beside the first have other rows, but for the batch.
func cutAttention(c *Call, axis int) *Cut {
	rank := len(c.Out[0].Shape)
	for i := range 3 {
		if len(c.In[i].Shape) != rank {
			return nil
		}
	}
	cut := c.cut(axis)
	cut.In[0] = Same(axis, c.length(0, axis))
	if axis == 0 {
		for _, i := range []int{1, 2, 4, 5, 6} {
			if c.Has(i) {
				cut.In[i] = Same(0, c.length(i, 0))
			}
		}
		c.cutMask(cut, 0)
		return cut
	}
	for k := range c.Out {
		if k > 0 && c.Out[k].Present {
			return nil
		}
	}
	switch {
	case rank == 4 && axis == 1:
		queries, keys := c.length(0, 1), c.length(1, 1)
		if keys == 0 || queries%keys != 0 {
			return nil
		}
		for _, i := range []int{1, 2, 4, 5} {
			if c.Has(i) {
				cut.In[i] = Rows{Axis: 1, Length: keys, Scale: 1, Divide: queries / keys}
			}
		}
		c.cutMask(cut, 1)
	case axis == rank-2:
		if c.Int("is_causal", 0) != 0 || c.Int("left_window_size", -1) >= 0 || c.Int("right_window_size", -1) >= 0 {
			return nil
		}
		c.cutMask(cut, 2)
	default:
		return nil
	}
	return cut
}

// cutMask sets the rows of the mask, which broadcasts to [batch heads queries keys], for
// rows of that axis.
func (c *Call) cutMask(cut *Cut, axis int) {
	if !c.Has(3) {
		return
	}
	if at := axis - 4 + len(c.In[3].Shape); at >= 0 && c.In[3].Shape[at] != 1 {
		cut.In[3] = Same(at, c.length(3, at))
	}
}

// cutRotaryEmbedding: of [batch heads places size] or [batch places heads·size], the
// batch, heads that stand on an axis of their own, and places.
func cutRotaryEmbedding(c *Call, axis int) *Cut {
	rank := len(c.Out[0].Shape)
	cut := c.cut(axis)
	cut.In[0] = Same(axis, c.length(0, axis))
	of := 1 // the axis of places of the angles, or of the positions
	switch {
	case axis == 0:
		of = 0
	case rank == 4 && axis == 1:
		return cut
	case axis != rank-2:
		return nil
	}
	if c.Has(3) {
		cut.In[3] = Same(of, c.length(3, of))
		return cut
	}
	cut.In[1], cut.In[2] = Same(of, c.length(1, of)), Same(of, c.length(2, of))
	return cut
}

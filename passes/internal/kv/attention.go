package kv

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// softmax over keys gives hidden scores a weight of exactly 0. If no mask of the model hides
// those of tokens to come, one is added.
func softmax(r *rewriter, n *graph.Node) error {
	f := r.facts[n.Inputs[0]]
	axis, err := attr.Axis("axis", attr.Int(n, "axis", -1), r.rank(n.Inputs[0]))
	if err != nil {
		return err
	}
	out := fact{kind: keys, axis: f.axis}
	if axis == f.axis {
		if !f.tail.hides() { // no mask by positions: all tokens so far are seen
			masked, err := r.edit.hide(n.Inputs[0], axis)
			if err != nil {
				return r.refuse(n, "%v", err)
			}
			n.Inputs[0], n.Span = masked, graph.Span{}
		}
		out.tail = of(0)
	}
	r.set(n, out)
	return nil
}

// weighs says what a product over keys needs: weights of 0 for the tail.
const weighs = "sums over the tokens so far, and neither factor is known to be 0 for those to come: expected weights from a Softmax of masked scores"

// matMul: scores of the keys, or a sum over keys with weights that are 0 in the tail.
func matMul(r *rewriter, n *graph.Node) error {
	a, b, y := n.Inputs[0], n.Inputs[1], n.Outputs[0]
	if err := r.numbersAt(n, 0, 1); err != nil {
		return err
	}
	over := func(i, fromEnd int) bool {
		return r.isKeys(n, i) && r.facts[n.Inputs[i]].axis == r.rank(n.Inputs[i])-fromEnd
	}
	rows := 2 // from the end, of the axis of b that is summed over
	if r.rank(b) == 1 {
		rows = 1
	}
	switch {
	case over(0, 1) && over(1, rows):
		if !r.facts[a].tail.is(0) && !r.facts[b].tail.is(0) {
			return r.refuse(n, weighs)
		}
		r.set(n, fact{})
		return nil
	case over(1, 1) && r.rank(b) > 1 && !r.isKeys(n, 0):
		r.set(n, fact{kind: keys, axis: r.rank(y) - 1})
		return nil
	case over(0, 2) && !r.isKeys(n, 1) && r.rank(b) > 1:
		r.set(n, fact{kind: keys, axis: r.rank(y) - 2})
		return nil
	}
	return r.refuse(n, "multiplies %q, which grows with the tokens: expected a product along that axis, or rows or columns of the result along it", graph.Short(r.grown(n)))
}

// einsum is matMul with the axes named by letters.
func einsum(r *rewriter, n *graph.Node) error {
	var ranks []int
	for _, t := range n.Inputs {
		ranks = append(ranks, r.rank(t))
	}
	terms, output, err := attr.Einsum(n, ranks)
	if err != nil {
		return err
	}
	letter := byte(0)
	zero := false
	for i := range n.Inputs {
		if !r.isKeys(n, i) {
			continue
		}
		f := r.facts[n.Inputs[i]]
		if l := terms[i][f.axis]; letter != 0 && l != letter {
			return r.refuse(n, "two axes grow with the tokens: expected one")
		} else {
			letter = l
		}
		zero = zero || f.tail.is(0)
	}
	for i, term := range terms {
		if strings.Count(term, string(letter)) > 1 || strings.Contains(term, string(letter)) && !r.isKeys(n, i) {
			return r.refuse(n, "expected each input to have the tokens on one axis or on none")
		}
	}
	if err := r.numbersAt(n, indicesOf(n.Inputs)...); err != nil {
		return err
	}
	if at := strings.IndexByte(output, letter); at >= 0 {
		r.set(n, fact{kind: keys, axis: at})
		return nil
	}
	if !zero {
		return r.refuse(n, weighs)
	}
	r.set(n, fact{})
	return nil
}

func indicesOf(list []graph.TensorID) []int {
	out := make([]int, len(list))
	for i := range list {
		out[i] = i
	}
	return out
}

// attention: the keys of tokens to come are hidden by a mask, by causality, or by the
// number of valid keys, which the node then gets as an input.
func attention(r *rewriter, n *graph.Node) error {
	if input(n, 6) >= 0 {
		return r.refuse(n, "has a number of keys already (input 6): expected a decoder whose caches grow")
	}
	if len(n.Outputs) > 3 && n.Outputs[3] >= 0 {
		return r.refuse(n, "gives its scores away: expected the result alone")
	}
	if list := r.extends(n); len(list) > 0 {
		return r.attendPast(n, list)
	}
	for _, out := range n.Outputs[1:] {
		if out >= 0 {
			return r.refuse(n, "gives its keys away: expected the result alone")
		}
	}
	if input(n, 4) >= 0 || input(n, 5) >= 0 {
		return r.refuse(n, "has past keys that are no graph inputs, or leave as no graph outputs: expected caches")
	}
	if r.isKeys(n, 0) || !r.isKeys(n, 1) || !r.isKeys(n, 2) {
		return r.refuse(n, "expected keys and values alone to grow with the tokens")
	}
	for i := 1; i <= 2; i++ {
		axis := 1 // [batch, tokens, heads·size]
		if r.rank(n.Inputs[i]) == 4 {
			axis = 2
		}
		if r.facts[n.Inputs[i]].axis != axis {
			return r.refuse(n, "expected the tokens of %q along axis %d", graph.Short(r.nameOf(n.Inputs[i])), axis)
		}
	}
	if err := r.numbersAt(n, 0, 3); err != nil {
		return err
	}
	hidden, err := r.maskOf(n)
	if err != nil {
		return err
	}
	r.set(n, fact{})
	if hidden || attr.Int(n, "is_causal", 0) != 0 {
		return nil
	}
	if attr.Int(n, "left_window_size", -1) >= 0 || attr.Int(n, "right_window_size", -1) >= 0 {
		return r.refuse(n, "sees a window that is not counted from the past: expected a mask")
	}
	r.count(n)
	return nil
}

// maskOf checks the mask of an Attention node and reports whether it hides the tail.
func (r *rewriter) maskOf(n *graph.Node) (hides bool, err error) {
	mask := input(n, 3)
	if mask < 0 {
		return false, nil
	}
	f := r.facts[mask]
	last := r.rank(mask) - 1
	switch {
	case f.kind == keys && f.axis != last:
		return false, r.refuse(n, "expected the mask %q to grow along its last axis", graph.Short(r.nameOf(mask)))
	case f.kind != keys && r.shape(mask)[last] != 1:
		return false, r.refuse(n, "has a mask %q for a fixed number of keys: expected one for the tokens so far", graph.Short(r.nameOf(mask)))
	case f.kind != keys:
		return false, nil
	case r.full().g.Tensors[mask].Type.Elem == graph.Bool:
		return f.tail.is(0), nil
	}
	return f.tail.hides(), nil
}

// attendPast rewrites an Attention node that extends its own past: TensorScatter does that.
func (r *rewriter) attendPast(n *graph.Node, list []*cache) error {
	if len(list) != 2 || r.rank(n.Inputs[0]) != 4 || r.rank(n.Inputs[1]) != 4 || r.rank(n.Inputs[2]) != 4 {
		return r.refuse(n, "expected past keys and values that are both caches, and queries, keys and values of four axes")
	}
	if slices.ContainsFunc(n.Inputs[:3], func(t graph.TensorID) bool { return r.facts[t].kind != plain }) {
		return r.refuse(n, "expected queries, keys and values of the new tokens alone")
	}
	if _, err := r.maskOf(n); err != nil {
		return err
	}
	if err := r.numbersAt(n, 3); err != nil {
		return err
	}
	for _, c := range list {
		r.edit.scatter(c, r.nameOf(c.present))
		r.facts[c.present] = fact{kind: keys, axis: c.axis}
		n.Inputs[slices.Index(n.Inputs, c.past)-3] = c.present // of inputs 4 and 5, to 1 and 2
	}
	n.Inputs = n.Inputs[:4]
	n.Outputs = n.Outputs[:1]
	r.facts[n.Outputs[0]] = fact{}
	r.count(n)
	return nil
}

// count gives an Attention node the number of valid keys.
func (r *rewriter) count(n *graph.Node) {
	for len(n.Inputs) < 6 {
		n.Inputs = append(n.Inputs, graph.None)
	}
	n.Inputs = append(n.Inputs, r.edit.count())
	n.Span = graph.Span{}
}

// scatterInto replaces the Concat that extends a cache.
func (r *rewriter) scatterInto(c *cache, n *graph.Node) error {
	if r.facts[c.fresh].kind != plain {
		return r.refuse(n, "extends a cache by %q, which depends on the tokens so far in another way than by its elements", graph.Short(r.nameOf(c.fresh)))
	}
	*n = graph.Node{Name: n.Name, Op: "TensorScatter", Inputs: []graph.TensorID{c.past, c.fresh, r.edit.indices()}, Outputs: n.Outputs, Attrs: []*graph.Attr{axisOf(c)}, Props: n.Props}
	r.facts[c.present] = fact{kind: keys, axis: c.axis}
	return nil
}

func axisOf(c *cache) *graph.Attr {
	return &graph.Attr{Name: "axis", Type: graph.AttrInt, Int: int64(c.axis)}
}

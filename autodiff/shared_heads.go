package autodiff

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Models in which several heads of queries share one of keys and values repeat these for the products:
// [batch, groups, length, size] becomes [batch, groups, repeats, length, size] and [batch, heads, length,
// size]. graph.FlashAttention takes them as they are, so that neither the repeated heads nor their
// gradients are kept.

// sharedHeads is what a tensor of keys or values repeats.
type sharedHeads struct {
	heads  ID // [batch, groups, length, size]; None: it repeats nothing
	turned bool
	scale  float64
}

// shared finds the heads that nodes repeat, perhaps scale, and perhaps turn for a product. Lengths are those
// of one plan: with others, nodes that move elements might move them elsewhere.
func (m *matcher) shared(t ID) sharedHeads {
	none, x := sharedHeads{heads: graph.None}, sharedHeads{scale: 1}
	for range 8 {
		n := m.maker[t]
		if n == nil || n.Domain != "" || !m.typeOf(t).Exact() || m.typeOf(n.Inputs[0]).Elem != m.typeOf(t).Elem {
			return none
		}
		switch n.Op {
		case "Mul":
			v, ok := m.given(n.Inputs[1])
			if !ok || !m.hasShape(n.Inputs[0], m.shape(t)) {
				return none
			}
			x.scale *= v
		case "Reshape":
			if !m.movesRows(n.Inputs[0], t) {
				return none
			}
		case "Transpose":
			if !m.turns(n) {
				return none
			}
			x.turned = !x.turned
		case "Expand", "Tile":
			x.heads = m.repeats(n)
			return x
		default:
			return none
		}
		t = n.Inputs[0]
	}
	return none
}

// movesRows reports whether two tensors differ in axes before the last two alone.
func (m *matcher) movesRows(t, u ID) bool {
	if !m.typeOf(t).Exact() {
		return false
	}
	from, to := m.shape(t), m.shape(u)
	return len(from) > 2 && len(to) > 2 && slices.Equal(from[len(from)-2:], to[len(to)-2:])
}

// turns reports whether a Transpose exchanges the last two axes alone.
func (m *matcher) turns(n *graph.Node) bool {
	at := n.Attr("perm")
	if at == nil || len(at.Ints) < 3 {
		return false
	}
	perm := slices.Clone(at.Ints)
	last := len(perm) - 1
	perm[last], perm[last-1] = perm[last-1], perm[last]
	return slices.IsSorted(perm)
}

// repeats returns the heads, of four axes, that a node repeats behind each of them; None if it does not.
func (m *matcher) repeats(n *graph.Node) ID {
	axis := m.maker[n.Inputs[0]]
	if axis == nil || axis.Op != "Unsqueeze" || !m.typeOf(axis.Inputs[0]).Exact() || !m.typeOf(n.Inputs[0]).Exact() {
		return graph.None
	}
	heads, one, wide := m.shape(axis.Inputs[0]), m.shape(n.Inputs[0]), m.shape(n.Outputs[0])
	if len(heads) != 4 || len(wide) != 5 || !slices.Equal(one, slices.Insert(slices.Clone(heads), 2, 1)) || wide[2] < 2 || !slices.Equal(wide, slices.Insert(slices.Clone(heads), 2, wide[2])) {
		return graph.None
	}
	return axis.Inputs[0]
}

// share replaces repeated keys and values of a group by the heads that are repeated.
func (s *trainer) share(m *matcher, a *attentionGroup) {
	if s.openDims {
		return
	}
	k, v := m.shared(a.k), m.shared(a.v)
	if k.heads == graph.None || v.heads == graph.None || v.turned || v.scale != 1 || k.scale == 0 || math.IsInf(k.scale, 0) || math.IsNaN(k.scale) || m.shape(k.heads)[1] != m.shape(v.heads)[1] {
		return
	}
	a.k, a.v, a.scale = k.heads, v.heads, a.scale*k.scale
	if k.turned {
		a.k = s.with("Transpose", attrs{"perm": []int64{0, 1, 3, 2}}, k.heads)
	}
}

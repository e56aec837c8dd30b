package attend

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// fits says why a group is none that Attention computes, "" if it is one, and sets its batch and heads.
func (f *finder) fits(a *attention) (why string) {
	for _, n := range a.inner {
		for _, t := range n.Outputs {
			if t < 0 {
				continue
			}
			for _, r := range f.readers[t] {
				if r != a.last && !slices.Contains(a.inner, r) {
					return "their scores or weights are read elsewhere, too"
				}
			}
		}
	}
	y := a.last.Outputs[0]
	for _, t := range []graph.TensorID{a.q, a.k, a.v, y} {
		switch {
		case !f.exact(t):
			return "queries, keys or values have no fixed lengths"
		case f.elem(t) != f.elem(y):
			return "queries, keys and values have several types"
		}
	}
	switch f.elem(y) {
	case graph.Float32, graph.Float16, graph.BFloat16:
	default:
		return fmt.Sprintf("they are of %v", f.elem(y))
	}
	q, k, v := f.shape(a.q), f.shape(a.k), f.shape(a.v)
	p := f.shape(a.last.Inputs[0])
	if len(q) < 3 || len(q) > 4 || len(k) != len(q) || len(v) != len(p) || len(p) > 4 || product(q) == 0 || product(k) == 0 || product(v) == 0 {
		return "queries, keys and values have not three or four axes"
	}
	switch heads := q[:len(q)-2]; {
	case len(q) == 4:
		a.lead = heads
	case a.lead == nil:
		a.lead = []int64{1, heads[0]}
	case product(a.lead) != heads[0]:
		return "queries, keys and values have not three or four axes"
	}
	if product(p[:len(p)-2]) != product(a.lead) {
		return "queries, keys and values have not three or four axes"
	}
	for _, x := range []struct{ have, of []int64 }{{k, q}, {v, p}} {
		n := len(x.have) - 2
		if shared := n == 2 && x.have[0] == a.lead[0] && x.have[1] == 1; !shared && !slices.Equal(x.have[:n], x.of[:n]) {
			return "keys or values are repeated by a product"
		}
	}
	if len(q) == 4 && (k[1] == 1) != (v[1] == 1) && q[1] != 1 {
		return "keys or values are repeated by a product"
	}
	return f.fitsMasks(a, q[len(q)-2], k[len(k)-1])
}

func product(list []int64) int64 {
	n := int64(1)
	for _, v := range list {
		n *= v
	}
	return n
}

// unscaled goes through products with known numbers.
func (f *finder) unscaled(t graph.TensorID) (_ graph.TensorID, scale float64) {
	scale = 1
	for range 4 {
		n := f.maker[t]
		if n == nil {
			break
		}
		from, by, ok := f.scaled(n)
		if !ok || !f.exact(from) || f.elem(from) != f.elem(t) {
			break
		}
		t, scale = from, scale*by
	}
	return t, scale
}

// unrepeated returns the heads that several heads of queries share, of [batch, heads, length, size] that
// a Reshape makes of repeated ones, and their number; the tensor itself if none are repeated.
func (f *finder) unrepeated(t graph.TensorID) (_ graph.TensorID, shape []int64) {
	s := f.shape(t)
	wide := f.made(t, "Reshape")
	one := f.made(wide, "Expand", "Tile")
	if one == none || len(f.shape(wide)) != 5 || len(f.shape(one)) != 5 || len(s) != 4 {
		return t, s
	}
	w, o := f.shape(wide), f.shape(one)
	if w[0] != s[0] || w[1]*w[2] != s[1] || !slices.Equal(w[3:], s[2:]) || o[2] != 1 || !slices.Equal(slices.Delete(slices.Clone(o), 2, 3), slices.Delete(slices.Clone(w), 2, 3)) {
		return t, s
	}
	return one, slices.Delete(o, 2, 3)
}

// made returns the first input of the node that makes a tensor, if that has an operator.
func (f *finder) made(t graph.TensorID, op ...string) graph.TensorID {
	if t < 0 || f.maker[t] == nil || f.maker[t].Domain != "" || !slices.Contains(op, f.maker[t].Op) || !f.exact(f.maker[t].Inputs[0]) {
		return none
	}
	return f.maker[t].Inputs[0]
}

// shaped returns a tensor with the elements of t in their order and with a shape.
func (w *writer) shaped(t graph.TensorID, shape []int64) graph.TensorID {
	for u := t; ; {
		if slices.Equal(w.f.shape(u), shape) {
			return u
		}
		next := w.f.made(u, "Reshape", "Unsqueeze", "Squeeze")
		if next == none {
			break
		}
		u = next
	}
	return w.node("Reshape", w.name(t)+".heads", w.f.g.Tensors[t].Type.Elem, shape, nil, t, w.ints(shape))
}

// turned returns a tensor with a shape and the elements of t with its last two axes exchanged.
func (w *writer) turned(t graph.TensorID, shape []int64) graph.TensorID {
	s := w.f.shape(t)
	if u := w.f.made(t, "Reshape"); u != none {
		if from := w.f.shape(u); len(from) >= 3 && slices.Equal(from[len(from)-2:], s[len(s)-2:]) {
			return w.turned(u, shape)
		}
	}
	n := len(s)
	perm := make([]int64, n)
	for i := range perm {
		perm[i] = int64(i)
	}
	from := t
	if u := w.f.made(t, "Transpose"); u != none {
		if at := w.f.maker[t].Attr("perm"); at != nil && len(at.Ints) == n {
			from, perm = u, slices.Clone(at.Ints)
		}
	}
	perm[n-1], perm[n-2] = perm[n-2], perm[n-1]
	if !slices.IsSorted(perm) {
		now := slices.Clone(s)
		now[n-1], now[n-2] = now[n-2], now[n-1]
		attrs := []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: perm}}
		from = w.node("Transpose", w.name(t)+".turned", w.f.elem(t), now, attrs, from)
	}
	return w.shaped(from, shape)
}

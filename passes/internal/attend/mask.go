package attend

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// mask is one node that changes scores: it adds a tensor, or replaces scores by a number.
type mask struct {
	add     graph.TensorID // none: it replaces
	keep    graph.TensorID // says which scores stay or, negated, which do not
	negated bool
	fill    float64
	rank    int // of the scores there
}

// hidden is the largest number that hides a key, whatever its score: its exponential is 0 beside that
// of any other, in every type.
const hidden = -1e4

// least is the largest number that hides a key beside other masks, whose numbers may be as low as hidden: the
// least of float32 and bfloat16, but for rounding.
const least = -3.38e38

// masked returns the scores that an Add or a Where changes, and the change.
func (f *finder) masked(n *graph.Node, last []int64) (scores graph.TensorID, m mask, ok bool) {
	s := f.shape(n.Outputs[0])
	m = mask{add: none, keep: none, rank: len(s)}
	switch n.Op {
	case "Add":
		for k, t := range n.Inputs {
			if f.alike(t, n.Outputs[0]) && f.isScores(t, last) {
				m.add = n.Inputs[1-k]
				return t, m, true
			}
		}
		return none, m, false
	}
	m.keep = n.Inputs[0]
	if v, known := f.number(n.Inputs[2]); known && f.alike(n.Inputs[1], n.Outputs[0]) {
		m.fill = v
		return n.Inputs[1], m, v <= hidden
	}
	if v, known := f.number(n.Inputs[1]); known && f.alike(n.Inputs[2], n.Outputs[0]) {
		m.fill, m.negated = v, true
		return n.Inputs[2], m, v <= hidden
	}
	return none, m, false
}

// isScores reports whether nodes that scores goes through make a tensor from a product.
func (f *finder) isScores(t graph.TensorID, last []int64) bool {
	visits := 64
	return f.leadsToProduct(t, last, &visits)
}

func (f *finder) leadsToProduct(t graph.TensorID, last []int64, visits *int) bool {
	for ; *visits > 0; *visits-- {
		n := f.maker[t]
		if n == nil || n.Domain != "" || !f.exact(t) {
			return false
		}
		s := f.shape(t)
		if len(s) < 3 || !slices.Equal(s[len(s)-2:], last) {
			return false
		}
		switch n.Op {
		case "MatMul":
			return true
		case "Mul", "Div":
			next, _, ok := f.scaled(n)
			if !ok {
				next, _, ok = f.factor(n)
			}
			if !ok {
				return false
			}
			t = next
		case "Add":
			next := none
			for _, u := range n.Inputs {
				if *visits--; next == none && f.alike(u, t) && f.leadsToProduct(u, last, visits) {
					next = u
				}
			}
			return next != none
		case "Where":
			next, _, ok := f.masked(n, last)
			if !ok {
				return false
			}
			t = next
		default:
			if !f.passes(n, n.Inputs[0]) {
				return false
			}
			t = n.Inputs[0]
		}
	}
	return false
}

// fitsMasks says why masks are none of Attention's, "" if they are.
func (f *finder) fitsMasks(a *attention, queries, keys int64) string {
	for _, m := range a.masks {
		t := m.add
		if t == none {
			t = m.keep
		}
		if !f.exact(t) {
			return "a mask has no fixed lengths"
		}
		s := f.shape(t)
		n := len(s)
		if n < 2 || n > 4 || s[n-1] != keys || s[n-2] != queries && s[n-2] != 1 || m.rank > 4 || m.rank == 3 && n == 4 {
			return "a mask has other axes than scores"
		}
		if m.rank == 3 && a.lead[0] != 1 && n == 3 && s[0] != 1 {
			return "a mask has other axes than scores"
		}
		if m.add == none && !math.IsInf(m.fill, -1) {
			if f.elem(a.q) == graph.Float16 || slices.ContainsFunc(a.masks, func(o mask) bool { return o.add != none && f.elem(o.add) == graph.Float16 }) {
				return "a mask replaces scores by a number of float16"
			}
			if len(a.masks) > 1 && m.fill > least {
				return "a mask beside others replaces scores by a number that leaves some"
			}
		}
		if m.add == none {
			continue
		}
		switch f.elem(t) {
		case graph.Float32, graph.BFloat16:
		case graph.Float16:
			// A number that hides keys in float32 would be -Inf.
			if slices.ContainsFunc(a.masks, func(o mask) bool { return o.add != none && f.elem(o.add) != graph.Float16 }) {
				return "masks have several types"
			}
		default:
			return "a mask has a type that is not known"
		}
	}
	return ""
}

// choice returns the condition of a Where that makes a mask of two numbers, 0 where a key is seen and -Inf
// where not, and whether its condition says which are not.
func (f *finder) choice(t graph.TensorID) (keep graph.TensorID, negated, ok bool) {
	n := f.maker[t]
	if n == nil || n.Op != "Where" || n.Domain != "" || len(n.Inputs) != 3 || !f.alike(n.Inputs[0], t) {
		return none, false, false
	}
	x, known := f.number(n.Inputs[1])
	y, both := f.number(n.Inputs[2])
	switch {
	case !known || !both:
	case x == 0 && math.IsInf(y, -1):
		return n.Inputs[0], false, true
	case y == 0 && math.IsInf(x, -1):
		return n.Inputs[0], true, true
	}
	return none, false, false
}

// mask returns the tensor that changes scores as a group's masks do; None if there are none.
func (w *writer) mask(a *attention) graph.TensorID {
	t := none
	for i, m := range a.masks {
		alone := len(a.masks) == 1
		switch {
		case m.add != none && alone:
			if keep, negated, ok := w.f.choice(m.add); ok {
				return w.seen(keep, negated)
			}
			t = m.add
		case m.add != none && i == 0:
			t = m.add
		case m.add != none:
			t = w.sum(t, m.add)
		case alone && math.IsInf(m.fill, -1):
			return w.seen(m.keep, m.negated)
		default:
			t = w.chosen(a, m, t)
		}
	}
	return t
}

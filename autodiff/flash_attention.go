package autodiff

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Attention that models spell out as products and a Softmax keeps its weights for the backward
// pass: a number for each pair of a query and a key, in each head. With Options.Attention it
// becomes one node, which keeps two numbers for each query instead, and whose gradient computes
// the scores again (graph.FlashAttention).

// flashAttentionRules cover attention that keeps no scores.
var flashAttentionRules = []Rule{
	{Op: graph.FlashAttention, Inputs: []int{0, 1, 2}, Suffixes: []string{1: ".rows"}, Grad: func(c *Backward) {
		a := attrs{"fill": c.Float("fill", 0), "safe": c.Int("safe", 0), "scale": c.Float("scale", 1)}
		d := c.emitIn(fusedDomain, graph.FlashAttentionGrad, a, 3, c.X(0), c.X(1), c.X(2), c.X(3), c.X(4), c.Y(1), c.D(0))
		for i, t := range d {
			c.Set(i, t)
		}
	}},
}

// attention is a group of nodes that compute it, in the terms of graph.FlashAttention.
type attentionGroup struct {
	q, k, v     ID
	bias        ID   // added to the scores; None: nothing
	keep        ID   // None: all
	negated     bool // keep says which scores become fill
	scale, fill float64
	safe        bool
	inner       []*graph.Node
	behind      int // the number of inner nodes that make weights: the Softmax, and those behind it
	last        *graph.Node
}

// fuseAttention replaces attention that is spelled out, where nothing else reads its scores, and
// where what is added to them needs no gradient. Without the option it only lists the weights.
func (s *trainer) fuseAttention() error {
	var softmax []*graph.Node
	for _, n := range s.g.Nodes {
		if n.Op != "Softmax" {
			continue
		}
		softmax = append(softmax, n)
	}
	if len(softmax) == 0 {
		return nil
	}
	m, trained := s.matcherOf(s.g.Nodes), s.dependents()
	if !s.opt.Attention {
		s.listWeights(m, softmax, trained)
		return nil
	}
	gone := map[*graph.Node]bool{}
	whole := map[*graph.Node]attentionGroup{}
	kept := map[string]int{} // attentions that keep their scores, by the reason
	for _, n := range softmax {
		a, ok := m.attentionOf(n)
		if !ok || trained[a.bias] {
			if why := m.keepsScores(n, ok); why != "" {
				kept[why]++
			}
			continue
		}
		for _, k := range a.inner {
			gone[k] = true
		}
		whole[a.last] = a
	}
	for _, why := range slices.Sorted(maps.Keys(kept)) {
		s.step.Warnings = append(s.step.Warnings, fmt.Sprintf("--attention: %d of %d attentions keep their scores: %s", kept[why], len(whole)+total(kept), why))
	}
	nodes := s.g.Nodes
	s.g.Nodes = nil
	s.phase = phaseForward
	for _, n := range nodes {
		if a, is := whole[n]; is {
			s.emitAttention(m, a)
		} else if !gone[n] {
			s.g.Nodes = append(s.g.Nodes, n)
		}
	}
	s.of, s.scope = "", ""
	s.g.Link()
	return s.err
}

// listWeights lists the tensors of weights that Options.Attention would not keep.
func (s *trainer) listWeights(m *matcher, softmax []*graph.Node, trained map[ID]bool) {
	for _, n := range softmax {
		if a, ok := m.attentionOf(n); ok && !trained[a.bias] {
			for _, k := range a.inner[:a.behind] {
				s.step.Weights = append(s.step.Weights, s.g.Tensors[k.Outputs[0]].Name)
			}
		}
	}
}

func total(counts map[string]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// keepsScores says why attention with a Softmax stays as it is; it returns "" if the Softmax is
// none of attention's, whose weights a product reads. grouped: but for the bias, it is one.
func (m *matcher) keepsScores(n *graph.Node, grouped bool) string {
	p, why := n.Outputs[0], "these are made, or read, in a form that is not known"
	switch {
	case grouped:
		why = "what is added to these is trained"
	case !m.typeOf(n.Inputs[0]).Exact() || m.rank(n.Inputs[0]) != 4:
		why = "these do not have four axes"
	}
	for range 4 {
		next := m.reads(p)
		if next == nil {
			return ""
		}
		if ops.IsProduct(next) {
			return why
		}
		switch next.Op {
		case "Dropout":
			why = "a Dropout follows the Softmax, whose mask has a number for each score"
		}
		p = next.Outputs[0]
	}
	return ""
}

// reads returns the product whose left side a tensor is, else a node that returns a tensor of its shape.
func (m *matcher) reads(t ID) (next *graph.Node) {
	for _, r := range m.readers[t] {
		switch {
		case r == nil:
		case ops.IsProduct(r):
			if r.Inputs[0] == t {
				return r
			}
		case next == nil && m.hasShape(r.Outputs[0], m.shape(t)):
			next = r
		}
	}
	return next
}

// dependents are the tensors that depend on a parameter.
func (s *trainer) dependents() map[ID]bool {
	trained := map[ID]bool{}
	for _, p := range s.parameters {
		trained[p] = true
	}
	for _, n := range s.g.Nodes {
		depends := false
		n.Reads(func(t ID) { depends = depends || trained[t] })
		for _, t := range n.Outputs {
			trained[t] = trained[t] || depends
		}
	}
	return trained
}

// emitAttention emits the node that stands for a group, whose result keeps its name.
func (s *trainer) emitAttention(m *matcher, a attentionGroup) {
	y := a.last.Outputs[0]
	s.of = a.last.Name
	if s.of == "" {
		s.of = s.g.Tensors[y].Name
	}
	s.scope = s.of + "/"
	s.share(m, &a)
	bias := a.bias
	if bias == graph.None {
		bias = s.number(0)
	}
	keep := a.keep
	switch {
	case keep == graph.None:
		keep = s.constant(graph.Bool, nil, []byte{1}, nil)
	case a.negated:
		keep = s.op("Not", keep)
	}
	safe := 0
	if a.safe {
		safe = 1
	}
	if s.err != nil {
		return
	}
	n := &graph.Node{
		Name: s.unique(s.scope + graph.FlashAttention), Domain: fusedDomain, Op: graph.FlashAttention,
		Inputs: []ID{a.q, a.k, a.v, bias, keep}, Attrs: attrs{"fill": a.fill, "safe": safe, "scale": a.scale}.list(),
	}
	s.mark(n)
	n.Outputs = []ID{y, s.newTensor(s.unique(s.of+".rows"), graph.Type{}, nil)}
	s.g.Nodes = append(s.g.Nodes, n)
	s.infer(n)
}

// attentionOf finds the group whose weights a Softmax makes.
func (m *matcher) attentionOf(n *graph.Node) (a attentionGroup, ok bool) {
	if ok = n.Domain == "" && m.typeOf(n.Inputs[0]).Exact() && m.rank(n.Inputs[0]) == 4 && m.hasAxis(n, 3); !ok {
		return a, false
	}
	a = attentionGroup{scale: 1, bias: graph.None, keep: graph.None, inner: []*graph.Node{n}}
	p := n.Outputs[0]
	if isNaN, last := m.replacedNaN(p); last != nil {
		a.safe, a.inner, p = true, append(a.inner, isNaN, last), last.Outputs[0]
	}
	if cast, is := m.onlyReader(p, "Cast"); is && m.typeOf(cast.Outputs[0]).Elem.Floating() {
		a.inner, p = append(a.inner, cast), cast.Outputs[0]
	}
	if a.last, ok = m.onlyReader(p, "MatMul"); !ok || a.last.Inputs[0] != p || a.last.Inputs[1] == p {
		return a, false
	}
	a.v, a.behind = a.last.Inputs[1], len(a.inner)
	if !m.scoresOf(n.Inputs[0], &a) || !m.fitsAttention(&a) {
		return a, false
	}
	return a, !slices.ContainsFunc(a.inner, func(k *graph.Node) bool { return !m.private(k, a.inner, a.last) })
}

// scoresOf walks from the input of a Softmax to the product of queries and keys: a Where that
// replaces scores, then what is added to them, then scales; Casts between floating-point types
// may stand anywhere.
func (m *matcher) scoresOf(t ID, a *attentionGroup) bool {
	scores := m.shape(t)
	scaled := false
	for ok := true; ok; {
		n := m.maker[t]
		if n == nil || n.Domain != "" || !m.hasShape(t, scores) {
			return false
		}
		a.inner = append(a.inner, n)
		switch n.Op {
		case "Cast":
			t = n.Inputs[0]
			ok = m.typeOf(t).Elem.Floating()
		case "Where":
			ok = a.keep == graph.None && a.bias == graph.None && !scaled
			t = m.replacedScores(n, a)
		case "Add":
			ok = a.bias == graph.None && !scaled
			t, a.bias = n.Inputs[0], n.Inputs[1]
			if !m.isScores(t, scores) {
				t, a.bias = a.bias, t
			}
		case "Mul":
			t = n.Inputs[0]
			var v float64
			if v, ok = m.given(n.Inputs[1]); !ok {
				t = n.Inputs[1]
				v, ok = m.given(n.Inputs[0])
			}
			a.scale, scaled = a.scale*v, true
		case "Div":
			var v float64
			v, ok = m.given(n.Inputs[1])
			t, a.scale, scaled = n.Inputs[0], a.scale/v, true
		case "MatMul":
			a.q, a.k = n.Inputs[0], n.Inputs[1]
			return a.scale != 0 && !math.IsInf(a.scale, 0) && !math.IsNaN(a.scale)
		default:
			return false
		}
	}
	return false
}

// given is the one element of a constant, before casts: numbers of a node are not rounded to the type
// in which the nodes that it stands for took them.
func (m *matcher) given(t ID) (float64, bool) {
	for n := m.maker[t]; n != nil && ops.Casts(n); n = m.maker[t] {
		t = n.Inputs[0]
	}
	return m.scalarConstant(t)
}

// replacedScores returns the scores that a Where replaces by one number, None if it does not.
func (m *matcher) replacedScores(n *graph.Node, a *attentionGroup) ID {
	a.keep = n.Inputs[0]
	v, ok := m.given(n.Inputs[2])
	if a.fill = v; ok {
		return n.Inputs[1]
	}
	if v, ok = m.given(n.Inputs[1]); ok {
		a.fill, a.negated = v, true
		return n.Inputs[2]
	}
	return graph.None
}

// isScores reports whether a tensor may be the scores in a sum: nodes of those that scoresOf
// walks through make it from a product of its shape.
func (m *matcher) isScores(t ID, shape []int64) bool {
	for m.maker[t] != nil && m.maker[t].Domain == "" && m.hasShape(t, shape) {
		n := m.maker[t]
		switch n.Op {
		case "MatMul":
			return true
		case "Cast", "Div":
			t = n.Inputs[0]
		case "Mul", "Add":
			if t = n.Inputs[0]; !m.hasShape(t, shape) {
				t = n.Inputs[1]
			}
		default:
			return false
		}
	}
	return false
}

// hasShape reports whether a tensor has a shape.
func (m *matcher) hasShape(t ID, shape []int64) bool {
	return m.typeOf(t).Exact() && slices.Equal(m.shape(t), shape)
}

// fitsAttention reports whether the operands of a group are those of graph.FlashAttention.
func (m *matcher) fitsAttention(a *attentionGroup) bool {
	for _, t := range []ID{a.q, a.k, a.v} {
		if !m.typeOf(t).Exact() {
			return false
		}
	}
	q, k, v := m.shape(a.q), m.shape(a.k), m.shape(a.v)
	if m.err != nil || len(q) != 4 || len(k) != 4 || len(v) != 4 {
		return false
	}
	if !slices.Equal(q[:2], k[:2]) || !slices.Equal(q[:2], v[:2]) || q[3] != k[2] || v[2] != k[3] || elements(q)*elements(v) == 0 {
		return false
	}
	elem := m.typeOf(a.q).Elem
	if elem != graph.Float32 && !is16Bits(elem) || m.typeOf(a.k).Elem != elem || m.typeOf(a.v).Elem != elem || m.typeOf(a.last.Outputs[0]).Elem != elem {
		return false
	}
	if a.bias != graph.None {
		if e := m.typeOf(a.bias).Elem; e != graph.Float32 && !is16Bits(e) || !m.broadcasts(a.bias) {
			return false
		}
	}
	return a.keep == graph.None || m.broadcasts(a.keep)
}

// broadcasts reports whether a tensor of known shape has no more axes than scores.
func (m *matcher) broadcasts(t ID) bool { return m.typeOf(t).Exact() && m.rank(t) <= 4 }

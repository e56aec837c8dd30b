package training

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/numbers"
)

// attention compares a graph.FlashAttention, whose body the file states, with the nodes of the
// source that make tensor of: a product with values of the weights that a Softmax makes of scores.
type attention struct {
	p          *prover
	call       *graph.Node
	scale      float64        // of the source
	keys       float64        // the scale of shared keys of the step
	scales     bool           // all of its factors are known
	bias       graph.TensorID // what is not yet met
	kept, safe bool
	softmax    bool
	stage      int // of the scores: a Where, then a sum, then scales were met
	wrong      string
	t          graph.TensorID // where the walk through the source is
}

// isAttention reports whether a node of the step is one, and stands for a product of the source.
func isAttention(n, old *graph.Node) bool {
	if n.Op != graph.FlashAttention || n.Domain != graph.SwapDomain || n.Overload != "" || len(n.Inputs) != 5 || old.Domain != "" {
		return false
	}
	switch old.Op {
	case "MatMul":
		return true
	}
	return false
}

// attended compares such a node with the source.
func (p *prover) attended(t, of graph.TensorID) string {
	maker := p.g.Tensors[t].Maker
	n, last := p.g.Nodes[maker], p.of.Graph.Nodes[p.of.Graph.Tensors[of].Maker]
	at := p.g.Label(maker)
	if p.nodes[maker] == p.of.Graph.Tensors[of].Maker {
		return ""
	}
	if p.g.Tensors[t].Out != 0 || len(last.Inputs) != 2 {
		return fmt.Sprintf("%s: expected its result to be %s, as in the source", at, label(p.of.Graph, of))
	}
	p.nodes[maker] = p.of.Graph.Tensors[of].Maker
	p.compared++
	a := &attention{p: p, call: n, scale: 1, keys: 1, scales: true, bias: n.Inputs[3], t: last.Inputs[0]}
	a.shared(2, last.Inputs[1])
	for a.wrong == "" && a.step() {
	}
	if a.wrong == "" {
		a.end()
	}
	if a.wrong != "" {
		return at + ": " + a.wrong
	}
	return ""
}

// step goes through one node of the source, from the weights back to the product of queries and
// keys, where it returns false.
func (a *attention) step() bool {
	g := a.p.of.Graph
	if a.t < 0 || g.Tensors[a.t].Maker < 0 || g.Nodes[g.Tensors[a.t].Maker].Domain != "" {
		a.wrong = fmt.Sprintf("expected the weights of attention in the source, found %s", label(g, a.t))
		return false
	}
	n := g.Nodes[g.Tensors[a.t].Maker]
	if !a.softmax {
		return a.weights(n)
	}
	switch n.Op {
	case "Cast":
		a.t = n.Inputs[0]
	case "Where":
		if a.stage > 0 {
			return a.unexpected(n)
		}
		a.stage = 1
		a.where(n)
	case "Add":
		if a.stage > 1 {
			return a.unexpected(n)
		}
		a.stage = 2
		a.add(n)
	case "Div":
		a.stage = 3
		a.times(n.Inputs[0], n.Inputs[1], -1)
	case "Mul":
		a.stage = 3
		if a.leadsToScores(n.Inputs[0]) {
			a.times(n.Inputs[0], n.Inputs[1], 1)
		} else {
			a.times(n.Inputs[1], n.Inputs[0], 1)
		}
	case "MatMul":
		a.p.meet(a.call.Inputs[0], n.Inputs[0])
		a.shared(1, n.Inputs[1])
		return false
	default:
		return a.unexpected(n)
	}
	return a.wrong == ""
}

// weights goes through one node behind the Softmax, or through that.
func (a *attention) weights(n *graph.Node) bool {
	g := a.p.of.Graph
	switch n.Op {
	case "Cast":
		a.t = n.Inputs[0]
	case "Where":
		isNaN := g.Tensors[n.Inputs[0]].Maker
		zero, known := a.number(n.Inputs[1])
		if a.safe || isNaN < 0 || g.Nodes[isNaN].Op != "IsNaN" || g.Nodes[isNaN].Inputs[0] != n.Inputs[2] || known && zero != 0 {
			return a.unexpected(n)
		}
		a.claimUnless(known)
		a.safe, a.t = true, n.Inputs[2]
	case "Softmax":
		if !a.lastAxis(n) {
			return a.unexpected(n)
		}
		a.softmax, a.t = true, n.Inputs[0]
	default:
		return a.unexpected(n)
	}
	return true
}

func (a *attention) unexpected(n *graph.Node) bool {
	a.wrong = fmt.Sprintf("expected nodes of attention in the source, found %s that makes %s", n.Op, label(a.p.of.Graph, n.Outputs[0]))
	return false
}

// lastAxis reports whether a Softmax of the source is along the last of four axes alone.
func (a *attention) lastAxis(n *graph.Node) bool {
	if at := n.Attr("axis"); at != nil {
		return at.Int == -1 || at.Int == 3
	}
	return a.p.version >= 13 // 1 before
}

// where compares what replaces scores. Where the source replaces those for which its condition holds,
// the step has a node that negates it, or a constant, which is claimed.
func (a *attention) where(n *graph.Node) {
	keep, fill := a.call.Inputs[4], n.Inputs[2]
	a.t, a.kept = n.Inputs[1], true
	if !a.leadsToScores(a.t) {
		fill, a.t = n.Inputs[1], n.Inputs[2]
		if keep = a.negated(keep); keep == none {
			a.wrong = fmt.Sprintf("input 4: expected a node that negates %s", label(a.p.of.Graph, n.Inputs[0]))
			return
		}
	}
	if !a.p.step.Made.Constants[a.p.g.Tensors[keep].Name] {
		a.p.meet(keep, n.Inputs[0])
	}
	v, known := a.number(fill)
	a.claimUnless(known)
	if known && float32(v) != a.float("fill") {
		a.wrong = fmt.Sprintf("attribute fill: expected %g, as in the source", v)
	}
}

// negated returns what a node of the step negates; a constant itself, which was folded.
func (a *attention) negated(t graph.TensorID) graph.TensorID {
	x := a.p.g.Tensors[t]
	if x.Maker < 0 {
		if a.p.step.Made.Constants[x.Name] {
			return t
		}
		return none
	}
	switch n := a.p.g.Nodes[x.Maker]; n.Op {
	case "Not":
		return n.Inputs[0]
	}
	return none
}

// add compares what is added to scores.
func (a *attention) add(n *graph.Node) {
	p, i := a.p, 0
	if !a.leadsToScores(n.Inputs[0]) {
		i = 1
	}
	a.t = n.Inputs[i]
	other := n.Inputs[1-i]
	if a.bias == none {
		a.wrong = fmt.Sprintf("expected nothing that is added to scores, found %s in the source", label(p.of.Graph, other))
		return
	}
	p.meet(a.bias, other)
	a.bias = none
}

// leadsToScores reports whether nodes that a walk goes through lead from a tensor of the source to a
// product.
func (a *attention) leadsToScores(t graph.TensorID) bool {
	g := a.p.of.Graph
	open := []graph.TensorID{t}
	for visits := 0; len(open) > 0 && visits < mostVisits; visits++ {
		t, open = open[len(open)-1], open[:len(open)-1]
		if t < 0 || g.Tensors[t].Maker < 0 {
			continue
		}
		switch n := g.Nodes[g.Tensors[t].Maker]; n.Op {
		case "MatMul":
			return true
		case "Cast", "Mul", "Div", "Add":
			open = append(open, n.Inputs...)
		}
	}
	return false
}

// mostVisits bounds how far leadsToScores looks.
const mostVisits = 32

// times multiplies the scale by a factor of the source.
func (a *attention) times(scores, factor graph.TensorID, power float64) {
	v, known := a.number(factor)
	a.scale, a.scales, a.t = a.scale*math.Pow(v, power), a.scales && known, scores
}

// end compares what is left: the scale, and what stands for nothing.
func (a *attention) end() {
	safe := a.call.Attr("safe")
	if a.wrong != "" {
		return
	}
	switch {
	case len(a.call.Attrs) != 3 || safe == nil || (safe.Int != 0) != a.safe:
		a.wrong = fmt.Sprintf("attribute safe: expected %t, as in the source", a.safe)
	case a.scales && !agree(float64(a.float("scale"))*a.keys, a.scale):
		a.wrong = fmt.Sprintf("attribute scale: expected %g, as in the source", a.scale/a.keys)
	case a.bias != none && !a.p.holds(a.bias, &numbers.List{Floats: []float64{0}}):
		a.wrong = fmt.Sprintf("input 3: expected 0, since the source adds nothing, found %s", label(a.p.g, a.bias))
	case !a.kept && !a.p.holds(a.call.Inputs[4], &numbers.List{Ints: []int64{1}}):
		a.wrong = fmt.Sprintf("input 4: expected true, since the source replaces nothing, found %s", label(a.p.g, a.call.Inputs[4]))
	}
	a.claimUnless(a.scales)
}

// agree reports whether a scale is that of the source up to rounding. One that is no finite number agrees with
// none: no difference from it can be bounded.
func agree(scale, want float64) bool {
	return finite(scale) && finite(want) && math.Abs(scale-want) <= 1e-6*math.Abs(want)
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// number is a constant of the source with one element.
func (a *attention) number(t graph.TensorID) (v float64, known bool) {
	d := a.p.data(a.p.of.Graph.Tensors[a.p.root(t)])
	if d == nil || d.Elements() != 1 {
		return 0, false
	}
	x, err := a.p.files[1].Read(d)
	if err != nil {
		return 0, false
	}
	switch d.Type {
	case graph.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(x.Raw))), true
	case graph.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(x.Raw)), true
	case graph.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(x.Raw)) << 16)), true
	}
	return 0, false
}

func (a *attention) float(name string) float32 {
	if at := a.call.Attr(name); at != nil {
		return at.Float
	}
	return float32(math.NaN())
}

// claimUnless notes that a number of the source that nodes compute was not compared.
func (a *attention) claimUnless(known bool) {
	if !known {
		a.p.claimed["computed numbers of attention"] = true
	}
}

package regions

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan/verify/internal/subject"
)

// An attention in pieces: slices cut the axis that a Softmax normalises. Each slice finds
// the largest score so far, weighs its rows with exp(score - largest), and scales what the
// slices before have summed. Its nodes are checked one by one: each must go on from what
// the other nodes hold. The last slice divides by the sum of the weights.

// The roles of the nodes that such slices add.
const (
	roleMost  = "most"
	roleTop   = "top"
	roleBelow = "below"
	roleTotal = "total"
	roleFall  = "fall"
	roleScale = "scale"
	roleLess  = "less"
	roleRatio = "ratio"
	roleEmpty = "empty"
	roleShare = "share"
)

// pieceRoles are all of them.
var pieceRoles = []string{roleMost, roleTop, roleBelow, roleTotal, roleFall, roleScale, roleLess, roleRatio, roleEmpty, roleShare}

// weighting has the nodes of the source from a Softmax to the product that sums rows with
// its results as weights. Between them may be a guard, Where(IsNaN(weights), 0, weights).
type weighting struct {
	axis    int            // of the scores, the last one
	length  int64          // of that axis
	soft    graph.TensorID // the Softmax makes it
	nan     graph.TensorID // whether weights are NaN; none: there is no guard
	zero    graph.TensorID // of the guard
	weights graph.TensorID // which the product reads
	product graph.TensorID // the product makes it
}

// weighting returns that of a Softmax's output in the graph before; nil if the source has
// none.
func (c *sliced) weighting(soft graph.TensorID) *weighting {
	if w, known := c.weightings[soft]; known {
		return w
	}
	w := c.newWeighting(soft)
	c.weightings[soft] = w
	if w != nil {
		c.weightings[w.product] = w
	}
	return w
}

func (c *sliced) newWeighting(soft graph.TensorID) *weighting {
	g := c.b.g
	maker := g.Tensors[soft].Maker
	if maker < 0 || len(c.b.shape(soft)) < 2 {
		return nil
	}
	n := g.Nodes[maker]
	shape := c.b.shape(soft)
	axis := int64(-1)
	if c.b.m.Opset("") < 13 {
		axis = 1
	}
	if a := n.Attr("axis"); a != nil {
		axis = a.Int
	}
	last := len(shape) - 1
	if n.Op != "Softmax" || n.Domain != "" || axis != -1 && axis != int64(last) {
		return nil
	}
	w := &weighting{axis: last, length: shape[last], soft: soft, nan: none, zero: none, weights: soft}
	readers := func(t graph.TensorID) []graph.NodeID { return g.Tensors[t].Readers }
	if list := readers(soft); len(list) == 2 {
		for k, q := range list {
			nan, where := g.Nodes[q], g.Nodes[list[1-k]]
			if nan.Op == "IsNaN" && nan.Domain == "" && where.Op == "Where" && where.Domain == "" && where.Inputs[0] == nan.Outputs[0] && where.Inputs[2] == soft && len(readers(nan.Outputs[0])) == 1 && c.isZero(where.Inputs[1]) {
				w.nan, w.zero, w.weights = nan.Outputs[0], where.Inputs[1], where.Outputs[0]
			}
		}
		if w.nan == none {
			return nil
		}
	}
	if len(readers(w.weights)) != 1 {
		return nil
	}
	product := g.Nodes[readers(w.weights)[0]]
	if product.Op != "MatMul" || product.Domain != "" || product.Inputs[0] != w.weights || product.Inputs[1] == w.weights || len(c.b.shape(product.Inputs[1])) < 2 || len(c.b.shape(product.Outputs[0])) != len(shape) {
		return nil
	}
	w.product = product.Outputs[0]
	return w
}

// isZero reports whether a tensor of the source is a constant with one element, zero.
func (c *sliced) isZero(t graph.TensorID) bool {
	if t < 0 {
		return false
	}
	x := c.b.g.Tensors[t]
	d := x.Data
	if d == nil && x.Maker >= 0 {
		if n := c.b.g.Nodes[x.Maker]; ops.IsConstant(n) && n.Attr("value") != nil {
			d = n.Attr("value").Tensor
		}
	}
	if d == nil || x.Overridable {
		return false
	}
	list, known := d.Reals(1)
	return known && len(list) == 1 && list[0] == 0
}

// of returns the weighting of the tensor that a node is about.
func (c *sliced) ofWeighting(p *sliceNode) (*weighting, string) {
	of, wrong := c.role(p)
	if wrong != "" {
		return nil, wrong
	}
	w := c.weighting(of)
	if w == nil {
		for t := range c.b.g.Tensors { // of a product whose Softmax was not looked at
			if x := c.b.g.Tensors[t]; x.Maker >= 0 && c.b.g.Nodes[x.Maker].Op == "Softmax" {
				if v := c.weighting(graph.TensorID(t)); v != nil && v.product == of {
					w = v
				}
			}
		}
	}
	if w == nil {
		return nil, fmt.Sprintf("expected the results of a Softmax along the last axis that weigh the rows of a product alone, or this product, found %q", graph.Short(p.tensor))
	}
	return w, ""
}

// piece checks a node that an attention in pieces adds, and finds what it holds.
func (c *sliced) piece(p *sliceNode, n *graph.Node) string {
	w, wrong := c.ofWeighting(p)
	if wrong != "" {
		return wrong
	}
	about, name := w.soft, "the Softmax"
	switch {
	case p.role == roleShare || p.role == roleRatio || p.role == roleEmpty, p.role == roleLess && c.tensor(p.tensor) == w.product:
		about, name = w.product, "the product"
	}
	if c.tensor(p.tensor) != about {
		return fmt.Sprintf("expected the output of %s as its tensor, found %q", name, graph.Short(p.tensor))
	}
	if slices.ContainsFunc(n.Inputs, func(t graph.TensorID) bool { return t >= 0 && c.holds[t].kind == hasFault }) {
		return c.skipped(p, n)
	}
	var x contents
	switch p.role {
	case roleMost, roleTotal:
		x, wrong = c.reduced(p, n, w)
	case roleTop:
		x, wrong = c.top(p, n, w)
	case roleBelow, roleFall:
		x, wrong = c.difference(p, n, w)
	case roleScale:
		x, wrong = c.exponential(p, n, w)
	case roleLess:
		x, wrong = c.scaled(p, n, w)
	default:
		x, wrong = c.share(p, n, w)
	}
	if wrong == "" {
		c.holds[n.Outputs[0]] = x
	}
	return wrong
}

// operands checks the operator of a node, and that each of its inputs holds something of
// an attention, in its own slice or, if earlier names it, in the one before.
func (c *sliced) operands(p *sliceNode, n *graph.Node, op string, earlier int, kinds ...contentKind) ([]contents, string) {
	if wrong := plainNode(n, "", op, len(kinds), 0); wrong != "" {
		return nil, wrong
	}
	list := make([]contents, len(kinds))
	for j, kind := range kinds {
		t := n.Inputs[j]
		if list[j] = c.holds[t]; list[j].kind != kind {
			return nil, fmt.Sprintf("input %d: expected %s, found %s%s", j, kindText[kind], c.b.text(list[j]), c.made(t))
		}
		if wrong := c.inSlice(p, t, j == earlier); wrong != "" {
			return nil, fmt.Sprintf("input %d: %s", j, wrong)
		}
	}
	return list, ""
}

// kindText says what a node expects to read.
var kindText = map[contentKind]string{
	hasRows: "rows of scores", hasMost: "the largest scores of rows", hasTop: "the largest scores so far", hasBelow: "scores less the largest so far", hasWeights: "weights",
	hasTotal: "a sum of weights", hasFall: "by how much the largest score rises", hasScale: "the scale of what was summed", hasSum: "a sum of weighted rows",
	hasRatio: "a sum of weights by itself", hasEmpty: "whether a sum of weights is none", hasShare: "a sum of weighted rows by the sum of weights",
}

// reduced: ReduceMax of scores, ReduceSum of weights, or the sum of two sums of weights.
func (c *sliced) reduced(p *sliceNode, n *graph.Node, w *weighting) (contents, string) {
	if p.role == roleTotal && n.Op == "Add" {
		in, wrong := c.operands(p, n, "Add", none, hasTotal, hasTotal)
		if wrong != "" {
			return contents{}, wrong
		}
		if a, b := in[0], in[1]; a.of != w.soft || b.of != w.soft || a.lo != 0 || a.hi != b.lo || a.top != b.top {
			return contents{}, fmt.Sprintf("expected sums of weights of rows that follow one another, by the same largest scores, found %s and %s", c.b.text(a), c.b.text(b))
		}
		x := in[0]
		x.hi = in[1].hi
		return x, ""
	}
	op, kind, since := "ReduceMax", hasRows, int64(18)
	if p.role == roleTotal {
		op, kind, since = "ReduceSum", hasWeights, 13
	}
	form := *n
	if c.v.Model.Opset("") >= since {
		if len(n.Inputs) != 2 {
			return contents{}, fmt.Sprintf("expected 2 inputs, found %d", len(n.Inputs))
		}
		if list, ok := c.vector(n.Inputs[1]); !ok || len(list) != 1 || list[0] != int64(w.axis) {
			return contents{}, fmt.Sprintf("input 1: expected a constant [%d], found %v", w.axis, list)
		}
		form.Inputs = n.Inputs[:1]
	} else {
		if len(n.Attrs) != 1 || n.Attrs[0].Name != "axes" || n.Attrs[0].Ref != "" || !slices.Equal(n.Attrs[0].Ints, []int64{int64(w.axis)}) {
			return contents{}, fmt.Sprintf("expected attribute axes [%d] alone", w.axis)
		}
		form.Attrs = nil
	}
	in, wrong := c.operands(p, &form, op, none, kind)
	if wrong != "" {
		return contents{}, wrong
	}
	x := in[0]
	switch {
	case p.role == roleTotal && x.of == w.soft:
		x.kind = hasTotal
		return x, ""
	case p.role == roleMost && x.of == c.scoresOf(w) && x.axis == w.axis && x.lo != anyRow && x.modulo == 0:
		c.regions[p.region].origin(n.Outputs[0], n.Inputs[0])
		return contents{kind: hasMost, of: w.soft, axis: none, lo: x.lo, hi: x.hi}, ""
	}
	return contents{}, fmt.Sprintf("input 0: expected rows of axis %d of %q, found %s%s", w.axis, graph.Short(c.b.g.Tensors[c.scoresOf(w)].Name), c.b.text(x), c.made(n.Inputs[0]))
}

// scoresOf returns what the Softmax reads.
func (c *sliced) scoresOf(w *weighting) graph.TensorID {
	return c.b.g.Nodes[c.b.g.Tensors[w.soft].Maker].Inputs[0]
}

// top: the larger one of the largest scores of the slices before and of this one. The
// first slice begins with the lowest number.
func (c *sliced) top(p *sliceNode, n *graph.Node, w *weighting) (contents, string) {
	if wrong := plainNode(n, "", "Max", 2, 0); wrong != "" {
		return contents{}, wrong
	}
	most := c.holds[n.Inputs[1]]
	before := contents{kind: hasTop, of: w.soft, axis: none}
	if p.slice == 0 {
		elem := c.b.g.Tensors[w.soft].Type.Elem
		want := -math.MaxFloat64
		if elem == graph.Float32 {
			want = -math.MaxFloat32
		}
		d := c.g.Tensors[n.Inputs[0]].Data
		var found []float64
		if d != nil && !c.g.Tensors[n.Inputs[0]].Overridable && len(d.Dims) == 0 && d.Type == elem {
			found, _ = d.Reals(1)
		}
		if len(found) != 1 || found[0] != want {
			return contents{}, fmt.Sprintf("input 0: expected a constant %v, found %v", want, found)
		}
	} else {
		before = c.holds[n.Inputs[0]]
		if wrong := c.inSlice(p, n.Inputs[0], true); wrong != "" {
			return contents{}, "input 0: " + wrong
		}
	}
	if wrong := c.inSlice(p, n.Inputs[1], false); wrong != "" {
		return contents{}, "input 1: " + wrong
	}
	if before.kind != hasTop || most.kind != hasMost || before.of != w.soft || most.of != w.soft || most.lo != before.hi {
		return contents{}, fmt.Sprintf("expected the largest scores of rows that follow one another, found %s%s and %s%s", c.b.text(before), c.made(n.Inputs[0]), c.b.text(most), c.made(n.Inputs[1]))
	}
	return contents{kind: hasTop, of: w.soft, axis: none, hi: most.hi}, ""
}

// difference: scores of a slice less the largest so far, or the largest of the slices
// before less the largest so far.
func (c *sliced) difference(p *sliceNode, n *graph.Node, w *weighting) (contents, string) {
	first, earlier := hasRows, none
	if p.role == roleFall {
		first, earlier = hasTop, 0
	}
	in, wrong := c.operands(p, n, "Sub", earlier, first, hasTop)
	if wrong != "" {
		return contents{}, wrong
	}
	x, top := in[0], in[1]
	switch {
	case top.of != w.soft:
	case p.role == roleFall && x.of == w.soft && x.hi < top.hi:
		return contents{kind: hasFall, of: w.soft, axis: none, lo: x.hi, hi: top.hi}, ""
	case p.role == roleBelow && x.of == c.scoresOf(w) && x.axis == w.axis && x.lo != anyRow && x.hi == top.hi && x.modulo == 0:
		return contents{kind: hasBelow, of: w.soft, axis: w.axis, lo: x.lo, hi: x.hi, top: top.hi}, ""
	}
	return contents{}, fmt.Sprintf("expected scores, or the largest of the slices before, and the largest so far, found %s and %s%s", c.b.text(x), c.b.text(top), c.made(n.Inputs[0]))
}

// exponential: by how much what was summed is scaled.
func (c *sliced) exponential(p *sliceNode, n *graph.Node, w *weighting) (contents, string) {
	in, wrong := c.operands(p, n, "Exp", none, hasFall)
	if wrong == "" && in[0].of != w.soft {
		wrong = fmt.Sprintf("expected by how much the largest score rises, found %s%s", c.b.text(in[0]), c.made(n.Inputs[0]))
	}
	if wrong != "" {
		return contents{}, wrong
	}
	x := in[0]
	x.kind = hasScale
	return x, ""
}

// scaled: what the slices before have summed, for the largest scores so far.
func (c *sliced) scaled(p *sliceNode, n *graph.Node, w *weighting) (contents, string) {
	kind, of := hasTotal, w.soft
	if c.tensor(p.tensor) == w.product {
		kind, of = hasSum, w.product
	}
	in, wrong := c.operands(p, n, "Mul", 0, kind, hasScale)
	if wrong != "" {
		return contents{}, wrong
	}
	x, scale := in[0], in[1]
	if x.of != of || scale.of != w.soft || x.top != scale.lo || x.hi != scale.lo || x.lo != 0 {
		return contents{}, fmt.Sprintf("expected what the slices before have summed, and its scale, found %s and %s%s", c.b.text(x), c.b.text(scale), c.made(n.Inputs[0]))
	}
	x.top = scale.hi
	return x, ""
}

// share: the sum of weighted rows by the sum of weights. Where a guard makes zeros of what
// has no weights, so does the last node.
func (c *sliced) share(p *sliceNode, n *graph.Node, w *weighting) (contents, string) {
	all := all(w.product)
	full := func(x contents, of graph.TensorID) bool {
		return x.of == of && x.lo == 0 && x.hi == w.length && x.top == w.length
	}
	var in []contents
	wrong := ""
	switch {
	case p.role == roleRatio:
		if in, wrong = c.operands(p, n, "Div", none, hasTotal, hasTotal); wrong == "" && full(in[0], w.soft) && in[0] == in[1] {
			return contents{kind: hasRatio, of: w.soft, axis: none}, ""
		}
	case p.role == roleEmpty:
		if in, wrong = c.operands(p, n, "IsNaN", none, hasRatio); wrong == "" && in[0].of == w.soft {
			return contents{kind: hasEmpty, of: w.soft, axis: none}, ""
		}
	case n.Op == "Where" && w.nan != none:
		if wrong = plainNode(n, "", "Where", 3, 0); wrong == "" {
			if wrong = c.wants(n.Inputs[1], w.zero); wrong == "" {
				form := *n
				form.Op, form.Inputs = "Where", []graph.TensorID{n.Inputs[0], n.Inputs[2]}
				if in, wrong = c.operands(p, &form, "Where", none, hasEmpty, hasShare); wrong == "" && in[0].of == w.soft && in[1].of == w.product {
					c.reads(p, n.Inputs[1], none)
					return all, ""
				}
			}
		}
	default:
		if in, wrong = c.operands(p, n, "Div", none, hasSum, hasTotal); wrong == "" && full(in[0], w.product) && full(in[1], w.soft) {
			if w.nan != none {
				all = contents{kind: hasShare, of: w.product, axis: none}
			}
			return all, ""
		}
	}
	if wrong == "" {
		wrong = fmt.Sprintf("expected what all %d rows sum, found %s%s", w.length, c.b.text(in[0]), c.made(n.Inputs[0]))
	}
	return contents{}, wrong
}

// weighed checks the copy of a node that reads or makes weights: false if it does neither.
func (c *sliced) weighed(p *sliceNode, n, old *graph.Node, of graph.TensorID) (string, bool) {
	reads := slices.ContainsFunc(n.Inputs, func(t graph.TensorID) bool {
		return t >= 0 && (c.holds[t].kind == hasWeights || c.holds[t].kind == hasBelow)
	})
	if !reads {
		return "", false
	}
	x, wrong := c.weights(p, n, old, of)
	if wrong != "" {
		return wrong, true
	}
	c.holds[n.Outputs[0]] = x
	c.regions[p.region].order(n, p.tensor)
	return "", true
}

func (c *sliced) weights(p *sliceNode, n, old *graph.Node, of graph.TensorID) (contents, string) {
	if w := c.weighting(of); w != nil && of == w.soft {
		in, wrong := c.operands(p, n, "Exp", none, hasBelow)
		if wrong != "" {
			return contents{}, wrong
		}
		x := in[0]
		if x.of != of {
			return contents{}, fmt.Sprintf("expected scores less the largest so far, found %s%s", c.b.text(x), c.made(n.Inputs[0]))
		}
		x.kind = hasWeights
		r := &c.regions[p.region]
		if !slices.Contains(r.running, p.tensor) {
			r.running = append(r.running, p.tensor)
		}
		return x, ""
	}
	other := func(j int) string {
		return fmt.Sprintf("input %d: expected %s as in the source, found %s%s", j, c.b.text(all(old.Inputs[j])), c.b.text(c.holds[n.Inputs[j]]), c.made(n.Inputs[j]))
	}
	if n.Op != old.Op || n.Domain != old.Domain || n.Overload != old.Overload || len(n.Inputs) != len(old.Inputs) || len(n.Outputs) != 1 || len(n.Attrs) > 0 || slices.Contains(n.Inputs, none) {
		return contents{}, fmt.Sprintf("expected a copy of %s, found %s with %s", old.OpName(), n.OpName(), subject.Count(len(n.Inputs), "input"))
	}
	for j, t := range n.Inputs {
		if wrong := c.inSlice(p, t, false); wrong != "" {
			return contents{}, fmt.Sprintf("input %d: %s", j, wrong)
		}
	}
	x := c.holds[n.Inputs[0]]
	switch soft := c.weighting(x.of); old.Op {
	case "IsNaN":
		if x.kind == hasWeights && x.of == old.Inputs[0] && soft != nil && soft.nan == of {
			x.of = of
			return x, ""
		}
	case "Where":
		y := c.holds[n.Inputs[2]]
		if y.kind != hasWeights || y.of != old.Inputs[2] {
			return contents{}, other(2)
		}
		if wrong := c.wants(n.Inputs[1], old.Inputs[1]); wrong != "" {
			return contents{}, "input 1: " + wrong
		}
		if w := c.weighting(y.of); w != nil && w.weights == of && x.kind == hasWeights && x.of == w.nan && x.lo == y.lo && x.hi == y.hi {
			c.reads(p, n.Inputs[1], none)
			y.of = of
			return y, ""
		}
	case "MatMul":
		return c.weightedSum(p, n, old, of, x)
	}
	return contents{}, other(0)
}

// weightedSum: the product of weights and rows.
func (c *sliced) weightedSum(p *sliceNode, n, old *graph.Node, of graph.TensorID, x contents) (contents, string) {
	w, wrong := c.ofWeighting(p)
	if wrong != "" {
		return contents{}, wrong
	}
	if x.kind != hasWeights || x.of != w.weights || of != w.product {
		return contents{}, fmt.Sprintf("input 0: expected weights, found %s%s", c.b.text(x), c.made(n.Inputs[0]))
	}
	rows := len(c.b.shape(old.Inputs[1])) - 2
	if have := c.holds[n.Inputs[1]]; !c.b.has(have, old.Inputs[1], rows, x.lo, x.hi) {
		return contents{}, fmt.Sprintf("input 1: expected %s, found %s%s", c.b.text(c.b.rowsOf(old.Inputs[1], rows, x.lo, x.hi)), c.b.text(have), c.made(n.Inputs[1]))
	}
	r := &c.regions[p.region]
	if r.sums[of] == nil {
		r.sums[of] = &addition{by: "Add", length: w.length}
		r.makes(p.tensor, none, "", c.g.Label(c.g.Tensors[n.Outputs[0]].Maker))
	}
	c.reads(p, n.Inputs[1], rows)
	return contents{kind: hasSum, of: of, axis: none, lo: x.lo, hi: x.hi, top: x.top}, ""
}

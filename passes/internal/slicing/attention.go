package slicing

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/cost"
	"github.com/onnxmem/onnxmem/ops"
)

// attention is a Softmax along its last axis whose results are the weights of a sum over
// the rows of a tensor, and serve nothing else. So slices may cut this axis, too: a slice
// divides by no sum, but weighs its rows with exp(score - top), where top is the largest
// score so far. When top rises, what earlier slices have summed is scaled by
// exp(old top - new top), and so is the sum of the weights, by which the last slice
// divides. The results are those of the whole up to rounding (Rabe & Staats 2021; Milakov
// & Gimelshein 2018, online softmax).
//
// PyTorch's exporter puts a guard between both, Where(IsNaN(weights), 0, weights), which
// makes zeros of rows whose scores are all -Inf. Copies of it run in each slice, and the
// last slice makes zeros where the sum of the weights is 0 or NaN.
type attention struct {
	softmax, product int
	nan, guard       int            // of the guard; -1: there is none
	zero             graph.TensorID // of the guard
	weights          graph.TensorID // which the product reads
	axis             int            // of the scores, which the Softmax normalises
}

// attention returns what a Softmax belongs to; nil if its axis cannot be cut.
func (p *Program) attention(node int) *attention {
	if a, known := p.attentions[node]; known {
		return a
	}
	a := p.newAttention(node)
	p.attentions[node] = a
	return a
}

func (p *Program) newAttention(node int) *attention {
	n := p.g.Nodes[node]
	if !p.Sums || n.Op != "Softmax" || n.Domain != "" || !p.mayRunInSlices(node) {
		return nil
	}
	made := n.Outputs[0]
	shape := p.shape(made)
	axis, version := int64(-1), p.Model.Opset("")
	if version < 13 {
		axis = 1
	}
	if x := n.Attr("axis"); x != nil {
		axis = x.Int
	}
	last := int64(len(shape) - 1)
	if len(shape) < 2 || axis != -1 && axis != last || !p.divides(made) || p.shape(n.Inputs[0]) == nil || version < 8 {
		return nil
	}
	a := &attention{softmax: node, nan: -1, guard: -1, zero: graph.None, weights: made, axis: int(last)}
	list := p.g.Tensors[made].Readers
	if len(list) == 2 { // the guard
		a.nan, a.guard = int(list[0]), int(list[1])
		if p.g.Nodes[a.guard].Op == "IsNaN" {
			a.nan, a.guard = a.guard, a.nan
		}
		nan, where := p.g.Nodes[a.nan], p.g.Nodes[a.guard]
		if nan.Op != "IsNaN" || nan.Domain != "" || where.Op != "Where" || where.Domain != "" || where.Inputs[0] != nan.Outputs[0] || where.Inputs[2] != made || !p.zero(where.Inputs[1]) || !p.alone(made, 2) || !p.alone(nan.Outputs[0], 1) {
			return nil
		}
		a.zero, a.weights = where.Inputs[1], where.Outputs[0]
	} else if !p.alone(made, 1) {
		return nil
	}
	if !p.alone(a.weights, 1) {
		return nil
	}
	a.product = int(p.g.Tensors[a.weights].Readers[0])
	product := p.g.Nodes[a.product]
	if product.Op != "MatMul" || product.Domain != "" || product.Inputs[0] != a.weights || product.Inputs[1] == a.weights || len(p.shape(product.Inputs[1])) < 2 || len(p.shape(product.Outputs[0])) != len(shape) {
		return nil
	}
	return a
}

// mostAlone is the largest number of readers that alone is asked about.
const mostAlone = 2

// alone reports whether so many nodes read a tensor, and nothing else wants it.
func (p *Program) alone(t graph.TensorID, readers int) bool {
	x := p.g.Tensors[t]
	return len(x.Readers) == readers && !x.Output && !p.Keep[x.Name] && p.shape(t) != nil
}

// zero reports whether a tensor is a constant with one element, zero.
func (p *Program) zero(t graph.TensorID) bool {
	if t < 0 {
		return false
	}
	x := p.g.Tensors[t]
	d := x.Data
	if d == nil && x.Maker >= 0 && ops.IsConstant(p.g.Nodes[x.Maker]) {
		if v := p.g.Nodes[x.Maker].Attr("value"); v != nil {
			d = v.Tensor
		}
	}
	if d == nil || x.Input {
		return false
	}
	list, known := d.Reals(1)
	return known && len(list) == 1 && list[0] == 0
}

// cut is the dimension map of the Softmax along the axis that it normalises.
func (a *attention) cut(length int64) *ops.Cut {
	return &ops.Cut{In: []ops.Rows{ops.Same(a.axis, length)}, Out: []int{a.axis}}
}

// scores returns the node that makes the scores as its first output; -1 if there is none.
func (p *Program) scores(a *attention) int {
	t := p.g.Nodes[a.softmax].Inputs[0]
	maker := p.g.Tensors[t].Maker
	if maker < 0 || p.g.Nodes[maker].Outputs[0] != t {
		return -1
	}
	return int(maker)
}

// inPieces reports whether the products of all attentions of a region belong to it.
func (r *Region) inPieces() bool {
	for _, a := range r.pieced {
		if a.guard >= 0 && (r.at(a.nan) != inside || r.at(a.guard) != inside) || r.at(a.product) != sums {
			return false
		}
	}
	return true
}

// rowsOfState is how many tensors with an element for each row of scores a slice holds.
const rowsOfState = 6

// state returns the bytes of the largest scores and of the sums of weights.
func (r *Region) state() (bytes int64) {
	for _, a := range r.pieced {
		t := r.p.g.Nodes[a.softmax].Outputs[0]
		bytes += rowsOfState * r.p.rowBytes(t, a.axis, 1)
	}
	return bytes
}

// timeOfPieces returns the time of what a slice does for an attention beside the copies of
// its nodes: it reads scores for the largest of them, writes and reads their differences,
// and reads the weights for their sum. The others scale what was summed before them.
func (r *Region) timeOfPieces(a *attention, s *Slice, first bool) (ns float64) {
	p := r.p
	t := p.g.Nodes[a.softmax].Outputs[0]
	w, _ := s.Made(t)
	rows := float64(p.exactBytes(t, a.axis, w.Hi-w.Lo))
	state := float64(p.exactBytes(t, a.axis, 1))
	ns = 2*p.Cost(cost.Work{Bytes: rows + state}) + p.Cost(cost.Work{Bytes: 2*rows + state}) + p.Cost(cost.Work{Bytes: 3 * state})
	if !first {
		made := float64(p.g.Tensors[p.g.Nodes[a.product].Outputs[0]].Bytes)
		ns += 4*p.Cost(cost.Work{Bytes: 3 * state}) + p.Cost(cost.Work{Bytes: 2*made + state})
	}
	return ns
}

// timeOfShares returns the time in which the last slice divides by the sums of weights.
func (r *Region) timeOfShares() (ns float64) {
	for _, a := range r.pieced {
		made := float64(r.p.g.Tensors[r.p.g.Nodes[a.product].Outputs[0]].Bytes)
		if ns += r.p.Cost(cost.Work{Bytes: 2 * made}); a.guard >= 0 {
			ns += r.p.Cost(cost.Work{Bytes: 2 * made})
		}
	}
	return ns
}

// The roles of the nodes that an attention in pieces adds. Those of a Softmax have its
// output as T, those of its product have the product's.
const (
	roleMost  = "most"  // the largest score of each row in this slice
	roleTop   = "top"   // and so far
	roleBelow = "below" // the scores less the largest so far; roleNode: exp of it
	roleTotal = "total" // the sum of the weights of this slice, or so far
	roleFall  = "fall"  // the largest score of the slices before less the one now
	roleScale = "scale" // exp of it
	roleLess  = "less"  // what the slices before have summed, scaled
	roleRatio = "ratio" // the sum of the weights by itself
	roleEmpty = "empty" // whether that is NaN: no score counts
	roleShare = "share" // what was summed, by the sum of the weights; zero where no score counts
)

// running is what the slices of an attention hand on.
type running struct {
	top, total graph.TensorID
	scale      graph.TensorID // of what the slices before have summed
}

// made adds a node with one output, which it returns.
func (r *regionWriter) made(role, op string, of graph.TensorID, in ...graph.TensorID) graph.TensorID {
	out := r.tensor(r.name(of, role))
	r.add(&graph.Node{Name: r.label(r.g.Tensors[out].Name), Op: op, Inputs: in, Outputs: []graph.TensorID{out}}, role, of)
	return out
}

// reduced adds a node that reduces an axis to length 1. Its axes are an attribute before
// the version since of the operator set.
func (r *regionWriter) reduced(role, op string, of, in graph.TensorID, axis int, since int64) graph.TensorID {
	if r.p.Model.Opset("") >= since {
		return r.made(role, op, of, in, r.vector(int64(axis)))
	}
	out := r.made(role, op, of, in)
	r.nodes[len(r.nodes)-1].Attrs = []*graph.Attr{{Name: "axes", Type: graph.AttrInts, Ints: []int64{int64(axis)}}}
	return out
}

// weigh adds the nodes of a slice for the Softmax of an attention. n is its copy.
func (r *regionWriter) weigh(n *graph.Node, a *attention) error {
	of := r.p.g.Nodes[a.softmax].Outputs[0]
	now := r.running[a.softmax]
	started := now != nil
	if !started {
		lowest, err := r.lowest(r.p.g.Tensors[of].Type.Elem)
		if err != nil {
			return err
		}
		now = &running{top: lowest}
		r.running[a.softmax] = now
	}
	scores := n.Inputs[0]
	before := now.top
	now.top = r.made(roleTop, "Max", of, before, r.reduced(roleMost, "ReduceMax", of, scores, a.axis, 18))
	n.Op, n.Attrs, n.Inputs = "Exp", nil, []graph.TensorID{r.made(roleBelow, "Sub", of, scores, now.top)}
	r.add(n, roleNode, of)
	total := r.reduced(roleTotal, "ReduceSum", of, n.Outputs[0], a.axis, 13)
	if started {
		now.scale = r.made(roleScale, "Exp", of, r.made(roleFall, "Sub", of, before, now.top))
		total = r.made(roleTotal, "Add", of, r.made(roleLess, "Mul", of, now.total, now.scale), total)
	}
	now.total = total
	return nil
}

// lowest returns an initializer with the lowest finite number: a row whose scores are all
// -Inf then has weights of 0, and none that are NaN.
func (r *regionWriter) lowest(elem graph.DType) (graph.TensorID, error) {
	if t, known := r.lows[elem]; known {
		return t, nil
	}
	low := -math.MaxFloat64
	if elem == graph.Float32 {
		low = -math.MaxFloat32
	}
	t, err := r.number(elem, low)
	if err != nil {
		return graph.None, fmt.Errorf("the lowest number: %w", err)
	}
	r.lows[elem] = t
	return t, nil
}

// weighed adds the nodes of a slice for the product of an attention. n is its copy.
func (r *regionWriter) weighed(n *graph.Node, a *attention) {
	of := r.p.g.Nodes[a.product].Outputs[0]
	now := r.running[a.softmax]
	r.add(n, roleNode, of)
	sum := n.Outputs[0]
	if before, started := r.now[of]; started {
		sum = r.made(roleSum, "Add", of, r.made(roleLess, "Mul", of, before, now.scale), sum)
	}
	r.now[of] = sum
	if r.slice < r.c.Slices-1 {
		return
	}
	share := &graph.Node{Name: r.label(r.name(of, roleShare)), Op: "Div", Inputs: []graph.TensorID{sum, now.total}, Outputs: []graph.TensorID{of}}
	if a.guard >= 0 {
		empty := r.made(roleEmpty, "IsNaN", of, r.made(roleRatio, "Div", of, now.total, now.total))
		share.Outputs = []graph.TensorID{r.tensor(r.name(of, roleShare))}
		r.add(share, roleShare, of)
		share = &graph.Node{Name: r.label(r.name(of, roleShare)), Op: "Where", Inputs: []graph.TensorID{empty, a.zero, share.Outputs[0]}, Outputs: []graph.TensorID{of}}
	}
	r.add(share, roleShare, of)
	r.now[of] = of
}

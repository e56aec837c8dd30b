package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// product is the gradient of a tensor that the body of a Scan captures, where each
// iteration adds the product of a transposed matrix with another: Aᵀ·B. The sum over
// the iterations is the product of the matrices with the rows of all iterations. If
// both are there, as what the Scan reads or makes, the body need not carry the sum, and
// one large product replaces many small ones. Otherwise each product adds into the sum.
type product struct {
	of   int         // the capture, as an index of scanned.inputs
	node *graph.Node // the Gemm of the body
	from [2]stacked
}

// stacked is a matrix of all iterations: a state before each, an output of the
// gradient's Scan, or a tensor of the outer graph.
type stacked struct {
	state, output int // -1: not this
	tensor        ID
}

// overRows returns the Gemm that makes a gradient as Aᵀ·B; nil if nothing of the kind
// does.
func (s *scanned) overRows(d ID) *graph.Node {
	n := s.b.makers[d]
	if n == nil || n.Op != "Gemm" || n.Domain != "" || len(n.Inputs) != 2 {
		return nil
	}
	if attr.Int(n, "transA", 0) != 1 || attr.Int(n, "transB", 0) != 0 {
		return nil
	}
	return n
}

// products finds the products among the gradients of the captures whose matrices are
// there for all iterations. stacks lists the outputs of the gradient's body that are
// gradients of scanned inputs.
func (s *scanned) products(grads []ID, stacks map[int]int) map[int]*product {
	list := map[int]*product{}
	for i := len(s.from.Inputs); i < len(grads); i++ {
		if grads[i] == graph.None || s.overRows(grads[i]) == nil {
			continue
		}
		p := &product{of: i, node: s.overRows(grads[i])}
		found := 0
		for k, t := range p.node.Inputs {
			var ok bool
			if p.from[k], ok = s.stack(t, grads, stacks); ok {
				found++
			}
		}
		if found == 2 {
			list[i] = p
		}
	}
	return list
}

// stack returns the matrices of all iterations for one of the body, in the direction
// s.before, if they are there.
func (s *scanned) stack(t ID, grads []ID, stacks map[int]int) (stacked, bool) {
	for k := range s.from.Inputs {
		along := k < s.states || s.direction("scan_input_directions", k-s.states) == s.before
		switch {
		case !along:
		case s.inputs[k] == t && k < s.states:
			return stacked{state: k, output: -1}, true
		case s.inputs[k] == t:
			return stacked{tensor: s.node.Inputs[k], output: -1, state: -1}, true
		case k >= s.states && grads[k] == t:
			return stacked{output: stacks[k], state: -1}, true
		}
	}
	return stacked{}, false
}

// added returns the sum of a gradient over the iterations so far, and the gradient of
// this one.
func (s *scanned) added(sum, d ID) ID {
	n := s.overRows(d)
	if n == nil {
		return s.b.add(sum, d)
	}
	a := attrs{"alpha": alphaOf(n), "transA": 1}
	return s.b.with("Gemm", a, n.Inputs[0], n.Inputs[1], sum)
}

func alphaOf(n *graph.Node) float64 { return float64(attr.Float(n, "alpha", 1)) }

// emit emits the product from the outputs of the gradient's Scan.
func (p *product) emit(s *scanned, made []ID) ID {
	var in []ID
	for _, m := range p.from {
		t := m.tensor
		switch {
		case m.state >= 0:
			t = s.keep(m.state)
		case m.output >= 0:
			t = made[m.output]
		}
		shape := s.shape(t)
		if s.err != nil {
			return graph.None
		}
		in = append(in, s.reshape(t, []int64{shape[0] * shape[1], shape[2]}))
	}
	return s.with("Gemm", attrs{"alpha": alphaOf(p.node), "transA": 1}, in...)
}

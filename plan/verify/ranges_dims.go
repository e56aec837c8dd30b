package verify

import (
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// others returns the dimensions of an inferred point that have no range.
func (c *pointChecker) others(inf *ops.Inference) []ops.BoundDim {
	return slices.DeleteFunc(slices.Clone(inf.Dims), func(d ops.BoundDim) bool { return slices.Contains(c.names, d.Name) })
}

// follows checks the lengths of the dimensions without a range at a point that was inferred
// from those with one. A length that is not given there is one that follows from them, or the
// assumed 1. So what the plan calls a length that follows must not be assumed, unless it is
// at the corner, too (an expression of an assumed one). All others are those of the corner.
func (c *pointChecker) follows(point int, lengths []ops.BoundDim) {
	corner := point == c.r.Points-1
	for _, d := range lengths {
		have, stated := c.v.Plan.Dims[d.Name]
		switch {
		case !stated:
			c.v.Fault(CodeDims, "dims: at %s: %q is missing: expected %d", graph.AtLengths(c.at(point)), graph.Short(d.Name), d.Value)
		case have.Follows && d.Assumed != have.Assumed:
			c.v.Fault(CodeDims, "dims: at %s: %q does not follow from other dimensions: expected a length of its own, or a range", graph.AtLengths(c.at(point)), graph.Short(d.Name))
		case d.Value != have.Value && (corner || !have.Follows):
			c.v.Fault(CodeDims, "dims: at %s: %q: expected %d, found %d (follows: %t)", graph.AtLengths(c.at(point)), graph.Short(d.Name), d.Value, have.Value, have.Follows)
		case d.Value != have.Value:
			c.moves[d.Name] = true
		}
	}
}

// followed checks that what the plan says to follow has several lengths.
func (c *pointChecker) followed() {
	for _, name := range sortedKeys(c.v.Plan.Dims) {
		if c.v.Plan.Dims[name].Follows && !c.moves[name] {
			c.v.Fault(CodeDims, "dims: %q follows from others: expected another length at some point, found %d everywhere", graph.Short(name), c.v.Plan.Dims[name].Value)
		}
	}
}

// followsAtCorner checks, where the other points are not, that the lengths that follow are
// those that inference finds at the corner.
func (c *pointChecker) followsAtCorner() {
	if !slices.ContainsFunc(slices.Collect(maps.Values(c.v.Plan.Dims)), func(d plan.Dim) bool { return d.Follows }) {
		return
	}
	m := *c.v.Model
	m.Graph = c.v.Model.Graph.Clone()
	all := c.at(c.r.Points - 1)
	maps.Copy(all, c.fixed)
	inf, err := ops.Infer(&m, ops.Options{Dims: all, Values: c.v.Plan.Values, SpareDims: c.v.trains()})
	if err != nil {
		c.v.Fault(CodeDims, "dims: the model cannot be inferred without those that follow: %v", err)
		return
	}
	c.follows(c.r.Points-1, c.others(inf))
}

// maxSizePoints limits the points at which two polynomials are compared.
const maxSizePoints = 1 << 20

// boundedSizes compares the polynomials of buffers with what inference with bounded lengths
// says of their tensors: a size that is a product of lengths is one at every point. Other
// sizes (sums, and what was rounded) were compared at the points of the table alone, and are
// claimed.
func (c *pointChecker) boundedSizes(m *graph.Model, inf *ops.Inference) {
	equal := map[sized]bool{}
	for k, g := range plan.Graphs(m.Graph) {
		l := &c.layers[k]
		for _, b := range l.stacking {
			i := l.sizeOf[b]
			if i < 0 {
				continue
			}
			proven := false
			for _, id := range l.tensors[b] {
				of, known := productOf(inf, g.Tensors[id])
				if !known {
					continue
				}
				same, done := equal[sized{i, of}]
				if !done {
					same = c.same(c.r.Sizes[i], of)
					equal[sized{i, of}] = same
				}
				if proven = true; !same {
					c.v.Fault(CodeRange, "ranges: %sbuffer %d: polynomial %d: expected the size of tensor %q at every point", l.where, b, i, graph.Short(g.Tensors[id].Name))
				}
				break // they have one size
			}
			if !proven {
				c.v.Claim("ranges.sizes")
			}
		}
	}
}

// sized is a polynomial of the plan, and a size with which it was compared.
type sized struct {
	index int
	of    product
}

// product is a number of bytes: a factor times powers of up to four lengths.
type product struct {
	factor int64
	names  [4]string
	powers [4]int
}

// productOf returns the bytes of a tensor as a product of the lengths of dimensions.
func productOf(inf *ops.Inference, t *graph.Tensor) (p product, known bool) {
	bits := t.Type.Elem.Bits()
	if t.Dynamic != "" || bits < 8 || !t.Type.Ranked {
		return p, false
	}
	factor, powers, known := inf.Product(append(slices.Clone(t.Type.Shape), graph.Dim(bits/8))...)
	if !known || len(powers) > len(p.names) {
		return p, false
	}
	p.factor = factor
	for k, name := range sortedKeys(powers) {
		p.names[k], p.powers[k] = name, powers[name]
	}
	return p, true
}

// polynomial is the product as the plan would write it.
func (p product) polynomial() plan.Polynomial {
	term := plan.Term{Factor: p.factor, Powers: map[string]int{}}
	for k, name := range p.names {
		if p.powers[k] > 0 {
			term.Powers[name] = p.powers[k]
		}
	}
	return plan.Polynomial{term}
}

// same reports whether a polynomial is a product at all points. Two polynomials that agree
// at one more length of each dimension than their degree in it agree everywhere; of a
// dimension that has fewer lengths, all are compared.
func (c *pointChecker) same(x plan.Polynomial, of product) bool {
	y := of.polynomial()
	counts, total := make([]int, len(c.names)), 1
	for k, name := range c.names {
		degree := 0
		for _, t := range slices.Concat(x, y) {
			degree = max(degree, t.Powers[name])
		}
		counts[k] = min(degree+1, len(c.lengths[k]))
		if total *= counts[k]; total > maxSizePoints {
			return false // no plan of ours has such degrees
		}
	}
	dims := map[string]int64{}
	for point := range total {
		for k, name := range c.names {
			// The largest lengths: that is where values overflow.
			dims[name] = c.lengths[k][len(c.lengths[k])-1-point%counts[k]]
			point /= counts[k]
		}
		a, okA := x.At(dims)
		b, okB := y.At(dims)
		if !okA || !okB || a != b {
			return false
		}
	}
	return true
}

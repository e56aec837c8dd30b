package reference

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// ErrUnknown means that the evaluator lacks an operator.
var ErrUnknown = errors.New("operator not known")

// ErrRandom means that a node draws random numbers, so that its result is not known.
var ErrRandom = errors.New("draws at random")

// Output is one result of a node in real numbers: floating-point elements are not rounded to
// the type. How far another implementation may deviate depends on the magnitudes of the terms
// that are summed, since each rounding error is relative to those. The sum of 1 and -1 may be
// off by the rounding error of 1.
type Output struct {
	*Tensor
	// Exact: elements are only moved or compared, so nothing is rounded.
	Exact bool
	// Mass is the sum of the magnitudes of the terms of each element; nil: the
	// magnitudes of the elements.
	Mass []float64
	// Near holds the numbers before they were rounded to integers, within the type's
	// range; nil: nothing was rounded to integers.
	Near []float64
	// Open marks elements that the specification leaves undefined; nil: none.
	Open []bool

	scaled float64 // by how much Mass is larger than the sum of the magnitudes; 0: it is not
}

// bound is the information about an output that determines its tolerance.
type bound struct {
	mass, near []float64
	open       []bool
	exact      bool
	scaled     float64
}

// bounded returns the bound of output k, to be filled.
func (c *evaluation) bounded(k int) *bound {
	for len(c.bounds) <= k {
		c.bounds = append(c.bounds, bound{})
	}
	return &c.bounds[k]
}

// terms sets the mass of output k.
func (c *evaluation) terms(k int, mass []float64) {
	if len(mass) > 0 {
		c.bounded(k).mass = mass
	}
}

// Node computes one node from its inputs; an omitted input is nil. It returns
// ErrUnknown or ErrRandom if it cannot know the result, and another error if the node
// is invalid or has a form that the evaluator lacks.
func Node(n *graph.Node, version int64, in []*Tensor) ([]Output, error) {
	return Layout{}.Node(n, version, in)
}

// Layout is how a graph stores images, which its nodes alone do not tell.
type Layout struct {
	Block int // channels in a block of the operators of com.microsoft.nchwc; 0: not known
}

// Node computes one node of a graph with that layout, as the function Node does.
func (l Layout) Node(n *graph.Node, version int64, in []*Tensor) (out []Output, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ours := r.(fault)
			if !ours {
				f = fault{fmt.Errorf("%v", r)}
			}
			out, err = nil, f.error
		}
	}()
	k := key{n.Domain, n.Op}
	op := table[k]
	if op == nil {
		return nil, ErrUnknown
	}
	c := &evaluation{Node: n, version: version, scope: &scope{}, in: in, outputs: len(n.Outputs), alone: true, block: l.Block}
	c.checkTypes()
	made := op.eval(c)
	for i, id := range n.Outputs {
		if id == graph.None {
			out = append(out, Output{})
			continue
		}
		if i >= len(made) || made[i] == nil {
			return nil, fmt.Errorf("output %d is not computed", i)
		}
		b := *c.bounded(i)
		for j, v := range made[i].I {
			made[i].I[j] = wrap(made[i].Type, v)
		}
		out = append(out, Output{Tensor: made[i], Exact: b.exact || exact[k] && b.mass == nil, Mass: b.mass, Near: b.near, Open: b.open, scaled: b.scaled})
	}
	return out, nil
}

// After returns o with the terms of made added, where o is the result of a node that
// reads only made. An activation propagates the errors of its input, and amplifies
// none by more than half.
func (o Output) After(made Output) Output {
	y := o
	y.Exact, y.Mass = false, make([]float64, len(o.F))
	for i := range y.Mass {
		a, b := math.Abs(o.F[i]), math.Abs(made.F[i])
		if o.Mass != nil {
			a = o.Mass[i]
		}
		if made.Mass != nil {
			b = made.Mass[i]
		}
		y.Mass[i] = a + 1.5*b
	}
	return y
}

// Narrowed returns o with a tolerance for two operands of each product that were rounded, each
// by at most unit of its size. o is a sum of products.
func (o Output) Narrowed(unit float64) Output {
	if unit == 0 || o.Mass == nil {
		return o
	}
	y := o
	y.Mass = slices.Clone(o.Mass)
	more := 2 * unit / max(o.scaled, 1) / (roundings * precisions[o.Type].inner)
	for i, v := range o.Mass {
		y.Mass[i] += more * v
	}
	return y
}

// Rounded returns o with the terms of made added, where o is the result of a
// QuantizeLinear with one scale that reads only made.
func (o Output) Rounded(made Output, scale float64) Output {
	y := o
	y.Mass = make([]float64, len(made.F))
	for i := range y.Mass {
		y.Mass[i] = math.Abs(made.F[i]) / scale
		if made.Mass != nil {
			y.Mass[i] = made.Mass[i] / scale
		}
		if o.Near != nil {
			y.Mass[i] += math.Abs(o.Near[i])
		}
	}
	return y
}

// Stored returns the tensor rounded to its type.
func (o Output) Stored() *Tensor {
	x := o.clone().rounded()
	if x.Type == graph.Float32 {
		for i, v := range x.F {
			x.F[i] = float64(float32(v))
		}
	}
	return x
}

// Deviation describes the element of an output with the largest error relative to its
// tolerance.
type Deviation struct {
	Element         int
	Expected, Found float64
	Tolerance       float64
	Ratio           float64 // of the distance to the tolerance: above 1, the element is wrong
}

// roundings is the number of rounding errors of its mass by which an element may be off.
const roundings = 16

// sums sets the bound of output k, whose elements are sums of n terms with the given
// mass. With independent rounding errors, a sum of n terms is off by about √n rounding
// errors (Higham & Mary 2019). Equal terms are rounded in the same direction, half an
// error each, within a block, for which 256 is a usual length. The tolerance, the
// larger of the two, four times the root, still distinguishes a sum of 25,000 equal
// terms from a sum of 24,999.
func (c *evaluation) sums(k int, mass []float64, n int) {
	more := max(4*math.Sqrt(float64(n)), float64(min(n, 256))/2)
	for i := range mass {
		mass[i] *= 1 + more/roundings
	}
	c.terms(k, mass)
	c.bounded(k).scaled = 1 + more/roundings
}

// Compare compares the result of another implementation with the output: type, shape
// and all elements. It returns the largest deviation, and an error if the type or the
// shape differs.
func (o *Output) Compare(got *Tensor) (Deviation, error) {
	worst := Deviation{Element: -1}
	if got.Type != o.Type {
		return worst, fmt.Errorf("has elements of %v, expected %v", got.Type, o.Type)
	}
	if !slices.Equal(got.Shape, o.Shape) {
		return worst, fmt.Errorf("has shape %v, expected %v", got.Shape, o.Shape)
	}
	p := precisions[o.Type]
	for i := range len(o.F) + len(o.I) {
		if o.Open != nil && o.Open[i] {
			continue
		}
		if d := o.deviation(got, i, &p); worst.Element < 0 || d.Ratio > worst.Ratio {
			worst = d
		}
	}
	return worst, nil
}

// deviation returns the deviation of one element.
func (o *Output) deviation(got *Tensor, i int, p *precision) Deviation {
	d := Deviation{Element: i, Expected: o.real(i), Found: got.real(i)}
	mass := math.Abs(d.Expected)
	if o.Mass != nil && !math.IsInf(o.Mass[i], 0) && !math.IsNaN(o.Mass[i]) {
		mass = o.Mass[i]
	}
	distance := math.Abs(d.Found - d.Expected)
	switch {
	case o.Near != nil:
		d.Expected, d.Tolerance = o.Near[i], 0.5+roundings*0x1p-24*mass
		distance = math.Abs(d.Found - d.Expected)
	case o.F == nil:
		if o.I[i] != got.I[i] {
			d.Ratio = math.Inf(1)
		}
		return d
	case o.Exact:
	default:
		computed := roundings*p.inner*mass + p.least
		d.Tolerance = computed + p.stored(math.Abs(d.Expected)+computed)
		if math.IsInf(d.Found, 0) && d.Found*d.Expected > 0 && math.Abs(d.Expected)+d.Tolerance > p.most {
			distance = 0 // beyond the range of its type
		}
	}
	switch {
	case distance == 0 || d.Found == d.Expected || math.IsNaN(d.Found) && math.IsNaN(d.Expected):
	case d.Tolerance == 0 || math.IsNaN(distance) || math.IsInf(distance, 0):
		d.Ratio = math.Inf(1)
	default:
		d.Ratio = distance / d.Tolerance
	}
	return d
}

// stored returns the rounding error of a result of that magnitude when it is stored: half a
// unit in its last place. A result of 16 bits may thus be off by what its float32 sums are,
// and by one rounding: neither cut off, nor rounded twice, nor summed in 16 bits.
func (p *precision) stored(magnitude float64) float64 {
	if magnitude == 0 || math.IsInf(magnitude, 0) || math.IsNaN(magnitude) {
		return 0
	}
	_, exponent := math.Frexp(magnitude) // of a magnitude in [1, 2) it is 1
	return math.Ldexp(p.own, exponent-1)
}

// precision describes the rounding of a floating-point type.
type precision struct {
	own   float64 // the unit roundoff: half a unit in the last place of 1
	inner float64 // of what an implementation computes in
	least float64 // below it, an element may be taken as 0
	most  float64 // the largest element
}

var precisions = map[graph.DType]precision{
	graph.Float64:      {0x1p-53, 0x1p-53, 0x1p-1022, math.MaxFloat64},
	graph.Float32:      {0x1p-24, 0x1p-24, 0x1p-126, math.MaxFloat32},
	graph.Float16:      {0x1p-11, 0x1p-24, 0x1p-25, 65504},
	graph.BFloat16:     {0x1p-8, 0x1p-24, 0x1p-126, 0x1.fep127},
	graph.Float8E4M3FN: {0x1p-4, 0x1p-24, 0x1p-10, 448},
	graph.Float8E4M3U:  {0x1p-4, 0x1p-24, 0x1p-11, 240},
	graph.Float8E5M2:   {0x1p-3, 0x1p-24, 0x1p-17, 57344},
	graph.Float8E5M2U:  {0x1p-3, 0x1p-24, 0x1p-18, 57344},
	graph.Float4E2M1:   {0x1p-2, 0x1p-24, 0x1p-2, 6},
}

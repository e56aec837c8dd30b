package reference

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// reduceOperators reduce axes to length 1.
var reduceOperators = []operator{
	{"ReduceSum", reduction{since: 13, real: sum, whole: wholeSum, mass: total}.eval},
	{"ReduceMean", reduction{real: mean, mass: func(v []float64) float64 { return total(v) / float64(len(v)) }}.eval},
	{"ReduceMax", reduction{exact: true, real: func(v []float64) float64 {
		most := math.Inf(-1)
		for _, x := range v {
			most = max(most, x)
		}
		return most
	}, whole: func(v []int64, t graph.DType) int64 { return extreme(v, t, 1) }}.eval},
	{"ReduceMin", reduction{exact: true, real: func(v []float64) float64 {
		least := math.Inf(1)
		for _, x := range v {
			least = min(least, x)
		}
		return least
	}, whole: func(v []int64, t graph.DType) int64 { return extreme(v, t, -1) }}.eval},
	{"ReduceProd", reduction{real: func(v []float64) float64 {
		p := 1.0
		for _, x := range v {
			p *= x
		}
		return p
	}, whole: func(v []int64, _ graph.DType) int64 {
		p := int64(1)
		for _, x := range v {
			p *= x
		}
		return p
	}}.eval},
	{"ReduceL1", reduction{real: total, whole: func(v []int64, t graph.DType) int64 {
		n := int64(0)
		for _, x := range v {
			if x < 0 && t != graph.Uint64 {
				x = -x
			}
			n += x
		}
		return n
	}}.eval},
	{"ReduceL2", reduction{real: func(v []float64) float64 { return math.Sqrt(sumOf(v, square)) }}.eval},
	{"ReduceSumSquare", reduction{real: func(v []float64) float64 { return sumOf(v, square) }, whole: func(v []int64, t graph.DType) int64 {
		n := int64(0)
		for _, x := range v {
			n += x * x
		}
		return n
	}}.eval},
	{"ReduceLogSum", reduction{real: func(v []float64) float64 { return math.Log(sum(v)) }, mass: func(v []float64) float64 {
		return math.Abs(math.Log(sum(v))) + total(v)/math.Abs(sum(v))
	}}.eval},
	{"ReduceLogSumExp", reduction{real: logSumExp, mass: func(v []float64) float64 { return math.Abs(logSumExp(v)) + 1 }}.eval},
}

// reduction combines many elements into one.
type reduction struct {
	real  func([]float64) float64
	whole func(v []int64, t graph.DType) int64 // for integers; nil: real
	mass  func([]float64) float64              // nil: the magnitude of the result
	exact bool
	since int64 // the opset from which on axes are an input; 0: 18
}

func square(v float64) float64 { return v * v }

func sumOf(v []float64, f func(float64) float64) float64 {
	t := 0.0
	for _, x := range v {
		t += f(x)
	}
	return t
}

func sum(v []float64) float64 { return sumOf(v, func(x float64) float64 { return x }) }

// total returns the sum of the magnitudes.
func total(v []float64) float64 { return sumOf(v, math.Abs) }

func wholeSum(v []int64, _ graph.DType) int64 {
	n := int64(0)
	for _, x := range v {
		n += x
	}
	return n
}

// extreme returns the largest integer, or the smallest if sign is -1; for an empty list,
// the opposite end of the type's range.
func extreme(v []int64, t graph.DType, sign int) int64 {
	list := &Tensor{Type: t, I: v}
	if len(v) == 0 {
		low, high := limits(t)
		if sign > 0 {
			return low
		}
		return high
	}
	best := 0
	for i := range v {
		if list.order(i, list, best) == sign {
			best = i
		}
	}
	return v[best]
}

// limits returns the smallest and the largest value of an integer type; for uint64, the
// largest by its bits.
func limits(t graph.DType) (low, high int64) {
	switch bits := t.Bits(); t {
	case graph.Bool:
		return 0, 1
	case graph.Uint64, graph.Uint32, graph.Uint16, graph.Uint8, graph.Uint4, graph.Uint2:
		return 0, int64(1<<bits - 1)
	default:
		return -1 << (bits - 1), 1<<(bits-1) - 1
	}
}

func mean(v []float64) float64 { return sum(v) / float64(len(v)) }

func logSumExp(v []float64) float64 {
	if len(v) == 0 {
		return math.Inf(-1)
	}
	most := slices.Max(v)
	if math.IsInf(most, -1) {
		return most
	}
	return most + math.Log(sumOf(v, func(x float64) float64 { return math.Exp(x - most) }))
}

// eval reduces along axes; without any along all of them, unless
// noop_with_empty_axes.
func (r reduction) eval(c *evaluation) []*Tensor {
	x, axes := c.x(0), c.listOr("axes", 1, cmp.Or(r.since, 18))
	over := make([]bool, len(x.Shape))
	for k := range over {
		over[k] = len(axes) == 0 && c.int("noop_with_empty_axes", 0) == 0
	}
	for _, a := range axes {
		over[wrapAxis(a, len(x.Shape))] = true
	}
	keep := c.int("keepdims", 1) != 0
	c.bounded(0).exact = r.exact
	if !isFloat(x.Type) && r.whole != nil {
		lines, kept := x.grouped(over, keep)
		y := zeros(x.Type, kept)
		n := size(x.Shape) / max(len(y.I), 1)
		for j := range y.I {
			y.I[j] = r.whole(lines.I[j*n:(j+1)*n], x.Type)
		}
		return one(y)
	}
	if r.mass != nil {
		mass := x.reals().reduced(over, keep, r.mass).F
		c.sums(0, mass, size(x.Shape)/max(len(mass), 1))
	}
	return one(x.reduced(over, keep, r.real))
}

// reals returns the elements of x as float64.
func (x *Tensor) reals() *Tensor {
	if isFloat(x.Type) {
		return &Tensor{Type: graph.Float64, Shape: x.Shape, F: x.F}
	}
	y := zeros(graph.Float64, x.Shape)
	for i := range y.F {
		y.F[i] = x.real(i)
	}
	return y
}

// grouped groups the elements along some axes. It returns the shape without these axes,
// or, with keep, the shape in which they have length 1.
func (x *Tensor) grouped(over []bool, keep bool) (lines *Tensor, shape []int) {
	var outer, inner []int
	shape = []int{}
	for k, n := range x.Shape {
		switch {
		case !over[k]:
			outer, shape = append(outer, k), append(shape, n)
			continue
		case keep:
			shape = append(shape, 1)
		}
		inner = append(inner, k)
	}
	return x.permuted(slices.Concat(outer, inner)...), shape
}

// reduced reduces the elements along axes to one.
func (x *Tensor) reduced(over []bool, keep bool, f func([]float64) float64) *Tensor {
	lines, shape := x.grouped(over, keep)
	all := lines.reals().F
	y := zeros(x.Type, shape)
	n := len(all) / max(size(shape), 1)
	for j := range size(shape) {
		y.set(j, f(all[j*n:(j+1)*n]))
	}
	return y
}

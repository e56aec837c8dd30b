package kernel

import (
	"iter"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// reductions lists the operators that reduce axes to length 1.
var reductions = family{"", []Kernel{
	{Name: "ReduceSum", Make: reduce(reduction{plainSum: true, term: same, end: whole})},
	{Name: "ReduceMean", Make: reduce(reduction{plainSum: true, term: same, end: func(sum, n float64) float64 { return sum / n }})},
	{Name: "ReduceSumSquare", Make: reduce(reduction{squares: true, term: squared, end: whole})},
	{Name: "ReduceL1", Make: reduce(reduction{term: math.Abs, end: whole})},
	{Name: "ReduceL2", Make: reduce(reduction{squares: true, term: squared, end: func(sum, _ float64) float64 { return math.Sqrt(sum) }})},
	{Name: "ReduceLogSum", Make: reduce(reduction{term: same, end: func(sum, _ float64) float64 { return math.Log(sum) }})},
	{Name: "ReduceLogSumExp", Make: reduce(reduction{logSumExp: true, term: same, end: whole})},
	{Name: "ReduceProd", Make: reduce(reduction{start: 1, join: func(a, b float64) float64 { return a * b }, term: same, end: whole})},
	{Name: "ReduceMax", Make: reduce(reduction{start: math.Inf(-1), join: greater[float64], extreme: &maximum, term: same, end: whole})},
	{Name: "ReduceMin", Make: reduce(reduction{start: math.Inf(1), join: lesser[float64], extreme: &minimum, term: same, end: whole})},
}}

// reduction combines terms: it begins with start, joins the terms (by addition if join
// is nil), and applies end.
type reduction struct {
	start     float64
	join      func(a, b float64) float64
	term      func(float64) float64
	end       func(sum, n float64) float64
	logSumExp bool
	plainSum  bool // a sum of the elements
	squares   bool // a sum of the squares
	extreme   *extreme
}

// extreme has the vector functions of a maximum or minimum of float32.
type extreme struct {
	row   func(x []float32) float32
	lists func(dst, a, b []float32)
}

var maximum, minimum = extreme{simd.Highest, simd.Max}, extreme{simd.Lowest, simd.Min}

func same(x float64) float64       { return x }
func squared(x float64) float64    { return x * x }
func whole(sum, _ float64) float64 { return sum }

// Folded holds the axes of a tensor that are reduced and those that are kept, with
// adjacent axes of one kind merged.
type Folded struct {
	Kept, KeptStride       []int
	Reduced, ReducedStride []int
}

// FoldAxes sorts the axes of a tensor of a shape; drop has the reduced ones.
func FoldAxes(shape []int, drop []bool) *Folded {
	f := &Folded{}
	step := 1
	lastDrop := -1
	for a := len(shape) - 1; a >= 0; a-- {
		n := shape[a]
		if n == 1 {
			continue
		}
		k := 0
		if drop[a] {
			k = 1
		}
		list, strides := &f.Kept, &f.KeptStride
		if drop[a] {
			list, strides = &f.Reduced, &f.ReducedStride
		}
		if k == lastDrop {
			(*list)[0] *= n
		} else {
			*list = append([]int{n}, *list...)
			*strides = append([]int{step}, *strides...)
		}
		lastDrop = k
		step *= n
	}
	return f
}

// offset is the offset of element i of some strided axes.
func offset(i int, shape, stride []int) int {
	if len(shape) == 0 {
		return 0
	}
	off := 0
	for a := len(shape) - 1; a > 0; a-- {
		up := i / shape[a]
		off += (i - up*shape[a]) * stride[a]
		i = up
	}
	return off + i*stride[0]
}

// ReducedAxes reads the axes of a reduction, from an attribute or input 1. An empty list
// means all axes, or, with noop_with_empty_axes, none.
func ReducedAxes(c *Invocation) ([]bool, error) {
	axes, err := c.ListOr("axes", 1)
	if err != nil {
		return nil, err
	}
	rank := c.In[0].rank()
	if len(axes) > 0 {
		return attr.AxisSet("axes", toInt64s(axes), rank)
	}
	drop := make([]bool, rank)
	for a := range drop {
		drop[a] = c.Int("noop_with_empty_axes", 0) == 0
	}
	return drop, nil
}

// reduce makes the kernel of a reduction.
func reduce(r reduction) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		drop, err := ReducedAxes(c)
		if err != nil {
			return nil, err
		}
		switch c.In[0].Type {
		case graph.Float32:
			return reduceOf[float32](c, &r, drop)
		case graph.Float64:
			return reduceOf[float64](c, &r, drop)
		case graph.Int64:
			return reduceWhole[int64, int64](c, &r, drop)
		case graph.Int32:
			return reduceWhole[int32, int64](c, &r, drop)
		case graph.Int8:
			return reduceWhole[int8, int64](c, &r, drop)
		case graph.Uint64:
			return reduceWhole[uint64, uint64](c, &r, drop)
		case graph.Uint32:
			return reduceWhole[uint32, int64](c, &r, drop)
		case graph.Uint8, graph.Bool:
			return reduceWhole[uint8, int64](c, &r, drop)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

// reduceWhole reduces integers in 64 bits, since a float64 has only 53. Operators with
// non-integer intermediate values use reals.
func reduceWhole[T integer, A int64 | uint64](c *Invocation, r *reduction, drop []bool) (Run, error) {
	x, out := c.In[0], c.Out[0]
	start, join := wholeJoin[T, A](c.Node.Op, x.Type)
	if join == nil {
		return reduceOf[T](c, r, drop)
	}
	f := FoldAxes(x.Shape, drop)
	terms := 1
	for a, n := range x.Shape {
		if drop[a] {
			terms *= n
		}
	}
	mean := c.Node.Op == "ReduceMean"
	group := max(1, grain/max(terms, 1))
	part := func(p, _ int) {
		m := meter{c: c}
		for o := p * group; o < min((p+1)*group, out.Len()); o++ {
			m.add(1)
			base, sum := offset(o, f.Kept, f.KeptStride), start
			for k := range terms {
				m.add(1)
				sum = join(sum, A(data[T](x)[base+offset(k, f.Reduced, f.ReducedStride)]))
			}
			if mean && terms > 0 {
				sum /= A(terms)
			}
			data[T](out)[o] = T(sum)
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(out.Len(), group), part)
		return nil
	}, nil
}

// wholeJoin returns an operator's start and join for integers of a dtype; join is nil if
// the operator works on reals.
func wholeJoin[T integer, A int64 | uint64](op string, d graph.DType) (start A, join func(sum, v A) A) {
	var zero T
	least, most := A(0), A(^zero) // for an unsigned type
	signed := ^zero < 0
	if signed {
		most = A(1)<<(8*unsafe.Sizeof(zero)-1) - 1
		least = ^most
	}
	if d == graph.Bool {
		most = 1
	}
	switch op {
	case "ReduceSum", "ReduceMean":
		return 0, func(sum, v A) A { return sum + v }
	case "ReduceL1":
		return 0, func(sum, v A) A {
			if signed {
				v = max(v, -v)
			}
			return sum + v
		}
	case "ReduceSumSquare":
		return 0, func(sum, v A) A { return sum + v*v }
	case "ReduceProd":
		return 1, func(product, v A) A { return product * v }
	case "ReduceMax":
		return least, func(high, v A) A { return max(high, v) }
	case "ReduceMin":
		return most, func(low, v A) A { return min(low, v) }
	}
	return 0, nil
}

// reduceOf reduces in float64, one output element at a time.
func reduceOf[T number](c *Invocation, r *reduction, drop []bool) (Run, error) {
	x, out := c.In[0], c.Out[0]
	f := FoldAxes(x.Shape, drop)
	outputs, terms := out.Len(), 1
	for a, n := range x.Shape {
		if drop[a] {
			terms *= n
		}
	}
	inner := 1 // contiguous elements that are all reduced
	outer := terms
	if k := len(f.Reduced) - 1; k >= 0 && f.ReducedStride[k] == 1 {
		inner = f.Reduced[k]
		outer = terms / max(inner, 1)
	}
	if r.extreme != nil && x.Type == graph.Float32 && inner == 1 && terms > 1 {
		if run := extremeLines(c, r, f, outputs, terms); run != nil {
			return run, nil
		}
	}
	if r.plainSum && inner == 1 && terms > 1 {
		if run := sumLines[T](c, r, f, outputs, terms); run != nil {
			return run, nil
		}
	}
	group := max(1, grain/max(terms, 1))
	part := func(p, _ int) {
		m := meter{c: c}
		for o := p * group; o < min((p+1)*group, outputs); o++ {
			m.add(1)
			base := offset(o, f.Kept, f.KeptStride)
			sum := r.start
			switch {
			case r.logSumExp:
				high := math.Inf(-1)
				sum = high
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					high = highestOf(high, row)
				}
				if terms > 0 {
					total := 0.0
					for row := range termsOf[T](&m, x, base, f, outer, inner) {
						total = addExps(total, row, finite(high))
					}
					sum = finite(high) + math.Log(total)
				}
			case r.plainSum && x.Type == graph.Float32:
				for k := range outer {
					m.add(inner)
					sum += sumOf(c, span[float32](element[T](x, base+outerOffset(f, k, inner)), inner))
				}
			case r.extreme != nil && x.Type == graph.Float32:
				for k := range outer {
					row := span[float32](element[T](x, base+outerOffset(f, k, inner)), inner)
					for from := 0; from < inner; {
						to := m.next(from, inner)
						sum = r.join(sum, float64(r.extreme.row(row[from:to])))
						from = to
					}
				}
			case r.squares && x.Type == graph.Float32:
				for k := range outer {
					m.add(inner)
					sum += squaresOf(c, span[float32](element[T](x, base+outerOffset(f, k, inner)), inner), 0)
				}
			case r.squares:
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					sum = addSquares(sum, row)
				}
			case r.join == nil:
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					sum = addTerms(sum, row, r.term)
				}
			default:
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					sum = joinTerms(sum, row, r.term, r.join)
				}
			}
			data[T](out)[o] = T(r.end(sum, float64(terms)))
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(outputs, group), part)
		return nil
	}, nil
}

// sumLines makes the kernel of a sum whose outputs are contiguous rows: it adds up rows of
// the input in float64, in the order of the terms. It returns nil if the rows are short.
func sumLines[T number](c *Invocation, r *reduction, f *Folded, outputs, terms int) Run {
	const most = 1024
	last := len(f.Kept) - 1
	if last < 0 || f.KeptStride[last] != 1 || f.Kept[last] < 8 {
		return nil
	}
	x, out, n, size := c.In[0], c.Out[0], f.Kept[last], most
	if terms >= 64 { // enough work for a part of its own
		size = 128
	}
	pieces := cuts(n, size)
	part := func(p, _ int) {
		var sums [most]float64
		m := meter{c: c}
		from := p % pieces * size
		count := min(size, n-from)
		first := p / pieces * n
		base := offset(first, f.Kept, f.KeptStride) + from
		for k := range terms {
			m.add(count)
			addRow(sums[:count], span[T](element[T](x, base+offset(k, f.Reduced, f.ReducedStride)), count))
		}
		d := span[T](element[T](out, first+from), count)
		for i, sum := range sums[:count] {
			d[i] = T(r.end(sum, float64(terms)))
		}
	}
	return func(w *work.Pool) error {
		w.For(outputs/n*pieces, part)
		return nil
	}
}

// extremeLines is sumLines for a maximum or minimum of float32.
func extremeLines(c *Invocation, r *reduction, f *Folded, outputs, terms int) Run {
	last := len(f.Kept) - 1
	if last < 0 || f.KeptStride[last] != 1 || f.Kept[last] < 8 {
		return nil
	}
	x, out, n, size := c.In[0], c.Out[0], f.Kept[last], 1024 // its outputs stay in the fastest cache
	pieces := cuts(n, size)
	part := func(p, _ int) {
		m := meter{c: c}
		from := p % pieces * size
		count := min(size, n-from)
		first := p / pieces * n
		base := offset(first, f.Kept, f.KeptStride) + from
		row := func(k int) []float32 {
			m.add(count)
			return span[float32](element[float32](x, base+offset(k, f.Reduced, f.ReducedStride)), count)
		}
		d := span[float32](element[float32](out, first+from), count)
		r.extreme.lists(d, row(0), row(1))
		for k := 2; k < terms; k++ {
			r.extreme.lists(d, d, row(k))
		}
	}
	return func(w *work.Pool) error {
		w.For(outputs/n*pieces, part)
		return nil
	}
}

func addRow[T number](sums []float64, row []T) {
	if f32, is := any(row).([]float32); is {
		simd.AddWide(sums, f32)
		return
	}
	sums = sums[:len(row)]
	for i, v := range row {
		sums[i] += float64(v)
	}
}

// finite returns high, or 0 if subtracting high would give NaN.
func finite(high float64) float64 {
	if math.IsInf(high, 0) {
		return 0
	}
	return high
}

// The loops over a row are functions of their own, so that the compiler keeps the sum in
// a register.

func highestOf[T number](high float64, row []T) float64 {
	for _, v := range row {
		high = max(high, float64(v))
	}
	return high
}

func addExps[T number](sum float64, row []T, shift float64) float64 {
	for _, v := range row {
		sum += math.Exp(float64(v) - shift)
	}
	return sum
}

func addSquares[T number](sum float64, row []T) float64 {
	for _, v := range row {
		sum += float64(v) * float64(v)
	}
	return sum
}

func addTerms[T number](sum float64, row []T, term func(float64) float64) float64 {
	for _, v := range row {
		sum += term(float64(v))
	}
	return sum
}

func joinTerms[T number](sum float64, row []T, term func(float64) float64, join func(a, b float64) float64) float64 {
	for _, v := range row {
		sum = join(sum, term(float64(v)))
	}
	return sum
}

// termsOf yields the elements that one output reduces, in contiguous pieces: there are
// outer rows of inner elements, the first at element base. It polls before each piece.
func termsOf[T number](m *meter, x *Tensor, base int, f *Folded, outer, inner int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for k := range outer {
			row := span[T](element[T](x, base+outerOffset(f, k, inner)), inner)
			for from := 0; from < inner; {
				to := m.next(from, inner)
				if !yield(row[from:to]) {
					return
				}
				from = to
			}
		}
	}
}

// outerOffset is the offset of row k of the reduced elements.
func outerOffset(f *Folded, k, inner int) int {
	n := len(f.Reduced)
	if inner > 1 {
		n--
	}
	return offset(k, f.Reduced[:n], f.ReducedStride[:n])
}

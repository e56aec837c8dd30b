package kernel

import (
	"iter"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// reductions lists the operators that reduce axes to length 1.
var reductions = family{"", []Kernel{
	{Name: "ReduceSum", Make: reduce(sums), Narrow: sums.narrow, sum: &sums},
	{Name: "ReduceMean", Make: meansOfBlocks(reduce(means)), Narrow: means.narrow, Blocks: meansBlocks, sum: &means},
	{Name: "ReduceSumSquare", Make: reduce(reduction{whole: addsSquares64, squares: true, term: squared, end: whole})},
	{Name: "ReduceL1", Make: reduce(reduction{whole: addsAbsolutes64, absolutes: true, term: math.Abs, end: whole})},
	{Name: "ReduceL2", Make: reduce(reduction{squares: true, term: squared, end: func(sum, _ float64) float64 { return math.Sqrt(sum) }})},
	{Name: "ReduceLogSum", Make: reduce(reduction{term: same, end: func(sum, _ float64) float64 { return math.Log(sum) }})},
	{Name: "ReduceLogSumExp", Make: reduce(reduction{logSumExp: true, term: same, end: whole})},
	{Name: "ReduceProd", Make: reduce(reduction{copies: true, whole: multiplies64, start: 1, product: true, term: same, end: whole})},
	{Name: "ReduceMax", Make: reduce(reduction{copies: true, whole: highest64, start: math.Inf(-1), join: greater[float64], extreme: &maximum, term: same, end: whole})},
	{Name: "ReduceMin", Make: reduce(reduction{copies: true, whole: lowest64, start: math.Inf(1), join: lesser[float64], extreme: &minimum, term: same, end: whole})},
}}

// The reductions that have kernels of their own for 16 bits.
var (
	sums  = reduction{copies: true, whole: adds64, plainSum: true, term: same, end: whole}
	means = reduction{copies: true, whole: adds64, mean: true, plainSum: true, term: same, end: func(sum, n float64) float64 { return sum / n }}
)

// reduction combines terms: it begins with start, joins the terms (by addition if join
// is nil), and applies end.
type reduction struct {
	copies    bool // of one term it is the term: the result may be a view, and keeps the bits
	whole     intJoin
	mean      bool // whole: the sum is divided by the number of terms
	start     float64
	join      func(a, b float64) float64
	term      func(float64) float64
	end       func(sum, n float64) float64
	logSumExp bool
	plainSum  bool // a sum of the elements
	squares   bool // a sum of the squares
	absolutes bool // a sum of the absolute values
	product   bool
	extreme   *extreme
}

// intJoin is how a reduction of integers joins terms in 64 bits.
type intJoin int

const (
	asReals intJoin = iota // not at all: intermediate values are no integers
	adds64
	addsAbsolutes64
	addsSquares64
	multiplies64
	highest64
	lowest64
)

// extreme has the vector functions of a maximum or minimum of float32.
type extreme struct {
	row   func(x []float32) float32
	lists func(dst, a, b []float32)
}

var maximum, minimum = extreme{simd.Highest, simd.Max}, extreme{simd.Lowest, simd.Min}

func same(x float64) float64       { return x }
func squared(x float64) float64    { return x * x }
func whole(sum, _ float64) float64 { return sum }

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

// reduce makes the kernel of a reduction.
func reduce(r reduction) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		drop, err := form.ReducedAxes(&c.Call)
		if err != nil {
			return nil, err
		}
		if r.copies && c.In[0].Len() == c.Out[0].Len() && c.In[0].Len() > 0 {
			return makeCopy(c) // not 0 + -0
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
	start, join := wholeJoin[T, A](r.whole, x.Type)
	if join == nil {
		return reduceOf[T](c, r, drop)
	}
	f := form.FoldAxes(x.Shape, drop)
	terms := 1
	for a, n := range x.Shape {
		if drop[a] {
			terms *= n
		}
	}
	if r.whole == adds64 && !r.mean && terms > 1 {
		if run := wholeSumLines[T](c, f, out.Len(), terms); run != nil {
			return run, nil
		}
	}
	group := max(1, grain/max(terms, 1))
	part := func(p, _ int) {
		m := c.Meter()
		for o := p * group; o < min((p+1)*group, out.Len()); o++ {
			m.Add(1)
			base, sum := offset(o, f.Kept, f.KeptStride), start
			for k := range terms {
				m.Add(1)
				sum = join(sum, A(data[T](x)[base+offset(k, f.Reduced, f.ReducedStride)]))
			}
			if r.mean && terms > 0 {
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

// wholeSumLines is sumLines for integers: what wraps around in 64 bits leaves the same low bits as
// what wraps around in few.
func wholeSumLines[T integer](c *Invocation, f *form.Folded, outputs, terms int) Run {
	const most = 1024 // outputs that stay in the fastest cache
	return linesOf(f, outputs, most, func(first, base, count int) {
		m := c.Meter()
		d := span[T](element[T](c.Out[0], first), count)
		for k := range terms {
			m.Add(count)
			row := span[T](element[T](c.In[0], base+offset(k, f.Reduced, f.ReducedStride)), count)
			if k == 0 {
				copy(d, row)
				continue
			}
			for i, v := range row {
				d[i] += v
			}
		}
	})
}

// wholeJoin returns a reduction's start and join for integers of a dtype; join is nil if
// it works on reals.
func wholeJoin[T integer, A int64 | uint64](how intJoin, d graph.DType) (start A, join func(sum, v A) A) {
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
	switch how {
	case adds64:
		return 0, func(sum, v A) A { return sum + v }
	case addsAbsolutes64:
		return 0, func(sum, v A) A {
			if signed {
				v = max(v, -v)
			}
			return sum + v
		}
	case addsSquares64:
		return 0, func(sum, v A) A { return sum + v*v }
	case multiplies64:
		return 1, func(product, v A) A { return product * v }
	case highest64:
		return least, func(high, v A) A { return max(high, v) }
	case lowest64:
		return most, func(low, v A) A { return min(low, v) }
	}
	return 0, nil
}

// reduceOf reduces in float64, one output element at a time.
func reduceOf[T number](c *Invocation, r *reduction, drop []bool) (Run, error) {
	x, out := c.In[0], c.Out[0]
	f := form.FoldAxes(x.Shape, drop)
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
	if r.logSumExp && x.Type == graph.Float32 && inner == 1 && terms > 1 {
		if run := logSumExpLines(c, f, outputs, terms); run != nil {
			return run, nil
		}
	}
	if (r.plainSum || r.squares || r.absolutes || r.product) && inner == 1 && terms > 1 {
		if run := sumLines[T](c, r, f, outputs, terms); run != nil {
			return run, nil
		}
	}
	group := max(1, grain/max(terms, 1))
	part := func(p, _ int) {
		m := c.Meter()
		for o := p * group; o < min((p+1)*group, outputs); o++ {
			m.Add(1)
			base := offset(o, f.Kept, f.KeptStride)
			sum := r.start
			switch {
			case r.logSumExp:
				high := math.Inf(-1)
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					high = highestOf(high, row)
				}
				total := 0.0
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					total = addExps(total, row, finite(high))
				}
				sum = math.Inf(-1)
				if terms > 0 {
					sum = finite(high) + math.Log(total)
				}
			case r.plainSum && x.Type == graph.Float32:
				for k := range outer {
					m.Add(inner)
					sum += sumOf(c, span[float32](element[T](x, base+outerOffset(f, k, inner)), inner))
				}
			case r.extreme != nil && x.Type == graph.Float32:
				for row := range termsOf[float32](&m, x, base, f, outer, inner) {
					sum = r.join(sum, float64(r.extreme.row(row)))
				}
			case r.squares && x.Type == graph.Float32:
				for k := range outer {
					m.Add(inner)
					sum += squaresOf(c, span[float32](element[T](x, base+outerOffset(f, k, inner)), inner), 0)
				}
			case r.squares:
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					sum = addSquares(sum, row)
				}
			case r.absolutes && x.Type == graph.Float32:
				for row := range termsOf[float32](&m, x, base, f, outer, inner) {
					sum += absolutesOf(row)
				}
			case r.product:
				for row := range termsOf[T](&m, x, base, f, outer, inner) {
					sum *= productOfRow(row)
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

// sumLines makes the kernel of a sum or product whose outputs are contiguous rows: it adds
// up rows of the input in float64, in the order of the terms. It returns nil if the rows are
// short.
func sumLines[T number](c *Invocation, r *reduction, f *form.Folded, outputs, terms int) Run {
	const most = 1024
	size := most
	if terms >= 64 { // enough work for a part of its own
		size = 256
	}
	return linesOf(f, outputs, size, func(first, base, count int) {
		var sums [most]float64
		m := c.Meter()
		fill(sums[:count], r.start)
		for k := range terms {
			m.Add(count)
			addRow(r, sums[:count], span[T](element[T](c.In[0], base+offset(k, f.Reduced, f.ReducedStride)), count))
		}
		d := span[T](element[T](c.Out[0], first), count)
		for i, sum := range sums[:count] {
			d[i] = T(r.end(sum, float64(terms)))
		}
	})
}

// linesOf calls part for pieces of the outputs, at most size of them: the elements from base
// on are the first terms of the outputs from first on. It returns nil if the rows of outputs
// whose terms are contiguous are short.
func linesOf(f *form.Folded, outputs, size int, part func(first, base, count int)) Run {
	last := len(f.Kept) - 1
	if last < 0 || f.KeptStride[last] != 1 || f.Kept[last] < 8 {
		return nil
	}
	n := f.Kept[last]
	pieces := cuts(n, size)
	one := func(p, _ int) {
		from := p % pieces * size
		first := p / pieces * n
		part(first+from, offset(first, f.Kept, f.KeptStride)+from, min(size, n-from))
	}
	return func(w *work.Pool) error {
		w.For(outputs/n*pieces, one)
		return nil
	}
}

// extremeLines is sumLines for a maximum or minimum of float32.
func extremeLines(c *Invocation, r *reduction, f *form.Folded, outputs, terms int) Run {
	const most = 1024 // outputs that stay in the fastest cache
	return linesOf(f, outputs, most, func(first, base, count int) {
		extremeOfRows(c, r.extreme, f, span[float32](element[float32](c.Out[0], first), count), base, terms)
	})
}

// extremeOfRows writes the extreme of each column of rows, the first of which begins at base.
func extremeOfRows(c *Invocation, e *extreme, f *form.Folded, d []float32, base, terms int) {
	m := c.Meter()
	row := func(k int) []float32 {
		m.Add(len(d))
		return span[float32](element[float32](c.In[0], base+offset(k, f.Reduced, f.ReducedStride)), len(d))
	}
	e.lists(d, row(0), row(1))
	for k := 2; k < terms; k++ {
		e.lists(d, d, row(k))
	}
}

// logSumExpLines is sumLines for ReduceLogSumExp of float32.
func logSumExpLines(c *Invocation, f *form.Folded, outputs, terms int) Run {
	const most = 256
	return linesOf(f, outputs, most, func(first, base, count int) {
		var high, exps [most]float32
		var sums [most]float64
		extremeOfRows(c, &maximum, f, high[:count], base, terms)
		for i, v := range high[:count] {
			high[i] = float32(finite(float64(v)))
		}
		m := c.Meter()
		for k := range terms {
			m.Add(count)
			simd.Sub(exps[:count], span[float32](element[float32](c.In[0], base+offset(k, f.Reduced, f.ReducedStride)), count), high[:])
			simd.Exp(exps[:count], exps[:count], 1, 0)
			simd.AddWide(sums[:count], exps[:count])
		}
		d := span[float32](element[float32](c.Out[0], first), count)
		for i, sum := range sums[:count] {
			d[i] = float32(float64(high[i]) + math.Log(sum))
		}
	})
}

// addRow joins the elements of a row, or what r makes of them, to sums.
func addRow[T number](r *reduction, sums []float64, row []T) {
	f32, is := any(row).([]float32)
	sums = sums[:len(row)]
	switch {
	case r.plainSum && is:
		simd.AddWide(sums, f32)
	case r.absolutes && is:
		var block [256]float32
		for from := 0; from < len(f32); from += len(block) {
			a := block[:min(len(block), len(f32)-from)]
			simd.Abs(a, f32[from:from+len(a)])
			simd.AddWide(sums[from:], a)
		}
	case r.squares:
		for i, v := range row {
			sums[i] += float64(v) * float64(v)
		}
	case r.product:
		for i, v := range row {
			sums[i] *= float64(v)
		}
	default:
		for i, v := range row {
			sums[i] += r.term(float64(v))
		}
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
	if f32, is := any(row).([]float32); is {
		return max(high, float64(simd.Highest(f32)))
	}
	for _, v := range row {
		high = max(high, float64(v))
	}
	return high
}

// addExps adds exp(x - shift) for each x of a row: of float32, the powers are float32.
func addExps[T number](sum float64, row []T, shift float64) float64 {
	if f32, is := any(row).([]float32); is {
		var exps [256]float32
		for from := 0; from < len(f32); from += len(exps) {
			e := exps[:min(len(exps), len(f32)-from)]
			simd.Exp(e, f32[from:from+len(e)], 1, float32(-shift))
			sum += simd.Sum(e)
		}
		return sum
	}
	for _, v := range row {
		sum += math.Exp(float64(v) - shift)
	}
	return sum
}

// absolutesOf adds up the absolute values of a row.
func absolutesOf(row []float32) float64 {
	var block [256]float32
	sum := 0.0
	for from := 0; from < len(row); from += len(block) {
		a := block[:min(len(block), len(row)-from)]
		simd.Abs(a, row[from:from+len(a)])
		sum += simd.Sum(a)
	}
	return sum
}

// productOfRow multiplies the elements of a row, in four products that do not wait for each
// other.
func productOfRow[T number](row []T) float64 {
	p, q, r, s := 1.0, 1.0, 1.0, 1.0
	for ; len(row) >= 4; row = row[4:] {
		p *= float64(row[0])
		q *= float64(row[1])
		r *= float64(row[2])
		s *= float64(row[3])
	}
	for _, v := range row {
		p *= float64(v)
	}
	return p * q * (r * s)
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
func termsOf[T number](m *form.Meter, x *Tensor, base int, f *form.Folded, outer, inner int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for k := range outer {
			row := span[T](element[T](x, base+outerOffset(f, k, inner)), inner)
			for from := 0; from < inner; {
				to := m.Next(from, inner)
				if !yield(row[from:to]) {
					return
				}
				from = to
			}
		}
	}
}

// outerOffset is the offset of row k of the reduced elements.
func outerOffset(f *form.Folded, k, inner int) int {
	n := len(f.Reduced)
	if inner > 1 {
		n--
	}
	return offset(k, f.Reduced[:n], f.ReducedStride[:n])
}

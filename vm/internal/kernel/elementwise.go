package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// elementwise lists arithmetic: each output element depends on the input elements at
// the same place, after numpy's broadcasting.
var elementwise = family{"", []Kernel{
	{Name: "Add", Make: scaled(legacy(fold(adds))), Row: simd.Add, Op: simd.Addition, Link: paired(simd.Addition, simd.Add), Blocks: scalesBlocks},
	{Name: "Sub", Make: scaled(legacy(fold(subtracts))), Row: simd.Sub, Op: simd.Subtraction, Link: paired(simd.Subtraction, simd.Sub), Blocks: scalesBlocks},
	{Name: "Mul", Make: scaled(legacy(fold(multiplies))), Row: simd.Mul, Op: simd.Multiplication, Link: linkOfMul, Blocks: scalesBlocks},
	{Name: "Div", Make: scaled(legacy(fold(divides))), Row: simd.Div, Link: pair(simd.Div), Blocks: scalesBlocks},
	{Name: "Sum", Make: fold(adds)},
	{Name: "Min", Make: fold(minima)},
	{Name: "Max", Make: fold(maxima)},
	{Name: "Mean", Make: makeMean},
	{Name: "Mod", Make: makeMod},
	{Name: "Pow", Make: legacy(makePow)},

	{Name: "Abs", Make: makeAbs},
	{Name: "Neg", Make: makeNeg},
	{Name: "Sign", Make: makeSign},
	{Name: "Floor", Real: always(simd.Floor, math.Floor)},
	{Name: "Ceil", Real: always(simd.Ceil, math.Ceil)},
	{Name: "Round", Real: always(simd.RoundToEven, math.RoundToEven)},
	{Name: "Sqrt", Real: always(simd.Sqrt, math.Sqrt), Link: single(simd.Sqrt)},
	{Name: "Reciprocal", Real: always(reciprocals, func(x float64) float64 { return 1 / x }), Link: single(reciprocals)},
	{Name: "Exp", Real: always(exponentials, math.Exp), Link: single(exponentials)},
	{Name: "Log", Real: always(simd.Log, math.Log)},
	{Name: "Erf", Real: always(errorFunctions, math.Erf), Link: single(errorFunctions)},
	{Name: "Sin", Real: always(simd.Sin, math.Sin)},
	{Name: "Cos", Real: always(simd.Cos, math.Cos)},
	{Name: "Tan", Real: always(simd.Tan, math.Tan)},
	{Name: "Asin", Real: always(simd.Asin, math.Asin)},
	{Name: "Acos", Real: always(simd.Acos, math.Acos)},
	{Name: "Atan", Real: always(simd.Atan, math.Atan)},
	{Name: "Sinh", Real: always(hyperbolicSines, math.Sinh)},
	{Name: "Cosh", Real: always(hyperbolicCosines, math.Cosh)},
	{Name: "Asinh", Real: always(inverseHyperbolicSines, math.Asinh)},
	{Name: "Acosh", Real: always(inverseHyperbolicCosines, math.Acosh)},
	{Name: "Atanh", Real: always(inverseHyperbolicTangents, math.Atanh)},
}}

func reciprocals(d, a []float32)    { simd.DivBy(d, a, 1) }
func exponentials(d, a []float32)   { simd.Exp(d, a, 1, 0) }
func errorFunctions(d, a []float32) { simd.Erf(d, a, 1, 0) }

// operation holds the loops of a binary operation for each dtype.
type operation struct {
	f32 loops[float32, float32]
	f64 loops[float64, float64]
	i64 loops[int64, int64]
	i32 loops[int32, int32]
	i16 loops[int16, int16]
	i8  loops[int8, int8]
	u64 loops[uint64, uint64]
	u32 loops[uint32, uint32]
	u16 loops[uint16, uint16]
	u8  loops[uint8, uint8]
}

func (b *operation) between(out, x, y *Tensor) (Run, error) {
	switch out.Type {
	case graph.Float32:
		return b.f32.between(out, x, y)
	case graph.Float64:
		return b.f64.between(out, x, y)
	case graph.Int64:
		return b.i64.between(out, x, y)
	case graph.Int32:
		return b.i32.between(out, x, y)
	case graph.Int16:
		return b.i16.between(out, x, y)
	case graph.Int8:
		return b.i8.between(out, x, y)
	case graph.Uint64:
		return b.u64.between(out, x, y)
	case graph.Uint32:
		return b.u32.between(out, x, y)
	case graph.Uint16:
		return b.u16.between(out, x, y)
	case graph.Uint8:
		return b.u8.between(out, x, y)
	}
	return nil, unsupported(out.Type)
}

// fold makes the kernel of an operation on one or more inputs, which it combines from
// left to right.
func fold(b *operation) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		if len(c.In) == 1 {
			return makeCopy(c)
		}
		out := c.Out[0]
		if len(c.In) == 2 {
			return b.between(out, c.In[0], c.In[1])
		}
		return foldMany(c, b)
	}
}

// foldMany folds more than two inputs. It accumulates in scratch, because the output
// may overwrite any of them.
func foldMany(c *Invocation, b *operation) (Run, error) {
	out := c.Out[0]
	sum := &Tensor{Type: out.Type, Shape: out.Shape}
	off := c.Shared(out.Bytes())
	var runs []Run
	left := c.In[0]
	for i, right := range c.In[1:] {
		to := sum
		if i == len(c.In)-2 {
			to = out
		}
		run, err := b.between(to, left, right)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
		left = sum
	}
	return func(w *work.Pool) error {
		sum.At = w.Shared(off)
		for _, run := range runs {
			if err := run(w); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

var adds = &operation{
	loops[float32, float32]{simd.Add, simd.AddScalar, func(d []float32, a float32, b []float32) { simd.AddScalar(d, b, a) }},
	addLoops[float64](), addLoops[int64](), addLoops[int32](), addLoops[int16](), addLoops[int8](),
	addLoops[uint64](), addLoops[uint32](), addLoops[uint16](), addLoops[uint8](),
}

func addLoops[T number]() loops[T, T] {
	vs := func(d []T, a []T, b T) {
		for i, x := range a[:len(d)] {
			d[i] = x + b
		}
	}
	return loops[T, T]{
		vv: func(d, a, b []T) {
			a, b = a[:len(d)], b[:len(d)]
			for i := range d {
				d[i] = a[i] + b[i]
			}
		},
		vs: vs,
		sv: func(d []T, a T, b []T) { vs(d, b, a) },
	}
}

var multiplies = &operation{
	loops[float32, float32]{simd.Mul, simd.MulScalar, func(d []float32, a float32, b []float32) { simd.MulScalar(d, b, a) }},
	mulLoops[float64](), mulLoops[int64](), mulLoops[int32](), mulLoops[int16](), mulLoops[int8](),
	mulLoops[uint64](), mulLoops[uint32](), mulLoops[uint16](), mulLoops[uint8](),
}

func mulLoops[T number]() loops[T, T] {
	vs := func(d []T, a []T, b T) {
		for i, x := range a[:len(d)] {
			d[i] = x * b
		}
	}
	return loops[T, T]{
		vv: func(d, a, b []T) {
			a, b = a[:len(d)], b[:len(d)]
			for i := range d {
				d[i] = a[i] * b[i]
			}
		},
		vs: vs,
		sv: func(d []T, a T, b []T) { vs(d, b, a) },
	}
}

var subtracts = &operation{
	loops[float32, float32]{
		simd.Sub, func(d, a []float32, b float32) { simd.AddScalar(d, a, -b) },
		func(d []float32, a float32, b []float32) { simd.SubFrom(d, b, a) },
	},
	subLoops[float64](), subLoops[int64](), subLoops[int32](), subLoops[int16](), subLoops[int8](),
	subLoops[uint64](), subLoops[uint32](), subLoops[uint16](), subLoops[uint8](),
}

func subLoops[T number]() loops[T, T] {
	return loops[T, T]{
		vv: func(d, a, b []T) {
			a, b = a[:len(d)], b[:len(d)]
			for i := range d {
				d[i] = a[i] - b[i]
			}
		},
		vs: func(d []T, a []T, b T) {
			for i, x := range a[:len(d)] {
				d[i] = x - b
			}
		},
		sv: func(d []T, a T, b []T) {
			for i, y := range b[:len(d)] {
				d[i] = a - y
			}
		},
	}
}

var divides = &operation{
	loops[float32, float32]{simd.Div, simd.DivScalar, func(d []float32, a float32, b []float32) { simd.DivBy(d, b, a) }},
	divLoops[float64](),
	loopsOf(quotient[int64]), loopsOf(quotient[int32]), loopsOf(quotient[int16]), loopsOf(quotient[int8]),
	loopsOf(quotient[uint64]), loopsOf(quotient[uint32]), loopsOf(quotient[uint16]), loopsOf(quotient[uint8]),
}

func divLoops[T floating]() loops[T, T] {
	return loops[T, T]{
		vv: func(d, a, b []T) {
			a, b = a[:len(d)], b[:len(d)]
			for i := range d {
				d[i] = a[i] / b[i]
			}
		},
		vs: func(d []T, a []T, b T) {
			for i, x := range a[:len(d)] {
				d[i] = x / b
			}
		},
		sv: func(d []T, a T, b []T) {
			for i, y := range b[:len(d)] {
				d[i] = a / y
			}
		},
	}
}

// quotient is a / b rounded towards zero. ONNX leaves division by zero undefined;
// here it gives 0, instead of a panic.
func quotient[T integer](a, b T) T {
	if b == 0 {
		return 0
	}
	return a / b
}

var minima = &operation{
	loops[float32, float32]{simd.Min, simd.MinScalar, func(d []float32, a float32, b []float32) { simd.MinScalar(d, b, a) }},
	loopsOf(lesser[float64]), loopsOf(lesser[int64]), loopsOf(lesser[int32]), loopsOf(lesser[int16]), loopsOf(lesser[int8]),
	loopsOf(lesser[uint64]), loopsOf(lesser[uint32]), loopsOf(lesser[uint16]), loopsOf(lesser[uint8]),
}

var maxima = &operation{
	loops[float32, float32]{simd.Max, simd.MaxScalar, func(d []float32, a float32, b []float32) { simd.MaxScalar(d, b, a) }},
	loopsOf(greater[float64]), loopsOf(greater[int64]), loopsOf(greater[int32]), loopsOf(greater[int16]), loopsOf(greater[int8]),
	loopsOf(greater[uint64]), loopsOf(greater[uint32]), loopsOf(greater[uint16]), loopsOf(greater[uint8]),
}

// lesser and greater return NaN if either number is NaN, as numpy does.
func lesser[T number](a, b T) T  { return min(a, b) }
func greater[T number](a, b T) T { return max(a, b) }

// makeMean adds the inputs and divides by their number.
func makeMean(c *Invocation) (Run, error) {
	sum, err := fold(adds)(c)
	if err != nil || len(c.In) == 1 {
		return sum, err
	}
	out := c.Out[0]
	n := float64(len(c.In))
	return func(w *work.Pool) error {
		if err := sum(w); err != nil {
			return err
		}
		switch out.Type {
		case graph.Float32:
			w.For(cuts(out.Len(), grain), func(p, _ int) {
				d := span[float32](element[float32](out, p*grain), min(grain, out.Len()-p*grain))
				simd.DivScalar(d, d, float32(n))
			})
		case graph.Float64:
			for i, v := range data[float64](out) {
				data[float64](out)[i] = v / n
			}
		}
		return nil
	}, nil
}

// makeMod computes the remainder. It has the sign of the divisor, or, with attribute
// fmod, that of the dividend.
func makeMod(c *Invocation) (Run, error) {
	truncated := c.Int("fmod", 0) != 0
	switch c.Out[0].Type {
	case graph.Float32:
		return realRemainders(truncated).run(c)
	case graph.Float64:
		return loopsOf(func(a, b float64) float64 { return remainder(a, b, truncated) }).run(c)
	case graph.Int64:
		return modLoops[int64](truncated).run(c)
	case graph.Int32:
		return modLoops[int32](truncated).run(c)
	case graph.Int16:
		return modLoops[int16](truncated).run(c)
	case graph.Int8:
		return modLoops[int8](truncated).run(c)
	case graph.Uint64:
		return modLoops[uint64](truncated).run(c)
	case graph.Uint32:
		return modLoops[uint32](truncated).run(c)
	case graph.Uint16:
		return modLoops[uint16](truncated).run(c)
	case graph.Uint8:
		return modLoops[uint8](truncated).run(c)
	}
	return nil, unsupported(c.Out[0].Type)
}

// remainder is a mod b, with the sign of b, or with that of a if truncated.
func remainder(a, b float64, truncated bool) float64 {
	m := math.Mod(a, b)
	if !truncated && m != 0 && (m < 0) != (b < 0) {
		m += b
	}
	return m
}

// realRemainders has the loops of remainder for float32. Where the quotient is below 2^28, it is
// exact to its last whole bit in float64, as is what it leaves of the dividend.
func realRemainders(truncated bool) loops[float32, float32] {
	of := func(a, b float64) float32 {
		q := a / b
		if !(q < 1<<28 && q > -1<<28) || b-b != 0 {
			return float32(remainder(a, b, truncated))
		}
		m := a - float64(int64(q))*b
		if m == 0 {
			return float32(math.Copysign(0, a))
		}
		if !truncated && (m < 0) != (b < 0) {
			m += b
		}
		return float32(m)
	}
	return loops[float32, float32]{
		vv: func(d, a, b []float32) {
			a, b = a[:len(d)], b[:len(d)]
			for i := range d {
				d[i] = of(float64(a[i]), float64(b[i]))
			}
		},
		vs: func(d, a []float32, b float32) {
			for i, x := range a[:len(d)] {
				d[i] = of(float64(x), float64(b))
			}
		},
		sv: func(d []float32, a float32, b []float32) {
			for i, y := range b[:len(d)] {
				d[i] = of(float64(a), float64(y))
			}
		},
	}
}

func modLoops[T integer](truncated bool) loops[T, T] {
	return loopsOf(func(a, b T) T {
		if b == 0 {
			return 0
		}
		m := a % b
		if !truncated && m != 0 && (m < 0) != (b < 0) {
			m += b
		}
		return m
	})
}

// makePow computes powers. The exponent's dtype may differ from the base's.
func makePow(c *Invocation) (Run, error) {
	switch x, y := c.In[0].Type, c.In[1].Type; x {
	case graph.Float32:
		return powBy[float32](c, y)
	case graph.Float64:
		return powBy[float64](c, y)
	case graph.Int64:
		return powBy[int64](c, y)
	case graph.Int32:
		return powBy[int32](c, y)
	}
	return nil, unsupported(c.In[0].Type)
}

func powBy[T float32 | float64 | int64 | int32](c *Invocation, exponent graph.DType) (Run, error) {
	if exponent == c.In[0].Type {
		return powerLoops[T]().run(c)
	}
	// Convert the exponents to the base's dtype, in scratch, if that is exact.
	get, ok := form.Reader(exponent)
	if !ok {
		return nil, unsupported(exponent)
	}
	y := c.In[1]
	same := &Tensor{Type: c.In[0].Type, Shape: y.Shape}
	off := c.Shared(same.Bytes())
	run, err := powerLoops[T]().between(c.Out[0], c.In[0], same)
	if err != nil {
		return nil, err
	}
	otherwise, err := powByReals[T](c, get)
	if err != nil {
		return nil, err
	}
	return func(w *work.Pool) error {
		same.At = w.Shared(off)
		for i := range data[T](same) {
			v := get(y.At, i)
			if data[T](same)[i] = T(v); float64(T(v)) != v {
				return otherwise(w)
			}
		}
		return run(w)
	}, nil
}

// powerLoops has the loops of power. Those of float32 compute with vectors.
func powerLoops[T float32 | float64 | int64 | int32]() loops[T, T] {
	l := loopsOf(power[T])
	l.vs = powers[T]
	if f32, is := any(&l).(*loops[float32, float32]); is {
		f32.vv = func(d, a, b []float32) { simd.Power(d, a, b, power[float32]) }
		f32.sv = func(d []float32, a float32, b []float32) {
			var bases [256]float32
			fill(bases[:min(len(d), len(bases))], a)
			for from := 0; from < len(d); from += len(bases) {
				to := min(from+len(bases), len(d))
				simd.Power(d[from:to], bases[:to-from], b[from:to], power[float32])
			}
		}
	}
	return l
}

// powByReals handles exponents that the base's dtype cannot represent, such as 0.5 for
// an integer base.
func powByReals[T float32 | float64 | int64 | int32](c *Invocation, exponent func(unsafe.Pointer, int) float64) (Run, error) {
	x, y, out := c.In[0], c.In[1], c.Out[0]
	s, err := newSweep(out.Shape, x.Shape, y.Shape)
	if err != nil {
		return nil, err
	}
	return s.each(func(row, from, to, _ int) {
		d, a := data[T](out), data[T](x)
		for i := from; i < to; i++ {
			b := exponent(y.At, s.at(row, 1)+i*s.inner[1])
			d[row*s.n+i] = T(math.Pow(float64(a[s.at(row, 0)+i*s.inner[0]]), b))
		}
	}), nil
}

// powers raises the numbers of a to the power of b, by multiplication if b is 2 or 3.
func powers[T float32 | float64 | int64 | int32](d, a []T, b T) {
	switch {
	case b == 2:
		for i, x := range a[:len(d)] {
			d[i] = x * x
		}
	case b == 3:
		for i, x := range a[:len(d)] {
			d[i] = x * x * x
		}
	default:
		if f32, is := any(d).([]float32); is {
			simd.Power(f32, any(a).([]float32), []float32{float32(b)}, power[float32])
			return
		}
		for i, x := range a[:len(d)] {
			d[i] = power(x, b)
		}
	}
}

func power[T float32 | float64 | int64 | int32](a, b T) T {
	switch b {
	case 2:
		return a * a
	case 3:
		return a * a * a
	}
	if p, exact := integerPower(a, b); exact {
		return p
	}
	if x, single := any(a).(float32); single && x > 0 && x <= math.MaxFloat32 && b-b == 0 {
		// Both are finite. In float64, the error is far below one of float32, and math.Pow takes
		// six times as long.
		return T(math.Exp(float64(b) * math.Log(float64(x))))
	}
	return T(math.Pow(float64(a), float64(b)))
}

// integerPower computes powers of integers exactly: a float64 may not represent them.
// It returns false for other dtypes and for negative exponents.
func integerPower[T float32 | float64 | int64 | int32](a, b T) (T, bool) {
	switch any(a).(type) {
	case float32, float64:
		return 0, false
	}
	if b < 0 {
		return 0, false
	}
	p := T(1)
	for e := int64(b); e > 0; e >>= 1 {
		if e&1 == 1 {
			p *= a
		}
		a *= a
	}
	return p, true
}

// real1 makes the kernel of a function of one real.
func real1(f func(float64) float64) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return rowwise(c, func(d, a []float32) {
				for i, x := range a[:len(d)] {
					d[i] = float32(f(float64(x)))
				}
			})
		case graph.Float64:
			return rowwise(c, func(d, a []float64) {
				for i, x := range a[:len(d)] {
					d[i] = f(x)
				}
			})
		}
		return nil, unsupported(c.In[0].Type)
	}
}

// function is a function of one real.
type function struct {
	row func(dst, src []float32) // of float32, vectorized; dst may be src
	one func(float64) float64
}

// always is the function of an operator without attributes.
func always(row func(dst, src []float32), one func(float64) float64) func(*Invocation) function {
	return func(*Invocation) function { return function{row, one} }
}

// run makes the kernel.
func (f function) run(c *Invocation) (Run, error) {
	if c.In[0].Type != graph.Float32 {
		return real1(f.one)(c)
	}
	return rowwise(c, func(d, a []float32) { f.row(d, a[:len(d)]) })
}

// derive fills in what follows from the column Real.
func (k *Kernel) derive(of func(*Invocation) function, activation bool) {
	k.Make = func(c *Invocation) (Run, error) { return of(c).run(c) }
	if activation {
		k.Finish = func(c *Invocation) *Finish { return rows(of(c).row)(c) }
	}
}

// perElement makes a loop that applies f to each element.
func perElement[T number](f func(T) T) func(d, a []T) {
	return func(d, a []T) {
		for i, x := range a[:len(d)] {
			d[i] = f(x)
		}
	}
}

func makeAbs(c *Invocation) (Run, error) {
	switch c.In[0].Type {
	case graph.Float32:
		return rowwise(c, func(d, a []float32) { simd.Abs(d, a[:len(d)]) })
	case graph.Uint64, graph.Uint32, graph.Uint16, graph.Uint8:
		return makeCopy(c)
	}
	return numeric1(c, math.Abs, func(x int64) int64 { return max(x, -x) })
}

func makeNeg(c *Invocation) (Run, error) {
	if c.In[0].Type == graph.Float32 {
		return rowwise(c, func(d, a []float32) { simd.Neg(d, a[:len(d)]) })
	}
	return numeric1(c, func(x float64) float64 { return -x }, func(x int64) int64 { return -x })
}

func makeSign(c *Invocation) (Run, error) {
	if c.In[0].Type == graph.Float32 {
		return rowwise(c, func(d, a []float32) { simd.Sign(d, a[:len(d)]) })
	}
	return numeric1(c, func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return x
	}, func(x int64) int64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	})
}

// numeric1 makes the kernel of a function with separate forms for reals and integers.
func numeric1(c *Invocation, real func(float64) float64, whole func(int64) int64) (Run, error) {
	switch c.In[0].Type {
	case graph.Float32, graph.Float64:
		return real1(real)(c)
	case graph.Int64:
		return rowwise(c, perElement(whole))
	case graph.Int32:
		return rowwise(c, perElement(func(x int32) int32 { return int32(whole(int64(x))) }))
	case graph.Int16:
		return rowwise(c, perElement(func(x int16) int16 { return int16(whole(int64(x))) }))
	case graph.Int8:
		return rowwise(c, perElement(func(x int8) int8 { return int8(whole(int64(x))) }))
	case graph.Uint64:
		return rowwise(c, perElement(func(x uint64) uint64 { return uint64(whole(int64(min(x, math.MaxInt64)))) }))
	case graph.Uint32:
		return rowwise(c, perElement(func(x uint32) uint32 { return uint32(whole(int64(x))) }))
	case graph.Uint16:
		return rowwise(c, perElement(func(x uint16) uint16 { return uint16(whole(int64(x))) }))
	case graph.Uint8:
		return rowwise(c, perElement(func(x uint8) uint8 { return uint8(whole(int64(x))) }))
	}
	return nil, unsupported(c.In[0].Type)
}

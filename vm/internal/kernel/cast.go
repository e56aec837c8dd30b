package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// casts lists the conversions between dtypes, and the identity.
var casts = family{"", []Kernel{
	{Name: "Cast", Make: makeCast, Half: true},
	{Name: "CastLike", Make: makeCast, Half: true},
	{Name: "BitCast", Make: makeCopy, Half: true},
	{Name: "Identity", Make: makeCopy, Half: true},
}}

func makeCast(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	if in.Type == out.Type {
		return makeCopy(c)
	}
	if in.Type == graph.String {
		return makeParse(c)
	}
	if out.Type == graph.String {
		return makeFormat(c)
	}
	convert, ok := c.converter(out.Type, in.Type)
	if !ok {
		return nil, unsupportedf("a cast from %v to %v", in.Type, out.Type)
	}
	n := out.Len()
	part := func(p, _ int) { convert(out.At, in.At, p*grain, min((p+1)*grain, n)) }
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// conversionLoop converts elements [i, j). With packed types a part begins at a whole
// byte, since grain is even.
type conversionLoop func(to, from unsafe.Pointer, i, j int)

// converter returns the loop between two dtypes.
func (c *Invocation) converter(to, from graph.DType) (conversionLoop, bool) {
	if f := fastConverter(to, from); f != nil {
		return f, true
	}
	if whole, ok := intReader(from); ok {
		if set, ok := intWriter(to); ok {
			return func(to, from unsafe.Pointer, i, j int) {
				for ; i < j; i++ {
					set(to, i, whole(from, i))
				}
			}, true
		}
	}
	get, ok := reader(from)
	set, fits := c.writer(to)
	return func(to, from unsafe.Pointer, i, j int) {
		for ; i < j; i++ {
			set(to, i, get(from, i))
		}
	}, ok && fits
}

// fastConverter returns the loops for common pairs of dtypes, nil for others.
func fastConverter(to, from graph.DType) conversionLoop {
	switch [2]graph.DType{to, from} {
	case [2]graph.DType{graph.Float32, graph.Float16}, [2]graph.DType{graph.Float32, graph.BFloat16}:
		return func(to, at unsafe.Pointer, i, j int) {
			simd.Widen(span[float32](unsafe.Add(to, 4*i), j-i), span[uint16](unsafe.Add(at, 2*i), j-i), narrowType(from))
		}
	case [2]graph.DType{graph.Float16, graph.Float32}, [2]graph.DType{graph.BFloat16, graph.Float32}:
		return func(at, from unsafe.Pointer, i, j int) {
			simd.Round(span[uint16](unsafe.Add(at, 2*i), j-i), span[float32](unsafe.Add(from, 4*i), j-i), narrowType(to))
		}
	}
	switch from {
	case graph.Bool:
		return fromTruth(to)
	case graph.Float32:
		if f := fromFloat32(to); f != nil {
			return f
		}
		return fromReal[float32](to)
	case graph.Float64:
		return fromReal[float64](to)
	case graph.Int64:
		return fromInteger[int64](to)
	case graph.Int32:
		return fromInteger[int32](to)
	case graph.Int16:
		return fromInteger[int16](to)
	case graph.Int8:
		if to == graph.Float32 {
			return fromBytes(simd.Byte{Signed: true})
		}
		return fromInteger[int8](to)
	case graph.Uint64:
		if to != graph.Float32 { // rounded to a float64 first, as the processor does
			return fromInteger[uint64](to)
		}
	case graph.Uint32:
		return fromInteger[uint32](to)
	case graph.Uint16:
		return fromInteger[uint16](to)
	case graph.Uint8:
		if to == graph.Float32 {
			return fromBytes(simd.Byte{})
		}
		return fromInteger[uint8](to)
	}
	return nil
}

// fromFloat32 returns the loops of fromReal that compute with vectors, nil for others.
func fromFloat32(to graph.DType) conversionLoop {
	switch to {
	case graph.Int32:
		return func(to, from unsafe.Pointer, i, j int) {
			simd.Truncate(span[int32](unsafe.Add(to, 4*i), j-i), span[float32](unsafe.Add(from, 4*i), j-i))
		}
	case graph.Int8, graph.Uint8:
		return func(to, from unsafe.Pointer, i, j int) {
			simd.TruncateBytes(span[uint8](unsafe.Add(to, i), j-i), span[float32](unsafe.Add(from, 4*i), j-i))
		}
	case graph.Bool:
		zero := []float32{0}
		return func(to, from unsafe.Pointer, i, j int) {
			simd.Compare(span[uint8](unsafe.Add(to, i), j-i), span[float32](unsafe.Add(from, 4*i), j-i), zero, simd.NotEqual)
		}
	}
	return nil
}

// fromBytes returns the loop from 8-bit integers to float32, which has them all.
func fromBytes(b simd.Byte) conversionLoop {
	return func(to, from unsafe.Pointer, i, j int) {
		simd.Dequantize(span[float32](unsafe.Add(to, 4*i), j-i), span[uint8](unsafe.Add(from, i), j-i), 1, b)
	}
}

// fromInteger returns the loops from an integer dtype. Integers out of range wrap around.
func fromInteger[S integer](to graph.DType) conversionLoop {
	switch to {
	case graph.Float32:
		return plainConversion[float32, S]
	case graph.Float64:
		return plainConversion[float64, S]
	case graph.Int64, graph.Uint64:
		return plainConversion[int64, S]
	case graph.Int32, graph.Uint32:
		return plainConversion[int32, S]
	case graph.Int16, graph.Uint16:
		return plainConversion[int16, S]
	case graph.Int8, graph.Uint8:
		return plainConversion[int8, S]
	case graph.Bool:
		return isTrue[S]
	}
	return nil
}

// fromReal returns the loops from a floating-point dtype, with the integers of writer.
func fromReal[S floating](to graph.DType) conversionLoop {
	switch to {
	case graph.Float32:
		return plainConversion[float32, S]
	case graph.Float64:
		return plainConversion[float64, S]
	case graph.Int64:
		return truncate64[int64, S]
	case graph.Uint32:
		return truncate64[uint32, S]
	case graph.Int32:
		return truncate32[int32, S]
	case graph.Int16, graph.Uint16:
		return truncate32[int16, S]
	case graph.Int8, graph.Uint8:
		return truncate32[int8, S]
	case graph.Bool:
		return isTrue[S]
	}
	return nil
}

// fromTruth returns the loops from truth values: every byte but 0 is true.
func fromTruth(to graph.DType) conversionLoop {
	switch to {
	case graph.Float32:
		return chosenTruth(math.Float32bits(1))
	case graph.Int32, graph.Uint32:
		return chosenTruth(1)
	case graph.Float64:
		return truthAs(math.Float64bits(1))
	case graph.Int64, graph.Uint64:
		return truthAs[uint64](1)
	case graph.Float16:
		return truthAs(FloatToHalf(1))
	case graph.BFloat16:
		return truthAs(simd.ToBrain(1))
	case graph.Int16, graph.Uint16:
		return truthAs[uint16](1)
	case graph.Int8, graph.Uint8:
		return isTrue[uint8]
	}
	return nil
}

// chosenTruth writes the bits of one where a truth value is true.
func chosenTruth(one uint32) conversionLoop {
	yes, no := []uint32{one}, []uint32{0}
	return func(to, from unsafe.Pointer, i, j int) {
		simd.Choose(span[uint32](unsafe.Add(to, 4*i), j-i), span[uint8](unsafe.Add(from, i), j-i), yes, no)
	}
}

// truthAs is chosenTruth for other widths.
func truthAs[T uint16 | uint64](one T) conversionLoop {
	return func(to, from unsafe.Pointer, i, j int) {
		d, s := unsafe.Slice((*T)(to), j), unsafe.Slice((*uint8)(from), j)
		for ; i < j; i++ {
			d[i] = one * T(min(s[i], 1))
		}
	}
}

// isTrue writes whether numbers differ from 0, as NaN does.
func isTrue[S number](to, from unsafe.Pointer, i, j int) {
	d, s := unsafe.Slice((*bool)(to), j), unsafe.Slice((*S)(from), j)
	for ; i < j; i++ {
		d[i] = s[i] != 0
	}
}

// truncate32 writes the low bits of truncated32.
func truncate32[T, S number](to, from unsafe.Pointer, i, j int) {
	d, s := unsafe.Slice((*T)(to), j), unsafe.Slice((*S)(from), j)
	for ; i < j; i++ {
		d[i] = T(truncated32(float64(s[i])))
	}
}

// truncate64 writes the low bits of truncated64.
func truncate64[T, S number](to, from unsafe.Pointer, i, j int) {
	d, s := unsafe.Slice((*T)(to), j), unsafe.Slice((*S)(from), j)
	for ; i < j; i++ {
		d[i] = T(truncated64(float64(s[i])))
	}
}

func plainConversion[T, S number](to, from unsafe.Pointer, i, j int) {
	d, s := unsafe.Slice((*T)(to), j), unsafe.Slice((*S)(from), j)
	for ; i < j; i++ {
		d[i] = T(s[i])
	}
}

// intReader returns a function that reads element i of an integer tensor.
func intReader(d graph.DType) (func(at unsafe.Pointer, i int) int64, bool) {
	switch d {
	case graph.Int64, graph.Uint64:
		return readInt[int64], true
	case graph.Int32:
		return readInt[int32], true
	case graph.Int16:
		return readInt[int16], true
	case graph.Int8:
		return readInt[int8], true
	case graph.Uint32:
		return readInt[uint32], true
	case graph.Uint16:
		return readInt[uint16], true
	case graph.Uint8:
		return readInt[uint8], true
	case graph.Bool:
		return func(at unsafe.Pointer, i int) int64 {
			if *(*uint8)(unsafe.Add(at, i)) != 0 {
				return 1
			}
			return 0
		}, true
	case graph.Int4:
		return func(at unsafe.Pointer, i int) int64 { return int64(int8(packed(at, i, 4)<<4) >> 4) }, true
	case graph.Uint4:
		return func(at unsafe.Pointer, i int) int64 { return int64(packed(at, i, 4)) }, true
	case graph.Int2:
		return func(at unsafe.Pointer, i int) int64 { return int64(int8(packed(at, i, 2)<<6) >> 6) }, true
	case graph.Uint2:
		return func(at unsafe.Pointer, i int) int64 { return int64(packed(at, i, 2)) }, true
	}
	return nil, false
}

func readInt[T integer](at unsafe.Pointer, i int) int64 {
	var zero T
	return int64(*(*T)(unsafe.Add(at, i*int(unsafe.Sizeof(zero)))))
}

// packed returns element i of a type of 2, 4 or 8 bits. The first element of a byte lies
// in its low bits.
func packed(at unsafe.Pointer, i, bits int) uint8 {
	per := 8 / bits
	return *(*uint8)(unsafe.Add(at, i/per)) >> (i % per * bits) & (1<<bits - 1)
}

// pack writes element i of a type of 2 or 4 bits. The elements of a byte must be
// written in order: the first clears the rest of the byte, so that the bits after the
// last element do not depend on the previous content.
func pack(at unsafe.Pointer, i, bits int, v uint8) {
	per := 8 / bits
	b := (*uint8)(unsafe.Add(at, i/per))
	shift := i % per * bits
	*b = *b&(1<<shift-1) | v&(1<<bits-1)<<shift
}

// intWriter returns a function that writes element i of an integer tensor. Values out
// of range wrap around.
func intWriter(d graph.DType) (func(at unsafe.Pointer, i int, v int64), bool) {
	switch d {
	case graph.Int64, graph.Uint64:
		return writeInt[int64], true
	case graph.Int32, graph.Uint32:
		return writeInt[int32], true
	case graph.Int16, graph.Uint16:
		return writeInt[int16], true
	case graph.Int8, graph.Uint8:
		return writeInt[int8], true
	case graph.Bool:
		return func(at unsafe.Pointer, i int, v int64) { *(*bool)(unsafe.Add(at, i)) = v != 0 }, true
	case graph.Int4, graph.Uint4:
		return func(at unsafe.Pointer, i int, v int64) { pack(at, i, 4, uint8(v)) }, true
	case graph.Int2, graph.Uint2:
		return func(at unsafe.Pointer, i int, v int64) { pack(at, i, 2, uint8(v)) }, true
	}
	return nil, false
}

func writeInt[T integer](at unsafe.Pointer, i int, v int64) {
	var zero T
	*(*T)(unsafe.Add(at, i*int(unsafe.Sizeof(zero)))) = T(v)
}

// truncated32 cuts a real towards 0. NaN and numbers out of range become the least integer, as
// with x86's instruction on every processor; Go leaves the result to the processor. One
// comparison of the bits of the number's size finds NaN, infinities and all that is 2^31 or
// larger; the least integer itself is among them.
func truncated32(v float64) int32 {
	if math.Float64bits(v)&math.MaxInt64 < (1023+31)<<52 {
		return int32(v)
	}
	return math.MinInt32
}

// truncated64 is truncated32 for 64 bits.
func truncated64(v float64) int64 {
	if math.Float64bits(v)&math.MaxInt64 < (1023+63)<<52 {
		return int64(v)
	}
	return math.MinInt64
}

// truncatedUnsigned is truncated64 for unsigned integers: negative numbers wrap around, NaN becomes
// 2^63, and numbers from 2^64 on become 0.
func truncatedUnsigned(v float64) uint64 {
	if v >= 1<<63 {
		return uint64(truncated64(v-1<<63)) ^ 1<<63
	}
	return uint64(truncated64(v))
}

// writer returns a function that writes element i of a tensor of any numeric dtype. It
// truncates reals towards zero for integers. For integers out of range it gives what ONNX
// Runtime gives on x86. Up to 32 bits they are the low bits of an int32; unsigned ones of 32
// bits are those of an int64. (There its vectors give other results than what remains beside
// them.)
func writer(d graph.DType) (func(at unsafe.Pointer, i int, v float64), bool) {
	switch d {
	case graph.Float32:
		return func(at unsafe.Pointer, i int, v float64) { *(*float32)(unsafe.Add(at, 4*i)) = float32(v) }, true
	case graph.Float64:
		return func(at unsafe.Pointer, i int, v float64) { *(*float64)(unsafe.Add(at, 8*i)) = v }, true
	case graph.Float16:
		return func(at unsafe.Pointer, i int, v float64) { *(*uint16)(unsafe.Add(at, 2*i)) = FloatToHalf(float32(v)) }, true
	case graph.BFloat16:
		return func(at unsafe.Pointer, i int, v float64) { *(*uint16)(unsafe.Add(at, 2*i)) = simd.ToBrain(float32(v)) }, true
	case graph.Bool:
		return func(at unsafe.Pointer, i int, v float64) { *(*bool)(unsafe.Add(at, i)) = v != 0 }, true
	case graph.Uint64:
		return func(at unsafe.Pointer, i int, v float64) { *(*uint64)(unsafe.Add(at, 8*i)) = truncatedUnsigned(v) }, true
	}
	if f, ok := smallFloats[d]; ok {
		return f.writer(true), true
	}
	set, ok := intWriter(d)
	if !ok {
		return nil, false
	}
	if d == graph.Int64 || d == graph.Uint32 {
		return func(at unsafe.Pointer, i int, v float64) { set(at, i, truncated64(v)) }, true
	}
	return func(at unsafe.Pointer, i int, v float64) { set(at, i, int64(truncated32(v))) }, true
}

// writer is the function writer for a node whose attribute saturate says what becomes of
// numbers that are too large for a float8.
func (c *Invocation) writer(d graph.DType) (func(at unsafe.Pointer, i int, v float64), bool) {
	if f, ok := smallFloats[d]; ok {
		return f.writer(c.Int("saturate", 1) != 0), true
	}
	return writer(d)
}

func isFloat8(d graph.DType) bool {
	_, is := smallFloats[d]
	return is
}

// smallFloat is a floating-point format of at most 8 bits.
type smallFloat struct {
	bits, mantissa, bias int
	infinity             bool // has infinities and several NaNs, as in IEEE 754
	unsigned             bool // has no negative zero: its code is NaN (the "uz" of fnuz)
	finite               bool // has neither infinities nor NaN
}

// smallFloats lists the formats that are decoded one code at a time (OCP 2023; Noune
// et al. 2022 for fnuz).
var smallFloats = map[graph.DType]*smallFloat{
	graph.Float8E4M3FN: {bits: 8, mantissa: 3, bias: 7},
	graph.Float8E4M3U:  {bits: 8, mantissa: 3, bias: 8, unsigned: true},
	graph.Float8E5M2:   {bits: 8, mantissa: 2, bias: 15, infinity: true},
	graph.Float8E5M2U:  {bits: 8, mantissa: 2, bias: 16, unsigned: true},
	graph.Float4E2M1:   {bits: 4, mantissa: 1, bias: 1, finite: true},
}

// decode returns the value of a code.
func (f *smallFloat) decode(code uint8) float64 {
	exponents := f.bits - 1 - f.mantissa
	sign := 1.0
	if code>>(f.bits-1)&1 == 1 {
		sign = -1
	}
	exp, fraction := int(code>>f.mantissa)&(1<<exponents-1), int(code)&(1<<f.mantissa-1)
	switch {
	case f.unsigned && code == 1<<(f.bits-1):
		return math.NaN()
	case f.infinity && exp == 1<<exponents-1 && fraction == 0:
		return math.Inf(int(sign))
	case f.infinity && exp == 1<<exponents-1:
		return math.NaN()
	case !f.infinity && !f.unsigned && !f.finite && code&(1<<(f.bits-1)-1) == 1<<(f.bits-1)-1:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(float64(fraction), 1-f.bias-f.mantissa)
	}
	return sign * math.Ldexp(float64(fraction+1<<f.mantissa), exp-f.bias-f.mantissa)
}

// writer returns a function that writes element i of a tensor.
func (f *smallFloat) writer(saturate bool) func(at unsafe.Pointer, i int, v float64) {
	if f.bits < 8 {
		return func(at unsafe.Pointer, i int, v float64) { pack(at, i, f.bits, f.encode(v, saturate)) }
	}
	return func(at unsafe.Pointer, i int, v float64) { *(*uint8)(unsafe.Add(at, i)) = f.encode(v, saturate) }
}

// encode returns the code of the value nearest to v, which is rounded to float32 first, as
// ONNX's reference and ONNX Runtime do. Ties go to the even code. A value that is too large
// becomes the largest one if it saturates, or if the format is finite, and else infinite, or
// NaN in a format without infinities.
func (f *smallFloat) encode(v float64, saturate bool) uint8 {
	v = float64(float32(v))
	negative := uint8(1) << (f.bits - 1)
	sign := uint8(0)
	if math.Signbit(v) {
		sign = negative
		v = -v
	}
	if v != v {
		if f.unsigned || f.finite {
			return negative
		}
		return sign | (negative - 1)
	}
	most := negative - 1
	for math.IsNaN(f.decode(most)) || math.IsInf(f.decode(most), 0) {
		most--
	}
	if end := f.decode(most); v >= end {
		// Half a step above the largest value, a tie rounds up if its code is odd.
		over := v - end - (end-f.decode(most-1))/2
		switch {
		case saturate || f.finite || over < 0 || over == 0 && most&1 == 0:
			return sign | most
		case f.unsigned:
			return negative
		}
		return sign | (most + 1)
	}
	low, high := uint8(0), most // f.decode(low) <= v, by bisection
	for high-low > 1 {
		if mid := low + (high-low)/2; f.decode(mid) <= v {
			low = mid
		} else {
			high = mid
		}
	}
	below, above := v-f.decode(low), f.decode(high)-v
	if above < below || above == below && high&1 == 0 {
		low = high
	}
	if low == 0 && f.unsigned {
		return 0
	}
	return sign | low
}

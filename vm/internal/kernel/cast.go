package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
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
	if whole, ok := form.IntReader(from); ok {
		if set, ok := form.IntWriter(to); ok {
			return func(to, from unsafe.Pointer, i, j int) {
				for ; i < j; i++ {
					set(to, i, whole(from, i))
				}
			}, true
		}
	}
	get, ok := form.Reader(from)
	set, fits := c.Writer(to)
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
		if to == graph.Float32 {
			return func(to, from unsafe.Pointer, i, j int) {
				simd.FromIntegers(span[float32](unsafe.Add(to, 4*i), j-i), span[int32](unsafe.Add(from, 4*i), j-i))
			}
		}
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
		return truthAs(form.FloatToHalf(1))
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
		d[i] = T(form.Truncated32(float64(s[i])))
	}
}

// truncate64 writes the low bits of truncated64.
func truncate64[T, S number](to, from unsafe.Pointer, i, j int) {
	d, s := unsafe.Slice((*T)(to), j), unsafe.Slice((*S)(from), j)
	for ; i < j; i++ {
		d[i] = T(form.Truncated64(float64(s[i])))
	}
}

func plainConversion[T, S number](to, from unsafe.Pointer, i, j int) {
	d, s := unsafe.Slice((*T)(to), j), unsafe.Slice((*S)(from), j)
	for ; i < j; i++ {
		d[i] = T(s[i])
	}
}

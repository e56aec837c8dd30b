package simd

import "math"

// Byte is an 8-bit integer type with a zero point: x represents (x - Zero)·scale.
type Byte struct {
	Signed bool
	Zero   int32
}

// Span is the range of x - Zero.
func (b Byte) Span() (low, high float32) {
	if b.Signed {
		return float32(-128 - b.Zero), float32(127 - b.Zero)
	}
	return float32(-b.Zero), float32(255 - b.Zero)
}

// flip is the XOR mask that turns a signed number into the unsigned number larger by
// 128.
func (b Byte) flip() byte {
	if b.Signed {
		return 0x80
	}
	return 0
}

// round converts a number, in units of the scale, to a byte. It rounds ties to even and
// saturates; NaN becomes the least byte.
func (b Byte) round(units, low, high float32) byte {
	if !(units > low) {
		units = low
	}
	return byte(int32(math.RoundToEven(float64(min(units, high)))) + b.Zero)
}

// Quantize writes x/scale as bytes for each x of src.
func Quantize(dst []byte, src []float32, scale float32, to Byte) {
	dst = dst[:len(src)]
	low, high := to.Span()
	if wide == 16 && len(src) > 0 {
		quantizeAVX512(&dst[0], &src[0], len(src), scale, low, high, to.Zero)
		return
	}
	whole := 0
	if available && len(src) >= 8 {
		whole = len(src) &^ 7
		quantizeAVX2(&dst[0], &src[0], whole, scale, low, high, to.Zero)
	}
	for i, x := range src[whole:] {
		dst[whole+i] = to.round(x/scale, low, high)
	}
}

// Requantize writes (x + bias)·scale as bytes for each x of src.
func Requantize(dst []byte, src []int32, bias int32, scale float32, to Byte) {
	dst = dst[:len(src)]
	low, high := to.Span()
	if wide == 16 && len(src) > 0 {
		requantizeAVX512(&dst[0], &src[0], len(src), scale, low, high, to.Zero, bias)
		return
	}
	whole := 0
	if available && len(src) >= 8 {
		whole = len(src) &^ 7
		requantizeAVX2(&dst[0], &src[0], whole, scale, low, high, to.Zero, bias)
	}
	for i, x := range src[whole:] {
		dst[whole+i] = to.round(float32(x+bias)*scale, low, high)
	}
}

// RequantizeColumns writes (x + bias)·scale as bytes for each x of rows of numbers; each
// column has its own bias and scale. The rows of dst and src are as many elements apart as
// the steps say.
func RequantizeColumns(dst []byte, src, biases []int32, scales []float32, rows, dstStep, srcStep int, to Byte) {
	n := len(biases)
	if n == 0 || rows == 0 {
		return
	}
	_, _, _ = dst[(rows-1)*dstStep+n-1], src[(rows-1)*srcStep+n-1], scales[n-1]
	low, high := to.Span()
	if available && n >= 8 {
		requantizeColumnsAVX2(&dst[0], &src[0], &biases[0], &scales[0], n, rows, dstStep, 4*srcStep, low, high, to.Zero)
		return
	}
	for r := range rows {
		d, s := dst[r*dstStep:][:n], src[r*srcStep:][:n]
		for i, x := range s {
			d[i] = to.round(float32(x+biases[i])*scales[i], low, high)
		}
	}
}

// Dequantize writes the reals that the bytes of src represent.
func Dequantize(dst []float32, src []byte, scale float32, from Byte) {
	dst = dst[:len(src)]
	flip := from.flip()
	zero := from.Zero + int32(flip)
	whole := 0
	if available && len(src) >= 8 {
		whole = len(src) &^ 7
		dequantizeAVX2(&dst[0], &src[0], whole, scale, zero, flip)
	}
	for i, x := range src[whole:] {
		dst[whole+i] = float32(int32(x^flip)-zero) * scale
	}
}

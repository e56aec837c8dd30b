package gemm

import (
	"math"
	"unsafe"
)

// sliding holds the arguments of the functions that read a plane in place. Package asm
// addresses the fields by their offsets.
type sliding struct {
	dst, src, weights, taps, masks, groups unsafe.Pointer
	evens                                  *[16]int32
	count, vectors, clamp                  int
	bias, low, high                        float32

	// Of bytes; bias is then an int32.
	scale     float32
	pad, zero int32

	row int // bytes of a row of the image
}

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(sliding{}.groups) ^ 40 | unsafe.Offsetof(sliding{}.evens) ^ 48 | unsafe.Offsetof(sliding{}.clamp) ^ 72 |
	unsafe.Offsetof(sliding{}.bias) ^ 80 | unsafe.Offsetof(sliding{}.high) ^ 88 | unsafe.Offsetof(sliding{}.scale) ^ 92 | unsafe.Offsetof(sliding{}.pad) ^ 96 | unsafe.Offsetof(sliding{}.zero) ^ 100 | unsafe.Offsetof(sliding{}.row) ^ 104)

//go:noescape
func weigh1AVX512(p *sliding)

//go:noescape
func weigh2AVX512(p *sliding)

//go:noescape
func weigh1AVX2(p *sliding)

//go:noescape
func weigh2AVX2(p *sliding)

//go:noescape
func largest1AVX512(p *sliding)

//go:noescape
func unsigned1AVX512(p *sliding)

//go:noescape
func unsigned2AVX512(p *sliding)

//go:noescape
func signed1AVX512(p *sliding)

//go:noescape
func signed2AVX512(p *sliding)

// evens chooses every other lane of two vectors.
var evens = [16]int32{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}

// direct is Plane with a table. A table bounds the work, so it asks Stop only once.
func (d *Depthwise) direct(out, in, weights unsafe.Pointer, bias float32) {
	if d.Stop != nil && d.Stop.Stopping() {
		return
	}
	p := d.sliding(out, in, weights)
	p.bias = bias
	p.clamp, p.low, p.high = d.clamp()
	switch one := d.Stride[2] == 1; {
	case chosen == avx2 && one:
		weigh1AVX2(&p)
	case chosen == avx2:
		weigh2AVX2(&p)
	case d.Largest:
		largest1AVX512(&p)
	case one:
		weigh1AVX512(&p)
	default:
		weigh2AVX512(&p)
	}
}

// directBytes is direct for bytes.
func (d *Depthwise) directBytes(out, in unsafe.Pointer, c *ByteChannel) {
	if d.Stop != nil && d.Stop.Stopping() {
		return
	}
	p := d.sliding(out, in, unsafe.Pointer(unsafe.SliceData(c.Weights)))
	p.bias = math.Float32frombits(uint32(c.sum()))
	p.low, p.high, p.scale, p.pad, p.zero = c.Low, c.High, c.Scale, c.Pad, c.Zero
	switch one := d.Stride[2] == 1; {
	case c.Signed && one:
		signed1AVX512(&p)
	case c.Signed:
		signed2AVX512(&p)
	case one:
		unsigned1AVX512(&p)
	default:
		unsigned2AVX512(&p)
	}
}

func (d *Depthwise) sliding(out, in, weights unsafe.Pointer) sliding {
	t := d.table
	return sliding{
		dst: out, src: in, weights: weights, taps: unsafe.Pointer(unsafe.SliceData(t.taps)), masks: unsafe.Pointer(unsafe.SliceData(t.masks)),
		groups: unsafe.Pointer(unsafe.SliceData(t.groups)), evens: &evens, count: len(t.taps), vectors: d.vectors(), row: d.size() * d.In[2],
	}
}

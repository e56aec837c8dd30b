package gemm

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// quadPlane holds the arguments of the functions for a channel of QuadPlanes. Package asm
// addresses the fields by their offsets.
type quadPlane struct {
	dst, src            unsafe.Pointer
	first, second       unsafe.Pointer // where the first two rows of the image go
	step                int            // bytes to the place of the row after the next
	rows, chunks, width int            // of the image: rows to copy, 64 bytes of a row before the last, bytes of a row
	mask                uint64         // of the last bytes
	room, sums          unsafe.Pointer
	weights, taps       unsafe.Pointer // taps: byte offsets, or the places in a small image
	count, vectors      int
	outRows, outChunks  int
	outWidth, outPitch  int
	outMask             uint64
	orders              *quadOrders
	bias                int32
	scale, low, high    float32
	zero                int32
	pad, flip, outFlip  byte
}

// Any other offset does not compile.
const _ = -(unsafe.Offsetof(quadPlane{}.first) ^ 16 | unsafe.Offsetof(quadPlane{}.step) ^ 32 | unsafe.Offsetof(quadPlane{}.mask) ^ 64 |
	unsafe.Offsetof(quadPlane{}.weights) ^ 88 | unsafe.Offsetof(quadPlane{}.count) ^ 104 | unsafe.Offsetof(quadPlane{}.outRows) ^ 120 |
	unsafe.Offsetof(quadPlane{}.outMask) ^ 152 | unsafe.Offsetof(quadPlane{}.orders) ^ 160 | unsafe.Offsetof(quadPlane{}.bias) ^ 168 |
	unsafe.Offsetof(quadPlane{}.zero) ^ 184 | unsafe.Offsetof(quadPlane{}.pad) ^ 188 | unsafe.Offsetof(quadOrders{}.bytes) ^ 64)

//go:noescape
func quadPlane1VBMI(p *quadPlane)

//go:noescape
func quadPlane2VBMI(p *quadPlane)

//go:noescape
func smallQuadPlaneVBMI(p *quadPlane)

// quadOrders holds the permutations of a vector: the bytes under the quads of 16 outputs, and
// the 16 numbers of 32 bits that four packed vectors of outputs become.
type quadOrders struct {
	quads [vectorBytes]byte
	bytes [16]int32
}

// ordersOfQuads has the orders of strides 1 and 2.
var ordersOfQuads = [2]quadOrders{newQuadOrders(1), newQuadOrders(2)}

func newQuadOrders(stride int) (o quadOrders) {
	for i := range o.quads {
		o.quads[i] = byte(i/4*stride + i%4)
	}
	for i := range o.bytes { // the instructions pack each 128 bits for themselves
		o.bytes[i] = int32(i%4*4 + i/4)
	}
	return o
}

// quadPlanes reports whether this machine permutes bytes of a vector at once.
func quadPlanes() bool { return vnni() && cpu.X86.HasAVX512VBMI }

// Planes computes channels in a scratch that Surround has filled. A small channel takes some
// thirty nanoseconds, so what holds for all is set once.
func (d *QuadPlanes) Planes(out, in, scratch unsafe.Pointer, c *QuadChannels) {
	s, inputs, outputs := d.Stride[1], d.In[1]*d.In[2], d.Out[1]*d.Out[2]
	p := quadPlane{count: d.Quads(), orders: &ordersOfQuads[s-1], low: c.Low, high: c.High, zero: c.Zero, pad: c.Pad}
	if c.Signed {
		p.flip = 0x80
	}
	if c.SignedOut { // packed as unsigned bytes
		p.zero, p.outFlip = p.zero+128, 0x80
	}
	if d.small != nil {
		p.taps, p.mask, p.outMask = unsafe.Pointer(unsafe.SliceData(d.small)), lastBytes(inputs), lastBytes(outputs)
	} else {
		left := unsafe.Add(scratch, d.Pad[2])
		p.first, p.second, p.step = unsafe.Add(left, d.row(d.Pad[1])), unsafe.Add(left, d.row(d.Pad[1]+1)), 2/s*d.pitch
		p.rows = min(d.In[1], (d.Out[1]-1)*s+d.Kernel[1]-d.Pad[1])
		p.chunks, p.width, p.mask = (d.In[2]-1)/vectorBytes, d.In[2], lastBytes(d.In[2])
		p.room, p.sums = scratch, unsafe.Add(scratch, d.roomBytes())
		p.taps, p.vectors = unsafe.Pointer(unsafe.SliceData(d.taps)), d.vectors()
		p.outRows, p.outChunks, p.outWidth, p.outPitch, p.outMask = d.Out[1], (d.Out[2]-1)/vectorBytes, d.Out[2], d.pitch/s, lastBytes(d.Out[2])
	}
	for i, bias := range c.Biases {
		p.dst, p.src, p.weights = unsafe.Add(out, i*outputs), unsafe.Add(in, i*inputs), unsafe.Pointer(&c.Quads[i*p.count])
		p.bias, p.scale = bias, c.Scales[i]
		switch { // a function in a variable would move p to the heap
		case d.small != nil:
			smallQuadPlaneVBMI(&p)
		case s == 1:
			quadPlane1VBMI(&p)
		default:
			quadPlane2VBMI(&p)
		}
	}
}

// lastBytes is the mask of the last 1 to 64 of n bytes.
func lastBytes(n int) uint64 { return ^uint64(0) >> (63 - (n-1)%vectorBytes) }

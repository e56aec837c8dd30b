package gemm

import "unsafe"

// QuadPlanes is the convolution of single channels of bytes with VNNI: four weights of a row
// of the kernel, a quad, are multiplied at once. A channel is copied with its padding into
// a plane for each residue of the rows by the stride, whose rows continue each other:
//
//	| pad row 0 pad row 1 pad ... |
//
// The padding behind a row is also that before the next one. So the outputs are computed
// across rows, with some between the rows that are not copied to the output. Bytes of the
// copy are unsigned, and weights signed.
//
// An image of at most 63 bytes stays in a register, from which a permutation for each quad
// takes what the outputs read: the last layers have many such channels.
type QuadPlanes struct {
	In, Out, Kernel, Stride, Dilation, Pad [3]int // as in Image

	pitch int     // bytes from a row of a plane to the next
	plane int     // bytes of a plane
	taps  []int32 // byte offsets of the quads
	small []byte  // of a small image: for each quad, the places of the bytes under it of 64 outputs; nil: it is large
}

const (
	vectorBytes   = 64
	mostQuadPlane = 1 << 18 // bytes: a plane should stay in the second-level cache
)

// Prepare reports whether this machine computes this convolution. The other methods need
// it.
func (d *QuadPlanes) Prepare() bool {
	s := d.Stride[1]
	if !quadPlanes() || d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 || d.Pad[0] != 0 || s != d.Stride[2] || s < 1 || s > 2 || d.Dilation[1] != 1 || d.Dilation[2] != 1 {
		return false
	}
	for _, n := range []int{d.In[1], d.In[2], d.Out[1], d.Out[2], d.Kernel[1], d.Kernel[2]} {
		if n < 1 || n > 1<<12 {
			return false
		}
	}
	// A larger padding would stand for whole rows of the output.
	behind := (d.Out[2]-1)*s + d.Kernel[2] - d.Pad[2] - d.In[2]
	if d.Kernel[1]*d.Kernel[2] > mostTaps || min(d.Pad[1], d.Pad[2]) < 0 || d.Pad[1] >= d.Kernel[1] || d.Pad[2] >= d.Kernel[2] || behind >= d.Kernel[2] {
		return false
	}
	if d.In[1]*d.In[2] < vectorBytes && d.Out[1]*d.Out[2] <= vectorBytes {
		d.setSmall()
		return true
	}
	d.pitch = cuts(d.In[2]+max(d.Pad[2], behind, 0), s) * s
	// The last vector and the last quad read behind the rows.
	d.plane = (cuts((d.Out[1]-1)*s+d.Kernel[1], s)*d.pitch + 16*s + 4*d.quadsOfRow() + 2*vectorBytes) &^ (vectorBytes - 1)
	if d.plane > mostQuadPlane {
		return false
	}
	d.taps = make([]int32, 0, d.Quads())
	for h := range d.Kernel[1] {
		for q := range d.quadsOfRow() {
			d.taps = append(d.taps, int32(d.row(h)+4*q))
		}
	}
	return true
}

// setSmall finds the places of bytes. The last of a vector holds the padding.
func (d *QuadPlanes) setSmall() {
	d.small = make([]byte, vectorBytes*4*d.Quads())
	for i := range d.small {
		quad, output := i/(vectorBytes*4), i/4%vectorBytes
		h := output/d.Out[2]*d.Stride[1] - d.Pad[1] + quad/d.quadsOfRow()
		k := quad%d.quadsOfRow()*4 + i%4
		w := output%d.Out[2]*d.Stride[2] - d.Pad[2] + k
		d.small[i] = vectorBytes - 1
		if k < d.Kernel[2] && output < d.Out[1]*d.Out[2] && uint(h) < uint(d.In[1]) && uint(w) < uint(d.In[2]) {
			d.small[i] = byte(h*d.In[2] + w)
		}
	}
}

func (d *QuadPlanes) quadsOfRow() int { return cuts(d.Kernel[2], 4) }

// row is the offset of a row of the image with its padding.
func (d *QuadPlanes) row(h int) int {
	s := d.Stride[1]
	return h%s*d.plane + h/s*d.pitch
}

// vectors is the number of vectors of 16 outputs.
func (d *QuadPlanes) vectors() int {
	return cuts((d.Out[1]-1)*(d.pitch/d.Stride[1])+d.Out[2], 16)
}

// Quads is the number of quads of a channel.
func (d *QuadPlanes) Quads() int { return d.Kernel[1] * d.quadsOfRow() }

// Pack writes the quads of a channel, whose weights are XORed with flip to become signed
// bytes. It returns the sum of the weights.
func (d *QuadPlanes) Pack(quads []int32, weights []byte, flip byte) (sum int32) {
	for i := range quads {
		row, from := weights[i/d.quadsOfRow()*d.Kernel[2]:][:d.Kernel[2]], i%d.quadsOfRow()*4
		quad := uint32(0)
		for k, w := range row[from:min(from+4, len(row))] {
			sum += int32(int8(w ^ flip))
			quad |= uint32(w^flip) << (8 * k)
		}
		quads[i] = int32(quad)
	}
	return sum
}

// roomBytes is the size of the planes.
func (d *QuadPlanes) roomBytes() int { return d.Stride[1] * d.plane }

// ScratchBytes is the scratch of each worker: the planes, and the outputs with what lies
// between their rows. Small images need none.
func (d *QuadPlanes) ScratchBytes() int {
	if d.small != nil {
		return 0
	}
	return d.roomBytes() + 16*d.vectors() + vectorBytes
}

// Surround fills the scratch with an unsigned zero point, for any number of calls of Planes.
func (d *QuadPlanes) Surround(scratch unsafe.Pointer, zero byte) {
	room := unsafe.Slice((*byte)(scratch), d.ScratchBytes())
	if len(room) == 0 {
		return
	}
	room[0] = zero
	for n := 1; n < len(room); n *= 2 {
		copy(room[n:], room[:n])
	}
}

// QuadChannels is the convolution of channels of bytes that follow each other. For each, its
// bias is added to the sum of the products of its weights and unsigned bytes, modulo 2³².
// That times its scale is kept in [Low, High] and rounded to even, and Zero is added.
type QuadChannels struct {
	Quads     []int32 // as Pack writes them, channel by channel
	Biases    []int32
	Scales    []float32
	Signed    bool // the image
	Pad       byte // the zero point of the image, as it is
	Low, High float32
	Zero      int32
	SignedOut bool
}

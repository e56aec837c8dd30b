package gemm

import (
	"math"
	"unsafe"
)

// Pool joins the elements under a kernel that slides over a single channel: it finds the
// largest, or adds them up. It first joins the rows under the kernel to one row, and then
// the taps along that row, so that each element is read once for each row of the kernel,
// and not for each tap. It needs vectors.
type Pool struct {
	In, Out, Kernel, Stride, Dilation, Pad [3]int // as in Image
	Sum                                    bool   // in place of the largest element; NaN if one is NaN
	Stop                                   Stopper

	masks []uint16 // for each vector of a padded row, the lanes that lie in the image
}

const (
	mostPoolRow = 1 << 16 // elements of a padded row
	poolBand    = 16      // output rows whose joined rows stay in the first-level cache
)

// MaskLen is the number of masks that UseMasks takes, or 0 if this machine cannot pool such
// a window with vectors.
func (p *Pool) MaskLen() int {
	if chosen == plain || p.In[0] != 1 || p.Out[0] != 1 || p.Kernel[0] != 1 || p.Pad[0] != 0 || p.Stride[2] > 2 {
		return 0
	}
	for _, n := range []int{p.In[1], p.In[2], p.Out[1], p.Out[2], p.Pad[1], p.Pad[2], p.Kernel[1], p.Kernel[2], p.Stride[1], p.Dilation[1], p.Dilation[2]} {
		if n < 0 || n > mostPoolRow {
			return 0
		}
	}
	if taps := p.Kernel[1] * p.Kernel[2]; taps == 0 || taps > mostTaps || p.Out[2] == 0 || p.rowLen() > mostPoolRow {
		return 0
	}
	return p.rowLen() / laneCount
}

// rowLen is the length of a joined row: all that its taps may read.
func (p *Pool) rowLen() int {
	reads := cuts(p.Out[2], laneCount)*laneCount*p.Stride[2] + (p.Kernel[2]-1)*p.Dilation[2]
	return cuts(max(p.Pad[2]+p.In[2], reads), laneCount) * laneCount
}

// UseMasks fills room, of MaskLen masks, which Plane reads.
func (p *Pool) UseMasks(room []uint16) {
	clear(room)
	for x := p.Pad[2]; x < p.Pad[2]+p.In[2]; x++ {
		room[x/laneCount] |= 1 << (x % laneCount)
	}
	p.masks = room
}

// ScratchBytes is the scratch of each worker.
func (p *Pool) ScratchBytes() int { return 4 * min(poolBand, p.Out[1]) * p.rowLen() }

// Plane computes one channel. scratch has ScratchBytes bytes.
func (p *Pool) Plane(out, in, scratch unsafe.Pointer) {
	length := p.rowLen()
	// Rows of the output below which the whole kernel lies in the image.
	top, bottom := within(p.Pad[1], p.Stride[1], p.In[1]-(p.Kernel[1]-1)*p.Dilation[1], p.Out[1])
	for first := 0; first < p.Out[1]; first += poolBand {
		if p.Stop != nil && p.Stop.Stopping() {
			return
		}
		last := min(first+poolBand, p.Out[1])
		for row := first; row < last; {
			rows := 1
			if row >= top && row < bottom {
				rows = min(last, bottom) - row
			}
			p.joinRows(unsafe.Add(scratch, 4*(row-first)*length), in, row, rows)
			row += rows
		}
		p.joinAlong(out, first, last-first, scratch)
	}
}

// joinRows joins the rows of the image that lie under the kernel, for output rows from one
// on: several only where all of the kernel lies in the image.
func (p *Pool) joinRows(dst, in unsafe.Pointer, row, rows int) {
	start := row*p.Stride[1] - p.Pad[1]
	from, to := within(-start, p.Dilation[1], p.In[1], p.Kernel[1])
	if from == to {
		none := float32(0)
		if !p.Sum {
			none = float32(math.Inf(-1))
		}
		joined := unsafe.Slice((*float32)(dst), p.rowLen())
		for i := range joined {
			joined[i] = none
		}
		return
	}
	off := 4 * ((start+from*p.Dilation[1])*p.In[2] - p.Pad[2])
	joinRows(p.Sum, dst, in, off, &p.masks[0], len(p.masks), to-from, 4*p.Dilation[1]*p.In[2], rows, 4*p.rowLen(), 4*p.Stride[1]*p.In[2])
}

// joinAlong joins the taps along rows, for those of the output from one on. A row may end
// with a whole vector if the plane does not end within it: the next rows overwrite that, and
// stores with a mask are slow in AVX2.
func (p *Pool) joinAlong(out unsafe.Pointer, row, rows int, src unsafe.Pointer) {
	vectors, length := cuts(p.Out[2], laneCount), 4*p.rowLen()
	mask := uint64(1)<<(p.Out[2]-(vectors-1)*laneCount) - 1
	// The vectors of so many rows of the plane end within it.
	whole := max(p.Out[1]-cuts(vectors*laneCount, p.Out[2])+1, 0)
	for _, part := range []struct {
		from, to int
		last     uint64
	}{{row, min(row+rows, whole), 1<<laneCount - 1}, {max(row, whole), row + rows, mask}} {
		if n := part.to - part.from; n > 0 {
			joinAlong(p.Sum, p.Stride[2], unsafe.Add(out, 4*part.from*p.Out[2]), unsafe.Add(src, (part.from-row)*length), vectors, p.Kernel[2], 4*p.Dilation[2], part.last, n, 4*p.Out[2], length)
		}
	}
}

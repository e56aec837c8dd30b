package gemm

import "unsafe"

// A table says which elements of an image each tap of a kernel reads, so that they can be
// read in place. It holds for all channels. Sixteen outputs are a vector. With stride 1,
// vectors follow each other across the rows, which the image and the output share. With
// stride 2, each half of a vector is a group: up to eight outputs of one row.
//
// The vectors are computed in blocks of the largest sizes that the registers hold. For each block, the table has
// the masks of all vectors for one tap after the other, and then those for the results.
type table struct {
	taps   []int32  // byte offsets of the taps
	groups []int32  // stride 2, for each vector: byte offsets of two groups in the image, and in the output
	masks  []uint16 // a bit for each lane
}

const (
	laneCount    = 16
	groupLen     = 8
	mostMasks    = 1 << 16 // larger tables leave no room for the image in the cache
	mostInPlace  = 1 << 24 // elements of an image or output
	groupNumbers = 4
)

// TableLen is the length of the table with which planes are read in place, which is faster
// than copying them. It is 0 if this window, or this machine, has no such table.
func (d *Depthwise) TableLen() int {
	s := d.Stride[2]
	if d.Largest && (s > 1 || chosen == avx2) {
		return 0 // Pool is faster
	}
	if chosen == plain || d.Bytes && !Quads() || d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 || d.Pad[0] != 0 || s != d.Stride[1] || s > 2 || s == 1 && d.In[2] != d.Out[2] {
		return 0
	}
	for _, n := range []int{d.In[1], d.In[2], d.Out[1], d.Out[2], d.Pad[1], d.Pad[2], d.Kernel[1], d.Kernel[2], d.Dilation[1], d.Dilation[2]} {
		if n < 0 || n > 1<<12 {
			return 0
		}
	}
	taps := d.Kernel[1] * d.Kernel[2]
	if taps > mostTaps || d.In[1]*d.In[2] > mostInPlace || d.Out[1]*d.Out[2] > mostInPlace || d.vectors()*(taps+1)*s > mostMasks {
		return 0
	}
	// Every offset must fit into 32 bits.
	if reach := (d.Out[1]*s + d.Kernel[1]*d.Dilation[1] + d.Pad[1] + 1) * (d.In[2] + d.Pad[2] + d.Kernel[2]*d.Dilation[2]); reach > 1<<28 {
		return 0
	}
	return taps + d.groupsLen() + cuts(d.vectors()*(taps+1)*s, 2)
}

// size is the size of an element in bytes.
func (d *Depthwise) size() int {
	if d.Bytes {
		return 1
	}
	return 4
}

// vectors is the number of vectors of the output.
func (d *Depthwise) vectors() int {
	if d.Stride[2] == 1 {
		return cuts(d.Out[1]*d.Out[2], laneCount)
	}
	return cuts(d.Out[1]*cuts(d.Out[2], groupLen), 2)
}

func (d *Depthwise) groupsLen() int {
	if d.Stride[2] == 1 {
		return 0
	}
	return groupNumbers * d.vectors()
}

// UseTable fills room, of TableLen numbers, and reads planes in place from then on.
func (d *Depthwise) UseTable(room []int32) {
	taps, s, size := d.Kernel[1]*d.Kernel[2], d.Stride[2], d.size()
	t := &table{taps: room[:taps], groups: room[taps : taps+d.groupsLen()]}
	t.masks = unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(room[taps+d.groupsLen():]))), d.vectors()*(taps+1)*s)
	clear(t.masks)
	d.table = t
	for kh := range d.Kernel[1] {
		for kw := range d.Kernel[2] {
			h, w := kh*d.Dilation[1]-d.Pad[1], kw*d.Dilation[2]-d.Pad[2]
			tap := kh*d.Kernel[2] + kw
			t.taps[tap] = int32(size * (h*d.In[2] + w))
			top, bottom := within(-h, s, d.In[1], d.Out[1])
			from, to := within(-w, s, d.In[2], d.Out[2])
			for oh := top; oh < bottom; oh++ {
				d.see(tap, oh, from, to)
			}
		}
	}
	per := cuts(d.Out[2], groupLen)
	for oh := range d.Out[1] {
		d.see(taps, oh, 0, d.Out[2])
		if s == 1 {
			continue
		}
		for j := range per {
			g := oh*per + j
			at := t.groups[g/2*groupNumbers+g%2:]
			at[0] = int32(size * s * (oh*d.In[2] + groupLen*j))
			// The second half of a vector is stored from lane 8 on.
			at[2] = int32(size * (oh*d.Out[2] + groupLen*j - g%2*groupLen))
		}
	}
	if g := d.Out[1] * per; s == 2 && g%2 == 1 { // nothing is read or written for the last half
		at := t.groups[g/2*groupNumbers+1:]
		at[0], at[2] = 0, 0
	}
}

// see sets the bits of the outputs [from, to) of a row for a tap; the tap behind the last
// stands for the results.
func (d *Depthwise) see(tap, oh, from, to int) {
	taps, s, masks := d.Kernel[1]*d.Kernel[2], d.Stride[2], d.table.masks
	if s == 1 {
		for i, end := oh*d.Out[2]+from, oh*d.Out[2]+to; i < end; {
			v, l := i/laneCount, i%laneCount
			n := min(laneCount-l, end-i)
			masks[d.mask(v, tap)] |= uint16((1<<n - 1) << l)
			i += n
		}
		return
	}
	per := cuts(d.Out[2], groupLen)
	if tap == taps && chosen == avx2 {
		// A group may end behind its row, which the next row overwrites, but not behind the
		// plane.
		if end := d.Out[1]*d.Out[2] - oh*d.Out[2]; end >= per*groupLen {
			to = per * groupLen
		}
	}
	for w := from; w < to; w++ {
		g := oh*per + w/groupLen
		lane := w % groupLen * s // of the sixteen elements that the group reads
		if tap == taps {
			lane = w%groupLen + g%2*groupLen
		}
		masks[d.mask(g/2, tap)+g%2] |= 1 << lane
	}
}

// mask is the index of the first mask of a vector for a tap.
func (d *Depthwise) mask(v, tap int) int {
	taps, s := d.Kernel[1]*d.Kernel[2], d.Stride[2]
	first, left := 0, d.vectors()
	size := 8 / s
	if chosen == avx2 {
		size = 4
	}
	for ; ; size /= 2 {
		whole := left / size * size
		if v < first+whole {
			first += (v - first) / size * size
			return s * (first*(taps+1) + tap*size + v - first)
		}
		first, left = first+whole, left-whole
	}
}

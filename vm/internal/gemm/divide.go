package gemm

import "unsafe"

// A Depthwise of stride 2 divides the rows of an image into their even and odd elements.
// One pass over a row writes both, and the zeros between two rows of a plane.

// division says how the rows of an image are divided; it holds for all channels.
type division struct {
	args  halving    // but for the addresses and the number of rows
	rows  [2]divided // every other row of the image, and the others
	taps  []uintptr  // of the kernel: bytes from the planes to the first element that each reads
	where [mostHalved]uintptr
}

const mostHalved = 49 // taps

// divided are rows of an image that are divided into two planes.
type divided struct {
	first, count  int      // bytes from the channel to the first row, and their number
	at            [2]int   // bytes from the planes to the even and odd elements of the first row
	before, after [2]zeros // of each plane: before its first row, which may begin with some, and after its last
}

// zeros are elements of a plane outside of the image.
type zeros struct{ at, count int } // bytes from the planes, and elements

// Divide prepares Plane for the division of rows, if that is faster than a table, and
// reports whether it is. The zeros behind a row, eight in each plane, must cover all up to
// the next row's elements, and all that whole vectors write behind the row's own.
func (d *Depthwise) Divide() bool {
	taps := d.Kernel[1] * d.Kernel[2]
	if chosen != avx2 || d.Largest || d.Bytes || d.In[0] != 1 || d.Out[0] != 1 || d.Kernel[0] != 1 || d.Pad[0] != 0 || d.Stride[1] != 2 || d.Stride[2] != 2 || d.Pad[1] < 0 || d.Pad[2] < 0 {
		return false
	}
	if d.ScratchBytes() == 0 || taps > mostHalved || d.Out[2] < leastDivided {
		return false
	}
	length, rows, width, size := d.length(), d.rows(), d.In[2], d.planeLen()
	var columns [2]struct{ from, n int }
	blocks := 0
	for w := range columns {
		from, to := within(d.Pad[2]-w, 2, width, length)
		columns[w].from, columns[w].n = from, to-from
		blocks = max(blocks, cuts(to-from, 8))
	}
	v := &division{args: halving{srcStep: 8 * width, dstStep: 4 * length, blocks: blocks - 1}}
	for w, c := range columns {
		if c.n == 0 || c.n < 8*(blocks-1) || length-c.n > 8 {
			return false
		}
		if odd := 2*c.from + w - d.Pad[2]; odd == 0 {
			v.args.evenZero = 4 * c.n
		} else {
			v.args.oddZero = 4 * c.n
		}
	}
	for i := range v.args.masks {
		v.args.masks[i] = &spans[0][min(max(width-16*(blocks-1)-8*i, 0), 8)]
	}
	for h := range v.rows {
		top, bottom := within(d.Pad[1]-h, 2, d.In[1], rows)
		if top == bottom {
			return false
		}
		r := &v.rows[h]
		r.first, r.count = 4*(2*top+h-d.Pad[1])*width, bottom-top
		for w, c := range columns {
			plane := (2*h + w) * size
			r.at[2*c.from+w-d.Pad[2]] = 4 * (plane + top*length + c.from)
			r.before[w] = zeros{4 * plane, top*length + c.from}
			r.after[w] = zeros{4 * (plane + bottom*length), (rows - bottom) * length}
		}
	}
	v.taps = v.where[:taps]
	for tap := range v.taps {
		v.taps[tap] = uintptr(d.under(nil, tap/d.Kernel[2], tap%d.Kernel[2], size, length))
	}
	d.division = v
	return true
}

const leastDivided = 12 // outputs of a row: shorter ones take a table

// divide computes Plane after it has divided the rows.
func (d *Depthwise) divide(out, in, weights unsafe.Pointer, bias float32, scratch unsafe.Pointer) {
	length, band := d.length(), d.band()
	planes := unsafe.Add(scratch, 4*d.bandFloats())
	p := d.division.args
	for h := range d.division.rows {
		r := &d.division.rows[h]
		for _, pad := range &r.before {
			clear(unsafe.Slice(float(planes, pad.at), pad.count))
		}
		p.src, p.even, p.odd, p.rows = unsafe.Add(in, r.first), unsafe.Add(planes, r.at[0]), unsafe.Add(planes, r.at[1]), r.count
		p.run()
		for _, pad := range &r.after {
			clear(unsafe.Slice(float(planes, pad.at), pad.count))
		}
	}
	var from [mostHalved]uintptr
	n := len(d.division.taps)
	for t, off := range d.division.taps {
		from[t] = uintptr(planes) + off
	}
	clamp, low, high := d.clamp()
	for oh := 0; oh < d.Out[1]; oh += band {
		if d.Stop != nil && d.Stop.Stopping() {
			return
		}
		rows := min(band, d.Out[1]-oh)
		whole := (rows*length - (length - d.Out[2]) + 7) &^ 7
		weigh((*float32)(scratch), whole, &from[0], (*float32)(weights), n, clamp, bias, low, high)
		unspread(unsafe.Add(out, 4*oh*d.Out[2]), scratch, rows, d.Out[2], length)
		for t := range n {
			from[t] += uintptr(4 * rows * length)
		}
	}
}

package gemm

import (
	"encoding/binary"
	"unsafe"
)

// Bytes is a matrix of 8-bit integers in memory, like Dense for reals. Zeros are the zero
// points: a single one, or one for each row of A or column of B.
type Bytes struct {
	At         unsafe.Pointer
	Len        int
	Step, Deep int
	Signed     bool
	Zeros      []int16

	// Taps is 0, or the number of taps of weights that BytePixels meet, as in Dense: Deep is
	// the number of channels.
	Taps int
}

// flip is the XOR mask that turns a signed number into the unsigned number larger by
// 128.
func (m *Bytes) flip() byte {
	if m.Signed {
		return 0x80
	}
	return 0
}

// zero is the zero point of row or column i after the flip.
func (m *Bytes) zero(i int) int16 {
	if len(m.Zeros) == 1 {
		i = 0
	}
	return m.Zeros[min(i, len(m.Zeros)-1)] + int16(m.flip())
}

func (m *Bytes) at(i, k int) unsafe.Pointer {
	if m.Taps > 0 {
		return unsafe.Add(m.At, i*m.Step+k%m.Deep*m.Taps+k/m.Deep)
	}
	return unsafe.Add(m.At, i*m.Step+k*m.Deep)
}

// widen writes one row of A at depths [k, k+deep), and 0 up to the end of dst.
func (m *Bytes) widen(dst []int16, i, k, deep int) {
	flip, zero := m.flip(), m.zero(i)
	from, done := m.at(i, k), 0
	if m.Deep == 1 {
		done = widenRow(dst, from, deep, flip, zero)
	}
	for d := done; d < deep; d++ {
		dst[d] = int16(*(*byte)(unsafe.Add(from, d*m.Deep))^flip) - zero
	}
	clear(dst[deep:])
}

func (m *Bytes) rows(side []int16, first, n, k, deep int) (unsafe.Pointer, int) {
	length := 2 * cuts(deep, 2)
	if m.Deep == 1 && m.Taps == 0 && m.Step == deep && length == deep && len(m.Zeros) == 1 {
		m.widen(side[:n*deep], first, k, n*deep) // the rows are one
		return unsafe.Pointer(unsafe.SliceData(side)), 2 * length
	}
	for i := range n {
		m.widen(side[i*length:(i+1)*length], first+i, k, deep)
	}
	return unsafe.Pointer(unsafe.SliceData(side)), 2 * length
}

func (m *Bytes) columns(strip []int16, stage []byte, first, k, deep int) unsafe.Pointer {
	var zeros [2 * integerColumns]int16
	for j := range integerColumns {
		z := m.zero(first + j)
		zeros[2*j], zeros[2*j+1] = z, z
	}
	n := min(integerColumns, m.Len-first)
	if m.Step == 1 && n == integerColumns {
		pair(strip, m.at(first, k), deep, m.Deep, &zeros, m.flip())
		return unsafe.Pointer(unsafe.SliceData(strip))
	}
	m.lay(stage, first, n, k, deep)
	pair(strip, unsafe.Pointer(unsafe.SliceData(stage)), deep, integerColumns, &zeros, m.flip())
	return unsafe.Pointer(unsafe.SliceData(strip))
}

// lay writes deep rows of n columns, 16 bytes apart.
func (m *Bytes) lay(stage []byte, first, n, k, deep int) {
	if m.Step == 1 {
		for d := range deep {
			copy(stage[d*integerColumns:], unsafe.Slice((*byte)(m.at(first, k+d)), n))
		}
		return
	}
	if m.Taps > 0 {
		for j := range n {
			for d := range deep {
				stage[d*integerColumns+j] = *(*byte)(m.at(first+j, k+d))
			}
		}
		return
	}
	for j := range n {
		from := m.at(first+j, k)
		for d := range deep {
			stage[d*integerColumns+j] = *(*byte)(unsafe.Add(from, d*m.Deep))
		}
	}
}

// pair interleaves deep rows of 16 bytes, which are step bytes apart, to pairs. An odd
// last row is paired with itself, since its partner is multiplied by 0.
func pair(dst []int16, from unsafe.Pointer, deep, step int, zeros *[2 * integerColumns]int16, flip byte) {
	whole := deep / 2
	if whole > 0 {
		pairRows(dst, from, whole, step, zeros, flip)
	}
	if deep%2 != 0 {
		pairRows(dst[whole*2*integerColumns:], unsafe.Add(from, 2*whole*step), 1, 0, zeros, flip)
	}
}

// widenPlain and pairRowsPlain are the assembly functions in Go.
func widenPlain(dst []int16, from unsafe.Pointer, n int, flip byte, zero int16) {
	for d, b := range unsafe.Slice((*byte)(from), n) {
		dst[d] = int16(b^flip) - zero
	}
}

func pairRowsPlain(dst []int16, from unsafe.Pointer, count, step int, zeros *[2 * integerColumns]int16, flip byte) {
	for c := range count {
		a := (*[integerColumns]byte)(unsafe.Add(from, 2*c*step))
		b := (*[integerColumns]byte)(unsafe.Add(from, (2*c+1)*step))
		to := (*[2 * integerColumns]int16)(dst[c*2*integerColumns:])
		for j := range integerColumns {
			to[2*j] = int16(a[j]^flip) - zeros[2*j]
			to[2*j+1] = int16(b[j]^flip) - zeros[2*j+1]
		}
	}
}

// everyOther copies every other byte, four at a time, and returns how many it wrote. It
// leaves the last bytes, behind which the image may end.
func everyOther(dst []byte, from unsafe.Pointer) int {
	x := 0
	for ; x+4 < len(dst); x += 4 {
		w := binary.LittleEndian.Uint64(unsafe.Slice((*byte)(unsafe.Add(from, 2*x)), 8)) & 0x00ff00ff00ff00ff
		w = (w | w>>8) & 0x0000ffff0000ffff
		binary.LittleEndian.PutUint32(dst[x:], uint32(w|w>>16))
	}
	return x
}

// ByteImage is the B of a convolution of 8-bit integers, like Image for reals. Outside of
// the image it holds the zero point.
type ByteImage struct {
	Image
	Signed bool
	Zero   int16
}

func (m *ByteImage) columns(strip []int16, stage []byte, first, k, deep int) unsafe.Pointer {
	m.lay(stage, first, k, deep)
	b := Bytes{Signed: m.Signed}
	var zeros [2 * integerColumns]int16
	for j := range zeros {
		zeros[j] = m.Zero + int16(b.flip())
	}
	pair(strip, unsafe.Pointer(unsafe.SliceData(stage)), deep, integerColumns, &zeros, b.flip())
	return unsafe.Pointer(unsafe.SliceData(strip))
}

// lay writes deep rows of 16 columns.
func (m *ByteImage) lay(stage []byte, first, k, deep int) {
	if m.layShifted(stage, first, k, deep) {
		return
	}
	var list [widest]piece
	pieces := m.pieces(list[:], integerColumns, first)
	taps := m.taps()
	volume, s := m.In[0]*m.In[1]*m.In[2], m.Stride[2]
	for t := range min(taps, deep) {
		kd, kh, kw := m.tap((k + t) % taps)
		channel := (k + t) / taps
		for i := range pieces {
			p := &pieces[i]
			from, to, at := m.see(p, kd, kh, kw)
			for d := t; d < deep; d += taps {
				row := stage[d*integerColumns+p.from : d*integerColumns+p.to]
				if to-from < len(row) {
					for x := range row {
						row[x] = byte(m.Zero)
					}
				}
				row = row[max(from-p.from, 0):max(to-p.from, 0)]
				base := (channel+(d-t)/taps)*volume + at + from*s
				if s == 1 {
					copy(row, unsafe.Slice((*byte)(unsafe.Add(m.At, base)), len(row)))
					continue
				}
				if s == 2 {
					done := everyOther(row, unsafe.Add(m.At, base))
					row, base = row[done:], base+done*s
				}
				for x := range row {
					row[x] = *(*byte)(unsafe.Add(m.At, base+x*s))
				}
			}
		}
	}
}

package gemm

import (
	"math"
	"unsafe"
)

// Image is the B of a convolution: row (channel, kernel position), column
// (output position); the number there is what the kernel sees of the image, 0
// outside of it. It is packed straight from the image. Shapes have 1 to 3
// spatial axes, here always 3 (depth, height, width).
type Image struct {
	At       unsafe.Pointer // of the first channel
	Channels int
	In       [3]int // lengths of the image
	Out      [3]int // lengths of the output
	Kernel   [3]int
	Stride   [3]int
	Dilation [3]int
	Pad      [3]int // before the image
	Format   Format
	Widen    func(uint16) float32
}

// Pack writes width output positions for depths [k, k+n).
func (m *Image) Pack(dst []float32, width, first, k, n int) {
	total := m.Out[0] * m.Out[1] * m.Out[2]
	cols := min(width, total-first)
	var at [16][3]int // where each column's kernel begins in the image
	for c := range cols {
		p := first + c
		w := p % m.Out[2]
		h := p / m.Out[2] % m.Out[1]
		d := p / m.Out[2] / m.Out[1]
		at[c] = [3]int{d*m.Stride[0] - m.Pad[0], h*m.Stride[1] - m.Pad[1], w*m.Stride[2] - m.Pad[2]}
	}
	plane := m.In[1] * m.In[2]
	volume := m.In[0] * plane
	// A row of columns that lie in one row of the output, side by side.
	even := cols == width && m.Stride[2] == 1 && first%m.Out[2]+cols <= m.Out[2]
	kw := k % m.Kernel[2]
	kh := k / m.Kernel[2] % m.Kernel[1]
	kd := k / m.Kernel[2] / m.Kernel[1] % m.Kernel[0]
	ch := k / m.Kernel[2] / m.Kernel[1] / m.Kernel[0]
	for range n {
		row := dst[:width]
		dst = dst[width:]
		base := ch * volume
		dd, dh, dw := kd*m.Dilation[0], kh*m.Dilation[1], kw*m.Dilation[2]
		if even {
			d, h, w := at[0][0]+dd, at[0][1]+dh, at[0][2]+dw
			switch {
			case uint(d) >= uint(m.In[0]) || uint(h) >= uint(m.In[1]):
				clear(row)
			case w >= 0 && w+width <= m.In[2]:
				m.load(row, base+d*plane+h*m.In[2]+w)
			default:
				for c := range row {
					row[c] = 0
					if uint(w+c) < uint(m.In[2]) {
						row[c] = m.get(base + d*plane + h*m.In[2] + w + c)
					}
				}
			}
		} else {
			clear(row)
			for c := range cols {
				d, h, w := at[c][0]+dd, at[c][1]+dh, at[c][2]+dw
				if uint(d) < uint(m.In[0]) && uint(h) < uint(m.In[1]) && uint(w) < uint(m.In[2]) {
					row[c] = m.get(base + d*plane + h*m.In[2] + w)
				}
			}
		}
		if kw++; kw == m.Kernel[2] {
			kw = 0
			if kh++; kh == m.Kernel[1] {
				kh = 0
				if kd++; kd == m.Kernel[0] {
					kd = 0
					ch++
				}
			}
		}
	}
}

func (m *Image) get(i int) float32 {
	switch m.Format {
	case Float16:
		return m.Widen(*(*uint16)(unsafe.Add(m.At, 2*i)))
	case BFloat16:
		return math.Float32frombits(uint32(*(*uint16)(unsafe.Add(m.At, 2*i))) << 16)
	}
	return *(*float32)(unsafe.Add(m.At, 4*i))
}

func (m *Image) load(row []float32, i int) {
	if m.Format == Float32 {
		copy(row, unsafe.Slice((*float32)(unsafe.Add(m.At, 4*i)), len(row)))
		return
	}
	for c := range row {
		row[c] = m.get(i + c)
	}
}

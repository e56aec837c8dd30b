package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// mostBinSamples bounds the samples of a column of bins that are listed at once.
const mostBinSamples = 64

// means computes the bins of region r at once, row by row, with the sums of takeMean; false if it
// cannot: of bins that lie partly outside of the image, or of rows that read more elements than two
// vectors have.
func (v *roiAlign) means(r, image int, high, wide *roiAxis) bool {
	const lanes, most = 16, 32
	x, out := v.c.In[0], v.c.Out[0]
	channels, h, w := x.Shape[1], x.Shape[2], x.Shape[3]
	if !simd.HasBins() || v.columns > lanes || v.columns < 1 || v.rows < 1 || !(high.samples >= 1 && wide.samples >= 1) ||
		float64(v.rows)*high.samples*wide.samples > mostBinSamples || !high.lies(v.rows, h) || !wide.lies(v.columns, w) {
		return false
	}
	down, across := int(high.samples), int(wide.samples)
	first, last := w, 0
	for c := range v.columns {
		for k := range across {
			s := sampleAt(h, w, 0, wide.at(c, k))
			first, last = min(first, int(s.at[0])), max(last, int(s.at[1]))
		}
	}
	if last-first >= most {
		return false
	}
	var list [mostBinSamples]simd.Samples
	for row := range v.rows {
		for k := range down * across {
			s := &list[row*down*across+k]
			for c := range v.columns {
				point := sampleAt(h, w, high.at(row, k/across), wide.at(c, k%across))
				top, bottom := int(point.at[0])/w, int(point.at[2])/w
				s.Top, s.Bottom = 4*(top*w+first), 4*(bottom*w+first)
				s.Left[c], s.Right[c] = point.at[0]-int32(top*w+first), point.at[1]-int32(top*w+first)
				for i, weight := range point.weight {
					s.Weights[i][c] = weight
				}
			}
		}
	}
	b := simd.Bins{
		Samples: &list[0], Rows: v.rows, Each: down * across, PlaneStep: 4 * h * w, DstStep: 4 * v.rows * v.columns, RowStep: 4 * v.columns,
		Read: uint32(uint64(1)<<min(most, w-first) - 1), Write: 1<<v.columns - 1, Total: float32(down * across),
	}
	const together = 64 // channels between two looks at the clock
	m := v.c.Meter()
	for ch := 0; ch < channels; ch += together {
		b.Planes = min(together, channels-ch)
		b.Plane, b.Dst = element[float32](x, (image*channels+ch)*h*w), element[float32](out, (r*channels+ch)*v.rows*v.columns)
		m.Add(b.Planes * b.Rows * b.Each)
		b.Means()
	}
	return true
}

// lies reports whether all samples of some bins lie in the image, whose last element is before high.
func (a *roiAxis) lies(bins, high int) bool {
	for bin := range bins {
		if from, to := a.inside(bin, float32(high)); from != 0 || float64(to) != a.samples {
			return false
		}
	}
	return true
}

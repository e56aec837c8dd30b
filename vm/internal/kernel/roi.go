package kernel

import (
	"fmt"
	"math"
	"sort"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// regions lists the operators that pool over regions of an image.
var regions = family{"", []Kernel{
	{Name: "RoiAlign", Make: makeRoiAlign},
	{Name: "MaxRoiPool", Make: makeMaxRoiPool},
}}

// makeRoiAlign computes the mean or the maximum of bilinear samples in each bin of each
// region.
func makeRoiAlign(c *Invocation) (Run, error) {
	x, rois, index := c.In[0], c.In[1], c.In[2]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	if n := count(x.Shape[2:]); n > math.MaxInt32 {
		return nil, unsupportedf("planes of %d elements", n)
	}
	v := &roiAlign{
		c: c, largest: c.Str("mode", "avg") == "max", rows: c.Int("output_height", 1), columns: c.Int("output_width", 1),
		ratio: c.Int("sampling_ratio", 0), scale: c.Float("spatial_scale", 1), shift: 0.5, minimum: float32(math.Inf(-1)),
	}
	if c.Version < 16 || c.Str("coordinate_transformation_mode", "half_pixel") == "output_half_pixel" {
		v.shift, v.minimum = 0, 1
	}
	batch, err := indexReader(index)
	if err != nil {
		return nil, err
	}
	part := func(r, _ int) {
		image, _ := batch(r, x.Shape[0])
		v.region(r, image)
	}
	return func(p *work.Pool) error {
		for i, image := range data[int64](index) {
			if image < 0 || image >= int64(x.Shape[0]) {
				return fmt.Errorf("region %d is of image %d: expected one in [0, %d)", i, image, x.Shape[0])
			}
		}
		for r := range rois.Shape[0] {
			if r&form.Often == 0 {
				c.Poll()
			}
			if high, wide := v.axes(r); max(high.samples, wide.samples) > mostSamples {
				return fmt.Errorf("region %d of %v takes %g x %g samples for each bin, expected at most %d along an axis (sampling_ratio)",
					r, data[float32](rois)[4*r:4*r+4], high.samples, wide.samples, mostSamples)
			}
		}
		p.For(rois.Shape[0], part)
		return nil
	}, nil
}

// mostSamples bounds the samples of a bin along an axis.
const mostSamples = 1 << 31

// roiAlign is a RoiAlign node.
type roiAlign struct {
	c             *Invocation
	largest       bool
	rows, columns int // bins of a region
	ratio         int // samples of a bin along each axis; 0: about one for each element
	scale, shift  float32
	minimum       float32 // of the lengths of a region
}

// roiAxis is a region along one axis of the image: the start of the region, the length
// of a bin, and the number of samples in a bin.
type roiAxis struct {
	begin, bin float32
	samples    float64
}

// axes returns the two axes of region r.
func (v *roiAlign) axes(r int) (high, wide roiAxis) {
	b := data[float32](v.c.In[1])[4*r:]
	along := func(from, to float32, bins int) roiAxis {
		a := roiAxis{begin: from*v.scale - v.shift, samples: float64(v.ratio)}
		length := max(to*v.scale-v.shift-a.begin, v.minimum)
		a.bin = length / float32(bins)
		if v.ratio <= 0 {
			a.samples = math.Ceil(float64(length) / float64(bins))
		}
		if !(a.samples > 0) { // NaN, too
			a.samples = 0
		}
		return a
	}
	return along(b[1], b[3], v.rows), along(b[0], b[2], v.columns)
}

// at is the coordinate of sample k of a bin.
func (a *roiAxis) at(bin, k int) float32 {
	return a.begin + float32(bin)*a.bin + (float32(k)+0.5)*a.bin/float32(a.samples)
}

// inside returns the samples [from, to) of a bin that lie in [-1, high]; the image is 0
// elsewhere. Bisection finds them, since at is monotonic in k. A region may be far larger
// than its image.
func (a *roiAxis) inside(bin int, high float32) (from, to int) {
	n := int(a.samples)
	if a.bin >= 0 {
		from = sort.Search(n, func(k int) bool { return a.at(bin, k) >= -1 })
		to = sort.Search(n, func(k int) bool { return !(a.at(bin, k) <= high) })
	} else {
		from = sort.Search(n, func(k int) bool { return a.at(bin, k) <= high })
		to = sort.Search(n, func(k int) bool { return !(a.at(bin, k) >= -1) })
	}
	return from, max(from, to)
}

// region pools the bins of region r.
func (v *roiAlign) region(r, image int) {
	x, out := v.c.In[0], v.c.Out[0]
	channels, h, w := x.Shape[1], x.Shape[2], x.Shape[3]
	high, wide := v.axes(r)
	if !v.largest && v.means(r, image, &high, &wide) {
		return
	}
	all := high.samples * wide.samples
	total := float32(max(all, 1))
	m := v.c.Meter()
	// All channels share the samples of some bins, which are in list one after the other.
	var list [mostListed]sample
	var parts [mostListed]binPart
	listed, pending := 0, parts[:0]
	flush := func() {
		for ch := range channels {
			m.Add(8 * (listed + len(pending)))
			plane := data[float32](x)[(image*channels+ch)*h*w:][:h*w]
			bins := data[float32](out)[(r*channels+ch)*v.rows*v.columns:][:v.rows*v.columns]
			for i := range pending {
				b := &pending[i]
				if v.largest {
					b.takeLargest(&bins[b.bin], list[b.from:b.to], plane)
				} else {
					b.takeMean(&bins[b.bin], list[b.from:b.to], plane, total)
				}
			}
		}
		listed, pending = 0, pending[:0]
	}
	for p := range v.rows * v.columns {
		fromY, toY := high.inside(p/v.columns, float32(h))
		fromX, toX := wide.inside(p%v.columns, float32(w))
		across := toX - fromX
		samples := (toY - fromY) * across
		for from := 0; from == 0 || from < samples; {
			if listed == len(list) || len(pending) == len(parts) {
				flush()
			}
			n := min(len(list)-listed, samples-from)
			for i := range n {
				list[listed+i] = sampleAt(h, w, high.at(p/v.columns, fromY+(from+i)/across), wide.at(p%v.columns, fromX+(from+i)%across))
			}
			pending = append(pending, binPart{
				bin: p, from: listed, to: listed + n, first: from == 0, last: from+n >= samples, outside: all > float64(samples),
			})
			if listed, from = listed+n, from+n; n == 0 {
				break
			}
		}
	}
	flush()
}

// mostListed bounds the samples that all channels share; they stay in the fastest cache.
const mostListed = 256

// binPart is a part of the samples of a bin: those of the list from one index to another.
type binPart struct {
	bin, from, to        int
	first, last, outside bool // the first samples of the bin, the last ones; some are outside of the image
}

// takeLargest joins the samples to a bin's maximum.
func (b *binPart) takeLargest(d *float32, list []sample, plane []float32) {
	best := *d
	if b.first && b.outside {
		best = 0
	}
	*d = largestOf(list, plane, best, b.first && !b.outside)
}

// takeMean joins the samples to a bin's mean.
func (b *binPart) takeMean(d *float32, list []sample, plane []float32, total float32) {
	sum := float32(0)
	if !b.first {
		sum = *d
	}
	for i := range list {
		s := &list[i]
		sum += plane[s.at[0]]*s.weight[0] + plane[s.at[1]]*s.weight[1] + plane[s.at[2]]*s.weight[2] + plane[s.at[3]]*s.weight[3]
	}
	*d = sum
	if b.last {
		*d = sum / total
	}
}

// sample is a point between four elements of a plane.
type sample struct {
	at     [4]int32
	weight [4]float32 // all 0: outside
}

func sampleAt(h, w int, y, x float32) (s sample) {
	if !(y >= -1 && y <= float32(h) && x >= -1 && x <= float32(w)) {
		return s
	}
	y, x = max(y, 0), max(x, 0)
	y0, x0 := min(int(y), h-1), min(int(x), w-1)
	y1, x1 := min(y0+1, h-1), min(x0+1, w-1)
	fy, fx := y-float32(y0), x-float32(x0)
	if y0 == h-1 {
		fy = 0
	}
	if x0 == w-1 {
		fx = 0
	}
	s.at = [4]int32{int32(y0*w + x0), int32(y0*w + x1), int32(y1*w + x0), int32(y1*w + x1)}
	s.weight = [4]float32{(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}
	return s
}

// largestOf returns the largest weighted element of some samples, which is RoiAlign's
// mode max. It begins with best, unless first is set.
func largestOf(list []sample, plane []float32, best float32, first bool) float32 {
	if first && len(list) == 0 {
		return 0
	}
	for i := range list {
		for k, at := range list[i].at {
			if v := plane[at] * list[i].weight[k]; first || v > best {
				best, first = v, false
			}
		}
	}
	return best
}

// makeMaxRoiPool computes the maximum of each bin of each region.
func makeMaxRoiPool(c *Invocation) (Run, error) {
	x, rois := c.In[0], c.In[1]
	if x.Type != graph.Float32 || rois.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	bins, scale := c.Ints("pooled_shape"), c.Float("spatial_scale", 1)
	part := func(r, _ int) { maxOfRegion(c, r, int(bins[0]), int(bins[1]), scale) }
	return func(p *work.Pool) error {
		for r := range rois.Shape[0] {
			if r&form.Often == 0 {
				c.Poll()
			}
			image := data[float32](rois)[5*r]
			if !(image >= 0 && image < float32(x.Shape[0])) || image != float32(int(image)) {
				return fmt.Errorf("region %d is of image %v: expected a whole number in [0, %d)", r, image, x.Shape[0])
			}
		}
		p.For(rois.Shape[0], part)
		return nil
	}, nil
}

// maxOfRegion pools the bins of region r.
func maxOfRegion(c *Invocation, r, rows, columns int, scale float32) {
	x, out := c.In[0], c.Out[0]
	channels, h, w := x.Shape[1], x.Shape[2], x.Shape[3]
	roi := data[float32](c.In[1])[5*r:][:5]
	high, wide := poolAxisOf(roi[2]*scale, roi[4]*scale, rows), poolAxisOf(roi[1]*scale, roi[3]*scale, columns)
	m := c.Meter()
	for p := range rows * columns {
		fromY, toY := high.elements(p/columns, h)
		fromX, toX := wide.elements(p%columns, w)
		for ch := range channels {
			m.Add(1)
			plane := data[float32](x)[(int(roi[0])*channels+ch)*h*w:][:h*w]
			best, some := float32(math.Inf(-1)), false
			for i := fromY; i < toY; i++ {
				m.Add(toX - fromX)
				for _, v := range plane[i*w+fromX : i*w+toX] {
					best, some = max(best, v), true
				}
			}
			if !some {
				best = 0
			}
			data[float32](out)[(r*channels+ch)*rows*columns+p] = best
		}
	}
}

// poolAxis is a region along one axis of the image: its first element and the length of a
// bin.
type poolAxis struct{ begin, bin float32 }

// poolAxisOf returns the region between two places, which are rounded to elements; both
// elements belong to it.
func poolAxisOf(from, to float32, bins int) poolAxis {
	begin := float32(math.Round(float64(from)))
	length := max(float32(math.Round(float64(to)))-begin+1, 1)
	return poolAxis{begin, length / float32(bins)}
}

// elements returns the elements [from, to) of a bin that lie among n. Numbers are limited
// before they become integers: a region may be far larger than its image, or NaN.
func (a *poolAxis) elements(bin, n int) (from, to int) {
	limit := func(v float64) int {
		switch {
		case !(v > 0):
			return 0
		case v > float64(n):
			return n
		}
		return int(v)
	}
	from = limit(math.Floor(float64(float32(bin)*a.bin)) + float64(a.begin))
	to = limit(math.Ceil(float64(float32(bin+1)*a.bin)) + float64(a.begin))
	return from, max(from, to)
}

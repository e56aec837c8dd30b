package reference

import (
	"fmt"
	"math"
)

// roiOperators pool over regions of an image.
var roiOperators = []operator{
	{"RoiAlign", roiAlign},
	{"MaxRoiPool", maxRoiPool},
}

// roiAlign takes the mean or the maximum of values that are interpolated at evenly spaced
// points of each bin of each region.
func roiAlign(c *evaluation) []*Tensor {
	x, rois, batch := c.x(0), c.x(1), c.x(2)
	high, wide := c.int("output_height", 1), c.int("output_width", 1)
	scale, ratio := c.float("spatial_scale", 1), c.int("sampling_ratio", 0)
	largest := c.str("mode", "avg") == "max"
	half := c.version >= 16 && c.str("coordinate_transformation_mode", "half_pixel") == "half_pixel"
	channels, h, w := x.Shape[1], x.Shape[2], x.Shape[3]
	y := zeros(x.Type, []int{rois.Shape[0], channels, high, wide})
	mass, open := make([]float64, len(y.F)), make([]bool, len(y.F))
	parallel(rois.Shape[0], func(r int) {
		shift, least := 0.0, 1.0
		if half {
			shift, least = 0.5, math.Inf(-1)
		}
		box := rois.F[4*r:][:4]
		left, top := box[0]*scale-shift, box[1]*scale-shift
		width, height := max(box[2]*scale-shift-left, least), max(box[3]*scale-shift-top, least)
		partH, partW := height/float64(high), width/float64(wide)
		rows, columns := ratio, ratio
		near := false // a rounding error could change the number of points
		if ratio <= 0 {
			rows, columns = int(math.Ceil(partH)), int(math.Ceil(partW))
			near = math.Abs(partH-math.Round(partH)) < 1e-5*(1+math.Abs(top)) || math.Abs(partW-math.Round(partW)) < 1e-5*(1+math.Abs(left))
		}
		each([]int{channels, high, wide}, func(at []int) {
			plane := x.F[(int(batch.I[r])*channels+at[0])*h*w:][:h*w]
			total, sum, most := 0.0, 0.0, math.Inf(-1)
			count := 0
			unsure := near
			for i := range max(rows, 0) {
				for k := range max(columns, 0) {
					row := top + (float64(at[1])+(float64(i)+0.5)/float64(rows))*partH
					column := left + (float64(at[2])+(float64(k)+0.5)/float64(columns))*partW
					count++
					for _, d := range []float64{row + 1, row - float64(h), column + 1, column - float64(w)} {
						unsure = unsure || math.Abs(d) < 1e-4*(1+math.Abs(row)+math.Abs(column))
					}
					if row < -1 || row > float64(h) || column < -1 || column > float64(w) {
						most = max(most, 0)
						continue
					}
					row, column = min(max(row, 0), float64(h-1)), min(max(column, 0), float64(w-1))
					r0, k0 := int(row), int(column)
					for corner := range 4 {
						rr, kk := min(r0+corner/2, h-1), min(k0+corner%2, w-1)
						weight := math.Abs(1-float64(corner/2)-(row-float64(r0))) * math.Abs(1-float64(corner%2)-(column-float64(k0)))
						v := weight * plane[rr*w+kk]
						total += v
						most = max(most, v)
						sum += math.Abs(plane[rr*w+kk]) * (weight + row + column + math.Abs(top) + math.Abs(left))
					}
				}
			}
			j := index(y.Shape, []int{r, at[0], at[1], at[2]})
			y.F[j], mass[j], open[j] = total/float64(max(count, 1)), sum/float64(max(count, 1)), unsure
			if largest {
				y.F[j], mass[j] = most, sum
				if count == 0 {
					y.F[j] = 0
				}
			}
		})
	})
	*c.bounded(0) = bound{mass: mass, open: open}
	return one(y)
}

// maxRoiPool takes the maximum of each bin of each region. The borders of a region are
// rounded to elements; both belong to it. A bin without elements is 0.
func maxRoiPool(c *evaluation) []*Tensor {
	x, rois, bins := c.x(0), c.x(1), c.ints("pooled_shape", nil)
	scale := c.float("spatial_scale", 1)
	channels, lengths := x.Shape[1], x.Shape[2:]
	y := zeros(x.Type, []int{rois.Shape[0], channels, bins[0], bins[1]})
	open := make([]bool, len(y.F))
	each(y.Shape, func(at []int) {
		roi := rois.F[5*at[0]:][:5]
		image := int(roi[0])
		if float64(image) != roi[0] || image < 0 || image >= x.Shape[0] {
			panic(fault{fmt.Errorf("region %d is of image %v", at[0], roi[0])})
		}
		var first, end [2]int
		unsure := false
		for axis := range 2 {
			from, to := roi[2-axis]*scale, roi[4-axis]*scale
			for _, v := range []float64{from, to} {
				unsure = unsure || math.Abs(math.Abs(v-math.Trunc(v))-0.5) < 1e-4*(1+math.Abs(v))
			}
			start := math.Round(from)
			length, n, bin := max(math.Round(to)-start+1, 1), bins[axis], at[2+axis]
			for _, k := range []int{bin, bin + 1} { // a quotient that is no whole number may be rounded across one
				v := float64(k) * length / float64(n)
				unsure = unsure || math.Mod(length, float64(n)) != 0 && math.Abs(v-math.Round(v)) < 1e-4*(1+v)
			}
			low := math.Floor(float64(bin)*length/float64(n)) + start
			high := math.Ceil(float64(bin+1)*length/float64(n)) + start
			most := float64(lengths[axis])
			first[axis], end[axis] = int(min(max(low, 0), most)), int(min(max(high, 0), most))
		}
		best, some := math.Inf(-1), false
		for i := first[0]; i < end[0]; i++ {
			for j := first[1]; j < end[1]; j++ {
				best, some = max(best, x.real(index(x.Shape, []int{image, at[1], i, j}))), true
			}
		}
		k := index(y.Shape, at)
		open[k] = unsure
		if some {
			y.F[k] = best
		}
	})
	*c.bounded(0) = bound{exact: true, open: open}
	return one(y)
}

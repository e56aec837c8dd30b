package autodiff

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/internal/constant"
)

// contents are the elements of an initializer, by which a constant differs from a weight.
type contents struct {
	of   *constant.Tensor
	dims []int64 // without axes of length 1
	n    int
}

// maskElements is the largest number of elements that are examined one by one.
const maskElements = 1 << 24

// maskValue is larger than any weight: a tensor with an element of this magnitude is a mask.
// It is 10,000 in bfloat16.
const maskValue = 9984

// contents reads an initializer; false if its elements are not there.
func (s *trainer) contents(id ID) (contents, bool) {
	d := s.g.Tensors[id].Data
	if d == nil || d.Sparse != nil || !d.Type.Floating() {
		return contents{}, false
	}
	t, err := s.files.Read(d)
	if err != nil || len(t.Raw) == 0 {
		return contents{}, false
	}
	c := contents{of: t, n: int(elements(t.Shape))}
	for _, n := range t.Shape {
		if n != 1 {
			c.dims = append(c.dims, n)
		}
	}
	return c, true
}

// uniform reports whether all of several elements are equal.
func (c contents) uniform() bool {
	if c.n < 2 {
		return false
	}
	first := c.of.Real(0)
	for i := 1; i < c.n; i++ {
		if c.of.Real(i) != first {
			return false
		}
	}
	return true
}

// mask reports why the elements are those of a mask; "" if they are not. Causal masks are
// often of zeros and -1e9, or of zeros and ones.
func (c contents) mask() string {
	if c.n > maskElements {
		return ""
	}
	zeros, ones := 0, 0
	for i := range c.n {
		switch v := c.of.Real(i); {
		case !(math.Abs(v) < maskValue):
			return "it is a mask: some of its elements are 10,000 or more, or not finite"
		case v == 0:
			zeros++
		case v == 1:
			ones++
		}
	}
	if len(c.of.Shape) > 1 && zeros+ones == c.n && zeros > 0 && ones > 0 {
		return "it is a mask: its elements are 0 and 1"
	}
	return ""
}

// Numbers of rows and columns of a table that are examined: enough to exclude chance.
const (
	fewRows    = 5
	manyRows   = 16
	someOf     = 64
	tableNear  = 2e-3 // of the largest element of a column: sines of large angles in float32
	tableExact = 1e-5 // for one column of few rows, where chance might come as near
	tableOff   = 0.1  // of the range of a column's values
)

// table reports whether a formula made the elements: along the last axis or the one before,
// each row follows from the two before it by x[p+1] = c·x[p] - x[p-1], with one c for each
// column. That holds for sines and cosines of positions, whole-numbered grids, evenly spaced
// centres, frequencies, and the linear biases of attention; and by chance for no weights
// that training has changed, nor for any that are drawn at random. Rows of zeros, as for
// padding, are passed over. Equal elements tell nothing.
func (c contents) table() bool {
	k := len(c.dims)
	if c.sines() {
		return true
	}
	if k == 0 || c.n < fewRows {
		return false
	}
	if c.recurs(k - 1) {
		return true
	}
	return k > 1 && c.recurs(k-2)
}

// recurs is the test of table along one axis.
func (c contents) recurs(axis int) bool {
	rows, step := int(c.dims[axis]), 1
	for _, n := range c.dims[axis+1:] {
		step *= int(n)
	}
	columns := c.n / rows
	if rows < fewRows {
		return false
	}
	rows = min(rows, someOf)
	examined := min(columns, someOf)
	var x [someOf][someOf]float64 // by column and row
	var holds [someOf]bool        // whether a row has an element other than 0
	for k := range examined {
		column := k * columns / examined
		for p := range rows {
			x[k][p] = c.of.Real((column/step*int(c.dims[axis])+p)*step + column%step)
			holds[p] = holds[p] || x[k][p] != 0
		}
	}
	counts := func(p int) bool { return p > 0 && p < rows-1 && holds[p-1] && holds[p] && holds[p+1] }
	most := 0.0 // of all columns
	for k := range examined {
		for _, v := range x[k][:rows] {
			most = max(most, math.Abs(v))
		}
	}
	limit, varies, tested := tableNear, false, 0
	off, spread := 0.0, 0.0 // sums over columns: the largest deviation, and the range of values
	if examined == 1 && rows < manyRows {
		limit = tableExact
	}
	for k := range examined {
		x, high, largest := x[k][:rows], 0.0, 0
		for p, v := range x {
			high = max(high, math.Abs(v))
			if counts(p) && (largest == 0 || math.Abs(v) > math.Abs(x[largest])) {
				largest = p
			}
			varies = varies || v != x[0]
		}
		if high <= tableExact*most { // the sine of multiples of pi, but for rounding
			continue
		}
		if !(most < maskValue) || largest == 0 || x[largest] == 0 {
			return false
		}
		factor := (x[largest+1] + x[largest-1]) / x[largest]
		worst := 0.0
		for p := 1; p < rows-1; p++ {
			if p == largest || !counts(p) {
				continue
			}
			e := math.Abs(x[p+1] + x[p-1] - factor*x[p])
			if !(e <= limit*high*max(1, math.Abs(factor))) {
				return false
			}
			worst = max(worst, e)
			tested++
		}
		off += worst
		spread += slices.Max(x) - slices.Min(x)
	}
	// Weights that training has moved a little from 1, as those of a normalization, are near
	// their neighbours, too, but by no less than they vary.
	return varies && tested >= 2 && off <= tableOff*spread
}

// sines reports whether the rows are sines and cosines of the same angles, those of 0 first.
// It serves tables that are too short for recurs.
func (c contents) sines() bool {
	k := len(c.dims)
	if k < 2 || c.n > maskElements {
		return false
	}
	width := int(c.dims[k-1])
	other := false
	for row := range c.n / width {
		sum := 0.0
		for j := range width {
			v := c.of.Real(row*width + j)
			if row == 0 && v != 0 && v != 1 {
				return false
			}
			other = other || v != 0 && v != 1
			sum += v * v
		}
		if math.Abs(sum-float64(width)/2) > tableNear*float64(width) {
			return false
		}
	}
	return other
}

// repeats reports whether the slices along the first axis are equal, and have different
// elements: a filter that is the same for each channel, such as a blur.
func (c contents) repeats() bool {
	if len(c.of.Shape) == 0 || c.of.Shape[0] < 2 || c.n > maskElements {
		return false
	}
	size := c.n / int(c.of.Shape[0])
	varies := false
	for i := range c.n {
		v := c.of.Real(i)
		if v != c.of.Real(i%size) {
			return false
		}
		varies = varies || v != c.of.Real(0)
	}
	return varies
}

package kernel

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// selections lists the operators that select elements, or find their indices, by value.
// The number of selected elements is known only at run time.
var selections = family{"", []Kernel{
	{Name: "NonZero", Make: makeNonZero, Half: true, Finds: true},
	{Name: "Compress", Make: makeCompress, Half: true, Finds: true},
	{Name: "Unique", Make: makeUnique, Finds: true},
	{Name: "OneHot", Make: makeOneHot, Half: true},
	{Name: "TopK", Make: makeTopK},
	{Name: "ArgMax", Make: argBest(true)},
	{Name: "ArgMin", Make: argBest(false)},
}}

// makeNonZero lists the coordinates of all elements that are not 0, axis by axis.
func makeNonZero(c *Invocation) (Run, error) {
	in := c.In[0]
	get, ok := form.Reader(in.Type)
	if !ok {
		return nil, unsupported(in.Type)
	}
	return func(*work.Pool) error {
		n, found := in.Len(), 0
		for i := range n {
			if i&form.Often == 0 {
				c.Poll()
			}
			if get(in.At, i) != 0 {
				found++
			}
		}
		if err := c.Runtime.Resize(0, []int{in.Rank(), found}); err != nil {
			return err
		}
		d := data[int64](c.Out[0])
		k := 0
		for i := range n {
			if i&form.Often == 0 {
				c.Poll()
			}
			if get(in.At, i) == 0 {
				continue
			}
			rest := i
			for a := in.Rank() - 1; a >= 0; a-- {
				d[a*found+k] = int64(rest % in.Shape[a])
				rest /= in.Shape[a]
			}
			k++
		}
		return nil
	}, nil
}

// makeCompress keeps the slices along an axis, or the elements, for which the condition
// is true.
func makeCompress(c *Invocation) (Run, error) {
	in, cond := c.In[0], c.In[1]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	outer, n, inner := 1, in.Len(), width
	k := -1
	if a := c.Node.Attr("axis"); a != nil {
		if k, err = attr.Axis("axis", a.Int, in.Rank()); err != nil {
			return nil, err
		}
		outer, n, inner = count(in.Shape[:k]), in.Shape[k], count(in.Shape[k+1:])*width
	}
	return func(*work.Pool) error {
		keep := data[uint8](cond)
		keep = keep[:min(len(keep), n)]
		found := 0
		for from, to := range c.Pieces(len(keep)) {
			for _, b := range keep[from:to] {
				if b != 0 {
					found++
				}
			}
		}
		shape := []int{found}
		if k >= 0 {
			shape = slices.Clone(in.Shape)
			shape[k] = found
		}
		if err := c.Runtime.Resize(0, shape); err != nil {
			return err
		}
		if c.Out[0].Len() == 0 {
			return nil // there may be very many lines without elements
		}
		to := 0
		m := c.Meter()
		for o := range outer {
			for i, b := range keep {
				m.Add(1)
				if b != 0 {
					m.Add(inner)
					copyAll(c, span[byte](unsafe.Add(c.Out[0].At, to), inner), span[byte](unsafe.Add(in.At, (o*n+i)*inner), inner))
					to += inner
				}
			}
		}
		return nil
	}, nil
}

// makeUnique finds the distinct slices along an axis, or the distinct elements, in
// ascending order or (sorted=0) in the order in which they occur first. A NaN equals
// any other and comes last.
func makeUnique(c *Invocation) (Run, error) {
	in := c.In[0]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	compare, ok := c.comparer(in)
	if !ok {
		return nil, unsupported(in.Type)
	}
	shape, k := []int{in.Len()}, 0
	if a := c.Node.Attr("axis"); a != nil {
		if k, err = attr.Axis("axis", a.Int, in.Rank()); err != nil {
			return nil, err
		}
		shape = slices.Clone(in.Shape)
	}
	isNaN := nanCounter(in)
	outer, n, inner := count(shape[:k]), shape[k], count(shape[k+1:])
	off := c.Shared(mul(32, n))
	return func(w *work.Pool) error {
		room := span[int64](w.Shared(off), 4*n)
		list, first, counts, place := room[:n], room[n:2*n], room[2*n:3*n], room[3*n:]
		m := c.Meter()
		slice := func(x, y int64) int { // lexicographic
			for o := range outer {
				for i := range inner {
					m.Add(8)
					a, b := (o*n+int(x))*inner+i, (o*n+int(y))*inner+i
					d := compare(a, b)
					if d == unordered {
						d = isNaN(a) - isNaN(b)
					}
					if d != 0 {
						return d
					}
				}
			}
			return 0
		}
		same := func(j int) bool { return slice(list[j-1], list[j]) == 0 }
		keys := span[uint64](w.Shared(off), n)
		low, byKeys := 0, false
		if outer*inner == 1 {
			low, byKeys = elementKeys(c, keys, in)
		}
		if byKeys {
			sortKeys(c, keys)
			copyAll(c, room[3*n:], room[:n])
			sorted := span[uint64](unsafe.Pointer(unsafe.SliceData(place)), n) // until place is needed
			same = func(j int) bool { return sorted[j-1]>>low == sorted[j]>>low }
			for j := range keys {
				m.Add(1)
				keys[j] &= 1<<low - 1
			}
		} else {
			for j := range list {
				m.Add(1)
				list[j] = int64(j)
			}
			slices.SortStableFunc(list, slice)
		}
		found := 0
		for j := range list {
			if j > 0 && same(j) {
				counts[found-1]++
				continue
			}
			first[found], counts[found] = list[j], 1
			found++
		}
		first, counts, place = first[:found], counts[:found], place[:found]
		for g := range place {
			m.Add(1)
			place[g] = int64(g)
		}
		order := place // order[j] is the run that becomes number j
		if c.Int("sorted", 1) == 0 {
			slices.SortFunc(order, func(x, y int64) int { m.Add(8); return cmp.Compare(first[x], first[y]) })
		}
		shape[k] = found
		for i, shape := range [][]int{shape, {found}, {n}, {found}} {
			if c.HasOut(i) {
				if err := c.Runtime.Resize(i, shape); err != nil {
					return err
				}
			}
		}
		to := c.Out[0].At
		for o := range outer {
			for _, g := range order {
				m.Add(inner * width)
				copyAll(c, span[byte](to, inner*width), span[byte](elementAt(in, (o*n+int(first[g]))*inner, width), inner*width))
				to = unsafe.Add(to, inner*width)
			}
		}
		for j, g := range order {
			m.Add(1)
			if c.HasOut(1) {
				data[int64](c.Out[1])[j] = first[g]
			}
			if c.HasOut(3) {
				data[int64](c.Out[3])[j] = counts[g]
			}
		}
		if c.HasOut(2) {
			at := 0
			for g, length := range counts {
				for range length {
					m.Add(1)
					data[int64](c.Out[2])[list[at]] = int64(g)
					at++
				}
			}
			if c.Int("sorted", 1) == 0 {
				number := first // no longer needed: the number of each run
				for j, g := range order {
					number[g] = int64(j)
				}
				for i, g := range data[int64](c.Out[2]) {
					m.Add(1)
					data[int64](c.Out[2])[i] = number[g]
				}
			}
		}
		return nil
	}, nil
}

// makeOneHot writes the second of two values at each index, and the first elsewhere.
func makeOneHot(c *Invocation) (Run, error) {
	index, values, out := c.In[0], c.In[2], c.Out[0]
	k, err := c.Axis(-1, out.Rank())
	if err != nil {
		return nil, err
	}
	width, err := form.WholeBytes(out)
	if err != nil {
		return nil, err
	}
	get, ok := form.Reader(index.Type)
	if !ok {
		return nil, unsupported(index.Type)
	}
	depth, inner := out.Shape[k], count(out.Shape[k+1:])
	return func(*work.Pool) error {
		for from, to := range c.Pieces(out.Len()) {
			moveRow(unsafe.Add(out.At, from*width), values.At, to-from, 1, 0, width)
		}
		for i := range index.Len() {
			if i&form.Often == 0 {
				c.Poll()
			}
			v := math.Trunc(get(index.At, i)) // exact for every valid index
			if v < 0 {
				v += float64(depth)
			}
			if !(v >= 0 && v < float64(depth)) { // out of range, or NaN
				continue
			}
			at := (i/inner*depth+int(v))*inner + i%inner
			moveRow(unsafe.Add(out.At, at*width), unsafe.Add(values.At, width), 1, 1, 1, width)
		}
		return nil
	}, nil
}

// argBest finds the index of the largest or smallest element along an axis. Of equal
// elements it takes the first, or the last (attribute select_last_index).
func argBest(largest bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		in := c.In[0]
		k, err := c.Axis(0, max(in.Rank(), 1))
		if err != nil {
			return nil, err
		}
		compare, ok := c.comparer(in)
		if !ok {
			return nil, unsupported(in.Type)
		}
		last := c.Int("select_last_index", 0) != 0
		better := -1
		if largest {
			better = 1
		}
		l := lineOf(in.Shape, k)
		part := func(i, _ int) {
			at, best := l.at(i, l.n), 0
			if in.Type == graph.Float32 {
				data[int64](c.Out[0])[i] = int64(bestReal(c, data[float32](in)[at:], l, largest, last))
				return
			}
			for j := 1; j < l.n; j++ {
				if j&form.Often == 0 {
					c.Poll()
				}
				if o := compare(at+j*l.step, at+best*l.step); o == better || last && o == 0 {
					best = j
				}
			}
			data[int64](c.Out[0])[i] = int64(best)
		}
		lines := l.lines
		if in.Type == graph.Float32 && l.step > 8 && l.n <= math.MaxUint32 {
			pieces := cuts(l.step, blockOfBest)
			lines = l.lines / l.step * pieces
			part = func(p, _ int) {
				from := p % pieces * blockOfBest
				first := p / pieces * l.step
				places := data[int64](c.Out[0])[first+from:][:min(blockOfBest, l.step-from)]
				bestOfColumns(c, places, data[float32](in)[first*l.n+from:], l, largest, last)
			}
		}
		return func(w *work.Pool) error {
			w.For(lines, part)
			return nil
		}, nil
	}
}

// bestReal is the search of argBest in the line that begins with x[0]. NaN is not better than
// any number, and no number is better than NaN.
func bestReal(c *Invocation, x []float32, l line, largest, last bool) int {
	if x[0] != x[0] {
		return 0
	}
	if l.step == 1 {
		return bestOfRow(c, x[:l.n], largest, last)
	}
	sign := float32(-1)
	if largest {
		sign = 1
	}
	best, top := 0, sign*x[0]
	for from, to := range c.Pieces(l.n) {
		for j := from; j < to; j++ {
			if v := sign * x[j*l.step]; v > top || last && v == top {
				best, top = j, v
			}
		}
	}
	return best
}

// bestOfRow is bestReal of neighbouring elements: it looks for
// places in pieces that are better than those before.
func bestOfRow(c *Invocation, x []float32, largest, last bool) int {
	const most = 256 // elements of a piece
	best, top := 0, x[0]
	m := c.Meter()
	for from := 0; from < len(x); from += most {
		row := x[from:min(from+most, len(x))]
		m.Add(len(row))
		var v float32
		if largest {
			if v = simd.Largest(row); v < top {
				continue
			}
		} else if v = simd.Smallest(row); v > top {
			continue
		}
		if v == top && !last {
			continue
		}
		at := -1
		if last {
			at = lastIndex(row, v)
		} else {
			at = slices.Index(row, v)
		}
		if at >= 0 { // else there is nothing but NaN
			best, top = from+at, v
		}
	}
	return best
}

// lastIndex is the last index of v in a row, or -1.
func lastIndex(row []float32, v float32) int {
	for i := len(row) - 1; i >= 0; i-- {
		if row[i] == v {
			return i
		}
	}
	return -1
}

// bestOfColumns is argBest of float32 along lines that lie side by side, at most blockOfBest
// of them: it goes through them together.
func bestOfColumns(c *Invocation, places []int64, x []float32, l line, largest, last bool) {
	const most = blockOfBest
	n := len(places)
	var top [most]float32
	var best [most]uint32
	var better [most]uint8
	relation := simd.Less
	if last {
		relation = simd.LessOrEqual
	}
	copy(top[:n], x)
	m := c.Meter()
	for j := 1; j < l.n; j++ {
		m.Add(n)
		row := x[j*l.step:][:n]
		a, b := top[:n], row // a < b: the element is better
		if !largest {
			a, b = b, a
		}
		simd.Compare(better[:n], a, b, relation)
		simd.ChooseReals(top[:n], better[:n], row, top[:n])
		here := [1]uint32{uint32(j)}
		simd.Choose(best[:n], better[:n], here[:], best[:n])
	}
	for i := range places {
		places[i] = int64(best[i])
	}
}

// blockOfBest is the most lines that bestOfColumns takes together.
const blockOfBest = 256

// comparer returns a function that compares two elements of a tensor.
func (c *Invocation) comparer(t *Tensor) (func(i, j int) int, bool) {
	if t.Type == graph.String {
		return func(i, j int) int { return strings.Compare(c.text(t, i), c.text(t, j)) }, true
	}
	if t.Type == graph.Uint64 {
		return func(i, j int) int { return order(data[uint64](t)[i], data[uint64](t)[j]) }, true
	}
	if get, ok := form.IntReader(t.Type); ok {
		return func(i, j int) int { return order(get(t.At, i), get(t.At, j)) }, true
	}
	get, ok := form.Reader(t.Type)
	return func(i, j int) int { return order(get(t.At, i), get(t.At, j)) }, ok
}

// nanCounter returns a function that is 1 for an element that is NaN, and 0 for others.
func nanCounter(t *Tensor) func(i int) int {
	get, _ := form.Reader(t.Type) // nil for strings, which have an order
	return func(i int) int {
		if x := get(t.At, i); x != x {
			return 1
		}
		return 0
	}
}

// makeTopK finds the k largest or smallest elements along an axis, in order, and their
// indices. Equal elements keep their order. A NaN equals any other and is larger than all
// numbers; in ONNX Runtime its place depends on the algorithm that it chooses.
func makeTopK(c *Invocation) (Run, error) {
	in, out, places := c.In[0], c.Out[0], c.Out[1]
	a, err := c.Axis(-1, in.Rank())
	if err != nil {
		return nil, err
	}
	largest := c.Int("largest", 1) != 0
	l := lineOf(in.Shape, a)
	k := out.Shape[a]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	compare, ok := c.comparer(in)
	if !ok {
		return nil, unsupported(in.Type)
	}
	isNaN := nanCounter(in)
	off := c.Shared(mul(8, l.n))
	byKeys := in.Type == graph.Float32 && l.n <= math.MaxUint32
	return func(w *work.Pool) error {
		list := span[int64](w.Shared(off), l.n)
		m := c.Meter()
		for i := range l.lines {
			at := l.at(i, l.n)
			if byKeys {
				m.Add(l.n)
				keys := span[uint64](w.Shared(off), l.n)
				x, to := data[float32](in)[at:], l.at(i, k)
				topKeys(c, keys, x, l.step, k, largest)
				for j := range k {
					m.Add(1)
					from := int(uint32(keys[j]))
					data[float32](out)[to+j*l.step] = x[from*l.step]
					data[int64](places)[to+j*l.step] = int64(from)
				}
				continue
			}
			for j := range list {
				m.Add(1)
				list[j] = int64(j)
			}
			slices.SortStableFunc(list, func(x, y int64) int {
				m.Add(8)
				p, q := at+int(x)*l.step, at+int(y)*l.step
				o := compare(p, q)
				if o == unordered {
					o = isNaN(p) - isNaN(q)
				}
				if largest {
					o = -o
				}
				return o
			})
			to := l.at(i, k)
			for j := range k {
				m.Add(1)
				moveRow(elementAt(out, to+j*l.step, width), elementAt(in, at+int(list[j])*l.step, width), 1, 1, 1, width)
				data[int64](places)[to+j*l.step] = list[j]
			}
		}
		return nil
	}, nil
}

package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// padding lists the operators that pad a tensor, crop it, or keep a triangle of it.
var padding = family{"", []Kernel{
	{Name: "Pad", Make: makePad, Half: true, Moves: true},
	{Name: "Trilu", Make: makeTrilu, Half: true, Moves: true},
	{Name: "CenterCropPad", Make: makeCenterCropPad, Half: true, Moves: true},
}}

// makePad finds, for each position of the output, the position of the input that it
// copies, or none. Along the last axis a row consists of the front padding, the input's
// row, and the end padding.
func makePad(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	rank := in.Rank()
	if rank == 0 {
		return makeCopy(c)
	}
	before, err := c.PadsBefore(rank)
	if err != nil {
		return nil, err
	}
	mode := c.Str("mode", "constant")
	take := padders[mode]
	var value [16]byte
	if at := c.Node.Attr("value"); at != nil {
		set, ok := form.Writer(in.Type)
		if !ok {
			return nil, unsupported(in.Type)
		}
		set(unsafe.Pointer(&value), 0, float64(at.Float))
	}
	s := strides(in.Shape)
	kept, skip, err := form.Crop(in.Shape, out.Shape, before, s, mode)
	if err != nil {
		return nil, err
	}
	last := rank - 1
	rows, n := count(out.Shape[:last]), out.Shape[last]
	lead, length := before[last], kept[last]
	begin := min(max(lead, 0), n)
	end := max(begin, min(lead+length, n))
	constant := unsafe.Pointer(&value)
	// around writes positions [i, j) of a row, which lie in the padding.
	around := func(to, row unsafe.Pointer, i, j int) {
		if mode == "constant" {
			moveRow(unsafe.Add(to, i*width), constant, j-i, 1, 0, width)
			return
		}
		for ; i < j; i++ {
			moveRow(unsafe.Add(to, i*width), unsafe.Add(row, take(i-lead, length)*width), 1, 1, 1, width)
		}
	}
	// place is the position of the input that position k of axis a copies, or negative.
	place := func(a, k int) int {
		if k -= before[a]; k < 0 || k >= kept[a] {
			return take(k, kept[a])
		}
		return k
	}
	// A plane is the rows that differ in the axis before the last. outer finds the offset of
	// the input's plane for one of the output's, if there is one.
	high := 1
	if last > 0 {
		high = out.Shape[last-1]
	}
	outer := func(plane int) (off int, inside bool) {
		off, inside = skip, true
		for a := last - 2; a >= 0; a-- {
			k := place(a, plane%out.Shape[a])
			plane /= out.Shape[a]
			off, inside = off+k*s[a], inside && k >= 0
		}
		return off, inside
	}
	group, piece := max(1, grain/max(n, 1)), min(n, 4*grain)
	pieces := cuts(n, max(piece, 1)) // long rows are cut
	part := func(p, _ int) {
		i, j := p%pieces*piece, min((p%pieces+1)*piece, n)
		p /= pieces
		first := p * group
		y := first % high
		plane, within := outer(first / high)
		for r := first; r < min((p+1)*group, rows); r++ {
			if y == high {
				y = 0
				plane, within = outer(r / high)
			}
			off, inside := plane, within
			if last > 0 {
				k := place(last-1, y)
				off, inside = off+k*s[last-1], inside && k >= 0
			}
			y++
			to := unsafe.Add(out.At, r*n*width)
			if !inside {
				moveRow(unsafe.Add(to, i*width), constant, j-i, 1, 0, width)
				continue
			}
			row := unsafe.Add(in.At, off*width)
			if i < begin {
				around(to, row, i, min(j, begin))
			}
			if from, until := max(i, begin), min(j, end); from < until {
				moveRow(unsafe.Add(to, from*width), unsafe.Add(row, (from-lead)*width), until-from, 1, 1, width)
			}
			if j > end {
				around(to, row, max(i, end), j)
			}
		}
	}
	return unlessView(out, in, func(w *work.Pool) error {
		if c.Has(2) && c.In[2].Len() > 0 {
			constant = c.In[2].At
		}
		w.For(cuts(rows, group)*pieces, part)
		return nil
	}), nil
}

// padders maps each mode to the function that finds, for position i outside of an axis
// of n elements, the element to copy; -1 is the constant.
var padders = map[string]func(i, n int) int{
	"constant": func(int, int) int { return -1 },
	"edge":     func(i, n int) int { return min(max(i, 0), n-1) },
	"wrap":     func(i, n int) int { return (i%n + n) % n },
	"reflect": func(i, n int) int {
		if n == 1 {
			return 0
		}
		round := 2 * (n - 1)
		i = (i%round + round) % round
		return min(i, round-i)
	},
}

// makeTrilu keeps the elements on and above a diagonal, or on and below it.
func makeTrilu(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := form.WholeBytes(in)
	if err != nil {
		return nil, err
	}
	upper := c.Int("upper", 1) != 0
	rows, n := in.Shape[in.Rank()-2], in.Shape[in.Rank()-1]
	return func(*work.Pool) error {
		k := 0
		if c.Has(1) {
			k = min(max(int(data[int64](c.In[1])[0]), -rows), n)
		}
		copyFirst(c)
		m := c.Meter()
		for r := range count(in.Shape[:in.Rank()-1]) {
			m.Add(n)
			row := raw(out)[r*n*width : (r+1)*n*width]
			edge := min(max(r%rows+k, -1), n) // the diagonal's column
			if upper {
				clear(row[:max(min(edge, n), 0)*width])
			} else {
				clear(row[min(edge+1, n)*width:])
			}
		}
		return nil
	}, nil
}

// makeCenterCropPad fills the output with zeros before it copies.
func makeCenterCropPad(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	list, err := form.CenterCropPadMoves(&c.Call)
	if err != nil {
		return nil, err
	}
	move, err := c.move(&list[0])
	if err != nil {
		return nil, err
	}
	return unlessView(out, in, func(w *work.Pool) error {
		c.Clear(raw(out))
		return move(w)
	}), nil
}

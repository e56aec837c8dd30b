package kernel

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// padding puts elements around a tensor, or keeps a triangle of it.
var padding = family{"", []Kernel{
	{Name: "Pad", Make: makePad, Half: true},
	{Name: "Trilu", Make: makeTrilu, Half: true},
	{Name: "CenterCropPad", Make: makeCenterCropPad, Half: true},
}}

// makePad finds, for each place of each axis of the output, the place of the
// input that it takes its element from, or none (-1).
func makePad(c *Call) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	pads, err := c.ListOr("pads", 1)
	if pads == nil && err == nil {
		pads = c.Ints("paddings") // opset 1
	}
	if err != nil {
		return nil, err
	}
	axes, err := c.Value(3)
	if err != nil {
		return nil, err
	}
	rank := in.rank()
	before := make([]int, rank)
	for i := range len(pads) / 2 {
		a := i
		if axes != nil {
			if a, err = axis(axes[i], rank); err != nil {
				return nil, err
			}
		}
		before[a] = pads[i]
	}
	mode := c.Str("mode", "constant")
	from := make([][]int, rank)
	for a := range rank {
		from[a] = make([]int, out.Shape[a])
		for i := range from[a] {
			if from[a][i], err = padIndex(mode, i-before[a], in.Shape[a]); err != nil {
				return nil, err
			}
		}
	}
	var value [16]byte
	if at := c.Node.Attr("value"); at != nil {
		set, ok := writer(in.Type)
		if !ok {
			return nil, unsupported(in.Type)
		}
		set(unsafe.Pointer(&value), 0, float64(at.Float))
	}
	s := strides(in.Shape)
	last := rank - 1
	if rank == 0 {
		return makeCopy(c)
	}
	runs := runsOf(from[last])
	rows := count(out.Shape[:last])
	n := out.Shape[last]
	group := max(1, grain/max(n, 1))
	constant := unsafe.Pointer(&value)
	part := func(p, _ int) {
		for r := p * group; r < min((p+1)*group, rows); r++ {
			off, inside, i := 0, true, r
			for a := last - 1; a >= 0; a-- {
				k := from[a][i%out.Shape[a]]
				i /= out.Shape[a]
				inside = inside && k >= 0
				off += k * s[a]
			}
			to := unsafe.Add(out.At, r*n*width)
			if !inside {
				moveRow(to, constant, n, 1, 0, width)
				continue
			}
			for _, p := range runs {
				if p.from < 0 {
					moveRow(unsafe.Add(to, p.to*width), constant, p.n, 1, 0, width)
				} else {
					moveRow(unsafe.Add(to, p.to*width), unsafe.Add(in.At, (off+p.from)*width), p.n, 1, 1, width)
				}
			}
		}
	}
	return unlessView(out, in, func(w *work.Pool) error {
		if c.Has(2) && c.In[2].Len() > 0 {
			constant = c.In[2].At
		}
		w.For(cuts(rows, group), part)
		return nil
	}), nil
}

// padRun is n places of an axis from to on, which take their elements from
// neighbours, or all from the constant (from -1).
type padRun struct{ to, from, n int }

func runsOf(from []int) []padRun {
	var list []padRun
	for i, k := range from {
		if l := len(list) - 1; l >= 0 {
			p := &list[l]
			if k < 0 && p.from < 0 || k >= 0 && p.from >= 0 && k == p.from+p.n {
				p.n++
				continue
			}
		}
		list = append(list, padRun{i, k, 1})
	}
	return list
}

// padIndex is where place i of an axis, counted from the first element of n,
// takes its element from; -1 for the constant.
func padIndex(mode string, i, n int) (int, error) {
	if i >= 0 && i < n {
		return i, nil
	}
	if mode != "constant" && n == 0 {
		return 0, fmt.Errorf("mode %q of an axis of length 0", mode)
	}
	switch mode {
	case "constant":
		return -1, nil
	case "edge":
		return min(max(i, 0), n-1), nil
	case "wrap":
		return (i%n + n) % n, nil
	case "reflect":
		if n == 1 {
			return 0, nil
		}
		round := 2 * (n - 1)
		i = (i%round + round) % round
		return min(i, round-i), nil
	}
	return 0, fmt.Errorf("mode %q is unknown", mode)
}

// makeTrilu keeps the elements on and above a diagonal, or on and below it.
func makeTrilu(c *Call) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	if in.rank() < 2 {
		return nil, fmt.Errorf("shape %v, expected two axes or more", in.Shape)
	}
	upper := c.Int("upper", 1) != 0
	rows, n := in.Shape[in.rank()-2], in.Shape[in.rank()-1]
	return func(*work.Pool) error {
		k := 0
		if c.Has(1) {
			k = int(*(*int64)(c.In[1].At))
		}
		copyFirst(c)
		for r := range count(in.Shape[:in.rank()-1]) {
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

// makeCenterCropPad cuts off both ends of an axis, or puts zeros there; of an odd
// number the smaller half in front.
func makeCenterCropPad(c *Call) (Run, error) {
	in, out := c.In[0], c.Out[0]
	width, err := wholeBytes(in)
	if err != nil {
		return nil, err
	}
	if in.rank() != out.rank() {
		return nil, fmt.Errorf("shape %v of %v", out.Shape, in.Shape)
	}
	from, to, shape := 0, 0, make([]int, in.rank())
	s, t := strides(in.Shape), strides(out.Shape)
	for a := range shape {
		shape[a] = min(in.Shape[a], out.Shape[a])
		from += (in.Shape[a] - shape[a]) / 2 * s[a]
		to += (out.Shape[a] - shape[a]) / 2 * t[a]
	}
	move := newMover(width, shape, s, t).run(out, in, to, from)
	return unlessView(out, in, func(w *work.Pool) error {
		clear(raw(out))
		return move(w)
	}), nil
}

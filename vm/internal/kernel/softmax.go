package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// softmaxes lists the operators that turn the elements along an axis into weights.
var softmaxes = family{"", []Kernel{
	{Name: "Softmax", Make: softmax(false)},
	{Name: "LogSoftmax", Make: softmax(true)},
	{Name: "Hardmax", Make: makeHardmax},
}}

// softmax makes the kernel of Softmax and LogSoftmax. They run along one axis, or,
// before opset 13, over that axis and all that follow.
func softmax(log bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return softmaxOf[float32](c, log)
		case graph.Float64:
			return softmaxOf[float64](c, log)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

func softmaxOf[T floating](c *Invocation, log bool) (Run, error) {
	x, out := c.In[0], c.Out[0]
	old := c.Node.Domain == "" && c.Version < 13
	otherwise := -1
	if old {
		otherwise = 1
	}
	k, err := c.Axis(otherwise, max(x.Rank(), 1))
	if err != nil {
		return nil, err
	}
	n, step := 1, 1
	if x.Rank() > 0 {
		n, step = x.Shape[k], count(x.Shape[k+1:])
		if old {
			n, step = n*step, 1
		}
	}
	lines := 0
	if n > 0 {
		lines = x.Len() / n
	}
	group := max(1, grain/max(n, 1))
	aside := -1
	if step > 1 && x.Type == graph.Float32 {
		aside = c.Each(mul(4, n))
	}
	var pool *work.Pool
	part := func(p, worker int) {
		for l := p * group; l < min((p+1)*group, lines); l++ {
			at := l/step*step*n + l%step
			if aside >= 0 {
				row := span[float32](pool.Each(worker, aside), n)
				softmaxColumn(c, element[float32](out, at), element[float32](x, at), row, step, log)
				continue
			}
			softmaxLine(c, span[T](element[T](out, at), (n-1)*step+1), span[T](element[T](x, at), (n-1)*step+1), step, log)
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(cuts(lines, group), part)
		return nil
	}, nil
}

// softmaxColumn is softmaxRow or logSoftmaxRow of a line of elements that are step apart: they are
// gathered first. So a line has the same bits whether or not there are others beside it.
func softmaxColumn(c *Invocation, out, x unsafe.Pointer, row []float32, step int, log bool) {
	s, d := span[float32](x, (len(row)-1)*step+1), span[float32](out, (len(row)-1)*step+1)
	for from, to := range c.Pieces(len(row)) {
		for i := from; i < to; i++ {
			row[i] = s[i*step]
		}
	}
	if log {
		logSoftmaxRow(c, row, row)
	} else {
		softmaxRow(c, row, row)
	}
	for from, to := range c.Pieces(len(row)) {
		for i := from; i < to; i++ {
			d[i*step] = row[i]
		}
	}
}

// softmaxLine handles one line of elements that are step apart; d may be s.
func softmaxLine[T floating](c *Invocation, d, s []T, step int, log bool) {
	if f32, is := any(d).([]float32); is && step == 1 && !log {
		softmaxRow(c, f32, any(s).([]float32))
		return
	}
	if f32, is := any(d).([]float32); is && step == 1 {
		logSoftmaxRow(c, f32, any(s).([]float32))
		return
	}
	n := (len(s)-1)/step + 1
	high := s[0]
	for from, to := range c.Pieces(n) {
		for i := from; i < to; i++ {
			high = max(high, s[i*step])
		}
	}
	sum := 0.0
	if log {
		for from, to := range c.Pieces(n) {
			for i := from; i < to; i++ {
				sum += math.Exp(float64(s[i*step] - high))
			}
		}
		l := T(math.Log(sum))
		for from, to := range c.Pieces(n) {
			for i := from; i < to; i++ {
				d[i*step] = s[i*step] - high - l
			}
		}
		return
	}
	for from, to := range c.Pieces(n) {
		for i := from; i < to; i++ {
			e := math.Exp(float64(s[i*step] - high))
			d[i*step] = T(e)
			sum += e
		}
	}
	scale := T(1 / sum)
	for from, to := range c.Pieces(n) {
		for i := from; i < to; i++ {
			d[i*step] *= scale
		}
	}
}

// softmaxRow is the vectorized softmax of one row; d may be s. A row with a NaN becomes
// NaN.
func softmaxRow(c *Invocation, d, s []float32) {
	if len(s) <= shortRow {
		simd.Exp(d, s, 1, -simd.Largest(s))
		simd.MulScalar(d, d, float32(1/simd.Sum(d)))
		return
	}
	shift := -mostOf(c, s)
	for from, to := range c.Pieces(len(s)) {
		simd.Exp(d[from:to], s[from:to], 1, shift)
	}
	scale := float32(1 / sumOf(c, d))
	for from, to := range c.Pieces(len(s)) {
		simd.MulScalar(d[from:to], d[from:to], scale)
	}
}

// shortRow is the length of rows up to which polls, and what else does not depend on the length,
// would take a good part of the time.
const shortRow = 1024

// logSoftmaxRow is the vectorized logarithm of softmaxRow; d may be s.
func logSoftmaxRow(c *Invocation, d, s []float32) {
	if len(s) <= shortRow && len(s) > 0 && &d[0] != &s[0] {
		high := simd.Largest(s)
		simd.Exp(d, s, 1, -high)
		simd.AddTwo(d, s, -high, -float32(math.Log(simd.Sum(d))))
		return
	}
	logSoftmaxPieces(c, d, s)
}

// logSoftmaxPieces is logSoftmaxRow piece by piece, with room of its own.
func logSoftmaxPieces(c *Invocation, d, s []float32) {
	high := mostOf(c, s)
	var exps [1024]float32
	sum := 0.0
	for from := 0; from < len(s); from += len(exps) {
		if from%work.PollEvery == 0 {
			c.Poll()
		}
		row := exps[:min(len(exps), len(s)-from)]
		simd.Exp(row, s[from:from+len(row)], 1, -high)
		sum += simd.Sum(row)
	}
	l := float32(math.Log(sum))
	for from, to := range c.Pieces(len(s)) {
		simd.AddTwo(d[from:to], s[from:to], -high, -l)
	}
}

// mostOf is simd.Largest, with polls in a long row.
func mostOf(c *Invocation, x []float32) float32 {
	most := float32(math.Inf(-1))
	for from, to := range c.Pieces(len(x)) {
		most = max(most, simd.Largest(x[from:to]))
	}
	return most
}

// makeHardmax writes 1 at the first largest element of each line, and 0 elsewhere.
func makeHardmax(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	otherwise := -1
	if c.Version < 13 {
		otherwise = 1
	}
	k := c.Int("axis", otherwise)
	if k < 0 {
		k += max(in.Rank(), 1)
	}
	var l line
	if c.Version < 13 { // that axis and all that follow, if any
		k = min(k, in.Rank())
		l = line{n: count(in.Shape[k:]), step: 1, lines: count(in.Shape[:k])}
	} else {
		l = lineOf(in.Shape, k)
	}
	if in.Type == graph.Float32 && l.step == 1 {
		return hardmaxRows(c, l), nil
	}
	get, _ := form.Reader(in.Type)
	set, ok := form.Writer(in.Type)
	if !ok {
		return nil, unsupported(in.Type)
	}
	return func(*work.Pool) error {
		m := c.Meter()
		for i := range l.lines {
			at, best := l.at(i, l.n), 0
			for j := 1; j < l.n; j++ {
				m.Add(1)
				if get(in.At, at+j*l.step) > get(in.At, at+best*l.step) {
					best = j
				}
			}
			for j := range l.n {
				m.Add(1)
				v := 0.0
				if j == best {
					v = 1
				}
				set(out.At, at+j*l.step, v)
			}
		}
		return nil
	}, nil
}

// hardmaxRows is makeHardmax for contiguous rows of float32. A NaN is not larger than what stands
// before it, and nothing is larger than a NaN at the beginning.
func hardmaxRows(c *Invocation, l line) Run {
	part := func(i, _ int) {
		s, best := data[float32](c.In[0])[i*l.n:][:l.n], 0
		if l.n > 0 && s[0] == s[0] {
			best = firstOf(c, s, mostOf(c, s))
		}
		d := data[float32](c.Out[0])[i*l.n:][:l.n]
		fillAll(c, d, 0)
		if l.n > 0 {
			d[best] = 1
		}
	}
	return func(w *work.Pool) error {
		w.For(l.lines, part)
		return nil
	}
}

// firstOf returns the place of the first element that is v, 0 if none is.
func firstOf(c *Invocation, s []float32, v float32) int {
	for from, to := range c.Pieces(len(s)) {
		for i := from; i < to; i++ {
			if s[i] == v {
				return i
			}
		}
	}
	return 0
}

package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// normalization lists the operators that scale a tensor by its own statistics.
var normalization = family{"", []Kernel{
	{Name: "BatchNormalization", Make: forFloats(batchNorm[float32], batchNorm[float64]), Narrow: batchNormHalf, Fuses: true, Blocks: inAndOut(canBlocksBatchNorm)},
	{Name: "LayerNormalization", Make: forFloats(layerNorm[float32], layerNorm[float64])},
	{Name: "LRN", Make: forFloats(lrn[float32], lrn[float64])},
	{Name: "RMSNormalization", Make: forFloats(rmsNorm[float32], rmsNorm[float64])},
	{Name: "SimplifiedLayerNormalization", Make: forFloats(rmsNorm[float32], rmsNorm[float64])},
	{Name: "InstanceNormalization", Make: groups(true)},
	{Name: "GroupNormalization", Make: groups(false)},
	{Name: "MeanVarianceNormalization", Make: makeMVN},
	{Name: "LpNormalization", Make: forFloats(lpNorm[float32], lpNorm[float64])},
}}

// batchNorm normalizes each channel by the running statistics, or, in training, by the
// statistics of the batch, with which it updates the running ones.
func batchNorm[T floating](c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	epsilon, momentum := float64(c.Float("epsilon", 1e-5)), float64(c.Float("momentum", 0.9))
	training := c.Int("training_mode", 0) != 0
	images, channels, n := x.Shape[0], 1, 1 // if x has only one axis
	if x.Rank() > 1 {
		channels, n = x.Shape[1], count(x.Shape[2:])
	}
	for _, t := range c.In[1:5] {
		if t.Type != x.Type {
			return nil, unsupportedf("statistics of dtype %v beside %v", t.Type, x.Type)
		}
	}
	if x.Layout == form.NCHW16c {
		return makeBlocksBatchNorm(c)
	}
	finish := c.take()
	part := func(ch, _ int) {
		mean, variance := float64(data[T](c.In[3])[ch]), float64(data[T](c.In[4])[ch])
		if training {
			batchMean, batchVariance := planeMoments[T](c, x, ch, images, channels, n)
			if c.HasOut(1) {
				data[T](c.Out[1])[ch] = T(mean*momentum + batchMean*(1-momentum))
			}
			if c.HasOut(2) {
				data[T](c.Out[2])[ch] = T(variance*momentum + batchVariance*(1-momentum))
			}
			mean, variance = batchMean, batchVariance
		}
		m := c.Meter()
		a, b := normFactors[T](c, ch, mean, variance, epsilon)
		for i := range images {
			at := (i*channels + ch) * n
			d, s := span[T](element[T](out, at), n), span[T](element[T](x, at), n)
			for from := 0; from < n; {
				to := m.Next(from, n)
				affine(d[from:to], s[from:to], a, b)
				if finish != nil {
					finish.Row(any(d[from:to]).([]float32))
				}
				from = to
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(channels, part)
		return nil
	}, nil
}

// normFactors returns the numbers a and b of a channel: BatchNormalization makes a·x + b of x.
func normFactors[T floating](c *Invocation, ch int, mean, variance, epsilon float64) (a, b T) {
	scale := float64(data[T](c.In[1])[ch]) / math.Sqrt(variance+epsilon)
	return T(scale), T(float64(data[T](c.In[2])[ch]) - mean*scale)
}

// affine writes scale·x + shift for each x of s.
func affine[T floating](d, s []T, scale, shift T) {
	if f32, is := any(d).([]float32); is {
		simd.Affine(f32, any(s).([]float32), float32(scale), float32(shift))
		return
	}
	for i, x := range s {
		d[i] = scale*x + shift
	}
}

// planeMoments returns the mean and the variance of a channel over all images.
func planeMoments[T floating](c *Invocation, x *Tensor, ch, images, channels, n int) (mean, variance float64) {
	total := float64(images * n)
	for i := range images {
		mean += sum(c, span[T](element[T](x, (i*channels+ch)*n), n))
	}
	mean /= total
	for i := range images {
		variance += squares(c, span[T](element[T](x, (i*channels+ch)*n), n), mean)
	}
	return mean, variance / total
}

// layerNorm normalizes over the last axes. The mean and the inverse standard deviation
// are optional outputs.
func layerNorm[T floating](c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	k, err := c.Axis(-1, x.Rank())
	if err != nil {
		return nil, err
	}
	rows, n := count(x.Shape[:k]), count(x.Shape[k:])
	epsilon := float64(c.Float("epsilon", 1e-5))
	scale, err := newSweep(x.Shape, c.In[1].Shape)
	if err != nil {
		return nil, err
	}
	shift := scale
	if c.Has(2) {
		if shift, err = newSweep(x.Shape, c.In[2].Shape); err != nil {
			return nil, err
		}
	}
	// Most often all rows have the same scale and shift, which are as long.
	along := func(s *sweep, t *Tensor) bool { return s.n == n && s.inner[0] == 1 && t.Len() == n }
	same := n <= shortRow && along(scale, c.In[1]) && (!c.Has(2) || along(shift, c.In[2]))
	one := func(row int) {
		d, s := span[T](element[T](out, row*n), n), span[T](element[T](x, row*n), n)
		mean, inverse := moments(c, s, epsilon)
		if same {
			standardize(d, s, mean, inverse)
			multiplyBy(d, data[T](c.In[1]), 1)
			if c.Has(2) {
				addTo(d, data[T](c.In[2]), 1)
			}
			putMoments(c, row, mean, inverse)
			return
		}
		for from, to := range c.Pieces(n) {
			standardize(d[from:to], s[from:to], mean, inverse)
			scale.runs(row*n+from, to-from, func(i, m, at, step int) {
				multiplyBy(d[from+i:][:m], data[T](c.In[1])[at:], step)
			})
			if c.Has(2) {
				shift.runs(row*n+from, to-from, func(i, m, at, step int) {
					addTo(d[from+i:][:m], data[T](c.In[2])[at:], step)
				})
			}
		}
		putMoments(c, row, mean, inverse)
	}
	group := max(1, grain/max(n, 1))
	part := func(p, _ int) {
		for row := p * group; row < min((p+1)*group, rows); row++ {
			one(row)
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(rows, group), part)
		return nil
	}, nil
}

// putMoments writes the optional outputs of a layer normalization.
func putMoments(c *Invocation, row int, mean, inverse float64) {
	if c.HasOut(1) {
		put(c.Out[1], row, mean)
	}
	if c.HasOut(2) {
		put(c.Out[2], row, inverse)
	}
}

// multiplyBy multiplies the elements of d by those of x, which are step apart.
func multiplyBy[T floating](d, x []T, step int) {
	if step == 1 {
		x = x[:len(d)]
		if f32, is := any(d).([]float32); is {
			simd.Mul(f32, f32, any(x).([]float32))
			return
		}
		for i := range d {
			d[i] *= x[i]
		}
		return
	}
	for i := range d {
		d[i] *= x[i*step]
	}
}

// addTo adds the elements of x, which are step apart, to those of d.
func addTo[T floating](d, x []T, step int) {
	if step == 1 {
		x = x[:len(d)]
		if f32, is := any(d).([]float32); is {
			simd.Add(f32, f32, any(x).([]float32))
			return
		}
		for i := range d {
			d[i] += x[i]
		}
		return
	}
	for i := range d {
		d[i] += x[i*step]
	}
}

// moments returns the mean and 1/sqrt(variance + epsilon) of a row.
func moments[T floating](c *Invocation, s []T, epsilon float64) (mean, inverse float64) {
	mean = sum(c, s) / float64(len(s))
	return mean, 1 / math.Sqrt(squares(c, s, mean)/float64(len(s))+epsilon)
}

// sum adds up numbers in float64.
func sum[T floating](c *Invocation, s []T) float64 {
	if f32, is := any(s).([]float32); is {
		return sumOf(c, f32)
	}
	sum := 0.0
	for from, to := range c.Pieces(len(s)) {
		for _, v := range s[from:to] {
			sum += float64(v)
		}
	}
	return sum
}

// squares adds up the squares of s - mean in float64.
func squares[T floating](c *Invocation, s []T, mean float64) float64 {
	if f32, is := any(s).([]float32); is {
		return squaresOf(c, f32, mean)
	}
	sum := 0.0
	for from, to := range c.Pieces(len(s)) {
		for _, v := range s[from:to] {
			d := float64(v) - mean
			sum += d * d
		}
	}
	return sum
}

// standardize writes (x - mean)·inverse, computed in float64, for each x of s.
func standardize[T floating](d, s []T, mean, inverse float64) {
	if f32, is := any(d).([]float32); is {
		simd.Standardize(f32, any(s).([]float32), mean, inverse)
		return
	}
	for i, v := range s {
		d[i] = T((float64(v) - mean) * inverse)
	}
}

// put writes an element of a float32 or float64 tensor.
func put(t *Tensor, i int, v float64) {
	if t.Type == graph.Float64 {
		data[float64](t)[i] = v
		return
	}
	data[float32](t)[i] = float32(v)
}

// rmsNorm is layer normalization without subtracting the mean.
func rmsNorm[T floating](c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	if c.In[1].Type != x.Type {
		return nil, unsupportedf("a scale of dtype %v beside %v", c.In[1].Type, x.Type)
	}
	k, err := c.Axis(-1, x.Rank())
	if err != nil {
		return nil, err
	}
	rows, n := count(x.Shape[:k]), count(x.Shape[k:])
	epsilon := float64(c.Float("epsilon", 1e-5))
	scale, err := newSweep(x.Shape, c.In[1].Shape)
	if err != nil {
		return nil, err
	}
	part := func(row, _ int) {
		d, s := span[T](element[T](out, row*n), n), span[T](element[T](x, row*n), n)
		inverse := 1 / math.Sqrt(squares(c, s, 0)/float64(n)+epsilon)
		if c.HasOut(1) {
			put(c.Out[1], row, inverse)
		}
		for from, to := range c.Pieces(n) {
			standardize(d[from:to], s[from:to], 0, inverse)
			scale.runs(row*n+from, to-from, func(i, m, at, step int) {
				multiplyBy(d[from+i:][:m], data[T](c.In[1])[at:], step)
			})
		}
	}
	return func(w *work.Pool) error {
		w.For(rows, part)
		return nil
	}, nil
}

// groups makes the kernel of a normalization over groups of channels, with scale and
// bias by channel. For instance normalization, each channel is a group.
func groups(instance bool) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return groupNorm[float32](c, instance)
		case graph.Float64:
			return groupNorm[float64](c, instance)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

func groupNorm[T floating](c *Invocation, instance bool) (Run, error) {
	x, out := c.In[0], c.Out[0]
	channels, n := x.Shape[1], count(x.Shape[2:])
	num := channels
	if !instance {
		num = c.Int("num_groups", 0)
	}
	per := channels / num
	byGroup := c.In[1].Len() == num && num != channels // before opset 21
	epsilon := float64(c.Float("epsilon", 1e-5))
	part := func(p, _ int) {
		g := p % num
		d, s := span[T](element[T](out, p*per*n), per*n), span[T](element[T](x, p*per*n), per*n)
		mean, inverse := moments(c, s, epsilon)
		const most = 1024   // these numbers stay in the fastest cache
		run, runs := n, per // with one scale and bias
		if byGroup {
			run, runs = per*n, 1
		}
		m := c.Meter()
		for j := range runs {
			ch := g*runs + j
			a, b := data[T](c.In[1])[ch], data[T](c.In[2])[ch]
			for from := j * run; from < (j+1)*run; from += most {
				to := min(from+most, (j+1)*run)
				m.Add(to - from)
				standardize(d[from:to], s[from:to], mean, inverse)
				multiplyAdd(d[from:to], a, b)
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*num, part)
		return nil
	}, nil
}

// multiplyAdd replaces each x of d by x·a + b, rounded twice.
func multiplyAdd[T floating](d []T, a, b T) {
	if f32, is := any(d).([]float32); is {
		simd.MulScalar(f32, f32, float32(a))
		simd.AddScalar(f32, f32, float32(b))
		return
	}
	for i, x := range d {
		d[i] = T(x*a) + b
	}
}

// makeMVN subtracts the mean over some axes and divides by the standard deviation.
func makeMVN(c *Invocation) (Run, error) {
	if c.In[0].Type != graph.Float32 {
		return nil, unsupported(c.In[0].Type)
	}
	x, out := c.In[0], c.Out[0]
	axes, err := attr.AxesOr(c.Node, "axes", x.Rank(), 0, 2, 3)
	if err != nil {
		return nil, err
	}
	drop := make([]bool, x.Rank())
	terms := 1
	for _, k := range axes {
		drop[k] = true
		terms *= x.Shape[k]
	}
	f := form.FoldAxes(x.Shape, drop)
	inner, outer := 1, terms // contiguous elements that belong together, and how often
	if k := len(f.Reduced) - 1; k >= 0 && f.ReducedStride[k] == 1 {
		inner = f.Reduced[k]
		outer = terms / max(inner, 1)
	}
	part := func(o, _ int) {
		m := c.Meter()
		base := offset(o, f.Kept, f.KeptStride)
		each := func(row func(at int)) {
			for k := range outer {
				m.Add(inner)
				row(base + outerOffset(f, k, inner))
			}
		}
		row := func(t *Tensor, at int) []float32 { return span[float32](element[float32](t, at), inner) }
		mean, squares := 0.0, 0.0
		each(func(at int) { mean += sumOf(c, row(x, at)) })
		mean /= float64(terms)
		each(func(at int) { squares += squaresOf(c, row(x, at), mean) })
		inverse := 1 / (math.Sqrt(squares/float64(terms)) + 1e-9)
		each(func(at int) {
			d, s := row(out, at), row(x, at)
			for from, to := range c.Pieces(inner) {
				simd.Standardize(d[from:to], s[from:to], mean, inverse)
			}
		})
	}
	return func(w *work.Pool) error {
		w.For(x.Len()/max(terms, 1), part)
		return nil
	}, nil
}

// lpNorm divides each line along an axis by its norm.
func lpNorm[T floating](c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	k, err := c.Axis(-1, x.Rank())
	if err != nil {
		return nil, err
	}
	p := c.Int("p", 2)
	l := lineOf(x.Shape, k)
	if x.Type == graph.Float32 {
		return lpNormReals(c, l, p), nil
	}
	return func(*work.Pool) error {
		s, d := data[T](x), data[T](out)
		m := c.Meter()
		for i := range l.lines {
			at, sum := l.at(i, l.n), 0.0
			for j := range l.n {
				m.Add(1)
				v := math.Abs(float64(s[at+j*l.step]))
				if p == 2 {
					v *= v
				}
				sum += v
			}
			if p == 2 {
				sum = math.Sqrt(sum)
			}
			for j := range l.n {
				m.Add(1)
				v := 0.0
				if sum != 0 {
					v = float64(s[at+j*l.step]) / sum
				}
				d[at+j*l.step] = T(v)
			}
		}
		return nil
	}, nil
}

// lpNormReals is lpNorm of float32. Elements that are apart are gathered first, so a line has
// the same bits whether or not there are others beside it.
func lpNormReals(c *Invocation, l line, p int) Run {
	x, out := c.In[0], c.Out[0]
	aside := -1
	if l.step > 1 {
		aside = c.Each(mul(4, l.n))
	}
	var pool *work.Pool
	part := func(i, worker int) {
		d, s := data[float32](out)[l.at(i, l.n):], data[float32](x)[l.at(i, l.n):]
		if aside < 0 {
			lpNormRow(c, d[:l.n], s[:l.n], p)
			return
		}
		row := span[float32](pool.Each(worker, aside), l.n)
		for from, to := range c.Pieces(l.n) {
			for j := from; j < to; j++ {
				row[j] = s[j*l.step]
			}
		}
		lpNormRow(c, row, row, p)
		for from, to := range c.Pieces(l.n) {
			for j := from; j < to; j++ {
				d[j*l.step] = row[j]
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(l.lines, part)
		return nil
	}
}

// lpNormRow is lpNorm of one row; d may be s.
func lpNormRow(c *Invocation, d, s []float32, p int) {
	sum := 0.0
	if p == 2 {
		sum = math.Sqrt(squaresOf(c, s, 0))
	} else {
		for from, to := range c.Pieces(len(s)) {
			sum += absolutesOf(s[from:to])
		}
	}
	if sum == 0 {
		fillAll(c, d, 0)
		return
	}
	for from, to := range c.Pieces(len(s)) {
		simd.Standardize(d[from:to], s[from:to], 0, 1/sum)
	}
}

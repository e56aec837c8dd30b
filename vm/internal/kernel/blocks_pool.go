package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// mostPaddedBlock bounds the scratch in bytes of a pool that copies a block into its padding.
const mostPaddedBlock = 1 << 20

// canBlocksPool reports whether makeBlocksMaxPool or makeBlocksAveragePool can compute a pool.
func canBlocksPool(c *Invocation) bool {
	inner := *c // which reserves scratch
	inner.Walls = nil
	switch c.Node.Op {
	case "MaxPool":
		padded, s := maxPoolBlocks(&inner)
		return padded != nil || s != nil
	case "AveragePool":
		return averagePoolBlocks(&inner) != nil
	}
	return false
}

// blocksWindow returns the window of a pool of an image in blocks, or nil.
func blocksWindow(c *Invocation) *form.Window {
	if !fitsBlocks(c.In[0]) || !fitsBlocks(c.Out[0]) {
		return nil
	}
	v, err := c.PoolWindow()
	if err != nil {
		return nil
	}
	return v
}

// maxPoolBlocks returns the way to compute a MaxPool in NCHW16c which gives the bits that
// maxPool gives in NCHW, if there is one: padded planes, or a kernel that slides.
func maxPoolBlocks(c *Invocation) (*paddedPool, *gemm.BlockSlide) {
	v := blocksWindow(c)
	if v == nil || c.HasOut(1) || gemm.Level() == "plain" {
		return nil, nil
	}
	d, s := depthwiseOf(v), blockSlideOf(v)
	few := v.Taps() <= mostTogether
	if !few {
		switch padded := newPaddedPool(c, v, gemm.BlockLen); {
		case padded != nil && padded.length > mostPaddedBlock/4/gemm.BlockLen:
			return nil, nil
		case padded != nil:
			return padded, nil
		}
	}
	switch {
	case poolOf(v, c).MaskLen() > 0 && d.TableLen() == 0:
		s.Join = gemm.LargestColumns
	case few && d.ScratchBytes() > 0:
		s.Join = gemm.Largest
	default:
		return nil, nil
	}
	if s.ListLen() == 0 {
		return nil, nil
	}
	return nil, s
}

// makeBlocksMaxPool is makeMaxPool of an image in blocks, without indices.
func makeBlocksMaxPool(c *Invocation) (Run, error) {
	padded, s := maxPoolBlocks(c)
	switch {
	case padded != nil:
		return padded.run(c.In[0], c.Out[0]), nil
	case s != nil:
		return slideBlocks(c, s, nil, nil, nil), nil
	}
	return nil, unsupportedf("this MaxPool of an image in blocks")
}

// averagePoolBlocks returns the AveragePool in the form that slides, or nil if averagePool
// would add up in another order.
func averagePoolBlocks(c *Invocation) *gemm.BlockSlide {
	v := blocksWindow(c)
	if v == nil || poolOf(v, c).MaskLen() == 0 && !byRows(v) {
		return nil
	}
	s := blockSlideOf(v)
	s.Join, s.Counted = gemm.Average, countedBy(v, c)
	if s.ListLen() == 0 {
		return nil
	}
	return s
}

// makeBlocksAveragePool is makeAveragePool of an image in blocks.
func makeBlocksAveragePool(c *Invocation) (Run, error) {
	s := averagePoolBlocks(c)
	if s == nil {
		return nil, unsupportedf("this AveragePool of an image in blocks")
	}
	return slideBlocks(c, s, nil, nil, nil), nil
}

// makeBlocksGlobalAveragePool is makeGlobalAveragePool of an image in NCHW16c. The output, a
// pixel of each channel, is the same in NCHW.
func makeBlocksGlobalAveragePool(c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	n, channels := count(x.Shape[2:]), x.Shape[1]
	part := func(i, _ int) {
		const most = 1 << 20 // as in sumOf
		image, first, lanes := blockAt(channels, i)
		var sums, more [gemm.BlockLen]float64
		for from := 0; ; from += most {
			sumBlock(&more, span[float32](element[float32](x, (image*channels+first)*n+from*lanes), lanes*min(n-from, most)), lanes)
			for lane := range sums {
				sums[lane] += more[lane]
			}
			if from+most >= n {
				break
			}
			c.Poll()
		}
		for lane, sum := range sums[:lanes] {
			data[float32](out)[image*channels+first+lane] = float32(sum / float64(n))
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Shape[0]*cuts(channels, gemm.BlockLen), part)
		return nil
	}, nil
}

// meansBlocks tells whether a ReduceMean is a global pool that reads blocks: its result is the same
// in NCHW.
func meansBlocks(c *Invocation) BlockForm {
	drop, err := form.ReducedAxes(&c.Call)
	planes := err == nil && len(drop) == 4 && !drop[0] && !drop[1] && drop[2] && drop[3] && c.Out[0].Rank() == 4
	return BlockForm{In: planes && c.In[0].Type == graph.Float32 && canHoldHalves(c.In[0])}
}

// meansOfBlocks is make, or makeBlocksGlobalAveragePool for an image in blocks.
func meansOfBlocks(make func(*Invocation) (Run, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		if c.In[0].Layout == form.NCHW16c {
			return makeBlocksGlobalAveragePool(c)
		}
		return make(c)
	}
}

// sumBlock adds up the pixels of a block of some lanes, each channel in the order of simd.Sum.
// gemm.SumBlock reads each line twice, and so none that do not stay in the second-level cache.
func sumBlock(sums *[gemm.BlockLen]float64, x []float32, lanes int) {
	const most = 1 << 13 // pixels
	if n := len(x) / lanes; n <= most && lanes == gemm.BlockLen {
		gemm.SumBlock(sums, unsafe.Pointer(unsafe.SliceData(x)), n)
		return
	}
	var room [16 * gemm.BlockLen]float64
	list := room[:16*lanes] // of every sixteenth pixel
	for ; len(x) >= len(list); x = x[len(list):] {
		simd.AddWide(list, x[:len(list)])
	}
	at := func(i, lane int) float64 { return list[i*lanes+lane] }
	for lane := range lanes {
		four := func(i int) float64 { return at(i, lane) + at(4+i, lane) + (at(8+i, lane) + at(12+i, lane)) }
		sums[lane] = four(0) + four(2) + (four(1) + four(3))
	}
	for ; len(x) > 0; x = x[lanes:] {
		for lane, v := range x[:lanes] {
			sums[lane] += float64(v)
		}
	}
}

// makeBlocksGlobalMaxPool is makeGlobalMaxPool of an image in blocks.
func makeBlocksGlobalMaxPool(c *Invocation) (Run, error) {
	const together = 16 * gemm.BlockLen
	x, out := c.In[0], c.Out[0]
	n := count(x.Shape[2:]) * gemm.BlockLen
	each := c.Each(4 * together)
	var pool *work.Pool
	part := func(i, worker int) {
		in, best := span[float32](element[float32](x, i*n), n), span[float32](pool.Each(worker, each), together)
		for k := range best {
			best[k] = float32(math.Inf(-1))
		}
		m := c.Meter()
		for ; len(in) > 0; in = in[min(together, len(in)):] {
			row := in[:min(together, len(in))]
			m.Add(len(row))
			simd.Max(best[:len(row)], best[:len(row)], row)
		}
		for half := together / 2; half >= gemm.BlockLen; half /= 2 {
			simd.Max(best[:half], best[:half], best[half:2*half])
		}
		copy(span[float32](element[float32](out, i*gemm.BlockLen), gemm.BlockLen), best)
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*x.Shape[1]/gemm.BlockLen, part)
		return nil
	}, nil
}

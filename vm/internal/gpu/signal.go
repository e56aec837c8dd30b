package gpu

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// transforms lists the transforms of signals, and window functions. Transforms are products
// with a matrix of waves: for the lengths of frames of sound that takes little beside what it
// takes to be launched.
var transforms = []Row{
	{Name: "DFT", Make: makeDFT},
	{Name: "STFT", Make: makeSTFT},
	{Name: "HannWindow", Element: cosines(0.5, -0.5, 0)},
	{Name: "HammingWindow", Element: cosines(25.0/46, -21.0/46, 0)},
	{Name: "BlackmanWindow", Element: cosines(0.42, -0.5, 0.08)},
}

// cosines makes the Element of a sum of cosines over a period.
func cosines(constant, once, twice float64) func(n *Node, e *expression) error {
	return func(n *Node, e *expression) error {
		y := n.Out[0]
		if !isReal(y.Type) {
			return unsupportedf("dtype %v", y.Type)
		}
		i, err := e.index()
		if err != nil {
			return err
		}
		period := float64(y.Len())
		if n.Int("periodic", 1) == 0 {
			period--
		}
		number := func(v float64) string { return literal(v, graph.Float64) }
		return e.set(y, fmt.Sprintf("(Compute<%s>)%s", cType[y.Type], call("Cosines", fmt.Sprintf("%s * (double)%s / %s", number(2*math.Pi), i, number(period)),
			number(constant), number(once), number(twice))))
	}
}

// mostWaves bounds the elements of the matrix: the host's transform takes n·log n steps, and
// a product n².
const mostWaves = 1 << 24

// transform is Transform of kernels/signal.cu.
type transform struct{ N, Used, In, Out, Bins, Inverse, Half int32 }

// transform appends a transform of lines of input 0. p has the lines, without the matrix.
func (n *Node) transform(s transform, p *matrices, window *form.Tensor) error {
	x, y := n.In[0], n.Out[0]
	if x.Type != graph.Float32 && x.Type != graph.Float64 {
		return unsupportedf("dtype %v", x.Type)
	}
	if err := needTypes(x.Type, y); err != nil {
		return err
	}
	if window != nil {
		if err := needTypes(x.Type, window); err != nil {
			return err
		}
	}
	p.k, p.n = int(s.Used*s.In), int(s.Bins*s.Out)
	p.aDeep, p.bColumn, p.bDeep, p.yRow, p.yColumn = 1, 1, p.n, p.n, 1
	if p.k*p.n > mostWaves || max(p.m, x.Len(), y.Len()) > math.MaxInt32-128 {
		return unsupportedf("a transform of %d numbers", s.N)
	}
	definitions, err := productDefinitions(y, x)
	if err != nil {
		return err
	}
	at, err := n.addresses(y, x, window)
	if err != nil {
		return err
	}
	waves := n.scratch(int64(p.k * p.n * computeBytes(x)))
	if err := n.launch(n.kernel("signal.cu", "waves", "ELEMENT="+cType[x.Type]), blocksFor(p.k*p.n), threadsPerBlock,
		waves, at[2], s, uint32(p.k*p.n)); err != nil {
		return err
	}
	none := driver.Ptr(0)
	return p.launchAt(n, y, definitions, at[0], none, at[1], waves, none, y.Len(), n.aligned(y), noFinish())
}

// makeDFT transforms the lines along the last axis before that of the parts. The inverse of
// half a spectrum (onesided) gives real numbers.
func makeDFT(n *Node) error {
	x, y := n.In[0], n.Out[0]
	rank := len(x.Shape)
	axis := n.Int("axis", 1)
	if n.Version >= 20 {
		axis = -2
		if list, err := n.Value(2); err != nil {
			return err
		} else if len(list) > 0 {
			axis = list[0]
		}
	}
	k, err := attr.Axis("axis", int64(axis), rank)
	if err != nil {
		return err
	}
	if k != rank-2 {
		return unsupportedf("a transform along axis %d of %v", k, x.Shape)
	}
	inverse, half := n.Int("inverse", 0) != 0, n.Int("onesided", 0) != 0
	given, parts := x.Shape[k], x.Shape[rank-1]
	length := given
	if inverse && half {
		length = 2 * (given - 1)
	}
	if list, err := n.Value(1); err != nil {
		return err
	} else if len(list) > 0 {
		length = list[0]
	}
	kept, used, out := length, min(given, length), 2
	switch {
	case inverse && half:
		used, out = min(given, length/2+1), 1
	case half:
		kept = length/2 + 1
	}
	if length < 1 || length > most || kept != y.Shape[k] || parts != 1 && parts != 2 || out != y.Shape[rank-1] || used < 1 {
		return unsupportedf("shape %v of a transform of %d numbers of %v", y.Shape, length, x.Shape)
	}
	s := transform{N: int32(length), Used: int32(used), In: int32(parts), Out: int32(out), Bins: int32(kept), Inverse: flag(inverse), Half: flag(half)}
	return n.transform(s, &matrices{m: count(x.Shape[:k]), aRow: given * parts}, nil)
}

// makeSTFT transforms frames of signals, each multiplied by a window. Frames are rows that
// overlap.
func makeSTFT(n *Node) error {
	x, y, window := n.In[0], n.Out[0], n.Input(2)
	steps, err := n.Value(1)
	if err != nil {
		return err
	}
	given, parts := x.Shape[1], 1
	if len(x.Shape) == 3 {
		parts = x.Shape[2]
	}
	length := given
	if list, err := n.Value(3); err != nil {
		return err
	} else if len(list) > 0 {
		length = list[0]
	} else if window != nil {
		length = window.Len()
	}
	if len(steps) != 1 || steps[0] < 1 || steps[0] > most || length < 1 || length > given || parts != 1 && parts != 2 || window != nil && window.Len() != length {
		return unsupportedf("frames of %d numbers of a signal of shape %v", length, x.Shape)
	}
	frames, kept := (given-length)/steps[0]+1, length
	if n.Int("onesided", 1) != 0 {
		kept = length/2 + 1
	}
	if y.Len() != x.Shape[0]*frames*kept*2 || given > most {
		return unsupportedf("shape %v of %d frames of %d bins", y.Shape, frames, kept)
	}
	s := transform{N: int32(length), Used: int32(length), In: int32(parts), Out: 2, Bins: int32(kept)}
	return n.transform(s, &matrices{
		m: frames, aRow: steps[0] * parts, batch: []int{x.Shape[0]}, steps: [3][]int{{given * parts}, {0}, {frames * kept * 2}},
	}, window)
}

package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// normalization lists the operators that scale a tensor by its own statistics.
var normalization = []Row{
	{Name: "BatchNormalization", Make: makeBatchNorm},
	{Name: "InstanceNormalization", Make: func(n *Node) error { return makeGroupNorm(n, n.In[0].Shape[1]) }},
	{Name: "GroupNormalization", Make: func(n *Node) error { return makeGroupNorm(n, n.Int("num_groups", 0)) }},
	{Name: "MeanVarianceNormalization", Make: makeMeanVarianceNorm},
	{Name: "LayerNormalization", Make: func(n *Node) error { return makeLayerNorm(n, false) }},
	{Name: "RMSNormalization", Make: func(n *Node) error { return makeLayerNorm(n, true) }},
	{Name: "SimplifiedLayerNormalization", Make: func(n *Node) error { return makeLayerNorm(n, true) }},
	{Name: "LpNormalization", Make: makeLpNorm},
	{Name: "LRN", Make: makeLRN},
}

// sameReals refuses a tensor that is not real, or other tensors of another dtype.
func sameReals(x *form.Tensor, others ...*form.Tensor) error {
	if !isFloat(x) {
		return unsupportedf("dtype %v", x.Type)
	}
	for _, t := range others {
		if t != nil && t.Type != x.Type {
			return unsupportedf("dtype %v beside %v", t.Type, x.Type)
		}
	}
	if x.Len() > 1<<31-1<<20 {
		return unsupportedf("the normalization of %d elements", x.Len())
	}
	return nil
}

// repeats is Spread of norm.cu.
type repeats struct{ div, mod int32 }

// repeatsIn returns how a shape repeats when it is broadcast to another: as one run of
// axes.
func repeatsIn(from, to []int) (repeats, error) {
	s := repeats{1, 1}
	after := 1 // elements behind the axis
	inside, outside := false, false
	for k := 1; k <= len(from); k++ {
		f, t := from[len(from)-k], to[len(to)-k]
		switch {
		case f == 1 && t > 1:
			outside = inside
		case f > 1 && outside:
			return s, unsupportedf("a shape %v that repeats over %v", from, to)
		case f > 1:
			if !inside {
				s.div, inside = int32(after), true
			}
			s.mod *= int32(f)
		}
		after *= t
	}
	return s, nil
}

// normalized is Result of norm.cu.
type normalized struct {
	scale, bias, mean, inverse driver.Ptr
	scales, biases             repeats
	epsilon                    float64
	rms, _                     int32
}

// output returns output i, or nil if it is omitted.
func (n *Node) output(i int) *form.Tensor {
	if n.HasOut(i) {
		return n.Out[i]
	}
	return nil
}

// normKernel returns a kernel of norm.cu for elements of x's dtype and for statistics,
// which are omitted or of one dtype.
func (n *Node) normKernel(name string, x *form.Tensor, statistics ...*form.Tensor) (cuda.Kernel, error) {
	stash := ""
	for _, t := range statistics {
		switch {
		case t == nil:
		case !isFloat(t) || stash != "" && stash != cType[t.Type]:
			return cuda.Kernel{}, unsupportedf("statistics of dtype %v", t.Type)
		default:
			stash = cType[t.Type]
		}
	}
	if stash == "" {
		stash = "float"
	}
	return n.kernel("norm.cu", name, "ELEMENT="+cType[x.Type], "STASH="+stash), nil
}

// normResult returns where a normalization of x's lines goes. It has the statistics in
// outputs 1 and 2.
func (n *Node) normResult(scale, bias *form.Tensor, epsilon float32) (r normalized, err error) {
	at, err := n.addresses(scale, bias, n.output(1), n.output(2))
	if err != nil {
		return r, err
	}
	return normalized{scale: at[0], bias: at[1], mean: at[2], inverse: at[3], epsilon: float64(epsilon)}, nil
}

// makeLayerNorm normalizes over the last axes. The mean and the inverse standard deviation
// are optional outputs; with rms, the latter alone.
func makeLayerNorm(n *Node, rms bool) error {
	x, scale, bias := n.In[0], n.In[1], n.Input(2)
	if err := sameReals(x, scale, bias, n.Out[0]); err != nil {
		return err
	}
	axis, err := n.axis(-1, len(x.Shape))
	if err != nil {
		return err
	}
	k, err := n.normKernel("row_norm", x, n.output(1), n.output(2))
	if err != nil {
		return err
	}
	r, err := n.normResult(scale, bias, n.Float("epsilon", 1e-5))
	if err != nil {
		return err
	}
	if rms {
		r.rms, r.mean, r.inverse = 1, 0, r.mean
	}
	if r.scales, err = repeatsIn(scale.Shape, x.Shape); err != nil {
		return err
	}
	if bias != nil {
		if r.biases, err = repeatsIn(bias.Shape, x.Shape); err != nil {
			return err
		}
	}
	return n.launchTeams(k, linesOf(x.Shape, axis, true).inFours(), computeBytes(x), []*form.Tensor{n.Out[0], x}, r)
}

// makeSkipNorm normalizes input + skip + more over the last axis, multiplies by input 2 and
// adds shift; more and shift may be nil. Outputs 1 and 2 are the mean, 0 with rms, and the
// inverse standard deviation; output 3 is the sum.
func makeSkipNorm(n *Node, shift, more *form.Tensor, rms bool) error {
	x, skip := n.In[0], n.In[1]
	if err := sameReals(x, skip, n.In[2], shift, more); err != nil {
		return err
	}
	k, err := n.normKernel("skip_norm", x, n.output(1), n.output(2))
	if err != nil {
		return err
	}
	r, err := n.normResult(n.In[2], shift, n.Float("epsilon", 1e-12))
	if err != nil {
		return err
	}
	r.rms = flag(rms)
	l := linesOf(x.Shape, len(x.Shape)-1, true).inFours()
	r.scales = repeats{1, int32(l.n)}
	r.biases = r.scales
	if p, _, _, _, err := l.team(computeBytes(x)); err != nil || p.kept == 0 {
		return unsupportedf("rows of %d elements", l.n)
	}
	at, err := n.addresses(n.output(3), skip, more)
	if err != nil {
		return err
	}
	return n.launchTeams(k, l, computeBytes(x), []*form.Tensor{n.Out[0], x}, r, at[0], at[1], at[2], int32(skip.Len()))
}

// makeLpNorm divides each line along an axis by its norm.
func makeLpNorm(n *Node) error {
	x := n.In[0]
	if err := sameReals(x); err != nil {
		return err
	}
	axis, err := n.axis(-1, len(x.Shape))
	if err != nil {
		return err
	}
	k, err := n.normKernel("lp_norm", x)
	if err != nil {
		return err
	}
	return n.launchTeams(k, linesOf(x.Shape, axis, false), computeBytes(x), []*form.Tensor{n.Out[0], x}, int32(n.Int("p", 2)))
}

// makeLRN divides each element by a power of the sum of squares over neighbouring channels.
func makeLRN(n *Node) error {
	x := n.In[0]
	if err := sameReals(x); err != nil {
		return err
	}
	at, err := n.addresses(n.Out[0], x)
	if err != nil {
		return err
	}
	k, err := n.normKernel("lrn", x)
	if err != nil {
		return err
	}
	size := n.Int("size", 1)
	return n.launch(k, blocksFor(x.Len()), threadsPerBlock, at[0], at[1], uint32(x.Len()), uint32(x.Shape[1]), uint32(count(x.Shape[2:])),
		int32(min((size-1)/2, x.Shape[1])), int32(min(size/2, x.Shape[1])),
		float64(n.Float("alpha", 1e-4))/float64(size), float64(n.Float("beta", 0.75)), float64(n.Float("bias", 1)))
}

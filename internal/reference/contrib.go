package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Operators of com.microsoft, by ONNX Runtime's documentation.
var contribOperators = []operator{
	{"CDist", cdist},
	{"CropAndResize", cropAndResize},
	{"MatMulNBits", packedProduct},
	{"GatherBlockQuantized", gatheredBlocks},
	{"Gelu", func(c *evaluation) []*Tensor {
		c.massOf(0, c.x(0), math.Abs)
		return one(c.x(0).each(gelu))
	}},
	{"BiasGelu", func(c *evaluation) []*Tensor { return one(c.biased().each(gelu)) }},
	{"FastGelu", func(c *evaluation) []*Tensor { return one(c.biased().each(tanhGelu)) }},
	{"QuickGelu", real1With(func(c *evaluation) func(float64) float64 {
		alpha := c.float("alpha", float64(float32(1.702)))
		return func(v float64) float64 { return v * sigmoid(alpha*v) }
	})},
	{"FusedMatMul", fusedMatMul},
	{"TransposeMatMul", fusedMatMul},
	{"SimplifiedLayerNormalization", rmsNorm},
	{"SkipLayerNormalization", func(c *evaluation) []*Tensor {
		return skipNorm(c, 4, layerNorm)
	}},
	{"SkipSimplifiedLayerNormalization", func(c *evaluation) []*Tensor {
		return skipNorm(c, 3, func(inner *evaluation) []*Tensor {
			y := rmsNorm(inner)
			return []*Tensor{y[0], zeros(y[1].Type, y[1].Shape), y[1]} // no mean is subtracted
		})
	}},
	{"EmbedLayerNormalization", embedNorm},
	{"BiasAdd", func(c *evaluation) []*Tensor {
		c.terms(0, magnitude(c.x(0), c.x(1), c.x(2)).F)
		return one(plus(plus(c.x(0), c.x(1)), c.x(2)))
	}},
	{"BiasSoftmax", func(c *evaluation) []*Tensor {
		x := plus(c.x(0), c.x(1))
		a := c.axis("axis", 1, len(x.Shape))
		flat := x.shaped(size(x.Shape[:a]), size(x.Shape[a:]))
		off := slices.Max(magnitude(c.x(0), c.x(1)).F)
		c.terms(0, flat.alongAxis(1, func(v, sum float64) float64 { return math.Exp(v) / sum * (logMass(v, sum) + 2*off) }).F)
		return one(flat.alongAxis(1, func(v, sum float64) float64 { return math.Exp(v) / sum }).shaped(x.Shape...))
	}},
	{"FusedConv", func(c *evaluation) []*Tensor {
		y := conv(c)[0]
		if c.x(3) != nil {
			y = plus(y, c.x(3))
			for i, v := range c.x(3).spread(y.Shape).F {
				c.bounds[0].mass[i] += math.Abs(v)
			}
		}
		var params []float32
		if a := c.attr("activation_params"); a != nil {
			params = a.Floats
		}
		return one(c.activated(y, func(i int, otherwise float64) float64 {
			if i < len(params) {
				return float64(params[i])
			}
			return otherwise
		}))
	}},
	{"FusedGemm", func(c *evaluation) []*Tensor {
		return one(c.activated(gemm(c)[0], func(i int, otherwise float64) float64 {
			return c.float([]string{"activation_alpha", "activation_beta"}[i], otherwise)
		}))
	}},
	{"QLinearConv", func(c *evaluation) []*Tensor {
		if rank := len(c.x(0).Shape); c.int("channels_last", 0) != 0 {
			return one(c.qlinearConv(c.x(0).permuted(channelsFirst(rank)...), channelsLast(rank)))
		}
		return one(c.qlinearConv(c.x(0), nil))
	}},
	{"MatMulIntegerToFloat", func(c *evaluation) []*Tensor {
		return one(c.scaledProduct(c.x(0).less(c.x(4)), c.x(2).F[0], c.x(3), c.x(5), c.x(6)))
	}},
	{"DynamicQuantizeMatMul", func(c *evaluation) []*Tensor {
		a, scale := dynamicallyQuantized(c.x(0))
		y := c.scaledProduct(a, scale, c.x(2), c.x(3), c.x(4))
		// An element of a that rounds the other way changes a sum by a unit of a.
		_, mass := matmul(c.x(0).each(func(float64) float64 { return scale }), c.x(1).less(c.x(3)))
		for i := range mass {
			c.bounds[0].mass[i] += mass[i] * c.x(2).F[i%len(c.x(2).F)]
		}
		return one(y)
	}},
	{"DynamicQuantizeLSTM", dynamicQuantizeLSTM},
	{"QGemm", func(c *evaluation) []*Tensor {
		a, b := c.x(0).less(c.x(2)), c.x(3).reals()
		if c.int("transA", 0) != 0 {
			a = a.permuted(1, 0)
		}
		if c.int("transB", 0) != 0 {
			b = b.permuted(1, 0)
		}
		y, _ := matmul(a, b.less(c.x(5)))
		if c.x(6) != nil {
			y = plus(y, c.x(6).reals())
		}
		for i := range y.F {
			y.F[i] *= c.float("alpha", 1) * c.x(1).F[0] * c.x(4).F[i%y.Shape[1]%len(c.x(4).F)]
			if c.x(7) != nil {
				y.F[i] /= c.x(7).F[0]
			}
		}
		if c.x(8) != nil {
			return one(c.quantized(0, c.x(8).Type, y.Shape, y.F, c.x(8).shaped().spread(y.Shape)))
		}
		y.Type = c.x(1).Type
		return one(y)
	}},
	{"GemmFastGelu", func(c *evaluation) []*Tensor {
		y := c.matmul(c.x(0), c.x(1))
		if c.x(2) != nil {
			y = plus(y, c.x(2))
			for i, v := range c.x(2).spread(y.Shape).F {
				c.bounds[0].mass[i] += math.Abs(v)
			}
		}
		return one(y.each(tanhGelu))
	}},
	{"Inverse", func(c *evaluation) []*Tensor { return one(inverse(c.x(0))) }},
}

// scaledProduct is a product with input 1, as reals: a has one scale, input 1 one or one
// for each column. It is output 0.
func (c *evaluation) scaledProduct(a *Tensor, scale float64, scales, zero, bias *Tensor) *Tensor {
	y, mass := matmul(a, c.x(1).less(zero))
	of := scales.spread(broadcast(y.Shape, scales.Shape))
	for i := range y.F {
		y.F[i] *= scale * of.F[i]
		mass[i] = math.Abs(y.F[i])
		if bias != nil {
			b := bias.F[i%len(bias.F)]
			y.F[i] += b
			mass[i] += math.Abs(b)
		}
	}
	y.Type = scales.Type
	c.terms(0, mass)
	return y
}

// dynamicallyQuantized returns reals in units of the scale with which their range and 0
// fit into 8 bits, and that scale.
func dynamicallyQuantized(x *Tensor) (y *Tensor, scale float64) {
	low, high := 0.0, 0.0
	for _, v := range x.F {
		low, high = min(low, v), max(high, v)
	}
	// In float32, since a scale of other bits moves elements to the next unit.
	scale = float64((float32(high) - float32(low)) / 255)
	if scale == 0 {
		return x, 1
	}
	zero := math.RoundToEven(min(max(float64(float32(-low/scale)), 0), 255))
	y = zeros(graph.Float64, x.Shape)
	for i := range x.F {
		y.F[i] = min(max(math.RoundToEven(quotient(x, i, scale))+zero, 0), 255) - zero
	}
	return y, scale
}

// biased returns input 0 plus input 1, if there is one.
func (c *evaluation) biased() *Tensor {
	if c.x(1) == nil {
		c.massOf(0, c.x(0), math.Abs)
		return c.x(0)
	}
	c.terms(0, magnitude(c.x(0), c.x(1)).F)
	return plus(c.x(0), c.x(1))
}

// magnitude returns the sum of the absolute values of the tensors, which broadcast to
// the first; nil tensors are skipped.
func magnitude(first *Tensor, others ...*Tensor) *Tensor {
	y := &Tensor{Type: first.Type, Shape: first.Shape, F: magnitudes(first.F)}
	for _, x := range others {
		if x != nil {
			for i, v := range x.spread(y.Shape).F {
				y.F[i] += math.Abs(v)
			}
		}
	}
	return y
}

// inner is the call of a normalisation over the last axis with other inputs.
func (c *evaluation) inner(in ...*Tensor) *evaluation {
	n := *c.Node
	n.Attrs = []*graph.Attr{{Name: "epsilon", Type: graph.AttrFloat, Float: float32(c.float("epsilon", 1e-12))}}
	return &evaluation{Node: &n, scope: c.scope, in: in}
}

// skipNorm normalises a sum and returns the sum, too. Output 2 is the inverse of the
// standard deviation.
func skipNorm(c *evaluation, bias int, norm func(inner *evaluation) []*Tensor) []*Tensor {
	sum := plus(c.x(0), c.x(1))
	if c.x(bias) != nil {
		sum = plus(sum, c.x(bias))
	}
	terms := magnitude(sum, c.x(0), c.x(1), c.x(bias))
	shift := c.x(3)
	if bias == 3 {
		shift = nil
	}
	inner := c.inner(sum, c.x(2), shift)
	out := norm(inner)
	inv, scale := out[2].spread(sum.Shape), c.x(2).spread(sum.Shape)
	mass := magnitude(out[0], shift).F
	for i := range mass {
		mass[i] += 2 * terms.F[i] * inv.F[i] * math.Abs(scale.F[i])
	}
	c.terms(0, mass)
	c.terms(3, terms.F)
	return append(out[:3:3], sum)
}

// embedNorm normalises the sum of the embeddings of words, positions and segments.
func embedNorm(c *evaluation) []*Tensor {
	ids := c.x(0)
	batch, places, width := ids.Shape[0], ids.Shape[1], c.x(2).Shape[1]
	sum := zeros(c.x(2).Type, []int{batch, places, width})
	counts := zeros(graph.Int32, []int{batch})
	for b := range batch {
		for p := range places {
			i, place := b*places+p, p
			if c.x(8) != nil {
				place = int(c.x(8).I[i%len(c.x(8).I)])
			}
			if c.x(7) != nil && c.x(7).I[i] == 1 { // whatever mask_index_type is, as in ONNX Runtime
				counts.I[b]++
			}
			for k := range width {
				v := c.x(2).F[int(ids.I[i])*width+k] + c.x(3).F[place*width+k]
				if c.x(1) != nil && c.x(4) != nil {
					v += c.x(4).F[int(c.x(1).I[i])*width+k]
				}
				sum.F[i*width+k] = v
			}
		}
	}
	inner := c.inner(sum, c.x(5), c.x(6))
	out := layerNorm(inner)
	c.terms(0, inner.bounds[0].mass)
	return []*Tensor{out[0], counts, sum}
}

// activated applies the activation that attribute activation names. Its result is rounded
// itself, besides the sums before it.
func (c *evaluation) activated(y *Tensor, param func(int, float64) float64) *Tensor {
	y = y.each(c.fusedActivation(param))
	for i, v := range y.F {
		c.bounds[0].mass[i] += math.Abs(v)
	}
	return y
}

// fusedActivation returns the function that attribute activation names. param returns
// its parameters by index: alpha and beta, or the bounds of Clip.
func (c *evaluation) fusedActivation(param func(i int, otherwise float64) float64) func(float64) float64 {
	switch name := c.str("activation", ""); name {
	case "":
		return func(v float64) float64 { return v }
	case "LeakyRelu":
		return func(v float64) float64 { return branch(v > 0, v, param(0, 0.01)*v) }
	case "Elu":
		return func(v float64) float64 { return branch(v > 0, v, param(0, 1)*math.Expm1(v)) }
	case "ThresholdedRelu":
		return func(v float64) float64 { return branch(v > param(0, 1), v, 0) }
	case "HardSigmoid":
		return func(v float64) float64 { return math.Max(0, math.Min(1, param(0, 0.2)*v+param(1, 0.5))) }
	case "Clip":
		return func(v float64) float64 { return math.Max(param(0, math.Inf(-1)), math.Min(param(1, math.Inf(1)), v)) }
	case "HardSwish":
		return func(v float64) float64 { return v * math.Max(0, math.Min(1, v/6+0.5)) }
	default:
		return activation(name)
	}
}

// plus adds with broadcasting.
func plus(a, b *Tensor) *Tensor {
	shape := broadcast(a.Shape, b.Shape)
	y, b := a.spread(shape), b.spread(shape)
	for i := range y.F {
		y.F[i] += b.F[i]
	}
	return y
}

// transposed swaps the last two axes.
func (x *Tensor) transposed() *Tensor {
	perm := make([]int, len(x.Shape))
	for k := range perm {
		perm[k] = k
	}
	slices.Reverse(perm[len(perm)-2:])
	return x.permuted(perm...)
}

func fusedMatMul(c *evaluation) []*Tensor {
	y := c.matmul(c.factor(0, "A"), c.factor(1, "B"))
	alpha, mass := c.float("alpha", 1), c.bounded(0).mass
	for i := range mass {
		mass[i] *= math.Abs(alpha)
	}
	return one(y.each(func(v float64) float64 { return alpha * v }))
}

// factor returns operand i, the one that the attributes call side: with its first axis
// behind the batch, and with its last axes swapped. A vector stays.
func (c *evaluation) factor(i int, side string) *Tensor {
	x := c.x(i)
	rank := len(x.Shape)
	if rank < 2 {
		return x
	}
	if c.int("transBatch"+side, 0) != 0 {
		var perm []int
		for k := 1; k < rank-1; k++ {
			perm = append(perm, k)
		}
		x = x.permuted(append(perm, 0, rank-1)...)
	}
	if c.int("trans"+side, 0) != 0 {
		x = x.transposed()
	}
	return x
}

// inverse inverts each matrix by Gaussian elimination without pivoting.
func inverse(x *Tensor) *Tensor {
	n := x.Shape[len(x.Shape)-1]
	y := zeros(x.Type, x.Shape)
	for first := 0; first < len(x.F); first += n * n {
		m, inv := slices.Clone(x.F[first:first+n*n]), y.F[first:first+n*n]
		for i := range n {
			inv[i*n+i] = 1
		}
		for i := range n {
			pivot := m[i*n+i]
			for k := range n {
				m[i*n+k] /= pivot
				inv[i*n+k] /= pivot
			}
			for r := range n {
				factor := m[r*n+i]
				for k := range n {
					if r != i {
						m[r*n+k] -= factor * m[i*n+k]
						inv[r*n+k] -= factor * inv[i*n+k]
					}
				}
			}
		}
	}
	return y
}

// dynamicQuantizeLSTM is LSTM with weights of 8 bits, [directions, depth, 4·hidden]. The
// input is quantized as a whole, and the states of the batch together at each step.
func dynamicQuantizeLSTM(c *evaluation) []*Tensor {
	x, r := c.x(0), c.x(2)
	steps, batch, directions, hidden := x.Shape[0], x.Shape[1], r.Shape[0], r.Shape[1]
	wide := 4 * hidden
	length, most := make([]int, batch), 0
	for b := range length {
		if length[b] = steps; c.x(4) != nil {
			length[b] = int(c.x(4).I[b])
		}
		most = max(most, length[b])
	}
	// weights returns the weights of a direction as integers, and their scales.
	weights := func(i, d int) (*Tensor, []float64) {
		w, scales, zeros := c.x(i).part(0, d, 1), c.x(2*i+6).part(0, d, 1), c.x(2*i+7).part(0, d, 1)
		return w.less(zeros.shaped(1, 1, size(zeros.Shape))).shaped(w.Shape[1:]...), scales.shaped(size(scales.Shape)).spread([]int{wide}).F
	}
	fromX, scaleX := dynamicallyQuantized(x.part(0, 0, most).shaped(most*batch, x.Shape[2]))
	y := zeros(x.Type, []int{steps, directions, batch, hidden})
	last, lastState := zeros(x.Type, []int{directions, batch, hidden}), zeros(x.Type, []int{directions, batch, hidden})
	unit := 0.0 // the most that one byte of a state changes a gate
	names := []string{"Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Tanh"}
	if a := c.attr("activations"); a != nil {
		names = a.Strings
	}
	for d := range directions {
		l := &cell{c: c, hidden: hidden, clipped: func(v float64) float64 { return v }}
		if c.has("clip") {
			most := c.float("clip", 0)
			l.clipped = func(v float64) float64 { return math.Max(-most, math.Min(most, v)) }
		}
		for _, name := range names[3*d : 3*d+3] {
			l.act = append(l.act, activation(name))
		}
		w, scalesW := weights(1, d)
		rec, scalesR := weights(2, d)
		gates, _ := matmul(fromX, w)
		h, state := zeros(graph.Float64, []int{batch, hidden}), zeros(graph.Float64, []int{batch, hidden})
		for k, t := range []*Tensor{h, state} {
			if initial := c.x(5 + k); initial != nil {
				copy(t.F, initial.F[d*batch*hidden:][:batch*hidden])
			}
		}
		keep := func(b int) {
			copy(last.F[(d*batch+b)*hidden:], h.F[b*hidden:][:hidden])
			copy(lastState.F[(d*batch+b)*hidden:], state.F[b*hidden:][:hidden])
			clear(h.F[b*hidden:][:hidden])
		}
		for b, n := range length {
			if n == 0 {
				keep(b)
			}
		}
		for t := range most {
			bytes, scaleH := dynamicallyQuantized(h)
			sums, _ := matmul(bytes, rec)
			for i, v := range rec.F {
				unit = math.Max(unit, math.Abs(v)*scaleH*scalesR[i%wide])
			}
			for b, n := range length {
				if t >= n {
					continue
				}
				at := t
				if c.str("direction", "forward") == "reverse" || d == 1 {
					at = n - 1 - t
				}
				bias := func(i int) float64 {
					if c.x(3) == nil {
						return 0
					}
					return c.x(3).F[d*2*wide+i]
				}
				l.fromX = func(g, u int, _ []float64) float64 {
					j := g*hidden + u
					return gates.F[(at*batch+b)*wide+j]*scaleX*scalesW[j] + bias(j)
				}
				l.fromH = func(g, u int, _ []float64) float64 {
					j := g*hidden + u
					return sums.F[b*wide+j]*scaleH*scalesR[j] + bias(wide+j)
				}
				l.peep = func(g, u int) float64 {
					if c.x(7) == nil {
						return 0
					}
					return c.x(7).F[(d*3+g)*hidden+u]
				}
				next, nextState := lstmStep(l, nil, nil, state.F[b*hidden:][:hidden])
				copy(h.F[b*hidden:], next)
				copy(state.F[b*hidden:], nextState)
				copy(y.F[((at*directions+d)*batch+b)*hidden:], next)
				if t == n-1 {
					keep(b)
				}
			}
		}
	}
	// A state whose byte rounds the other way changes the gates of the next step.
	for k, t := range []*Tensor{y, last, lastState} {
		c.massOf(k, t, func(v float64) float64 { return 8 * (1 + math.Abs(v)) * (1 + unit/(roundings*0x1p-24)) })
	}
	return []*Tensor{y, last, lastState}
}

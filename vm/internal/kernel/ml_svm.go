package kernel

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// machine is a support vector machine: a sample is compared with each vector.
type machine struct {
	s       samples
	vectors []float32 // s.features numbers each
	count   int
	alike   func(dot float64) float64 // of a product; nil: of the distance
	gamma   float64
}

// machine reads the vectors of a node, of which there are count.
func (c *Invocation) machine(count int) (*machine, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	v := &machine{s: s, vectors: c.floats("support_vectors"), count: count}
	if len(v.vectors) != mul(count, s.features) {
		return nil, fmt.Errorf("support_vectors has %d numbers, expected %d: %d vectors of %d features", len(v.vectors), mul(count, s.features), count, s.features)
	}
	params := c.floats("kernel_params")
	if len(params) == 0 {
		params = []float32{0, 0, 0}
	}
	if len(params) != 3 {
		return nil, fmt.Errorf("kernel_params has %d numbers, expected 3: gamma, coef0, degree", len(params))
	}
	gamma, plus, degree := float64(params[0]), float64(params[1]), float64(params[2])
	v.gamma = gamma
	switch name := c.Str("kernel_type", "LINEAR"); name {
	case "LINEAR":
		v.alike = func(dot float64) float64 { return dot }
	case "POLY":
		v.alike = func(dot float64) float64 { return math.Pow(gamma*dot+plus, degree) }
	case "SIGMOID":
		v.alike = func(dot float64) float64 { return math.Tanh(gamma*dot + plus) }
	case "RBF":
	default:
		return nil, fmt.Errorf("kernel_type is %q, expected LINEAR, POLY, RBF or SIGMOID", graph.Short(name))
	}
	return v, nil
}

// linearMachine is a machine whose only vector holds a weight for each feature.
func (c *Invocation) linearMachine(weights []float32) (*machine, error) {
	s, err := c.samples()
	if err != nil {
		return nil, err
	}
	if len(weights) != s.features {
		return nil, fmt.Errorf("coefficients has %d numbers, expected %d: one for each feature, as n_supports is %d", len(weights), s.features, c.Int("n_supports", 0))
	}
	return &machine{s: s, vectors: weights, count: 1, alike: func(dot float64) float64 { return dot }}, nil
}

// compare writes the likeness of a sample with each vector.
func (v *machine) compare(m *form.Meter, row int, likeness []float64) {
	n := v.s.features
	for k := range likeness {
		m.Add(n + 16)
		sum := 0.0
		for i, y := range v.vectors[k*n : (k+1)*n] {
			x := v.s.get(row, i)
			if v.alike == nil {
				sum += (x - float64(y)) * (x - float64(y))
			} else {
				sum += x * float64(y)
			}
		}
		if v.alike == nil {
			likeness[k] = math.Exp(-v.gamma * sum)
		} else {
			likeness[k] = v.alike(sum)
		}
	}
}

// eachRow runs a function for all samples, with a list of n numbers of scratch.
func (v *machine) eachRow(c *Invocation, n int, do func(m *form.Meter, row int, list []float64)) Run {
	return eachSampleIn(c, v.s.rows, mul(v.count, v.s.features+16), mul(8, n), func(m *form.Meter, row int, scratch unsafe.Pointer) {
		do(m, row, span[float64](scratch, n))
	})
}

// weighted is the sum of likenesses, each times its coefficient.
func weighted(m *form.Meter, coefficients []float32, likeness []float64) float64 {
	m.Add(len(likeness))
	sum := 0.0
	for i, x := range likeness {
		sum += float64(coefficients[i]) * x
	}
	return sum
}

// makeSVMRegressor weighs the likenesses of a sample with the vectors. A machine without
// vectors is linear, whatever its kernel_type: its coefficients are the weights of the
// features.
func makeSVMRegressor(c *Invocation) (Run, error) {
	count, coefficients, rho := c.Int("n_supports", 0), c.floats("coefficients"), c.floats("rho")
	if c.Str("post_transform", "NONE") != "NONE" {
		return nil, unsupportedf("a regression with a post_transform")
	}
	var v *machine
	var err error
	if count > 0 {
		v, err = c.machine(count)
	} else {
		v, err = c.linearMachine(coefficients)
		count, coefficients = 1, []float32{1}
	}
	if err != nil {
		return nil, err
	}
	if len(coefficients) != count || len(rho) != 1 {
		return nil, fmt.Errorf("coefficients has %d numbers and rho %d, expected %d and 1", len(coefficients), len(rho), count)
	}
	inside := c.Int("one_class", 0) != 0
	return v.eachRow(c, count, func(m *form.Meter, row int, likeness []float64) {
		v.compare(m, row, likeness)
		sum := weighted(m, coefficients, likeness) + float64(rho[0])
		switch {
		case !inside:
		case sum > 0:
			sum = 1
		default:
			sum = -1
		}
		data[float32](c.Out[0])[row] = float32(sum)
	}), nil
}

// makeSVMClassifier lets each pair of classes decide for one of them; the label is the
// class that most pairs decide for, the first of several. The scores are probabilities, or
// else the decisions: above 0 for the first class of the pair.
func makeSVMClassifier(c *Invocation) (Run, error) {
	labels, err := c.labels("classlabels_ints")
	if err != nil {
		return nil, err
	}
	from := []int{0} // the first vector of each class
	for _, n := range c.Ints("vectors_per_class") {
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("vectors_per_class has %d, expected a number of vectors", n)
		}
		from = append(from, from[len(from)-1]+n)
	}
	classes := len(from) - 1
	coefficients, rho, slope, offset := c.floats("coefficients"), c.floats("rho"), c.floats("prob_a"), c.floats("prob_b")
	switch {
	case c.Str("post_transform", "NONE") != "NONE":
		return nil, unsupportedf("post_transform of a support vector machine")
	case classes < 2:
		return nil, unsupportedf("%d classes of support vectors", classes)
	case classes == 2 && !slices.ContainsFunc(coefficients, func(x float32) bool { return x < 0 }):
		return nil, unsupportedf("two classes without a negative coefficient")
	}
	count, pairs := from[classes], mul(classes, classes-1)/2
	v, err := c.machine(count)
	if err != nil {
		return nil, err
	}
	for _, list := range []struct {
		name      string
		has, want int
	}{
		{"classlabels", len(labels), classes},
		{"coefficients", len(coefficients), mul(classes-1, count)},
		{"rho", len(rho), pairs},
		{"prob_a", len(slope), min(len(slope), 1) * pairs},
		{"prob_b", len(offset), min(len(slope), 1) * pairs},
	} {
		if list.has != list.want {
			return nil, fmt.Errorf("%s has %d elements, expected %d: %d vectors of %d classes", list.name, list.has, list.want, count, classes)
		}
	}
	room := 0
	if len(slope) > 0 {
		room = mul(classes, classes+2)
	}
	width := c.Out[1].Shape[1]
	return v.eachRow(c, count+pairs+classes+room, func(m *form.Meter, row int, list []float64) {
		likeness, list := list[:count], list[count:]
		decisions, list := list[:pairs], list[pairs:]
		votes, list := list[:classes], list[classes:]
		v.compare(m, row, likeness)
		clear(votes)
		pair := 0
		for i := range classes {
			for j := i + 1; j < classes; j++ {
				sum := weighted(m, coefficients[(j-1)*count+from[i]:], likeness[from[i]:from[i+1]])
				sum += weighted(m, coefficients[i*count+from[j]:], likeness[from[j]:from[j+1]]) + float64(rho[pair])
				decisions[pair] = sum
				if sum > 0 {
					votes[i]++
				} else {
					votes[j]++
				}
				pair++
			}
		}
		data[int64](c.Out[0])[row] = labels[topScore(votes)]
		scores := data[float32](c.Out[1])[row*width : (row+1)*width]
		switch {
		case len(slope) > 0:
			for k, d := range decisions {
				p := 1 / (1 + math.Exp(d*float64(slope[k])+float64(offset[k])))
				decisions[k] = min(max(p, 1e-7), 1-1e-7)
			}
			couple(m, decisions, list, scores)
		case classes == 2:
			scores[0], scores[1] = float32(-decisions[0]), float32(decisions[0])
		default:
			for k, d := range decisions {
				scores[k] = float32(d)
			}
		}
	}), nil
}

// couple writes probabilities of classes that agree best with the probability, for each
// pair, that a sample of one of the two classes is of the first (Wu, Lin & Weng 2004, the
// second method). It iterates as long as LIBSVM does, up to an error of 0.005 by the number
// of classes, since that error shows in the result.
func couple(m *form.Meter, first, list []float64, p []float32) {
	n := len(p)
	q, qp, x := list[:n*n], list[n*n:n*n+n], list[n*n+n:]
	for i := range n {
		q[i*n+i], x[i] = 0, 1/float64(n)
	}
	pair := 0
	for i := range n {
		for j := i + 1; j < n; j++ {
			is, other := first[pair], 1-first[pair]
			q[i*n+i] += other * other
			q[j*n+j] += is * is
			q[i*n+j], q[j*n+i] = -is*other, -is*other
			pair++
		}
	}
	for range max(100, n) {
		m.Add(n * n)
		pqp, worst := 0.0, 0.0
		for i := range n {
			qp[i] = 0
			for j, y := range x {
				qp[i] += q[i*n+j] * y
			}
			pqp += x[i] * qp[i]
		}
		for _, y := range qp {
			worst = max(worst, math.Abs(y-pqp))
		}
		if worst < 0.005/float64(n) {
			break
		}
		for i := range n {
			m.Add(2 * n)
			d := (pqp - qp[i]) / q[i*n+i]
			x[i] += d
			pqp = (pqp + d*(d*q[i*n+i]+2*qp[i])) / (1 + d) / (1 + d)
			for j := range n {
				qp[j] = (qp[j] + d*q[i*n+j]) / (1 + d)
				x[j] /= 1 + d
			}
		}
	}
	for i, y := range x {
		p[i] = float32(y)
	}
}

package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// term is a number with the magnitude by which its rounding errors are measured.
type term struct{ value, mass float64 }

// likeness compares a row of features with a support vector, by the kernel of the node.
func (c *evaluation) likeness(row func(int) float64, vector []float32) term {
	gamma, plus, degree := 0.0, 0.0, 0.0
	if a := c.attr("kernel_params"); a != nil && len(a.Floats) == 3 {
		gamma, plus, degree = float64(a.Floats[0]), float64(a.Floats[1]), float64(a.Floats[2])
	}
	var dot, distance term
	for i, v := range vector {
		product, difference := row(i)*float64(v), row(i)-float64(v)
		dot.value += product
		dot.mass += math.Abs(product)
		distance.value += difference * difference
	}
	u := term{gamma*dot.value + plus, math.Abs(gamma)*dot.mass + math.Abs(plus)}
	switch kind := c.str("kernel_type", "LINEAR"); kind {
	case "LINEAR":
		return dot
	case "POLY":
		return term{math.Pow(u.value, degree), math.Abs(math.Pow(u.value, degree)) + math.Abs(degree*math.Pow(u.value, degree-1))*u.mass}
	case "SIGMOID":
		y := math.Tanh(u.value)
		return term{y, math.Abs(y) + (1-y*y)*u.mass}
	case "RBF":
		y := math.Exp(-gamma * distance.value)
		return term{y, y * (1 + math.Abs(gamma)*distance.value)}
	default:
		fail("kernel_type %q", kind)
	}
	return term{}
}

// machine returns a function that weighs the vectors from one place to another, and the
// number of rows.
func (c *evaluation) machine() (rows int, weigh func(row, from, to int, coefficients []float32) term) {
	if c.str("post_transform", "NONE") != "NONE" {
		fail("post_transform")
	}
	x, vectors := c.x(0), c.attr("support_vectors")
	n := x.Shape[len(x.Shape)-1]
	if vectors == nil || n == 0 || len(vectors.Floats) == 0 {
		fail("no support vectors")
	}
	rows, at := c.table()
	return rows, func(row, from, to int, coefficients []float32) (sum term) {
		for k := from; k < to; k++ {
			t, by := c.likeness(at(row), vectors.Floats[k*n:(k+1)*n]), float64(coefficients[k])
			sum.value += by * t.value
			sum.mass += math.Abs(by) * t.mass
		}
		sum.mass *= float64(n + to - from) // a sum of as many roundings
		return sum
	}
}

// svmRegressor weighs all vectors, or, without any, the features. With one_class, the sign
// says whether a row is inside.
func svmRegressor(c *evaluation) []*Tensor {
	var y *Tensor
	var mass []float64
	if c.int("n_supports", 0) <= 0 {
		if c.str("post_transform", "NONE") != "NONE" {
			fail("post_transform")
		}
		y, mass = c.linear(1)
		for i := range mass { // a sum of as many roundings
			mass[i] *= float64(c.x(0).Shape[len(c.x(0).Shape)-1])
		}
	} else {
		rows, weigh := c.machine()
		coefficients := c.attr("coefficients").Floats
		y, mass = zeros(graph.Float32, []int{rows, 1}), make([]float64, rows)
		for row := range rows {
			sum := weigh(row, 0, len(coefficients), coefficients)
			y.F[row], mass[row] = sum.value, sum.mass
		}
	}
	rho, open := float64(c.attr("rho").Floats[0]), make([]bool, len(mass))
	for row := range open {
		y.F[row] += rho
		mass[row] += math.Abs(rho)
		open[row] = math.Abs(y.F[row]) <= 0x1p-20*mass[row]
	}
	if c.int("one_class", 0) == 0 {
		c.terms(0, mass)
		return one(y)
	}
	for row, v := range y.F {
		y.F[row] = branch(v > 0, 1, -1)
	}
	*c.bounded(0) = bound{exact: true, open: open}
	return one(y)
}

// svmClassifier lets each pair of classes decide for the first one, above 0, or for the
// second one. The label is the class that most pairs decide for, the first of several. A
// label that a rounding may decide is open. Of ONNX Runtime's rules for two classes, only
// that of vectors whose coefficients have both signs is known here.
func svmClassifier(c *evaluation) []*Tensor {
	labels, sizes := c.labels("classlabels_ints"), c.ints("vectors_per_class", nil)
	coefficients, rho := c.attr("coefficients").Floats, c.attr("rho").Floats
	classes := len(sizes)
	if classes < 2 || classes == 2 && !slices.ContainsFunc(coefficients, func(v float32) bool { return v < 0 }) {
		fail("%d classes of support vectors, with other coefficients than of both signs", classes)
	}
	from := []int{0}
	for _, n := range sizes {
		from = append(from, from[len(from)-1]+n)
	}
	all := from[classes]
	rows, weigh := c.machine()
	label := zeros(graph.Int64, []int{rows})
	open := make([]bool, rows)
	var scores, mass []float64
	for row := range rows {
		votes := make([]int, classes)
		var decisions []term
		for i := range classes {
			for j := i + 1; j < classes; j++ {
				a := weigh(row, from[i], from[i+1], coefficients[(j-1)*all:])
				b := weigh(row, from[j], from[j+1], coefficients[i*all:])
				r := float64(rho[len(decisions)])
				d := term{a.value + b.value + r, a.mass + b.mass + math.Abs(r)}
				if d.value > 0 {
					votes[i]++
				} else {
					votes[j]++
				}
				open[row] = open[row] || math.Abs(d.value) <= 0x1p-20*d.mass
				decisions = append(decisions, d)
			}
		}
		label.I[row] = int64(labels[slices.Index(votes, slices.Max(votes))])
		switch {
		case c.has("prob_a") && len(c.attr("prob_a").Floats) > 0:
			p, most := c.coupled(decisions, classes)
			scores = append(scores, p...)
			for range p {
				mass = append(mass, most)
			}
		case classes == 2:
			scores = append(scores, -decisions[0].value, decisions[0].value)
			mass = append(mass, decisions[0].mass, decisions[0].mass)
		default:
			for _, d := range decisions {
				scores, mass = append(scores, d.value), append(mass, d.mass)
			}
		}
	}
	*c.bounded(0) = bound{exact: true, open: open}
	c.terms(1, mass)
	return []*Tensor{label, {Type: graph.Float32, Shape: []int{rows, len(scores) / max(rows, 1)}, F: scores}}
}

// coupled returns the probabilities of the classes that fit those of all pairs best, by
// algorithm 2 of Wu, Lin & Weng (2004), as far as LIBSVM iterates, and the magnitude by
// which their rounding errors are measured.
func (c *evaluation) coupled(decisions []term, classes int) (p []float64, most float64) {
	slope, offset := c.attr("prob_a").Floats, c.attr("prob_b").Floats
	// r[i][j] is the probability that a row of one of the two is of class i.
	r := make([][]float64, classes)
	for i := range r {
		r[i] = make([]float64, classes)
	}
	pair := 0
	most = 1
	for i := range classes {
		for j := i + 1; j < classes; j++ {
			a := float64(slope[pair])
			v := 1 / (1 + math.Exp(decisions[pair].value*a+float64(offset[pair])))
			r[i][j] = min(max(v, 1e-7), 1-1e-7)
			r[j][i] = 1 - r[i][j]
			most += math.Abs(a) * decisions[pair].mass
			pair++
		}
	}
	q := func(i, j int) float64 {
		if i != j {
			return -r[j][i] * r[i][j]
		}
		sum := 0.0
		for k := range classes {
			if k != i {
				sum += r[k][i] * r[k][i]
			}
		}
		return sum
	}
	p = make([]float64, classes)
	for i := range p {
		p[i] = 1 / float64(classes)
	}
	row := func(i int) (sum float64) { // of Q·p
		for j := range p {
			sum += q(i, j) * p[j]
		}
		return sum
	}
	whole := func() (sum float64) { // pᵀ·Q·p
		for i := range p {
			sum += p[i] * row(i)
		}
		return sum
	}
	for range max(100, classes) {
		value, worst := whole(), 0.0
		for i := range p {
			worst = max(worst, math.Abs(row(i)-value))
		}
		if worst < 0.005/float64(classes) {
			break
		}
		for i := range p {
			p[i] += (whole() - row(i)) / q(i, i)
			sum := total(p)
			for k := range p {
				p[k] /= sum
			}
		}
	}
	return p, most
}

package kernel

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// summation lists the operators that multiply and sum tensors by an equation.
var summation = family{"", []Kernel{
	{Name: "Einsum", Make: makeEinsum},
}}

// einsum prepares an equation as a list of steps: it contracts the first two operands,
// then their result and the third, and so on. A contraction of two operands is a batch
// of matrix products, which reads the operands by their strides if the labels of rows,
// columns and depth allow it.
type einsum struct {
	c      *Invocation
	length map[byte]int
	steps  []func(w *work.Pool) error
}

// labelled is a tensor, or a part of one, with a label for each axis: the axes of a
// diagonal share a label.
type labelled struct {
	t      *Tensor
	labels string
	steps  []int // elements from one index to the next, by label
}

func makeEinsum(c *Invocation) (Run, error) {
	switch c.Out[0].Type {
	case graph.Float32, graph.Float64, graph.Int64, graph.Int32, graph.Uint64, graph.Uint32:
	default:
		return nil, unsupported(c.Out[0].Type)
	}
	ranks := make([]int, len(c.In))
	for i, t := range c.In {
		ranks[i] = t.Rank()
	}
	terms, output, err := attr.Einsum(c.Node, ranks)
	if err != nil {
		return nil, err
	}
	e := &einsum{c: c, length: map[byte]int{}}
	for i, t := range c.In {
		for k, n := range t.Shape {
			label := terms[i][k]
			e.length[label] = max(e.length[label], n)
		}
	}
	if c.Out[0].Len() > 0 && slices.ContainsFunc(c.In, func(t *Tensor) bool { return t.Len() == 0 }) {
		return func(*work.Pool) error { // sums of nothing
			c.Clear(raw(c.Out[0]))
			return nil
		}, nil
	}
	left := e.read(c.In[0], terms[0])
	for i := 1; i < len(terms); i++ {
		later := output + strings.Join(terms[i+1:], "")
		if left, err = e.contract(left, e.read(c.In[i], terms[i]), output, later, i == len(terms)-1); err != nil {
			return nil, err
		}
	}
	if len(terms) == 1 {
		left = e.sumTo(left, output)
	}
	if left.t != c.Out[0] {
		e.arrange(left, output, c.Out[0])
	}
	return func(w *work.Pool) error {
		for _, step := range e.steps {
			if err := step(w); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// read labels an input. An axis of length 1 that broadcasts is left out.
func (e *einsum) read(t *Tensor, term string) *labelled {
	l := &labelled{t: t}
	for k, step := range strides(t.Shape) {
		label := term[k]
		if t.Shape[k] != e.length[label] {
			continue
		}
		if at := strings.IndexByte(l.labels, label); at >= 0 {
			l.steps[at] += step
			continue
		}
		l.labels, l.steps = l.labels+term[k:k+1], append(l.steps, step)
	}
	return l
}

// shape is the shape of a tensor with those labels.
func (e *einsum) shape(labels string) []int {
	shape := make([]int, len(labels))
	for i := range shape {
		shape[i] = e.length[labels[i]]
	}
	return shape
}

// scratch returns a tensor with those labels in the shared scratch.
func (e *einsum) scratch(labels string) *labelled {
	t := &Tensor{Type: e.c.Out[0].Type, Shape: e.shape(labels)}
	mul(append(slices.Clone(t.Shape), t.Width())...)
	off := e.c.Shared(t.Bytes())
	e.steps = append(e.steps, func(w *work.Pool) error {
		t.At = w.Shared(off)
		return nil
	})
	return &labelled{t, labels, strides(t.Shape)}
}

// only returns the labels of a that are in b.
func only(a, b string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(b, r) {
			return r
		}
		return -1
	}, a)
}

// without returns the labels of a that are not in b.
func without(a, b string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(b, r) {
			return -1
		}
		return r
	}, a)
}

// stepsOf returns the steps along labels; 0 along those that l does not have.
func (l *labelled) stepsOf(labels string) []int {
	steps := make([]int, len(labels))
	for i := range steps {
		if at := strings.IndexByte(l.labels, labels[i]); at >= 0 {
			steps[i] = l.steps[at]
		}
	}
	return steps
}

// arrange copies l to a dense tensor with the given labels.
func (e *einsum) arrange(l *labelled, labels string, to *Tensor) {
	shape := e.shape(labels)
	e.steps = append(e.steps, newMover(l.t.Width(), &form.Move{Shape: shape, From: l.stepsOf(labels), To: strides(shape)}).run(to, l.t, 0, 0))
}

// dense returns l with its labels in the given order and no gaps.
func (e *einsum) dense(l *labelled, labels string) *labelled {
	if l.labels == labels && slices.Equal(l.steps, strides(e.shape(labels))) {
		return l
	}
	d := e.scratch(labels)
	e.arrange(l, labels, d.t)
	return d
}

// sumTo sums over the labels of l that are not kept.
func (e *einsum) sumTo(l *labelled, kept string) *labelled {
	over := without(l.labels, kept)
	if over == "" {
		return l
	}
	kept = only(l.labels, kept)
	rows := e.dense(l, kept+over)
	sums := e.scratch(kept)
	n := count(e.shape(over))
	e.steps = append(e.steps, sumRows(e.c, sums.t, rows.t, n))
	return sums
}

// sumRows makes the kernel that sums rows of n elements.
func sumRows(c *Invocation, to, from *Tensor, n int) Run {
	switch to.Type {
	case graph.Float32:
		return sumRowsOf[float32, float64](c, to, from, n)
	case graph.Float64:
		return sumRowsOf[float64, float64](c, to, from, n)
	case graph.Int64:
		return sumRowsOf[int64, int64](c, to, from, n)
	case graph.Int32:
		return sumRowsOf[int32, int64](c, to, from, n)
	case graph.Uint64:
		return sumRowsOf[uint64, uint64](c, to, from, n)
	}
	return sumRowsOf[uint32, uint64](c, to, from, n)
}

func sumRowsOf[T, S number](c *Invocation, to, from *Tensor, n int) Run {
	rows, group := to.Len(), max(1, grain/max(n, 1))
	part := func(p, _ int) {
		m := c.Meter()
		for row := p * group; row < min((p+1)*group, rows); row++ {
			sum := S(0)
			s := span[T](element[T](from, row*n), n)
			for i := 0; i < n; {
				for end := m.Next(i, n); i < end; i++ {
					sum += S(s[i])
				}
			}
			*(*T)(element[T](to, row)) = T(sum)
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(rows, group), part)
		return nil
	}
}

// contract multiplies a and b and sums over the labels that no later term and not the
// output has. The last contraction writes the output if its labels stand in that order.
func (e *einsum) contract(a, b *labelled, output, later string, last bool) (*labelled, error) {
	a, b = e.sumTo(a, b.labels+later), e.sumTo(b, a.labels+later)
	shared := only(a.labels, b.labels)
	batch, deep := only(shared, later), without(shared, later)
	rows, columns := without(a.labels, shared), without(b.labels, shared)
	// In the order of the output, as far as it has them.
	inOrder := func(labels string) string { return only(output, labels) + without(labels, output) }
	batch, rows, columns = inOrder(batch), inOrder(rows), inOrder(columns)
	if strings.HasSuffix(output, columns+rows) && rows != "" && columns != "" {
		a, b, rows, columns = b, a, columns, rows
	}
	made := batch + rows + columns
	var y *labelled
	if last && made == output {
		y = &labelled{e.c.Out[0], made, strides(e.c.Out[0].Shape)}
	} else {
		y = e.scratch(made)
	}
	if deep == "" {
		return y, e.multiply(a, b, y)
	}
	return y, e.product(a, b, y, batch, rows, columns, deep)
}

// multiply multiplies elements with equal indices.
func (e *einsum) multiply(a, b, y *labelled) error {
	spread := func(l *labelled) *Tensor {
		d := e.dense(l, only(y.labels, l.labels))
		view := &Tensor{Type: d.t.Type, Shape: make([]int, len(y.labels))}
		for i := range view.Shape {
			if view.Shape[i] = 1; strings.IndexByte(l.labels, y.labels[i]) >= 0 {
				view.Shape[i] = e.length[y.labels[i]]
			}
		}
		e.steps = append(e.steps, func(*work.Pool) error {
			view.At = d.t.At
			return nil
		})
		return view
	}
	out := &Tensor{Type: y.t.Type, Shape: e.shape(y.labels)}
	l, r := spread(a), spread(b)
	run, err := multiplies.between(out, l, r)
	e.steps = append(e.steps, func(w *work.Pool) error {
		out.At = y.t.At
		return run(w)
	})
	return err
}

// product is a batch of matrix products.
func (e *einsum) product(a, b, y *labelled, batch, rows, columns, deep string) error {
	m, n, k, batches := count(e.shape(rows)), count(e.shape(columns)), count(e.shape(deep)), count(e.shape(batch))
	// one returns l as matrices in which the indices of rows, and those of deep, have
	// one step each.
	one := func(l *labelled, rows string) (*labelled, int, int) {
		rowStep, okRow := e.single(l, rows)
		deepStep, okDeep := e.single(l, deep)
		if okRow && okDeep {
			return l, rowStep, deepStep
		}
		return e.dense(l, batch+rows+deep), count(e.shape(deep)), 1
	}
	inner := *e.c
	p := &product{c: &inner, m: m, n: n, k: k, batches: batches, alpha: 1}
	a, p.aStep, p.aDeep = one(a, rows)
	b, p.bStep, p.bDeep = one(b, columns)
	if batches > 1 {
		p.offA, p.offB = e.offsets(a, batch), e.offsets(b, batch)
	}
	inner.SharedBytes, inner.EachBytes = e.c.SharedBytes, e.c.EachBytes
	inner.In, inner.Out = []*Tensor{a.t, b.t}, []*Tensor{y.t}
	run, err := p.make()
	e.c.SharedBytes, e.c.EachBytes = inner.SharedBytes, inner.EachBytes
	e.steps = append(e.steps, run)
	return err
}

// single returns the step between consecutive indices of some labels together, and
// whether there is one.
func (e *einsum) single(l *labelled, labels string) (step int, ok bool) {
	steps, want := l.stepsOf(labels), 0
	for i := len(steps) - 1; i >= 0; i-- {
		n := e.length[labels[i]]
		switch {
		case n == 1:
			continue
		case want == 0:
			step = steps[i]
		case steps[i] != want:
			return 0, false
		}
		want = steps[i] * n
	}
	return max(step, 1), true
}

// offsets returns the offset of each matrix of a batch.
func (e *einsum) offsets(l *labelled, batch string) []int {
	shape, steps := e.shape(batch), l.stepsOf(batch)
	list := numbersOf[int](e.c, count(shape))
	for i := range list {
		if i&form.Often == 0 {
			e.c.Poll()
		}
		rest := i
		list[i] = 0
		for k := len(shape) - 1; k >= 0; k-- {
			list[i] += rest % shape[k] * steps[k]
			rest /= shape[k]
		}
	}
	return list
}

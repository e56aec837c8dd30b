package gpu

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/ops/attr"
)

// summations lists the operators that multiply and sum tensors by an equation.
var summations = []Row{
	{Name: "Einsum", Make: makeEinsum},
}

// label is an index of an equation, with the steps of a, b and y along it; 0 for those
// that do not have it.
type label struct {
	name   byte
	length int
	steps  [3]int
	in     [3]bool
}

// makeEinsum is a batch of products of two operands, which are read by their strides. The
// rows and the columns are labels that lie in line; all others become axes of the batch.
func makeEinsum(n *Node) error {
	if len(n.In) != 2 {
		return unsupportedf("an equation of %d operands", len(n.In))
	}
	terms, output, err := attr.Einsum(n.Node, []int{len(n.In[0].Shape), len(n.In[1].Shape)})
	if err != nil {
		return err
	}
	labels := equationLabels(n, append(terms, output))
	var rows, columns, deep, batch []label
	for _, l := range labels {
		switch {
		case l.in == [3]bool{true, false, true}:
			rows = append(rows, l)
		case l.in == [3]bool{false, true, true}:
			columns = append(columns, l)
		case l.in == [3]bool{true, true, false}:
			deep = append(deep, l)
		case l.in == [3]bool{true, true, true}:
			batch = append(batch, l)
		case l.length != 1:
			return unsupportedf("an equation that sums a single operand over %q", string(l.name))
		}
	}
	a, b := n.In[0], n.In[1]
	row, others := inLine(rows)
	batch = append(batch, others...)
	column, others := inLine(columns)
	batch = append(batch, others...)
	inner, others := inLine(deep)
	if len(others) > 0 {
		return unsupportedf("an equation that sums over indices that do not lie in line")
	}
	left, right := 0, 1
	if row.steps[2] == 1 && row.length > 1 { // the columns are to be neighbours in the result
		a, b, row, column, left, right = b, a, column, row, 1, 0
	}
	p := &matrices{
		m: row.length, n: column.length, k: inner.length,
		aRow: row.steps[left], bColumn: column.steps[right], aDeep: inner.steps[left], bDeep: inner.steps[right],
		yRow: row.steps[2], yColumn: column.steps[2],
	}
	if p.n == 1 {
		p.yColumn = 1
	}
	slices.SortStableFunc(batch, func(x, y label) int { return cmp.Compare(y.steps[2], x.steps[2]) })
	for _, l := range batch {
		p.batch = append(p.batch, l.length)
		for k, of := range []int{left, right, 2} {
			p.steps[k] = append(p.steps[k], l.steps[of])
		}
	}
	return p.launch(n, a, b, &result{y: n.Out[0], rows: p.m, columns: p.n, finish: noFinish()})
}

// equationLabels lists the labels of two terms and the output. An axis of length 1 that
// broadcasts has the step 0, and the axes of a diagonal have the sum of their steps.
func equationLabels(n *Node, terms []string) []label {
	var list []label
	find := func(name byte) *label {
		i := slices.IndexFunc(list, func(l label) bool { return l.name == name })
		if i < 0 {
			i = len(list)
			list = append(list, label{name: name, length: 1})
		}
		return &list[i]
	}
	shapes := [][]int{n.In[0].Shape, n.In[1].Shape, n.Out[0].Shape}
	for i, shape := range shapes {
		for k, length := range shape {
			if l := find(terms[i][k]); length != 1 {
				l.length = length
			}
		}
	}
	for i, shape := range shapes {
		for k, step := range stridesOf(shape) {
			l := find(terms[i][k])
			l.in[i] = l.in[i] || i == 2 || shape[k] == l.length
			if shape[k] == l.length && l.length != 1 {
				l.steps[i] += step
			}
		}
	}
	return slices.DeleteFunc(list, func(l label) bool { return l.length == 1 })
}

// inLine joins the labels that can be counted as one, in the operands that have them, and
// returns the longest of those, and all others.
func inLine(list []label) (one label, others []label) {
	if len(list) == 0 {
		return label{length: 1}, nil
	}
	slices.SortStableFunc(list, func(x, y label) int { return cmp.Compare(slices.Max(y.steps[:]), slices.Max(x.steps[:])) })
	var joined []label
	for _, l := range list {
		last := len(joined) - 1
		if last >= 0 && stepsOver(joined[last], l) {
			l.length *= joined[last].length
			joined[last] = l
			continue
		}
		joined = append(joined, l)
	}
	best := 0
	for i, l := range joined {
		if l.length > joined[best].length {
			best = i
		}
	}
	return joined[best], slices.Delete(slices.Clone(joined), best, best+1)
}

// stepsOver reports whether an index steps over the whole of another one everywhere.
func stepsOver(outer, inner label) bool {
	for k := range outer.steps {
		if outer.steps[k] != inner.steps[k]*inner.length {
			return false
		}
	}
	return true
}

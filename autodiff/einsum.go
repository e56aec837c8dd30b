package autodiff

import (
	"slices"
	"strings"
)

// einsumRules cover products and sums of any tensors, given by an equation.
var einsumRules = []Rule{
	{Op: "Einsum", Grad: einsumGrad},
}

// einsumGrad is an Einsum of the gradient and the other operands. A label in this
// operand alone was summed over: its axis is broadcast. A label that occurs twice
// in it reads a diagonal: the gradient is placed on that diagonal.
func einsumGrad(c *Backward) {
	e := c.readEinsum()
	if c.err != nil {
		return
	}
	for i, term := range e.terms {
		if !c.Needs(i) {
			continue
		}
		in, others := []ID{c.D(0)}, []string{e.out}
		for k, t := range e.terms {
			if k != i {
				in, others = append(in, e.operands[k]), append(others, t)
			}
		}
		known, found := strings.Join(others, ""), ""
		for _, label := range term {
			if strings.ContainsRune(known, label) && !strings.ContainsRune(found, label) {
				found += string(label)
			}
		}
		g := c.with("Einsum", attrs{"equation": strings.Join(others, ",") + "->" + found}, in...)
		shape := c.shape(e.operands[i])
		if c.err != nil {
			return
		}
		kept := slices.Clone(shape)
		for k, label := range term {
			if !strings.ContainsRune(known, label) || strings.IndexRune(term, label) < k {
				kept[k] = 1
			}
		}
		g = c.expand(c.onDiagonals(c.reshape(g, kept), term, shape), shape)
		c.Set(i, c.reshape(g, c.shape(c.X(i))))
	}
}

// onDiagonals broadcasts t to shape and keeps the elements at which axes with the
// same label have the same index.
func (c *Backward) onDiagonals(t ID, term string, shape []int64) ID {
	for k, label := range term {
		first := strings.IndexRune(term, label)
		if first == k {
			continue
		}
		n := shape[k]
		wide := filled(1, len(shape))
		wide[first], wide[k] = n, n
		eye := make([]float64, n*n)
		for i := range n {
			eye[i*n+i] = 1
		}
		t = c.mul(t, c.reals(c.typeOf(t).Elem, wide, eye))
	}
	return t
}

// einsum is an equation without ellipses, one letter per axis.
type einsum struct {
	terms    []string
	operands []ID // the inputs without axes of length 1 that broadcast
	out      string
}

// readEinsum replaces ellipses by letters. It removes axes of length 1 that
// broadcast from their operand.
func (c *Backward) readEinsum() einsum {
	equation := strings.ReplaceAll(c.Str("equation", ""), " ", "")
	left, right, stated := strings.Cut(equation, "->")
	e := einsum{terms: strings.Split(left, ","), out: right}
	if len(e.terms) != len(c.Node.Inputs) {
		c.Failf("equation %q: expected one term for each of %d inputs", equation, len(c.Node.Inputs))
		return e
	}
	if !stated {
		e.out = "..." + implicitOutput(strings.ReplaceAll(left, ".", ""))
		if !strings.Contains(left, "...") {
			e.out = e.out[3:]
		}
	}
	most := 0 // number of axes of the ellipsis
	for i, term := range e.terms {
		if strings.Contains(term, "...") {
			most = max(most, c.rank(c.X(i))-len(term)+3)
		}
	}
	letters := unusedLetters(equation, most)
	if len(letters) < most {
		c.Failf("equation %q: expected at most %d axes and labels", equation, len(alphabet))
		return e
	}
	e.out = strings.Replace(e.out, "...", letters, 1)
	lengths := map[rune]int64{}
	for i, term := range e.terms {
		if before, after, found := strings.Cut(term, "..."); found {
			own := c.rank(c.X(i)) - len(before) - len(after)
			e.terms[i] = before + letters[most-own:] + after
		}
		for k, label := range e.terms[i] {
			lengths[label] = max(lengths[label], c.shape(c.X(i))[k])
		}
	}
	for i, term := range e.terms {
		kept, shape := "", []int64{}
		for k, label := range term {
			if n := c.shape(c.X(i))[k]; n == lengths[label] {
				kept += string(label)
				shape = append(shape, n)
			}
		}
		e.terms[i] = kept
		e.operands = append(e.operands, c.reshape(c.X(i), shape))
	}
	return e
}

const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// unusedLetters returns n letters, or fewer, that are not in the equation.
func unusedLetters(equation string, n int) string {
	free := ""
	for _, l := range alphabet {
		if len(free) < n && !strings.ContainsRune(equation, l) {
			free += string(l)
		}
	}
	return free
}

// implicitOutput is the output term of an equation without an arrow: the labels
// that occur once, in alphabetical order.
func implicitOutput(left string) string {
	var once []rune
	for _, label := range left {
		if label != ',' && strings.Count(left, string(label)) == 1 {
			once = append(once, label)
		}
	}
	slices.Sort(once)
	return string(once)
}

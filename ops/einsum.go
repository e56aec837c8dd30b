package ops

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// summation lists the operators that multiply and sum tensors by an equation.
var summation = family{"", []Op{
	{Name: "Einsum", Class: Product, Precision: Half, Infer: inferEinsum, Cut: cutEinsum, Sum: sumEinsum, FLOPs: flopsEinsum, Weights: []int{0, 1, 2, 3}, Kinds: []string{"product"}},
}}

// einsum is an equation with the lengths of its letters.
type einsum struct {
	letters  map[byte]graph.Dim
	count    map[byte]int // how often each letter occurs on the left
	ellipsis []graph.Dim
	ranked   bool // the ellipsis' rank is known
	output   string
}

// inferEinsum: letters of the right-hand side are the axes of the output. Without
// a right-hand side, these are the letters that occur once on the left, sorted,
// after the axes of the ellipsis.
func inferEinsum(c *Call) error {
	e, err := readEinsum(c)
	if err != nil {
		return err
	}
	var shape []graph.Dim
	for rest := e.output; rest != ""; {
		if after, ok := strings.CutPrefix(rest, "..."); ok {
			if !e.ranked {
				c.SetUnranked(0, c.In[0].Elem)
				return nil
			}
			shape = append(shape, e.ellipsis...)
			rest = after
			continue
		}
		shape = append(shape, e.letters[rest[0]])
		rest = rest[1:]
	}
	c.Set(0, c.In[0].Elem, shape)
	return nil
}

func readEinsum(c *Call) (*einsum, error) {
	if err := c.Tensors(len(c.In)); err != nil {
		return nil, err
	}
	equation := strings.ReplaceAll(c.Str("equation", ""), " ", "")
	left, right, explicit := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	if equation == "" || len(c.In) == 0 {
		return nil, c.Errf("equation is missing, or there are no inputs")
	}
	if len(terms) != len(c.In) {
		return nil, c.Errf("equation %q has %d terms, expected %d as there are inputs", graph.Short(equation), len(terms), len(c.In))
	}
	e := &einsum{letters: map[byte]graph.Dim{}, count: map[byte]int{}, ranked: true}
	for i, term := range terms {
		if err := c.sameElem(0, i); err != nil {
			return nil, err
		}
		if err := e.readTerm(c, i, term); err != nil {
			return nil, err
		}
	}
	if e.output = right; !explicit {
		e.output = e.implicit(left)
	}
	return e, e.checkOutput(c)
}

// readTerm reads the term of input i.
func (e *einsum) readTerm(c *Call, i int, term string) error {
	before, after, dots := strings.Cut(term, "...")
	for _, b := range []byte(before + after) {
		if !isLetter(b) {
			return c.Errf("equation has %q in term %d, expected letters and at most one ...", graph.Short(term), i)
		}
		e.count[b]++
		if _, seen := e.letters[b]; !seen {
			e.letters[b] = 1
		}
	}
	in := c.In[i]
	named := len(before) + len(after)
	if !in.Ranked {
		for _, b := range []byte(before + after) {
			e.letters[b], _ = broadcastDim(e.letters[b], graph.Unknown)
		}
		e.ranked = e.ranked && !dots
		return nil
	}
	if len(in.Shape) < named || !dots && len(in.Shape) != named {
		return c.BadInput(i, "as many axes as its term %q has", graph.Short(term))
	}
	tail := len(in.Shape) - len(after)
	letters := []byte(before + after)
	for k, d := range slices.Concat(in.Shape[:len(before)], in.Shape[tail:]) {
		wide, ok := broadcastDim(e.letters[letters[k]], d)
		if !ok {
			return c.BadInput(i, "%v for %c of the equation", e.letters[letters[k]], letters[k])
		}
		e.letters[letters[k]] = wide
	}
	if !dots {
		return nil
	}
	wide, axis, ok := Broadcast(e.ellipsis, in.Shape[len(before):tail])
	if !ok {
		return c.BadInput(i, "one whose ... broadcasts with %s (axis %d from the right)", graph.ShapeString(e.ellipsis), axis)
	}
	e.ellipsis = wide
	return nil
}

// implicit is the right-hand side of an equation without one.
func (e *einsum) implicit(left string) string {
	var once []byte
	for b, n := range e.count {
		if n == 1 {
			once = append(once, b)
		}
	}
	slices.Sort(once)
	if strings.Contains(left, "...") {
		return "..." + string(once)
	}
	return string(once)
}

func (e *einsum) checkOutput(c *Call) error {
	before, after, _ := strings.Cut(e.output, "...")
	seen := map[byte]bool{}
	for _, b := range []byte(before + after) {
		if e.count[b] == 0 || seen[b] {
			return c.Errf("equation has %q on the right, expected each letter once and from the left", graph.Short(e.output))
		}
		seen[b] = true
	}
	return nil
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

// flopsEinsum counts two operations for each combination of indices.
func flopsEinsum(c *Call) int64 {
	e, err := readEinsum(c)
	if err != nil || !e.ranked {
		return 0
	}
	lengths := append([]graph.Dim{2}, e.ellipsis...)
	for _, d := range e.letters {
		lengths = append(lengths, d)
	}
	return opCount(lengths...)
}

// cutEinsum: the letter of the axis is cut wherever it occurs.
func cutEinsum(c *Call, axis int) *Cut {
	terms, output, ok := c.einsumTerms()
	if !ok {
		return nil
	}
	cut := c.cut(axis)
	if cut.In = c.einsumRows(terms, output[axis]); cut.In == nil {
		return nil
	}
	return cut
}

// sumEinsum: the sum over a letter that the output lacks.
func sumEinsum(c *Call, axes []int) *Sum {
	terms, output, ok := c.einsumTerms()
	if !ok {
		return nil
	}
	for i, axis := range axes {
		if axis == Whole {
			continue
		}
		letter := terms[i][axis]
		in := c.einsumRows(terms, letter)
		if in == nil || in[i].Axis != axis || strings.IndexByte(output, letter) >= 0 {
			return nil
		}
		return &Sum{By: "Add", In: in, Length: in[i].Length}
	}
	return nil
}

// einsumTerms is attr.Einsum of the node.
func (c *Call) einsumTerms() (terms []string, output string, ok bool) {
	ranks := make([]int, len(c.In))
	for i := range ranks {
		ranks[i] = len(c.In[i].Shape)
	}
	terms, output, err := attr.Einsum(c.Node, ranks)
	return terms, output, err == nil
}

// einsumRows returns the rows of the inputs for rows of a letter. Inputs that lack it, or
// have length 1 there, are read whole. It returns nil if a term has the letter twice.
func (c *Call) einsumRows(terms []string, letter byte) []Rows {
	in := make([]Rows, len(terms))
	for i, term := range terms {
		in[i] = All()
		axis := strings.IndexByte(term, letter)
		if axis != strings.LastIndexByte(term, letter) {
			return nil
		}
		if axis >= 0 && c.In[i].Shape[axis] != 1 {
			in[i] = Same(axis, c.length(i, axis))
		}
	}
	return in
}

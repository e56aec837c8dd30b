package gpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// expression computes one element of the outputs of one or more elementwise nodes from
// the input elements at its place, after broadcasting. All outputs have its shape. Each
// tensor's element is a C variable, rounded to the tensor's dtype, so a node computes the
// same bits in any expression.
type expression struct {
	n      *Node // gets the launch
	shape  []int
	of     []int // shape of the outputs of the node whose computation is being added
	in     []view
	values map[viewKey]string // the C variable of each tensor
	lines  []string
	out    []*form.Tensor
}

// view is a tensor that is read as one of another shape, of as many elements.
type view struct {
	t     *form.Tensor
	shape []int
}

// viewKey identifies a view. A tensor in its own shape has no text.
type viewKey struct {
	t     *form.Tensor
	shape string
}

func newExpression(n *Node, shape []int) *expression {
	return &expression{n: n, shape: shape, values: map[viewKey]string{}}
}

// add adds the computation of a node. Its outputs must broadcast to the expression's
// shape.
func (e *expression) add(r *Row, n *Node) error {
	for _, t := range n.Out {
		if t != nil {
			e.of = t.Shape
			if !broadcasts(t.Shape, e.shape) {
				return unsupportedf("an output of %s of shape %v, which does not broadcast to %v", r.Name, t.Shape, e.shape)
			}
		}
	}
	return r.Element(n, e)
}

// value returns the variable that holds a tensor's element, which it loads if no earlier
// node of the expression has computed it.
func (e *expression) value(t *form.Tensor) (string, error) {
	if t == nil {
		return "", unsupportedf("an omitted input")
	}
	return e.valueAs(t, t.Shape)
}

// valueAs is value for a tensor that the node reads in another shape.
func (e *expression) valueAs(t *form.Tensor, shape []int) (string, error) {
	key := viewKey{t: t}
	if !slices.Equal(shape, t.Shape) {
		key.shape = fmt.Sprint(shape)
		if e.made(t) {
			return "", unsupportedf("an input of shape %v as %v beside the node that makes it", t.Shape, shape)
		}
	}
	if !broadcasts(shape, e.of) {
		return "", unsupportedf("an input of shape %v, which does not broadcast to %v", shape, e.of)
	}
	if v, ok := e.values[key]; ok {
		return v, nil
	}
	if _, err := typeOf(t); err != nil {
		return "", err
	}
	v := fmt.Sprintf("a%d", len(e.in))
	e.in = append(e.in, view{t, shape})
	e.values[key] = v
	return v, nil
}

// made reports whether a node of the expression computes the tensor.
func (e *expression) made(t *form.Tensor) bool {
	v := e.values[viewKey{t: t}]
	return v != "" && v[0] == 'v'
}

// index is the place of the element among those of the expression, which it fails to
// give unless the node's output has just as many.
func (e *expression) index() (string, error) {
	if count(e.of) != count(e.shape) {
		return "", unsupportedf("shape %v as a part of %v", e.of, e.shape)
	}
	return "(i + k)", nil
}

// set computes a tensor's element: it has the value of a C expression, rounded to the
// tensor's dtype.
func (e *expression) set(t *form.Tensor, value string) error {
	name, err := typeOf(t)
	if err != nil {
		return err
	}
	v := fmt.Sprintf("v%d", len(e.lines))
	switch t.Type {
	case graph.Float16:
		value = "widen(narrow_f16(" + value + "))"
	case graph.BFloat16:
		value = "widen(narrow_bf16(" + value + "))"
	}
	e.lines = append(e.lines, fmt.Sprintf("Compute<%s> %s = %s;", name, v, value))
	e.values[viewKey{t: t}] = v
	return nil
}

// store makes the kernel write a tensor that set has computed.
func (e *expression) store(t *form.Tensor) { e.out = append(e.out, t) }

// broadcasts reports whether numpy's rule repeats a shape to another.
func broadcasts(from, to []int) bool {
	for i := range from {
		k := i + len(to) - len(from)
		if from[i] != 1 && (k < 0 || from[i] != to[k]) {
			return false
		}
	}
	return true
}

// literal is a number in C, in the type that kernels compute elements of a dtype in.
func literal(x float64, t graph.DType) string {
	switch t {
	case graph.Float64:
		return fmt.Sprintf("__longlong_as_double(0x%016xll)", math.Float64bits(x))
	case graph.Float32, graph.Float16, graph.BFloat16:
		return fmt.Sprintf("__int_as_float(0x%08x)", math.Float32bits(float32(x)))
	}
	return fmt.Sprintf("(%s)0x%xull", cType[t], uint64(int64(x)))
}

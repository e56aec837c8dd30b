package training

import (
	"reflect"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// reading is what a product of the source reads: its axes are those of a tensor in an order, nil as they lie.
type reading struct {
	t    graph.TensorID
	axes []int
}

// product is a MatMul of the source, or an Einsum that is one: the result of [..., rows, summed] and
// [..., summed, columns] has the axes [..., rows, columns] in an order, nil as they are.
type product struct {
	left, right reading
	axes        []int
}

// productOf reads a product of the source.
func productOf(n *graph.Node) (x product, ok bool) {
	if n.Domain != "" || len(n.Inputs) != 2 {
		return x, false
	}
	switch n.Op {
	case "MatMul":
		return product{left: reading{t: n.Inputs[0]}, right: reading{t: n.Inputs[1]}}, true
	case "Einsum":
		if at := n.Attr("equation"); at != nil {
			return summed(strings.ReplaceAll(at.String, " ", ""), n.Inputs)
		}
	}
	return x, false
}

// summed reads an Einsum of two operands. Each letter of its result is of both, an axis of the batch, or of
// one, once each; one letter of both is not in the result.
func summed(equation string, in []graph.TensorID) (x product, ok bool) {
	terms, result, _ := strings.Cut(equation, "->")
	a, b, two := strings.Cut(terms, ",")
	if !two || !distinct(a) || !distinct(b) || !distinct(result) || len(result) < 3 {
		return x, false
	}
	first, second := 0, 1
	if strings.IndexByte(a, result[len(result)-1]) >= 0 {
		a, b, first, second = b, a, 1, 0
	}
	batch, rows, columns := "", "", ""
	for i := range len(result) {
		l := result[i : i+1]
		switch inA, inB := strings.Contains(a, l), strings.Contains(b, l); {
		case inA && inB:
			batch += l
		case inA:
			rows += l
		case inB:
			columns += l
		default:
			return x, false
		}
	}
	inner := ""
	for i := range len(a) {
		if l := a[i : i+1]; !strings.Contains(result, l) {
			inner += l
		}
	}
	if len(rows) != 1 || len(columns) != 1 || len(inner) != 1 || !strings.Contains(b, inner) || len(a) != len(batch)+2 || len(b) != len(batch)+2 {
		return x, false
	}
	x.left = reading{in[first], places(a, batch+rows+inner)}
	x.right = reading{in[second], places(b, batch+inner+columns)}
	x.axes = places(batch+rows+columns, result)
	return x, true
}

// distinct reports whether a term has letters alone, each once.
func distinct(term string) bool {
	for i := range len(term) {
		if term[i] == '.' || strings.IndexByte(term[:i], term[i]) >= 0 {
			return false
		}
	}
	return true
}

// places says where the letters of one term stand in another; nil if they stand in order.
func places(in, term string) (at []int) {
	for i := range len(term) {
		at = append(at, strings.IndexByte(in, term[i]))
	}
	if slices.IsSorted(at) {
		return nil
	}
	return at
}

// arranged is a list in an order.
func arranged[T any](list []T, order []int) []T {
	if order == nil {
		return list
	}
	to := make([]T, len(order))
	for i, k := range order {
		to[i] = list[k]
	}
	return to
}

// ordered reports whether a tensor of the file holds what a node Attention makes as a product of the source
// does: its axes are the four of attention in an order.
func (s *spelled) ordered(t graph.TensorID, axes []int) bool {
	if axes == nil {
		return s.inRow(t)
	}
	have := s.new.of(t)
	if have.root != s.call.Outputs[0] || have.scale != 1 || len(have.factors) > 0 {
		return false
	}
	whole := s.new.shape(have.root)
	if len(whole) != len(axes) {
		return false
	}
	want, stride := make([][]atom, len(whole)), int64(1)
	for i, n := range slices.Backward(whole) {
		want[i] = merged([]atom{{n, stride}})
		stride *= n
	}
	return reflect.DeepEqual(have.axes, arranged(want, axes))
}

// inRow reports whether Reshapes alone stand between a node Attention and a tensor.
func (s *spelled) inRow(t graph.TensorID) bool {
	for range 3 {
		n := s.new.maker(t)
		if n == s.call {
			return true
		}
		if n == nil || n.Op != "Reshape" {
			break
		}
		t = n.Inputs[0]
	}
	return false
}

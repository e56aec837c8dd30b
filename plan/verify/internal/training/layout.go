package training

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// atom is a part of an axis: length elements, which lie stride elements of the root apart.
type atom struct{ length, stride int64 }

// layout says which element of a tensor, the root, each element of another is, times a number. An
// axis is a list of atoms, the outermost first; those of length 1 are left out, so that equal layouts are
// equal lists.
type layout struct {
	root  graph.TensorID
	axes  [][]atom
	scale float64
	// factors are tensors of one element whose numbers are not known, the innermost first.
	factors []factor
}

// factor is a Mul, or a Div, by a tensor of one element.
type factor struct {
	op string
	by graph.TensorID
}

// layouts finds layouts in one graph.
type layouts struct {
	g      *graph.Graph
	skip   func(graph.TensorID) graph.TensorID  // goes through nodes that the comparison ignores
	number func(graph.TensorID) (float64, bool) // the one element of a tensor whose value is known
}

// of returns the layout of a tensor with exact lengths: it goes back through nodes that move or repeat
// whole axes, and through products with known numbers.
func (l *layouts) of(t graph.TensorID) layout {
	var way []*graph.Node
	t = l.skip(t)
	for len(way) < 64 && t >= 0 && l.g.Tensors[t].Maker >= 0 {
		n := l.g.Nodes[l.g.Tensors[t].Maker]
		from, _, ok := l.moves(n)
		if !ok {
			break
		}
		way = append(way, n)
		t = l.skip(from)
	}
	for {
		y, at := l.along(t, way)
		if at < 0 {
			return y
		}
		t, way = way[at].Outputs[0], way[:at]
	}
}

// along is the layout at the end of a way from a root, or the index of the node at which it is none.
func (l *layouts) along(root graph.TensorID, way []*graph.Node) (y layout, at int) {
	y = layout{root: root, scale: 1}
	stride := int64(1)
	for _, n := range slices.Backward(l.shape(root)) {
		y.axes = append(y.axes, merged([]atom{{n, stride}}))
		stride *= n
	}
	slices.Reverse(y.axes)
	for i := len(way) - 1; i >= 0; i-- {
		if !l.step(&y, way[i]) {
			return y, i
		}
	}
	return y, -1
}

// moves returns what a node moves, or multiplies by a number.
func (l *layouts) moves(n *graph.Node) (from graph.TensorID, by float64, ok bool) {
	if n.Domain != "" || len(n.Inputs) == 0 || n.Inputs[0] < 0 || !l.exact(n.Outputs[0]) {
		return none, 1, false
	}
	switch n.Op {
	case "Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Expand", "Tile":
		return n.Inputs[0], 1, l.exact(n.Inputs[0])
	}
	if from, by, ok = l.scaled(n); !ok {
		from, _, ok = l.factor(n)
	}
	return from, by, ok
}

// factor returns what a node multiplies by a tensor of one element, or divides by one, of any number.
func (l *layouts) factor(n *graph.Node) (from graph.TensorID, x factor, ok bool) {
	divides, is := arithmetic(n)
	for k := 1; is && k >= 0; k-- {
		by := n.Inputs[k]
		if k == 0 && divides || !l.exact(by) || !l.exact(n.Inputs[1-k]) || !slices.Equal(l.shape(n.Inputs[1-k]), l.shape(n.Outputs[0])) {
			continue
		}
		elements := int64(1)
		for _, length := range l.shape(by) {
			elements *= length
		}
		if elements == 1 {
			return n.Inputs[1-k], factor{n.Op, by}, true
		}
	}
	return none, x, false
}

// arithmetic reports whether a node is a product or a quotient of two tensors.
func arithmetic(n *graph.Node) (divides, ok bool) {
	switch n.Op {
	case "Mul":
		return false, n.Domain == "" && len(n.Inputs) == 2
	case "Div":
		return true, n.Domain == "" && len(n.Inputs) == 2
	}
	return false, false
}

// scaled returns what a node multiplies by a known number, or divides by one.
func (l *layouts) scaled(n *graph.Node) (from graph.TensorID, by float64, ok bool) {
	divides, is := arithmetic(n)
	for k := 1; is && k >= 0; k-- {
		v, known := l.number(n.Inputs[k])
		if !known || k == 0 && divides || !l.exact(n.Inputs[1-k]) || !slices.Equal(l.shape(n.Inputs[1-k]), l.shape(n.Outputs[0])) {
			continue
		}
		if divides {
			v = 1 / v
		}
		return n.Inputs[1-k], v, true
	}
	return none, 1, false
}

// step changes a layout as a node does.
func (l *layouts) step(y *layout, n *graph.Node) bool {
	shape := l.shape(n.Outputs[0])
	switch n.Op {
	case "Identity":
		return true
	case "Transpose":
		at := n.Attr("perm")
		if at == nil || len(at.Ints) != len(y.axes) {
			return false
		}
		axes := make([][]atom, len(y.axes))
		for i, from := range at.Ints {
			axes[i] = y.axes[from]
		}
		y.axes = axes
		return true
	case "Reshape", "Unsqueeze", "Squeeze":
		axes, ok := split(slices.Concat(y.axes...), shape)
		y.axes = axes
		return ok
	case "Expand", "Tile":
		from := l.shape(n.Inputs[0])
		for len(y.axes) < len(shape) {
			y.axes, from = slices.Insert(y.axes, 0, nil), slices.Insert(from, 0, 1)
		}
		axes := slices.Clone(y.axes)
		for i, length := range shape {
			switch {
			case from[i] == length:
			case from[i] == 1:
				axes[i] = []atom{{length, 0}}
			default:
				return false
			}
		}
		y.axes = axes
		return true
	}
	if _, by, ok := l.scaled(n); ok {
		y.scale *= by
		return true
	}
	_, x, ok := l.factor(n)
	y.factors = append(y.factors, x)
	return ok
}

// split divides elements in a row into axes.
func split(row []atom, shape []int64) (axes [][]atom, ok bool) {
	row = slices.Clone(row)
	for _, need := range shape {
		var axis []atom
		for need > 1 {
			if len(row) == 0 {
				return nil, false
			}
			switch a := row[0]; {
			case a.length == 0:
				return nil, false
			case need%a.length == 0:
				axis, row, need = append(axis, a), row[1:], need/a.length
			case a.length%need == 0:
				inner := a.length / need
				axis, row[0], need = append(axis, atom{need, a.stride * inner}), atom{inner, a.stride}, 1
			default:
				return nil, false
			}
		}
		axes = append(axes, merged(axis))
	}
	return axes, len(row) == 0
}

// merged joins atoms that are one, and leaves out those of length 1.
func merged(list []atom) (axis []atom) {
	for _, a := range list {
		if a.length == 1 {
			continue
		}
		if n := len(axis); n > 0 && axis[n-1].stride == a.length*a.stride {
			axis[n-1] = atom{axis[n-1].length * a.length, a.stride}
			continue
		}
		axis = append(axis, a)
	}
	return axis
}

// heads is a layout of [..., rows, columns] as three axes: what stands before the last two is one.
func (y layout) heads() [3][]atom {
	n := len(y.axes)
	return [3][]atom{merged(slices.Concat(y.axes[:n-2]...)), y.axes[n-2], y.axes[n-1]}
}

func (l *layouts) exact(t graph.TensorID) bool { return t >= 0 && l.g.Tensors[t].Type.Exact() }

func (l *layouts) shape(t graph.TensorID) []int64 {
	s := make([]int64, len(l.g.Tensors[t].Type.Shape))
	for i, d := range l.g.Tensors[t].Type.Shape {
		s[i] = int64(d)
	}
	return s
}

// maker returns the node of ai.onnx that makes a tensor; nil if none does.
func (l *layouts) maker(t graph.TensorID) *graph.Node {
	if t = l.skip(t); t < 0 || l.g.Tensors[t].Maker < 0 {
		return nil
	}
	if n := l.g.Nodes[l.g.Tensors[t].Maker]; n.Domain == "" {
		return n
	}
	return nil
}

package graph

import (
	"math"
	"slices"
)

// PutRows is an operator of SwapDomain that writes rows of an axis into a tensor. Its output
// is input 0 (base) with the rows of input 1 (part) from row at on. at and axes are inputs 2
// and 3, each a vector with one int64; the attribute axis equals axes. It is a function of
// the model whose body is Slice and Concat, so that every runtime computes the same. Where
// base dies, its rows can stay in place.
//
// Before opset 10, Slice has no inputs but its data, so the body takes the rows from three
// more attributes, each a list with one number: axes, at, and behind, the row behind those of
// part.
const PutRows = "PutRows"

const (
	// leastPutRowsOpset is the first opset whose operators broadcast as today's.
	leastPutRowsOpset = 7
	// slicesByInputs is the first opset whose Slice has starts and ends as inputs.
	slicesByInputs = 10
	// makesConstants is the first opset that has ConstantOfShape.
	makesConstants = 9
)

// IsPutRows reports whether a node of an inferred graph is a PutRows.
func (n *Node) IsPutRows() bool {
	return n.Domain == SwapDomain && n.Op == PutRows && n.Semantics.Known && n.Semantics.Call == nil
}

// Own reports whether a function is SwapOut, SwapIn, PutRows, ConvWeightGrad, FlashAttention or
// FlashAttentionGrad, by its name and its body.
func (f *Function) Own() bool {
	return f.IsSwap() || f.IsPutRows() || f.IsConvWeightGrad() || f.IsFlashAttention()
}

// IsPutRows reports whether a function is PutRows by name, and has its body.
func (f *Function) IsPutRows() bool { return f.is(putRows(FindOpset(f.Opsets, ""))) }

// AddPutRows adds the function PutRows to a model, with the imports and the IR version
// that it needs. It fails if the model has another function with that name, or an
// opset without the operators that it consists of.
func (m *Model) AddPutRows() error {
	if v := m.Opset(""); v < leastPutRowsOpset {
		return Errorf("opset %d: expected %d or later for slices", v, leastPutRowsOpset)
	}
	return m.addOwnOnce(putRows(m.Opset("")))
}

// AddOwn adds a function of SwapDomain to a model, with the import and the IR version that
// it needs.
func (m *Model) AddOwn(f *Function) {
	m.Functions = append(slices.Clip(m.Functions), f)
	m.importOwn()
}

func (m *Model) importOwn() {
	if m.Opset(SwapDomain) == 0 {
		m.Opsets = append(slices.Clip(m.Opsets), Opset{Domain: SwapDomain, Version: swapVersion})
	}
	m.IRVersion = max(m.IRVersion, leastSwapIR)
}

// PutRowsAttrs returns the attributes of a PutRows that writes rows [at, behind) of an axis, in
// a model of that opset.
func PutRowsAttrs(opset, axis, at, behind int64) []*Attr {
	list := []*Attr{{Name: "axis", Type: AttrInt, Int: axis}}
	if opset < slicesByInputs {
		list = append(list, intsAttr("axes", axis), intsAttr("at", at), intsAttr("behind", behind))
	}
	return list
}

// SliceRows returns a Slice that takes rows [from, to) of an axis in a model of that opset. The
// function vector returns an initializer with one number.
func SliceRows(opset int64, x TensorID, from, to, axis int64, vector func(...int64) TensorID) *Node {
	if opset < slicesByInputs {
		return &Node{Op: "Slice", Inputs: []TensorID{x}, Attrs: []*Attr{intsAttr("axes", axis), intsAttr("starts", from), intsAttr("ends", to)}}
	}
	return &Node{Op: "Slice", Inputs: []TensorID{x, vector(from), vector(to), vector(axis)}}
}

// HasConstantOfShape reports whether an opset has ConstantOfShape. In an older one, a Tile
// makes room.
func HasConstantOfShape(opset int64) bool { return opset >= makesConstants }

func intsAttr(name string, v ...int64) *Attr { return &Attr{Name: name, Type: AttrInts, Ints: v} }

// putRowsByAttrs is putRows for an opset whose Slice has attributes.
func putRowsByAttrs(version int64) *Function {
	b := &Graph{}
	var in []TensorID
	for _, name := range []string{"base", "part", "at", "axes"} {
		in = append(in, b.NewTensor(name))
	}
	node := func(op, name string, attrs []*Attr, in ...TensorID) TensorID {
		out := b.NewTensor(name)
		b.Nodes = append(b.Nodes, &Node{Op: op, Inputs: in, Outputs: []TensorID{out}, Attrs: attrs})
		return out
	}
	given := func(name, of string) *Attr { return &Attr{Name: name, Type: AttrInts, Ref: of} }
	head := node("Slice", "head", []*Attr{given("axes", "axes"), intsAttr("starts", 0), given("ends", "at")}, in[0])
	tail := node("Slice", "tail", []*Attr{given("axes", "axes"), given("starts", "behind"), intsAttr("ends", math.MaxInt64)}, in[0])
	y := node("Concat", "y", []*Attr{{Name: "axis", Type: AttrInt, Ref: "axis"}}, head, in[1], tail)
	b.Inputs, b.Outputs = in, []TensorID{y}
	b.Link()
	return &Function{Domain: SwapDomain, Name: PutRows, Attrs: []string{"axis", "axes", "at", "behind"}, Opsets: []Opset{{Version: version}}, Body: b}
}

// putRows makes the function: Concat(base[:at], part, base[at+rows of part:]).
func putRows(version int64) *Function {
	if 0 < version && version < slicesByInputs {
		return putRowsByAttrs(version)
	}
	b := &Graph{}
	var in []TensorID
	for _, name := range []string{"base", "part", "at", "axes"} {
		in = append(in, b.NewTensor(name))
	}
	base, part, at, axes := in[0], in[1], in[2], in[3]
	node := func(op, name string, attrs []*Attr, in ...TensorID) TensorID {
		out := b.NewTensor(name)
		b.Nodes = append(b.Nodes, &Node{Op: op, Inputs: in, Outputs: []TensorID{out}, Attrs: attrs})
		return out
	}
	constant := func(name string, v int64) TensorID {
		d := &Data{Type: Int64, Dims: []int64{1}, Raw: littleEndian(v), Bytes: 8}
		return node("Constant", name, []*Attr{{Name: "value", Type: AttrTensor, Tensor: d}})
	}
	zero, end := constant("zero", 0), constant("end", math.MaxInt64)
	head := node("Slice", "head", nil, base, zero, at, axes)
	shape := node("Shape", "shape", nil, part)
	rows := node("Gather", "rows", nil, shape, axes)
	behind := node("Add", "behind", nil, at, rows)
	tail := node("Slice", "tail", nil, base, behind, end, axes)
	y := node("Concat", "y", []*Attr{{Name: "axis", Type: AttrInt, Ref: "axis"}}, head, part, tail)
	b.Inputs, b.Outputs = in, []TensorID{y}
	b.Link()
	return &Function{Domain: SwapDomain, Name: PutRows, Attrs: []string{"axis"}, Opsets: []Opset{{Version: version}}, Body: b}
}

func littleEndian(v int64) []byte {
	raw := make([]byte, 8)
	for i := range raw {
		raw[i] = byte(v >> (8 * i))
	}
	return raw
}

// MakesRoom reports whether a node of an inferred graph makes a tensor whose rows are all
// written by PutRows, one after the other, before anything else reads it: its elements
// have no meaning.
func (g *Graph) MakesRoom(n *Node) bool {
	if n.Domain != "" || n.Op != "ConstantOfShape" && n.Op != "Tile" || len(n.Outputs) != 1 || n.Outputs[0] < 0 {
		return false
	}
	axis, next := int64(-1), int64(0)
	for t := n.Outputs[0]; ; {
		if x := g.Tensors[t]; x.Output || len(x.Readers) != 1 {
			return false
		}
		put := g.Nodes[g.Tensors[t].Readers[0]]
		if !put.IsPutRows() || put.Inputs[0] != t || put.Inputs[1] == t {
			return false
		}
		on := put.Attr("axis")
		at := g.Tensors[put.Inputs[2]].Data
		base, part := g.Tensors[t].Type, g.Tensors[put.Inputs[1]].Type
		if on == nil || at == nil || !base.Exact() || !part.Exact() || axis >= 0 && on.Int != axis || on.Int < 0 || on.Int >= int64(len(base.Shape)) || len(part.Shape) != len(base.Shape) {
			return false
		}
		if first, ok := at.Integers(1); !ok || len(first) != 1 || first[0] != next {
			return false
		}
		axis = on.Int
		if next += int64(part.Shape[axis]); next == int64(base.Shape[axis]) {
			return true
		}
		t = put.Outputs[0]
	}
}

package onnx

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// model emits a ModelProto that was built in memory. Its nodes, tensors and
// functions may come from a file.
func (e *encoder) model(p *pieces, m *graph.Model) error {
	var b []byte
	b = appendInt(b, 1, m.IRVersion)
	b = appendText(b, 2, m.Producer)
	p.bytes(b)
	for _, o := range m.Opsets {
		p.bytes(appendOpset(nil, 8, o))
	}
	var g pieces
	if err := e.graph(&g, m.Graph); err != nil {
		return err
	}
	p.message(7, &g)
	appendProps(p, 14, m.Props)
	return each(p, 25, m.Functions, e.function)
}

// each emits a field for every item of a list: a message, of which emit makes the content.
func each[T any](p *pieces, num protowire.Number, list []T, emit func(q *pieces, item T) error) error {
	for _, item := range list {
		var q pieces
		if err := emit(&q, item); err != nil {
			return err
		}
		p.message(num, &q)
	}
	return nil
}

func appendOpset(b []byte, num protowire.Number, o graph.Opset) []byte {
	m := appendInt(appendText(nil, 1, o.Domain), 2, o.Version)
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m)
}

// graph emits a GraphProto.
func (e *encoder) graph(p *pieces, g *graph.Graph) error {
	for _, n := range g.Nodes {
		if err := e.reviseNode(p, g, n); err != nil {
			return err
		}
	}
	p.bytes(appendText(nil, 2, g.Name))
	for _, t := range g.Tensors {
		if t.Data != nil {
			var q pieces
			if err := e.tensor(&q, t.Data, t.Name, g == e.main); err != nil {
				return err
			}
			num := protowire.Number(5)
			if t.Data.Sparse != nil {
				num = 15
			}
			p.message(num, &q)
		}
	}
	for _, id := range g.Inputs {
		p.bytes(appendValueInfo(nil, 11, g.Tensors[id]))
	}
	for _, id := range g.Outputs {
		p.bytes(appendValueInfo(nil, 12, g.Tensors[id]))
	}
	for _, t := range g.Tensors {
		if t.Maker >= 0 && !t.Output && t.Declared != nil {
			p.bytes(appendValueInfo(nil, 13, t))
		}
	}
	return nil
}

// function emits a FunctionProto, copied if it was read from a file.
func (e *encoder) function(p *pieces, f *graph.Function) error {
	if !f.Span.IsZero() {
		p.span(f.Span)
		return nil
	}
	b := appendText(nil, 1, f.Name)
	for _, t := range f.Body.Inputs {
		b = appendString(b, 4, f.Body.Tensors[t].Name)
	}
	for _, t := range f.Body.Outputs {
		b = appendString(b, 5, f.Body.Tensors[t].Name)
	}
	for _, a := range f.Attrs {
		b = appendString(b, 6, a)
	}
	p.bytes(b)
	node := func(q *pieces, n *graph.Node) error { return e.node(q, f.Body, n) }
	if err := each(p, 7, f.Body.Nodes, node); err != nil {
		return err
	}
	for _, o := range f.Opsets {
		p.bytes(appendOpset(nil, 9, o))
	}
	p.bytes(appendText(nil, 10, f.Domain))
	if err := each(p, 11, f.Defaults, e.attr); err != nil {
		return err
	}
	p.bytes(appendText(nil, 13, f.Overload))
	return nil
}

// node emits a NodeProto.
func (e *encoder) node(p *pieces, g *graph.Graph, n *graph.Node) error {
	p.bytes(appendText(appendNames(nil, g, n), 4, n.Op))
	if err := each(p, 5, n.Attrs, e.attr); err != nil {
		return err
	}
	p.bytes(appendText(appendText(nil, 7, n.Domain), 8, n.Overload))
	appendProps(p, 9, n.Props)
	return nil
}

// appendNames appends a node's name and the names of its inputs and outputs.
func appendNames(b []byte, g *graph.Graph, n *graph.Node) []byte {
	for _, t := range n.Inputs {
		b = appendString(b, 1, tensorName(g, t))
	}
	for _, t := range n.Outputs {
		b = appendString(b, 2, tensorName(g, t))
	}
	return appendText(b, 3, n.Name)
}

// tensorName is a tensor's name, "" if it is left out.
func tensorName(g *graph.Graph, t graph.TensorID) string {
	if t < 0 {
		return ""
	}
	return g.Tensors[t].Name
}

// attr emits an AttributeProto. If it was read from a file, it is copied, with
// its graphs revised, and possibly under the name of the attribute that it
// replaces.
func (e *encoder) attr(p *pieces, a *graph.Attr) error {
	if !a.Span.IsZero() {
		if e.attrChanged(a) {
			return e.reviseAttr(p, a)
		}
		return e.renamed(p, a.Span, "AttributeProto", 1, a.Name)
	}
	p.bytes(appendText(nil, 1, a.Name))
	var b []byte
	var err error
	switch a.Type {
	case graph.AttrFloat:
		b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(a.Float))
	case graph.AttrInt:
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(a.Int))
	case graph.AttrString:
		b = appendString(b, 4, a.String)
	case graph.AttrTensor:
		err = each(p, 5, []*graph.Data{a.Tensor}, e.value)
	case graph.AttrGraph:
		err = each(p, 6, []*graph.Graph{a.Graph}, e.graph)
	case graph.AttrFloats:
		for _, f := range a.Floats {
			b = protowire.AppendFixed32(protowire.AppendTag(b, 7, protowire.Fixed32Type), math.Float32bits(f))
		}
	case graph.AttrInts:
		for _, v := range a.Ints {
			b = protowire.AppendVarint(protowire.AppendTag(b, 8, protowire.VarintType), uint64(v))
		}
	case graph.AttrStrings:
		for _, s := range a.Strings {
			b = appendString(b, 9, s)
		}
	case graph.AttrTensors:
		err = each(p, 10, a.Tensors, e.value)
	case graph.AttrSparseTensor:
		err = each(p, 22, []*graph.Sparse{a.Sparse}, e.sparse)
	case graph.AttrTypeProto:
		if a.TypeOf != nil {
			b = protowire.AppendBytes(protowire.AppendTag(b, 14, protowire.BytesType), typeProto(a.TypeOf))
		}
	case graph.AttrGraphs:
		err = each(p, 11, a.Graphs, e.graph)
	}
	if err != nil {
		return err
	}
	p.bytes(b)
	p.bytes(appendInt(nil, 20, int64(a.Type)))
	p.bytes(appendText(nil, 21, a.Ref))
	return nil
}

// renamed emits a message that was read, possibly under another name.
func (e *encoder) renamed(p *pieces, s graph.Span, what string, num protowire.Number, name string) error {
	same := false
	err := e.r.walk(s, what, func(f field) error {
		same = same || f.num == num && e.r.text(f.payload) == name
		return nil
	})
	if err != nil || same {
		p.span(s)
		return err
	}
	p.bytes(appendText(nil, num, name))
	return e.r.walk(s, what, func(f field) error {
		if f.num != num {
			p.span(f.span)
		}
		return nil
	})
}

// value emits a tensor that is no initializer, under its name.
func (e *encoder) value(p *pieces, d *graph.Data) error { return e.tensor(p, d, d.Name, false) }

// tensor emits a TensorProto. It is copied if it was read from a file; otherwise
// its elements are in raw_data. weight: it is an initializer of the main graph.
func (e *encoder) tensor(p *pieces, d *graph.Data, name string, weight bool) error {
	if !d.Span.IsZero() && d.Sparse == nil {
		return e.renamed(p, d.Span, "TensorProto", 8, name)
	}
	if !d.Span.IsZero() {
		p.span(d.Span)
		return nil
	}
	if d.Sparse != nil {
		return e.sparse(p, d.Sparse)
	}
	if d.Elided() {
		return &Error{Tensor: name, Offset: -1, Err: errors.New("its elements are not known: expected them, or external data, to write a file")}
	}
	p.bytes(tensorHead(d, name))
	for _, s := range d.Texts {
		p.bytes(protowire.AppendString(protowire.AppendTag(nil, 6, protowire.BytesType), s))
	}
	if d.Texts != nil {
		return nil
	}
	if x := d.External; x != nil {
		p.bytes(appendProp(nil, 13, graph.Prop{Key: "location", Value: x.Location}))
		p.bytes(appendProp(nil, 13, graph.Prop{Key: "offset", Value: strconv.FormatInt(x.Offset, 10)}))
		p.bytes(appendProp(nil, 13, graph.Prop{Key: "length", Value: strconv.FormatInt(d.Bytes, 10)}))
		p.bytes(appendInt(nil, 14, 1))
		return nil
	}
	p.bytes(protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.BytesType), uint64(d.Bytes)))
	w := piece{size: d.Bytes, weight: weight, gen: d.Generate}
	if w.gen == nil {
		w.data = d.Raw
		if w.data == nil {
			w.data = rawOf(d)
		}
	}
	if d.Bytes > 0 {
		p.list = append(p.list, w)
		p.size += d.Bytes
	}
	return nil
}

// sparse emits a SparseTensorProto that was built in memory. Its values have its name.
func (e *encoder) sparse(p *pieces, s *graph.Sparse) error {
	if err := each(p, 1, []*graph.Data{s.Values}, e.value); err != nil {
		return err
	}
	if err := each(p, 2, []*graph.Data{s.Indices}, e.value); err != nil {
		return err
	}
	for _, n := range s.Dims {
		p.bytes(protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(n)))
	}
	return nil
}

// EncodeTensor returns the TensorProto of a single tensor, as [ParseTensor] reads
// it. Its elements are those of Raw.
func EncodeTensor(d *graph.Data) []byte {
	b := tensorHead(d, d.Name)
	return protowire.AppendBytes(protowire.AppendTag(b, 9, protowire.BytesType), d.Raw)
}

// EncodeStrings returns the TensorProto of a tensor of strings.
func EncodeStrings(d *graph.Data, list []string) []byte {
	b := tensorHead(d, d.Name)
	for _, s := range list {
		b = protowire.AppendString(protowire.AppendTag(b, 6, protowire.BytesType), s)
	}
	return b
}

// tensorHead emits all of a TensorProto but its elements.
func tensorHead(d *graph.Data, name string) (b []byte) {
	for _, n := range d.Dims {
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(n))
	}
	b = appendInt(b, 2, int64(d.Type))
	return appendText(b, 8, name)
}

// rawOf gives the elements of a small built tensor as raw_data.
func rawOf(d *graph.Data) []byte {
	var b []byte
	size := d.Type.Bits() / 8
	for _, v := range d.Ints {
		for k := range size {
			b = append(b, byte(v>>(8*k)))
		}
	}
	for _, v := range d.Floats {
		if d.Type == graph.Float64 {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
	}
	return b
}

// appendValueInfo emits the declaration of a tensor: at least its name.
func appendValueInfo(b []byte, num protowire.Number, t *graph.Tensor) []byte {
	m := appendText(nil, 1, t.Name)
	if t.Declared != nil {
		m = protowire.AppendBytes(protowire.AppendTag(m, 2, protowire.BytesType), typeProto(t.Declared))
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m)
}

// typeProto encodes the type of a value.
func typeProto(d *graph.Declared) []byte {
	if d.Type.Kind == graph.KindMap {
		m := appendInt(nil, 1, int64(d.Type.Key))
		if d.Type.Of != nil {
			m = protowire.AppendBytes(protowire.AppendTag(m, 2, protowire.BytesType), typeProto(&graph.Declared{Type: *d.Type.Of}))
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), m)
	}
	nested := map[graph.Kind]protowire.Number{graph.KindSequence: 4, graph.KindOptional: 9}
	if num := nested[d.Type.Kind]; num != 0 {
		var of []byte
		if d.Type.Of != nil {
			of = typeProto(&graph.Declared{Type: *d.Type.Of})
		}
		of = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), of)
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), of)
	}
	m := appendInt(nil, 1, int64(d.Type.Elem))
	if d.Type.Ranked {
		var shape []byte
		for i, n := range d.Type.Shape {
			var dim []byte
			switch {
			case n.Exact():
				dim = protowire.AppendVarint(protowire.AppendTag(dim, 1, protowire.VarintType), uint64(n))
			case i < len(d.Symbols) && d.Symbols[i] != "":
				dim = appendText(dim, 2, d.Symbols[i])
			}
			shape = protowire.AppendBytes(protowire.AppendTag(shape, 1, protowire.BytesType), dim)
		}
		m = protowire.AppendBytes(protowire.AppendTag(m, 2, protowire.BytesType), shape)
	}
	num := protowire.Number(1)
	switch d.Type.Kind {
	case graph.KindSparse:
		num = 8
	case graph.KindOpaque:
		num, m = 7, nil
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), m)
}

// appendText appends a text field unless it is empty.
func appendText(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(b, num, s)
}

func appendString(b []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

// appendInt appends a number unless it is 0.
func appendInt(b []byte, num protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
}

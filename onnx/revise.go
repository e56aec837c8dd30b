package onnx

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// encoder emits messages: copied if they did not change, otherwise revised.
type encoder struct {
	r     *reader
	main  *graph.Graph
	early bool // before IR version 4: every initializer must be an input, too
}

// ownProps selects the metadata entries that onnxmem owns, except for the padding,
// which is not part of a model.
func ownProps(props []graph.Prop) []graph.Prop {
	var list []graph.Prop
	for _, p := range props {
		if strings.HasPrefix(p.Key, Prefix) && p.Key != padKey {
			list = append(list, p)
		}
	}
	return list
}

// reviseModel emits the fields of the source's ModelProto, with the graph and our
// metadata entries revised. The entries come last or, if large spans of the
// source follow in the graph, before it, with padding that keeps the offset of
// those spans within a block. Opset imports and functions that the source does
// not have follow at the end.
func (e *encoder) reviseModel(p *pieces, m *graph.Model) error {
	whole := graph.Span{Len: int64(len(e.r.b))}
	changed := e.graphChanged(m.Graph)
	keep, err := e.propsKept(whole, 14, m.Props)
	if err != nil {
		return err
	}
	keep = keep && !changed
	pending := !keep
	imports, version := 0, int64(0)
	err = e.r.walk(whole, "ModelProto", func(f field) error {
		switch f.num {
		case 1:
			version = int64(f.value)
		case 8:
			imports++
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = e.r.walk(whole, "ModelProto", func(f field) error {
		switch {
		case f.num == 7 && changed:
			var g pieces
			if err := e.reviseGraph(&g, m.Graph); err != nil {
				return err
			}
			if at, large := g.firstLarge(); at >= 0 {
				appendProps(p, 14, ownProps(m.Props))
				head := protowire.SizeTag(7) + protowire.SizeVarint(uint64(g.size))
				p.bytes(padding(large.Off-(p.size+int64(head)+at), large.Len))
				pending = false
			}
			p.message(7, &g)
			return nil
		case f.num == 14 && !keep:
			return e.dropOwn(p, f)
		case f.num == 1 && version != m.IRVersion:
			return nil
		}
		p.span(f.span)
		return nil
	})
	if err != nil {
		return err
	}
	if version != m.IRVersion {
		p.bytes(appendInt(nil, 1, m.IRVersion))
	}
	for _, o := range m.Opsets[min(imports, len(m.Opsets)):] {
		p.bytes(appendOpset(nil, 8, o))
	}
	added := slices.DeleteFunc(slices.Clone(m.Functions), func(f *graph.Function) bool { return !f.Span.IsZero() })
	if err := each(p, 25, added, e.function); err != nil {
		return err
	}
	if pending {
		appendProps(p, 14, ownProps(m.Props))
	}
	return nil
}

// child emits a field that holds a message: copied, or revised.
func (e *encoder) child(p *pieces, f field, revise func(q *pieces) error, changed bool) error {
	if !changed {
		p.span(f.span)
		return nil
	}
	var q pieces
	if err := revise(&q); err != nil {
		return err
	}
	p.message(f.num, &q)
	return nil
}

// propsKept reports whether the entries under "onnxmem." of a message of the
// source equal those of the model.
func (e *encoder) propsKept(s graph.Span, num protowire.Number, props []graph.Prop) (bool, error) {
	var old []graph.Prop
	err := e.r.walk(s, "message", func(f field) error {
		if f.num != num || f.typ != protowire.BytesType {
			return nil
		}
		p, err := e.r.prop(f.payload, "metadata_props")
		old = append(old, p)
		return err
	})
	return slices.Equal(ownProps(old), ownProps(props)), err
}

// dropOwn emits a metadata entry unless onnxmem owns it.
func (e *encoder) dropOwn(p *pieces, f field) error {
	entry, err := e.r.prop(f.payload, "metadata_props")
	if err == nil && !strings.HasPrefix(entry.Key, Prefix) {
		p.span(f.span)
	}
	return err
}

func appendProps(p *pieces, num protowire.Number, props []graph.Prop) {
	for _, entry := range props {
		p.bytes(appendProp(nil, num, entry))
	}
}

func appendProp(b []byte, num protowire.Number, entry graph.Prop) []byte {
	m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), entry.Key)
	m = protowire.AppendString(protowire.AppendTag(m, 2, protowire.BytesType), entry.Value)
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m)
}

// graphChanged reports whether a graph differs from its source.
func (e *encoder) graphChanged(g *graph.Graph) bool {
	if len(replacedData(g)) > 0 {
		return true
	}
	before := int64(-1)
	for _, n := range g.Nodes {
		if n.Span.IsZero() || n.Span.Off <= before || e.nodeChanged(g, n) {
			return true
		}
		before = n.Span.Off
	}
	stood := 0
	err := e.r.walk(g.Span, "GraphProto", func(f field) error {
		if f.num == 1 {
			stood++
		}
		return nil
	})
	return err != nil || stood != len(g.Nodes)
}

func (e *encoder) nodeChanged(g *graph.Graph, n *graph.Node) bool {
	if kept, err := e.propsKept(n.Span, 9, n.Props); err != nil || !kept || !e.namesKept(g, n) {
		return true
	}
	for _, a := range n.Bodies() {
		if e.attrChanged(a) {
			return true
		}
	}
	return false
}

// namesKept reports whether a node has the name, inputs and outputs that it has
// in the source.
func (e *encoder) namesKept(g *graph.Graph, n *graph.Node) bool {
	name, inputs, outputs := "", 0, 0
	is := func(list []graph.TensorID, k int, name string) bool {
		return k < len(list) && tensorName(g, list[k]) == name
	}
	kept := true
	err := e.r.walk(n.Span, "NodeProto", func(f field) error {
		switch f.num {
		case 1:
			kept = kept && is(n.Inputs, inputs, e.r.text(f.payload))
			inputs++
		case 2:
			kept = kept && is(n.Outputs, outputs, e.r.text(f.payload))
			outputs++
		case 3:
			name = e.r.text(f.payload)
		}
		return nil
	})
	return err == nil && kept && name == n.Name && inputs == len(n.Inputs) && outputs == len(n.Outputs)
}

func (e *encoder) attrChanged(a *graph.Attr) bool {
	for _, g := range a.All() {
		if e.graphChanged(g) {
			return true
		}
	}
	return false
}

// replacedData returns the dense initializers of a graph whose elements were not
// read from its source, by name.
func replacedData(g *graph.Graph) map[string]*graph.Data {
	var list map[string]*graph.Data
	for _, t := range g.Tensors {
		if t.Data == nil || t.Capture || t.Maker >= 0 || t.Data.Sparse != nil || !t.Data.Span.IsZero() {
			continue
		}
		if list == nil {
			list = map[string]*graph.Data{}
		}
		list[t.Name] = t.Data
	}
	return list
}

// tensorsByName returns the tensors of a graph, except for captured ones.
func tensorsByName(g *graph.Graph) map[string]*graph.Tensor {
	list := make(map[string]*graph.Tensor, len(g.Tensors))
	for _, t := range g.Tensors {
		if !t.Capture {
			list[t.Name] = t
		}
	}
	return list
}

// reviseGraph emits the fields of a GraphProto. The k-th node replaces the k-th
// node of the source; elements of initializers may be replaced. Fields between
// nodes keep their positions. Initializers that the graph no longer has are left
// out, and so are declarations of tensors that it no longer has; those that name no
// tensor of the source either stay. New initializers, and declared types of tensors
// that the source does not have, follow at the end.
func (e *encoder) reviseGraph(p *pieces, g *graph.Graph) error {
	replaced := replacedData(g)
	exists := tensorsByName(g)
	next := 0
	declared := map[string]bool{}
	var names map[string]bool // of the tensors of the source, once they are asked for
	source := func(name string) (stood bool, err error) {
		if names == nil {
			names, err = e.sourceNames(g.Span)
		}
		return names[name], err
	}
	err := e.r.walk(g.Span, "GraphProto", func(f field) error {
		switch f.num {
		case 1:
		case 5:
			return e.reviseInitializer(p, f, exists, replaced)
		case 11, 12, 13:
			v, err := e.r.valueInfo(f.payload)
			t := exists[v.name]
			switch {
			case err != nil || f.num == 12:
			case f.num == 11 && t == nil, f.num == 13 && replaced[v.name] != nil:
				return nil // a pass has removed the input, or made an initializer of the tensor
			case f.num == 13:
				if stood, err := source(v.name); err != nil || stood != (t != nil) {
					return err // a pass has removed the tensor, or made another one of that name
				}
			}
			declared[v.name] = declared[v.name] || f.num != 11
			p.span(f.span)
			return err
		default:
			p.span(f.span)
			return nil
		}
		if next == len(g.Nodes) {
			return nil
		}
		next++
		return e.reviseNode(p, g, g.Nodes[next-1])
	})
	for ; err == nil && next < len(g.Nodes); next++ {
		err = e.reviseNode(p, g, g.Nodes[next])
	}
	for _, t := range g.Tensors {
		if d := replaced[t.Name]; err == nil && d != nil && t.Data == d { // not in the source
			var q pieces
			err = e.tensor(&q, d, t.Name, g == e.main)
			p.message(5, &q)
			if e.early {
				p.bytes(appendValueInfo(nil, 11, &graph.Tensor{Name: t.Name, Declared: &graph.Declared{Type: d.TensorType()}}))
			}
		}
	}
	for _, t := range g.Tensors {
		if t.Maker >= 0 && t.Declared != nil && t.Declared.Type.Kind == graph.KindTensor && !declared[t.Name] {
			p.bytes(appendValueInfo(nil, 13, t))
		}
	}
	return err
}

// sourceNames returns the names of the tensors that a GraphProto of the source has:
// inputs, initializers and results.
func (e *encoder) sourceNames(at graph.Span) (map[string]bool, error) {
	names := map[string]bool{}
	take := func(message graph.Span, num protowire.Number) error {
		return e.r.walk(message, "message", func(f field) error {
			if f.num == num && f.typ == protowire.BytesType {
				names[e.r.text(f.payload)] = true
			}
			return nil
		})
	}
	return names, e.r.walk(at, "GraphProto", func(f field) error {
		switch f.num {
		case 1:
			return take(f.payload, 2)
		case 5:
			return take(f.payload, 8)
		case 11:
			return take(f.payload, 1)
		case 15: // SparseTensorProto: its values have its name
			return e.r.walk(f.payload, "SparseTensorProto", func(f field) error {
				if f.num == 1 {
					return take(f.payload, 8)
				}
				return nil
			})
		}
		return nil
	})
}

// reviseInitializer emits a TensorProto, copied or with its elements replaced, by
// new ones in raw_data or in another file. Its name, doc string and metadata
// stay. It removes from replaced what it has emitted.
func (e *encoder) reviseInitializer(p *pieces, f field, exists map[string]*graph.Tensor, replaced map[string]*graph.Data) error {
	name := ""
	var kept []graph.Span
	err := e.r.walk(f.payload, "TensorProto", func(f field) error {
		switch f.num {
		case 8:
			name = e.r.text(f.payload)
		case 12, 16: // doc_string, metadata_props
			kept = append(kept, f.span)
		}
		return nil
	})
	if t := exists[name]; err == nil && (t == nil || t.Data == nil) {
		return nil // a pass has removed it
	}
	d := replaced[name]
	if d == nil || err != nil {
		p.span(f.span)
		return err
	}
	delete(replaced, name)
	var q pieces
	if err := e.tensor(&q, d, name, true); err != nil {
		return err
	}
	for _, s := range kept {
		q.span(s)
	}
	p.message(5, &q)
	return nil
}

// reviseNode emits a node as a field of a GraphProto.
func (e *encoder) reviseNode(p *pieces, g *graph.Graph, n *graph.Node) error {
	if n.Span.IsZero() {
		return each(p, 1, []*graph.Node{n}, func(q *pieces, n *graph.Node) error { return e.node(q, g, n) })
	}
	if !e.nodeChanged(g, n) {
		p.bytes(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(n.Span.Len)))
		p.span(n.Span)
		return nil
	}
	var q pieces
	named := e.namesKept(g, n)
	if !named {
		q.bytes(appendNames(nil, g, n))
	}
	err := e.r.walk(n.Span, "NodeProto", func(f field) error {
		switch {
		case f.num >= 1 && f.num <= 3 && !named:
			return nil
		case f.num == 9:
			return e.dropOwn(&q, f)
		case f.num == 5:
			for _, a := range n.Bodies() {
				if a.Span.Off == f.payload.Off {
					return e.child(&q, f, func(q *pieces) error { return e.reviseAttr(q, a) }, e.attrChanged(a))
				}
			}
		}
		q.span(f.span)
		return nil
	})
	if err != nil {
		return err
	}
	appendProps(&q, 9, ownProps(n.Props))
	p.message(1, &q)
	return nil
}

// reviseAttr emits an attribute with its graphs revised.
func (e *encoder) reviseAttr(p *pieces, a *graph.Attr) error {
	return e.r.walk(a.Span, "AttributeProto", func(f field) error {
		for _, g := range a.All() {
			if f.typ == protowire.BytesType && g.Span.Off == f.payload.Off && (f.num == 6 || f.num == 11) {
				return e.child(p, f, func(q *pieces) error { return e.reviseGraph(q, g) }, e.graphChanged(g))
			}
		}
		p.span(f.span)
		return nil
	})
}

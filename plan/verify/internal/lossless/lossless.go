// Package lossless compares a planned ONNX file with the file that it was made of, field by
// field, on the bytes of the two, whatever the fields mean. It knows only which message a
// field holds (model, graph, node, attribute), the names of tensors, and which metadata are
// onnxmem's own. It shares no code with the writer.
//
// Of a model and of a graph, the fields that are no nodes must be the same, in the same
// order. Exceptions, each of a kind that a plan can have:
//
//	our own metadata entries          left out on both sides
//	initializers and declarations     may be missing if their tensor is, may be new if the source
//	                                  has no tensor of that name, and may be others if the plan
//	                                  says so
//	opset imports, functions          may be new: of nodes that the plan has added
//	the version of the format         may be larger, for functions
//
// A node that makes the same tensors with the same operator in both files must be the same,
// but for our metadata entries, and for the order of the nodes in its bodies.
package lossless

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// prefix marks the metadata entries of onnxmem.
const prefix = "onnxmem."

// field is a field of a message: its number, all of its bytes, and those of its payload, nil
// unless it has a length.
type field struct {
	num     protowire.Number
	all     []byte
	payload []byte
}

// key returns a short text that is the same for equal fields, without a copy of weights.
func (f field) key() string {
	const most = 128
	if len(f.all) <= 2*most {
		return string(f.all)
	}
	return fmt.Sprintf("%d %s%s", len(f.all), f.all[:most], f.all[len(f.all)-most:])
}

// fields splits a message. The files have been read before, so an error is a fault of ours.
func fields(message []byte) (list []field) {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return append(list, field{all: message})
		}
		m := protowire.ConsumeFieldValue(num, typ, message[n:])
		if m < 0 {
			return append(list, field{all: message})
		}
		f := field{num: num, all: message[:n+m]}
		if typ == protowire.BytesType {
			f.payload, _ = protowire.ConsumeBytes(message[n:])
		}
		list = append(list, f)
		message = message[n+m:]
	}
	return list
}

// text returns the payload of the first field of a number, or "".
func text(message []byte, num protowire.Number) string {
	for _, f := range fields(message) {
		if f.num == num && f.payload != nil {
			return string(f.payload)
		}
	}
	return ""
}

// isOwn reports whether a metadata entry is one of onnxmem.
func isOwn(entry []byte) bool { return strings.HasPrefix(text(entry, 1), prefix) }

// Other reports whether the plan says that it has other elements for a tensor: of the main graph,
// or of a body.
type Other func(name string, body bool) bool

// Compare returns a difference between a planned file and its source that no plan makes, or
// "" if there is none.
func Compare(source, planned []byte, other Other) string {
	s, p := parse(source, modelMessage), parse(planned, modelMessage)
	if x := sameOrder("the model", s.kept, p.kept, func(f field, gone bool) bool {
		switch f.num {
		case 1: // ir_version
			return true
		case 8, 25: // opset_import, functions
			return !gone
		}
		return false
	}); x != "" {
		return x
	}
	if v, w := number(s.kept, 1), number(p.kept, 1); w < v {
		return fmt.Sprintf("the model: expected an IR version of at least %d, found %d", v, w)
	}
	if len(s.graphs) != 1 || len(p.graphs) != 1 {
		return ""
	}
	return other.compareGraph("the graph", s.graphs[0], p.graphs[0], false)
}

// number returns the value of the last varint field of that number.
func number(list []field, num protowire.Number) (v uint64) {
	for _, f := range list {
		if f.num == num && f.payload == nil {
			_, _, n := protowire.ConsumeTag(f.all)
			v, _ = protowire.ConsumeVarint(f.all[n:])
		}
	}
	return v
}

// kind says what a message is.
type kind int

const (
	modelMessage kind = iota
	graphMessage
	nodeMessage
	attributeMessage
)

// parsed is a message without our own entries.
type parsed struct {
	kept   []field  // all fields but graphs, nodes and our entries
	graphs [][]byte // of a model, or of an attribute
	nodes  [][]byte // of a graph
}

func parse(message []byte, k kind) (p parsed) {
	for _, f := range fields(message) {
		switch {
		case k == modelMessage && f.num == 7, k == attributeMessage && (f.num == 6 || f.num == 11) && f.payload != nil:
			p.graphs = append(p.graphs, f.payload)
		case k == graphMessage && f.num == 1:
			p.nodes = append(p.nodes, f.payload)
		case (k == modelMessage && f.num == 14 || k == nodeMessage && f.num == 9) && isOwn(f.payload):
		default:
			p.kept = append(p.kept, f)
		}
	}
	return p
}

// sameOrder compares lists of fields, of which may reports what may be gone from the first,
// or be new in the second.
func sameOrder(where string, source, planned []field, may func(f field, gone bool) bool) string {
	has := map[string]int{} // the key of a field -> how often it is still to come in planned
	for _, f := range planned {
		has[f.key()]++
	}
	k := 0
	next := func() {
		for k < len(source) && has[source[k].key()] == 0 && may(source[k], true) {
			k++
		}
	}
	for _, f := range planned {
		next()
		has[f.key()]--
		switch {
		case k < len(source) && bytes.Equal(f.all, source[k].all):
			k++
		case may(f, false):
		case k == len(source):
			return fmt.Sprintf("%s: expected the fields of the source, found field %d (%d bytes, %s) behind them", where, f.num, len(f.all), quoted(f))
		default:
			return fmt.Sprintf("%s: expected field %d (%d bytes, %s), as in the source, found field %d (%d bytes, %s)",
				where, source[k].num, len(source[k].all), quoted(source[k]), f.num, len(f.all), quoted(f))
		}
	}
	if next(); k < len(source) {
		return fmt.Sprintf("%s: expected field %d (%d bytes, %s), as in the source, found none", where, source[k].num, len(source[k].all), quoted(source[k]))
	}
	return ""
}

// quoted shows what a message says of a field: the name that it begins with, if it has one.
func quoted(f field) string {
	for _, num := range []protowire.Number{1, 8} {
		if name := text(f.payload, num); name != "" && len(name) <= 100 && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '�' }) {
			return fmt.Sprintf("%q", name)
		}
	}
	return fmt.Sprintf("%.16x", f.all)
}

// nameOf returns the name of the tensor that a field of a graph is about, "" if it is not
// about one.
func nameOf(f field) string {
	switch f.num {
	case 5: // initializer
		return text(f.payload, 8)
	case 11, 13: // input, value_info
		return text(f.payload, 1)
	case 15: // sparse_initializer: the name is that of its values
		for _, x := range fields(f.payload) {
			if x.num == 1 {
				return text(x.payload, 8)
			}
		}
	}
	return ""
}

// names returns the tensors that a graph has, those that it holds as initializers, and those
// that its nodes make.
func names(g parsed) (all, held, made map[string]bool) {
	all, held, made = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, n := range g.nodes {
		for _, f := range fields(n) {
			if f.num == 2 {
				all[string(f.payload)], made[string(f.payload)] = true, true
			}
		}
	}
	for _, f := range g.kept {
		switch name := nameOf(f); f.num {
		case 5, 15:
			all[name], held[name] = true, true
		case 11:
			all[name] = true
		}
	}
	return all, held, made
}

func (other Other) compareGraph(where string, source, planned []byte, body bool) string {
	s, p := parse(source, graphMessage), parse(planned, graphMessage)
	had, _, made := names(s)
	has, holds, _ := names(p)
	x := sameOrder(where, s.kept, p.kept, func(f field, gone bool) bool {
		name := nameOf(f)
		switch {
		case name == "":
			return false
		case !gone && f.num == 13:
			return !had[name] || made[name] // of a new tensor, or of one whose maker the plan replaced
		case !gone:
			return !had[name] || other(name, body) // an initializer of a constant that was computed, with its declaration as an input
		case f.num == 13:
			return had[name] && (!has[name] || holds[name])
		}
		return !has[name] || holds[name] && other(name, body) // rows of it, or other elements, are another initializer
	})
	if x != "" {
		return x
	}
	makers := map[string][]byte{}
	for _, n := range s.nodes {
		for _, f := range fields(n) {
			if f.num == 2 && len(f.payload) > 0 {
				makers[string(f.payload)] = n
			}
		}
	}
	for _, n := range p.nodes {
		own := text(n, 2)
		if from := makers[own]; own != "" && from != nil && sameNode(from, n) {
			if x := other.compareNode(fmt.Sprintf("%s: the node that makes %q", where, own), from, n); x != "" {
				return x
			}
		}
	}
	return ""
}

// sameNode reports whether two nodes have the same operator, inputs and outputs: a plan that
// did not replace the node has changed nothing in it.
func sameNode(a, b []byte) bool {
	list := func(n []byte) (l []string) {
		for _, f := range fields(n) {
			if f.num == 1 || f.num == 2 || f.num == 3 || f.num == 4 || f.num == 7 {
				l = append(l, string(f.all))
			}
		}
		slices.Sort(l)
		return l
	}
	return slices.Equal(list(a), list(b))
}

func (other Other) compareNode(where string, source, planned []byte) string {
	s, p := parse(source, nodeMessage), parse(planned, nodeMessage)
	attribute := func(f field) bool { return f.num == 5 }
	if len(s.kept) != len(p.kept) {
		return fmt.Sprintf("%s: expected %d fields, as in the source, found %d", where, len(s.kept), len(p.kept))
	}
	for i, f := range s.kept {
		g := p.kept[i]
		switch {
		case bytes.Equal(f.all, g.all):
		case attribute(f) && attribute(g) && text(f.payload, 1) == text(g.payload, 1):
			if x := other.compareAttribute(fmt.Sprintf("%s: attribute %q", where, text(f.payload, 1)), f.payload, g.payload); x != "" {
				return x
			}
		default:
			return fmt.Sprintf("%s: expected field %d (%d bytes), as in the source, found field %d (%d bytes)", where, f.num, len(f.all), g.num, len(g.all))
		}
	}
	return ""
}

func (other Other) compareAttribute(where string, source, planned []byte) string {
	s, p := parse(source, attributeMessage), parse(planned, attributeMessage)
	if x := sameOrder(where, s.kept, p.kept, func(field, bool) bool { return false }); x != "" {
		return x
	}
	if len(s.graphs) != len(p.graphs) {
		return fmt.Sprintf("%s: expected %d graphs, as in the source, found %d", where, len(s.graphs), len(p.graphs))
	}
	for i := range s.graphs {
		if x := other.compareGraph(where, s.graphs[i], p.graphs[i], true); x != "" {
			return x
		}
	}
	return ""
}

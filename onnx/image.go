package onnx

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// Image is the bytes of an ONNX file as a list of pieces: spans of the file
// that the model was read from, and new bytes. Nothing is copied until it is
// written.
type Image struct {
	Size   int64 // bytes
	source *graph.Source
	pieces []piece
	// weights are the spans of the source that hold the elements of the main
	// graph's initializers, ascending.
	weights []graph.Span
}

// piece is a span of the source, new bytes, or bytes that a function writes.
type piece struct {
	span graph.Span
	data []byte
	gen  func(w io.Writer) error
	size int64
	// weight marks the elements of an initializer of the main graph that was
	// built, not read.
	weight bool
}

// Encode gives the file of a model: the nodes in the order of Graph.Nodes, with
// the metadata entries under "onnxmem." as they stand in the model. All else
// is as in the file that the model was read from; without any change the image
// is that file, byte for byte. A model that was built in memory is written from
// scratch.
func Encode(m *graph.Model) (*Image, error) {
	e := &encoder{}
	var p pieces
	im := &Image{source: m.Source}
	if m.Source == nil {
		e.model(&p, m)
	} else {
		e.r = &reader{m.Source.Name, m.Source.Bytes}
		for _, t := range m.Graph.Tensors {
			if t.Data != nil && t.Data.Sparse == nil {
				im.weights = append(im.weights, t.Data.Payload...)
			}
		}
		sort.Slice(im.weights, func(i, j int) bool { return im.weights[i].Off < im.weights[j].Off })
		if err := e.reviseModel(&p, m); err != nil {
			return nil, err
		}
	}
	im.pieces, im.Size = p.list, p.size
	return im, nil
}

// WriteTo writes the image.
func (im *Image) WriteTo(w io.Writer) (int64, error) {
	c := &counter{w: w}
	for _, p := range im.pieces {
		if err := im.writePiece(c, p); err != nil {
			return c.n, err
		}
	}
	return c.n, nil
}

func (im *Image) writePiece(w io.Writer, p piece) error {
	var err error
	switch {
	case p.gen != nil:
		err = p.gen(w)
	case p.data != nil:
		_, err = w.Write(p.data)
	default:
		_, err = w.Write(im.source.Bytes[p.span.Off:p.span.End()])
	}
	return err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// Bytes gives the image as one slice.
func (im *Image) Bytes() ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(im.Size))
	_, err := im.WriteTo(&b)
	return b.Bytes(), err
}

// GraphSHA256 is the SHA-256 of the image without the elements of the main
// graph's initializers (the payload of their data fields, tags and lengths
// kept), in hexadecimal. It does not read them.
func (im *Image) GraphSHA256() string {
	h := sha256.New()
	for _, p := range im.pieces {
		switch {
		case p.weight:
		case p.data != nil:
			h.Write(p.data)
		default:
			at := p.span.Off
			first, _ := slices.BinarySearchFunc(im.weights, at, func(s graph.Span, off int64) int {
				if s.End() <= off {
					return -1
				}
				return 1
			})
			for _, s := range im.weights[first:] {
				if s.Off >= p.span.End() {
					break
				}
				h.Write(im.source.Bytes[at:max(s.Off, at)])
				at = s.End()
			}
			if at < p.span.End() {
				h.Write(im.source.Bytes[at:p.span.End()])
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// GraphSHA256 is that of the file which the model was read from.
func GraphSHA256(m *graph.Model) string {
	im := &Image{source: m.Source, pieces: []piece{{span: graph.Span{Len: int64(len(m.Source.Bytes))}}}}
	for _, t := range m.Graph.Tensors {
		if t.Data != nil && t.Data.Sparse == nil {
			im.weights = append(im.weights, t.Data.Payload...)
		}
	}
	sort.Slice(im.weights, func(i, j int) bool { return im.weights[i].Off < im.weights[j].Off })
	return im.GraphSHA256()
}

// pieces collects the pieces of a message, adjacent spans joined.
type pieces struct {
	list []piece
	size int64
}

func (p *pieces) span(s graph.Span) {
	if s.Len == 0 {
		return
	}
	p.size += s.Len
	if k := len(p.list) - 1; k >= 0 && p.list[k].data == nil && p.list[k].gen == nil && p.list[k].span.End() == s.Off {
		p.list[k].span.Len += s.Len
		return
	}
	p.list = append(p.list, piece{span: s})
}

func (p *pieces) bytes(b []byte) {
	if len(b) == 0 {
		return
	}
	p.size += int64(len(b))
	if k := len(p.list) - 1; k >= 0 && p.list[k].data != nil && !p.list[k].weight {
		p.list[k].data = append(p.list[k].data, b...)
		return
	}
	p.list = append(p.list, piece{data: slices.Clip(slices.Clone(b))})
}

// message appends a length-delimited field.
func (p *pieces) message(num protowire.Number, m *pieces) {
	p.bytes(protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.BytesType), uint64(m.size)))
	for _, q := range m.list {
		switch {
		case q.gen != nil || q.weight:
			p.list = append(p.list, q)
			p.size += q.bytes()
		case q.data != nil:
			p.bytes(q.data)
		default:
			p.span(q.span)
		}
	}
}

// encoder writes messages: as they were where nothing changed, else revised.
type encoder struct{ r *reader }

// ours picks the entries of a metadata list that are ours, but for the padding,
// which no model holds.
func ours(props []graph.Prop) []graph.Prop {
	var list []graph.Prop
	for _, p := range props {
		if strings.HasPrefix(p.Key, Prefix) && p.Key != padKey {
			list = append(list, p)
		}
	}
	return list
}

// reviseModel emits the fields of the source's ModelProto, the graph and our
// metadata entries revised. The entries stand at the end, or, when large spans
// of the source follow in the graph, before it, with padding that keeps those
// spans where they were within a block.
func (e *encoder) reviseModel(p *pieces, m *graph.Model) error {
	whole := graph.Span{Len: int64(len(e.r.b))}
	changed := e.graphChanged(m.Graph)
	keep, err := e.propsKept(whole, 14, m.Props)
	if err != nil {
		return err
	}
	keep = keep && !changed
	pending := !keep
	err = e.r.walk(whole, "ModelProto", func(f field) error {
		switch {
		case f.num == 7 && changed:
			var g pieces
			if err := e.reviseGraph(&g, m.Graph); err != nil {
				return err
			}
			if at, large := g.firstLarge(); at >= 0 {
				appendProps(p, 14, ours(m.Props))
				head := protowire.SizeTag(7) + protowire.SizeVarint(uint64(g.size))
				p.bytes(padding(large.Off-(p.size+int64(head)+at), large.Len))
				pending = false
			}
			p.message(7, &g)
			return nil
		case f.num == 14 && !keep:
			return e.dropOurs(p, f)
		}
		p.span(f.span)
		return nil
	})
	if err == nil && pending {
		appendProps(p, 14, ours(m.Props))
	}
	return err
}

// padKey is the metadata entry that holds nothing but room.
const padKey = Prefix + "pad"

// Kernels copy from file to file in chunks of up to 64 KiB, and file systems
// share blocks of 4 KiB. A span that lies in its chunk as it did in the source
// is copied in whole chunks: 1 GiB takes 0.37 s, shifted by 100 bytes 0.53 s, by
// 4 KiB 0.49 s. Small files are not worth 64 KiB of room.
const (
	blockSize  = 4 << 10
	chunkSize  = 64 << 10
	chunkWorth = 32 << 20 // spans from which on a whole chunk of room is spent
)

// firstLarge finds the first span that is worth a copy by the kernel: its place
// among the pieces (-1 if there is none), and the span.
func (p *pieces) firstLarge() (at int64, s graph.Span) {
	for _, q := range p.list {
		if q.data == nil && q.gen == nil && q.span.Len >= kernelCopy {
			return at, q.span
		}
		at += q.bytes()
	}
	return -1, graph.Span{}
}

// bytes is the size of a piece.
func (q piece) bytes() int64 {
	switch {
	case q.gen != nil:
		return q.size
	case q.data != nil:
		return int64(len(q.data))
	}
	return q.span.Len
}

// padding is a metadata entry that moves what follows by shift bytes modulo the
// unit that is worth it for a span of the given length.
func padding(shift, length int64) []byte {
	unit := int64(blockSize)
	if length >= chunkWorth {
		unit = chunkSize
	}
	want := (shift%unit + unit) % unit
	if want == 0 {
		return nil
	}
	entry := func(n int64) []byte {
		return appendProp(nil, 14, graph.Prop{Key: padKey, Value: strings.Repeat(" ", int(n))})
	}
	// The entry itself takes some 20 bytes beside its value; where a length
	// grows by a digit one size cannot be had, and the next round is taken.
	for n := want + unit - 32; n < want+2*unit; n++ {
		if b := entry(n); int64(len(b))%unit == want {
			return b
		}
	}
	return nil
}

// child emits a field that holds a message: as it is, or revised.
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
// source are those that the model now holds.
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
	return slices.Equal(ours(old), ours(props)), err
}

// dropOurs emits a metadata entry unless it is ours.
func (e *encoder) dropOurs(p *pieces, f field) error {
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
	before := int64(-1)
	for _, n := range g.Nodes {
		if n.Span.IsZero() || n.Span.Off <= before || e.nodeChanged(n) {
			return true
		}
		before = n.Span.Off
	}
	return false
}

func (e *encoder) nodeChanged(n *graph.Node) bool {
	if kept, err := e.propsKept(n.Span, 9, n.Props); err != nil || !kept {
		return true
	}
	for _, a := range n.Bodies() {
		if e.attrChanged(a) {
			return true
		}
	}
	return false
}

func (e *encoder) attrChanged(a *graph.Attr) bool {
	for _, g := range append(a.Graphs, a.Graph) {
		if g != nil && e.graphChanged(g) {
			return true
		}
	}
	return false
}

// reviseGraph emits the fields of a GraphProto with the k-th node in the place
// where the k-th node stood. Fields between nodes stay where they are.
func (e *encoder) reviseGraph(p *pieces, g *graph.Graph) error {
	next := 0
	err := e.r.walk(g.Span, "GraphProto", func(f field) error {
		if f.num != 1 {
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
	return err
}

// reviseNode emits a node as a field of a GraphProto.
func (e *encoder) reviseNode(p *pieces, g *graph.Graph, n *graph.Node) error {
	if n.Span.IsZero() {
		var q pieces
		e.node(&q, g, n)
		p.message(1, &q)
		return nil
	}
	if !e.nodeChanged(n) {
		p.bytes(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(n.Span.Len)))
		p.span(n.Span)
		return nil
	}
	var q pieces
	err := e.r.walk(n.Span, "NodeProto", func(f field) error {
		switch {
		case f.num == 9:
			return e.dropOurs(&q, f)
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
	appendProps(&q, 9, ours(n.Props))
	p.message(1, &q)
	return nil
}

// reviseAttr emits an attribute with its graphs revised.
func (e *encoder) reviseAttr(p *pieces, a *graph.Attr) error {
	return e.r.walk(a.Span, "AttributeProto", func(f field) error {
		for _, g := range append(a.Graphs, a.Graph) {
			if g != nil && f.typ == protowire.BytesType && g.Span.Off == f.payload.Off && (f.num == 6 || f.num == 11) {
				return e.child(p, f, func(q *pieces) error { return e.reviseGraph(q, g) }, e.graphChanged(g))
			}
		}
		p.span(f.span)
		return nil
	})
}

// checkSize fails when an image is not what was announced.
func (im *Image) checkSize(n int64) error {
	if n != im.Size {
		return fmt.Errorf("wrote %d bytes, expected %d", n, im.Size)
	}
	return nil
}

package onnx

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sort"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
)

// Image is the content of an ONNX file as a list of pieces: spans of the file
// from which the model was read, and new bytes. Nothing is copied until it is
// written.
type Image struct {
	Size   int64 // bytes
	source *graph.Source
	pieces []piece
	// weights are the spans of the source with the elements of the main graph's
	// initializers, ascending.
	weights []graph.Span
}

// piece is a span of the source, new bytes, or bytes that a function writes.
type piece struct {
	span graph.Span
	data []byte
	gen  func(w io.Writer) error
	size int64
	// weight marks the elements of an initializer of the main graph that was
	// built in memory.
	weight bool
}

// Encode returns the file of a model: the nodes in the order of Graph.Nodes, with
// the model's metadata entries under "onnxmem." and the elements of initializers
// whose Data was not read (its Span is zero). Everything else is as in the file
// from which the model was read; without any change the image equals that file,
// byte for byte. A model, or a graph, that was built in memory is encoded from
// scratch, except for parts that come from a file (nodes, attributes, tensors and
// functions with a Span), which are copied.
func Encode(m *graph.Model) (_ *Image, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	e := &encoder{main: m.Graph, early: m.IRVersion < 4}
	var p pieces
	im := &Image{source: m.Source}
	if m.Source != nil {
		e.r = &reader{name: m.Source.Name, b: m.Source.Bytes}
		im.weights = initializerSpans(m.Graph)
	}
	if m.Source == nil || m.Graph.Span.IsZero() {
		err = e.model(&p, m)
	} else {
		err = e.reviseModel(&p, m)
	}
	if err != nil {
		return nil, err
	}
	im.pieces, im.Size = p.list, p.size
	return im, nil
}

// WriteTo writes the image.
func (im *Image) WriteTo(w io.Writer) (int64, error) {
	c := &counter{w: w}
	err := im.writePieces(c)
	return c.n, mapped.Unchanged(im.source, err)
}

func (im *Image) writePieces(w io.Writer) (err error) {
	defer mapped.Recover(&err, mapped.Watch())
	for _, p := range im.pieces {
		if err := im.writePiece(w, p); err != nil {
			return err
		}
	}
	return nil
}

func (im *Image) writePiece(w io.Writer, p piece) error {
	var err error
	switch {
	case p.gen != nil:
		err = p.gen(w)
	case p.data != nil:
		_, err = w.Write(p.data)
	default:
		b := im.source.Bytes[p.span.Off:p.span.End()]
		if err = mapped.Load(b); err == nil {
			_, err = w.Write(b)
		}
	}
	return err
}

// Parts calls f for each part of the image in turn: with a span of the file from which the
// model was read, or with new bytes.
func (im *Image) Parts(f func(source graph.Span, made []byte) error) error {
	for _, p := range im.pieces {
		made := p.data
		if p.gen != nil {
			var b bytes.Buffer
			if err := p.gen(&b); err != nil {
				return err
			}
			made = b.Bytes()
		}
		if err := f(p.span, made); err != nil {
			return err
		}
	}
	return nil
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

// Bytes returns the image as one slice.
func (im *Image) Bytes() ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(im.Size))
	_, err := im.WriteTo(&b)
	return b.Bytes(), err
}

// GraphSHA256 is the SHA-256 of the image without the elements of the main
// graph's initializers (without the payload of their data fields, but with tags
// and lengths), in hexadecimal. It does not read them. It panics with an error of
// type *graph.Error if the source file was truncated meanwhile.
func (im *Image) GraphSHA256() string {
	defer mapped.Raise(mapped.Watch())
	h := sha256.New()
	for _, p := range im.pieces {
		switch {
		case p.weight:
		case p.data != nil:
			h.Write(p.data)
		case p.gen != nil: // an initializer of a body
			if err := p.gen(h); err != nil {
				panic(graph.Errorf("%w", err))
			}
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

// GraphSHA256 is the digest of the file from which the model was read. It panics
// as [Image.GraphSHA256] does.
func GraphSHA256(m *graph.Model) string {
	whole := piece{span: graph.Span{Len: int64(len(m.Source.Bytes))}}
	im := &Image{source: m.Source, pieces: []piece{whole}, weights: initializerSpans(m.Graph)}
	return im.GraphSHA256()
}

// initializerSpans returns the spans of the elements of a graph's dense
// initializers, ascending.
func initializerSpans(g *graph.Graph) []graph.Span {
	var spans []graph.Span
	for _, t := range g.Tensors {
		if t.Data != nil && t.Data.Sparse == nil {
			spans = append(spans, t.Data.Payload...)
		}
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i].Off < spans[j].Off })
	return spans
}

// pieces collects the pieces of a message and joins adjacent spans.
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

// checkSize fails if an image does not have the announced size.
func (im *Image) checkSize(n int64) error {
	if n != im.Size {
		return fmt.Errorf("wrote %d bytes, expected %d", n, im.Size)
	}
	return nil
}

package onnx

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// field is a field of a protobuf message with its place in the file.
type field struct {
	num     protowire.Number
	typ     protowire.Type
	span    graph.Span // tag, length and payload
	payload graph.Span // a message, text or packed list; for a number, the number itself
	value   uint64     // of a number
}

// reader walks messages of one file.
type reader struct {
	name  string
	b     []byte
	words map[string]string // texts that many nodes have
}

// errorAt returns an error about a byte of the file.
func (r *reader) errorAt(off int64, format string, args ...any) *Error {
	e := graph.Errorf(format, args...)
	e.File, e.Offset = r.name, off
	return e
}

// bytes is the part of the file that s spans.
func (r *reader) bytes(s graph.Span) []byte { return r.b[s.Off:s.End():s.End()] }

// text is the part of the file that s spans, as a string.
func (r *reader) text(s graph.Span) string { return string(r.bytes(s)) }

// mostWords is how many different texts word keeps, and longestWord how long they may be: there
// are some hundred operators.
const (
	mostWords   = 1 << 12
	longestWord = 64
)

// word is text for what many nodes have, such as the name of an operator: these share it.
func (r *reader) word(s graph.Span) string {
	b := r.bytes(s)
	if w, is := r.words[string(b)]; is {
		return w
	}
	w := string(b)
	if len(b) <= longestWord && len(r.words) < mostWords {
		if r.words == nil {
			r.words = map[string]string{}
		}
		r.words[w] = w
	}
	return w
}

// walk calls f for every field of the message at s. what names the message in
// errors.
func (r *reader) walk(s graph.Span, what string, f func(field) error) error {
	for at := s.Off; at < s.End(); {
		fd, err := r.field(at, s.End(), what)
		if err != nil {
			return err
		}
		if err := f(fd); err != nil {
			return err
		}
		at = fd.span.End()
	}
	return nil
}

// field decodes the field at byte at of a message that ends before end.
func (r *reader) field(at, end int64, what string) (field, error) {
	b := r.b[at:end]
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return field{}, r.errorAt(at, "a tag in %s cannot be read: %s (not an ONNX model?)", what, wireError(n))
	}
	fd := field{num: num, typ: typ}
	var m int
	switch typ {
	case protowire.VarintType:
		fd.value, m = protowire.ConsumeVarint(b[n:])
		fd.payload = graph.Span{Off: at + int64(n), Len: int64(m)}
	case protowire.Fixed32Type:
		var v uint32
		v, m = protowire.ConsumeFixed32(b[n:])
		fd.value = uint64(v)
		fd.payload = graph.Span{Off: at + int64(n), Len: 4}
	case protowire.Fixed64Type:
		fd.value, m = protowire.ConsumeFixed64(b[n:])
		fd.payload = graph.Span{Off: at + int64(n), Len: 8}
	case protowire.BytesType:
		length, k := protowire.ConsumeVarint(b[n:])
		if k < 0 {
			m = k
			break
		}
		rest := uint64(len(b) - n - k)
		if length > rest {
			return field{}, r.errorAt(at, "field %d of %s ends %d bytes past the end of %s (truncated?)", num, what, length-rest, endOf(end, int64(len(r.b)), what))
		}
		fd.payload = graph.Span{Off: at + int64(n+k), Len: int64(length)}
		m = k + int(length)
	default:
		m = protowire.ConsumeFieldValue(num, typ, b[n:])
		fd.payload = graph.Span{Off: at + int64(n), Len: int64(max(m, 0))}
	}
	if m < 0 {
		return field{}, r.errorAt(at, "field %d of %s cannot be read: %s", num, what, wireError(m))
	}
	fd.span = graph.Span{Off: at, Len: int64(n + m)}
	return fd, nil
}

func endOf(end, file int64, what string) string {
	if end == file {
		return "the file"
	}
	return what
}

// wireError describes an error code of protowire.
func wireError(n int) string {
	err := protowire.ParseError(n)
	if err == nil {
		return "unknown fault"
	}
	if errors.Is(err, errUnexpectedEOF) {
		return "the data end in the middle of it (truncated?)"
	}
	// The space after "proto:" varies between builds.
	return strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
}

var errUnexpectedEOF = protowire.ParseError(-1)

// want fails unless the field has the expected wire type.
func (r *reader) want(f field, typ protowire.Type, what string) error {
	if f.typ == typ {
		return nil
	}
	return r.errorAt(f.span.Off, "field %d of %s has wire type %d, expected %d", f.num, what, f.typ, typ)
}

// message is want for a field that holds a message or a text.
func (r *reader) message(f field, what string) error {
	return r.want(f, protowire.BytesType, what)
}

// varints appends the numbers of a repeated integer field, packed or not.
func (r *reader) varints(f field, list []int64, what string) ([]int64, error) {
	if f.typ == protowire.VarintType {
		return append(list, int64(f.value)), nil
	}
	if err := r.message(f, what); err != nil {
		return nil, err
	}
	b := r.bytes(f.payload)
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return nil, r.errorAt(f.payload.End()-int64(len(b)), "a number in field %d of %s cannot be read: %s", f.num, what, wireError(n))
		}
		list = append(list, int64(v))
		b = b[n:]
	}
	return list, nil
}

// fixed32s appends the numbers of a repeated 32-bit field, packed or not.
func (r *reader) fixed32s(f field, list []uint32, what string) ([]uint32, error) {
	if f.typ == protowire.Fixed32Type {
		return append(list, uint32(f.value)), nil
	}
	if err := r.message(f, what); err != nil {
		return nil, err
	}
	b := r.bytes(f.payload)
	if len(b)%4 != 0 {
		return nil, r.errorAt(f.span.Off, "field %d of %s has %d bytes, expected a multiple of 4", f.num, what, len(b))
	}
	for ; len(b) > 0; b = b[4:] {
		v, _ := protowire.ConsumeFixed32(b)
		list = append(list, v)
	}
	return list, nil
}

// prop decodes a StringStringEntryProto.
func (r *reader) prop(s graph.Span, what string) (graph.Prop, error) {
	var p graph.Prop
	err := r.walk(s, what, func(f field) error {
		switch f.num {
		case 1, 2:
			if err := r.message(f, what); err != nil {
				return err
			}
			if f.num == 1 {
				p.Key = r.word(f.payload)
			} else {
				p.Value = r.text(f.payload)
			}
		}
		return nil
	})
	return p, err
}

// quoted shortens and quotes a name for a message.
func quoted(s string) string { return fmt.Sprintf("%q", graph.Short(s)) }

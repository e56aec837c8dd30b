package onnx

import (
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
)

// leastLeft is the size from which on the elements of an initializer are left in the file.
// Values that shapes depend on are smaller.
const leastLeft = 64 << 10

// ReadAt decodes a model of that size that r reads, such as a file in a browser, which cannot
// be mapped. It reads neither the elements of large initializers nor external data, which it
// does not look for: all of it is Missing. Elements are read later if a constant is computed
// from them; a failure to read them is that of the function that needs them. The caller closes
// the File.
func ReadAt(name string, r io.ReaderAt, size int64) (*File, error) {
	if size == 0 {
		e := graph.Errorf("is empty, expected an ONNX model")
		e.File = name
		return nil, e
	}
	p := mapped.NewPartial(r, size)
	if err := (&skimmer{p}).model(); err != nil {
		p.Close()
		e := graph.Errorf("cannot be read: %w", err)
		e.File = name
		return nil, e
	}
	f, err := parse(&graph.Source{Name: name, Bytes: p.Bytes}, name, nil, ReadOptions{AllowMissingWeights: true})
	if err != nil {
		p.Close()
		return nil, err
	}
	f.partial = p
	return f, nil
}

// skimmer loads a file but for the elements of large initializers of its main graph.
type skimmer struct{ p *mapped.Partial }

// fieldsOf are the fields in which to look for initializers, from the model down.
var fieldsOf = []protowire.Number{7, 5} // ModelProto.graph, GraphProto.initializer

// elements are the fields of TensorProto that are left in the file: float_data, raw_data and
// double_data. The numbers in others are counted when the file is decoded.
var elementsOf = []protowire.Number{4, 9, 10}

func (s *skimmer) model() error { return s.message(0, int64(len(s.p.Bytes)), fieldsOf) }

// message loads a message. inner are the fields that lead to initializers; empty: it is one.
// Of what is not well formed, all is loaded: decoding says what is wrong.
func (s *skimmer) message(at, end int64, inner []protowire.Number) error {
	const head = 20 // the most bytes of a tag and a length
	for at < end {
		if err := s.p.Load(at, min(at+head, end)); err != nil {
			return err
		}
		b := s.p.Bytes[at:min(at+head, end)]
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return s.p.Load(at, end)
		}
		if typ != protowire.BytesType {
			k := protowire.ConsumeFieldValue(num, typ, b[n:])
			if k < 0 { // a group, perhaps
				return s.p.Load(at, end)
			}
			at += int64(n + k)
			continue
		}
		length, k := protowire.ConsumeVarint(b[n:])
		from := at + int64(n+k)
		if k < 0 || length > uint64(end-from) {
			return s.p.Load(at, end)
		}
		to := from + int64(length)
		var err error
		switch {
		case len(inner) > 0 && num == inner[0]:
			err = s.message(from, to, inner[1:])
		case len(inner) == 0 && length >= leastLeft && slices.Contains(elementsOf, num):
		default:
			err = s.p.Load(from, to)
		}
		if err != nil {
			return err
		}
		at = to
	}
	return nil
}

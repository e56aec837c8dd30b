package onnx

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// maxTypeDepth limits nested types; no real model has more than three levels.
const maxTypeDepth = 32

// valueInfo is a ValueInfoProto.
type valueInfo struct {
	name     string
	declared *graph.Declared // nil if it has no type
	at       int64
	origin   origin
}

func (r *reader) valueInfo(s graph.Span) (valueInfo, error) {
	v := valueInfo{at: s.Off}
	const what = "ValueInfoProto"
	err := r.walk(s, what, func(f field) error {
		switch f.num {
		case 1:
			if err := r.message(f, what); err != nil {
				return err
			}
			v.name = r.text(f.payload)
			return r.utf8(f, v.name)
		case 2:
			if err := r.message(f, what); err != nil {
				return err
			}
			var err error
			v.declared, err = r.typeProto(f.payload, 0)
			return err
		case 4:
			r.origin(f, &v.origin)
		}
		return nil
	})
	if err == nil && v.declared != nil {
		for _, d := range v.declared.Type.Shape {
			if d < graph.Unknown {
				e := r.errorAt(s.Off, "dimension %d in %s: expected a length >= 0, or none where it is not known", int64(d), graph.ShapeString(v.declared.Type.Shape))
				e.Tensor = v.name
				return v, e
			}
		}
	}
	return v, err
}

// utf8 refuses a name that is not UTF-8, since a plan could not hold it.
func (r *reader) utf8(f field, s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return r.errorAt(f.payload.Off, "the name %s is not UTF-8", quoted(s))
}

// typeProto decodes a TypeProto; nil if it is empty.
func (r *reader) typeProto(s graph.Span, depth int) (*graph.Declared, error) {
	const what = "TypeProto"
	if depth > maxTypeDepth {
		return nil, r.errorAt(s.Off, "a type is nested more than %d levels deep", maxTypeDepth)
	}
	var d *graph.Declared
	err := r.walk(s, what, func(f field) error {
		var kind graph.Kind
		switch f.num {
		case 1:
			kind = graph.KindTensor
		case 4:
			kind = graph.KindSequence
		case 5:
			kind = graph.KindMap
		case 7:
			kind = graph.KindOpaque
		case 8:
			kind = graph.KindSparse
		case 9:
			kind = graph.KindOptional
		default:
			return nil
		}
		if err := r.message(f, what); err != nil {
			return err
		}
		d = &graph.Declared{Type: graph.Type{Kind: kind}}
		switch kind {
		case graph.KindTensor, graph.KindSparse:
			return r.tensorType(f.payload, d)
		case graph.KindMap:
			return r.mapType(f.payload, d, depth)
		case graph.KindSequence, graph.KindOptional:
			return r.walk(f.payload, what, func(f field) error {
				if f.num != 1 {
					return nil
				}
				return r.nestedType(f, d, depth)
			})
		}
		return nil
	})
	return d, err
}

// mapType decodes a TypeProto.Map.
func (r *reader) mapType(s graph.Span, d *graph.Declared, depth int) error {
	const what = "TypeProto.Map"
	return r.walk(s, what, func(f field) error {
		switch f.num {
		case 1:
			if err := r.want(f, protowire.VarintType, what); err != nil {
				return err
			}
			d.Type.Key = graph.DType(int32(f.value))
			if f.value != 0 && !d.Type.Key.Valid() {
				return r.errorAt(f.span.Off, "key type %d: expected one that ONNX defines", int32(f.value))
			}
		case 2:
			return r.nestedType(f, d, depth)
		}
		return nil
	})
}

// nestedType decodes the type of what d holds.
func (r *reader) nestedType(f field, d *graph.Declared, depth int) error {
	if err := r.message(f, "TypeProto"); err != nil {
		return err
	}
	of, err := r.typeProto(f.payload, depth+1)
	if of != nil {
		d.Type.Of = &of.Type
	}
	return err
}

// tensorType decodes a TypeProto.Tensor or TypeProto.SparseTensor.
func (r *reader) tensorType(s graph.Span, d *graph.Declared) error {
	const what = "TypeProto.Tensor"
	return r.walk(s, what, func(f field) error {
		switch f.num {
		case 1:
			if err := r.want(f, protowire.VarintType, what); err != nil {
				return err
			}
			d.Type.Elem = graph.DType(int32(f.value))
			if f.value != 0 && !d.Type.Elem.Valid() {
				return r.errorAt(f.span.Off, "element type %d: expected one that ONNX defines", int32(f.value))
			}
		case 2:
			if err := r.message(f, what); err != nil {
				return err
			}
			d.Type.Ranked = true
			d.Type.Shape, d.Symbols = []graph.Dim{}, []string{}
			return r.walk(f.payload, "TensorShapeProto", func(f field) error {
				if f.num != 1 {
					return nil
				}
				if err := r.message(f, "TensorShapeProto"); err != nil {
					return err
				}
				return r.dimension(f.payload, d)
			})
		}
		return nil
	})
}

// dimension decodes a TensorShapeProto.Dimension.
func (r *reader) dimension(s graph.Span, d *graph.Declared) error {
	const what = "TensorShapeProto.Dimension"
	n, symbol := graph.Unknown, ""
	err := r.walk(s, what, func(f field) error {
		switch f.num {
		case 1:
			if err := r.want(f, protowire.VarintType, what); err != nil {
				return err
			}
			n, symbol = graph.Dim(int64(f.value)), ""
		case 2:
			if err := r.message(f, what); err != nil {
				return err
			}
			n, symbol = graph.Unknown, r.text(f.payload)
			return r.utf8(f, symbol)
		}
		return nil
	})
	d.Type.Shape, d.Symbols = append(d.Type.Shape, n), append(d.Symbols, symbol)
	return err
}

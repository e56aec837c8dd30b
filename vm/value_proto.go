package vm

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
)

// ParseValue decodes a TensorProto, a SequenceProto or an OptionalProto, depending on the
// type of the value. Errors call it name.
func ParseValue(name string, b []byte, t graph.Type) (Value, error) {
	switch t.Kind {
	case graph.KindSequence:
		v := Value{Kind: graph.KindSequence}
		if t.Of != nil {
			v.Type = t.Of.Elem
		}
		const tensors = 3
		err := fields(name, b, func(num protowire.Number, b []byte) error {
			if num != tensors {
				return fmt.Errorf("%s: field %d of SequenceProto: expected tensor_values (%d)", name, num, tensors)
			}
			item, err := ParseTensor(fmt.Sprintf("%s: item %d", name, len(v.Items)), b)
			v.Items = append(v.Items, item)
			return err
		})
		return v, err
	case graph.KindOptional:
		v := Value{Kind: graph.KindOptional}
		of := graph.Type{Kind: graph.KindTensor}
		const tensor, sequence = 3, 5
		err := fields(name, b, func(num protowire.Number, b []byte) error {
			if t.Of != nil {
				of = *t.Of
			}
			switch {
			case len(v.Items) > 0 || num != tensor && num != sequence:
				return fmt.Errorf("%s: field %d of OptionalProto: expected one tensor_value (%d) or sequence_value (%d)", name, num, tensor, sequence)
			case num == sequence && of.Kind != graph.KindSequence:
				of = graph.Type{Kind: graph.KindSequence}
			case num == tensor:
				of = graph.Type{Kind: graph.KindTensor}
			}
			item, err := ParseValue(name, b, of)
			v.Items = append(v.Items, item)
			return err
		})
		return v, err
	case graph.KindMap, graph.KindOpaque, graph.KindSparse:
		return Value{}, fmt.Errorf("%s: no reader for a %v", name, t.Kind)
	}
	return ParseTensor(name, b)
}

// fields calls do for each field of a message that is a message, except its name.
func fields(name string, b []byte, do func(num protowire.Number, b []byte) error) error {
	for at := 0; at < len(b); {
		num, kind, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return fmt.Errorf("%s: byte %d: %w", name, at, protowire.ParseError(n))
		}
		at += n
		size := protowire.ConsumeFieldValue(num, kind, b[at:])
		if size < 0 {
			return fmt.Errorf("%s: byte %d: %w", name, at, protowire.ParseError(size))
		}
		if kind == protowire.BytesType && num != 1 {
			inner, _ := protowire.ConsumeBytes(b[at:])
			if err := do(num, inner); err != nil {
				return err
			}
		}
		at += size
	}
	return nil
}

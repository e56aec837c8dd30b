// Package safetensors reads and writes files of named tensors in the format of that name
// (https://github.com/huggingface/safetensors): the length of a header in eight bytes, the
// header as JSON, and the elements, little-endian, in the order of their offsets.
package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/strictjson"
)

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	Type  graph.DType
	Shape []int64
	Raw   []byte // of a tensor that was read: part of the file's bytes
}

// types are the element types that are read and written, by their names in a header.
var types = map[string]graph.DType{
	"F64": graph.Float64, "F32": graph.Float32, "F16": graph.Float16, "BF16": graph.BFloat16,
	"I64": graph.Int64, "I32": graph.Int32, "I16": graph.Int16, "I8": graph.Int8, "U8": graph.Uint8, "BOOL": graph.Bool,
}

// mostHeader is the largest header that the format permits.
const mostHeader = 100 << 20

// metadataKey is the entry of a header that is no tensor: texts.
const metadataKey = "__metadata__"

// entry is what a header says of a tensor.
type entry struct {
	Type    string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// Read reads the tensors of a file, by name in ascending order. Their elements stay where they
// are. What a header claims is compared with the file before it is used.
func Read(b []byte) ([]Tensor, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("has %d bytes: expected a safetensors file, which begins with the length of its header in 8", len(b))
	}
	size, rest := binary.LittleEndian.Uint64(b), b[8:]
	if size > mostHeader || size > uint64(len(rest)) {
		return nil, fmt.Errorf("claims a header of %d bytes, and has %d bytes behind its length: expected a whole safetensors file", size, len(rest))
	}
	entries := map[string]json.RawMessage{}
	if err := strictjson.Unmarshal(rest[:size], &entries); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	data := rest[size:]
	var list []Tensor
	var from []int64
	for name, text := range entries {
		if name == metadataKey {
			continue
		}
		var e entry
		if err := strictjson.Unmarshal(text, &e); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", graph.Short(name), err)
		}
		typ, known := types[e.Type]
		if !known {
			return nil, fmt.Errorf("tensor %q: element type %q: expected one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL", graph.Short(name), graph.Short(e.Type))
		}
		bytes, err := sizeOf(typ, e.Shape)
		first, last := e.Offsets[0], e.Offsets[1]
		if err != nil || first < 0 || last < first || last > int64(len(data)) || last-first != bytes {
			return nil, fmt.Errorf("tensor %q: %v%v at bytes %d to %d: expected as many bytes as it has elements, within the %d of the file", graph.Short(name), e.Type, e.Shape, first, last, len(data))
		}
		list = append(list, Tensor{name, typ, e.Shape, data[first:last:last]})
		from = append(from, first)
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		if from[i] != from[j] {
			return int(min(max(from[i]-from[j], -1), 1))
		}
		return len(list[i].Raw) - len(list[j].Raw)
	})
	end := int64(0)
	for _, i := range order {
		if from[i] != end {
			return nil, fmt.Errorf("tensor %q begins at byte %d: expected %d, where the one before it ends", graph.Short(list[i].Name), from[i], end)
		}
		end += int64(len(list[i].Raw))
	}
	slices.SortFunc(list, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// sizeOf is the number of bytes of a tensor. It fails for lengths below 0 and more bytes than
// an int64 holds.
func sizeOf(t graph.DType, shape []int64) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt64/8/d {
			return 0, fmt.Errorf("shape %v", shape)
		}
		n *= d
	}
	return t.SizeBytes(n)
}

// Write writes a file with the tensors in their order.
func Write(w io.Writer, list []Tensor) error {
	var header strings.Builder
	header.WriteString(`{"` + metadataKey + `":{"format":"pt"}`)
	off := int64(0)
	for _, t := range list {
		name := ""
		for n, typ := range types {
			if typ == t.Type {
				name = n
			}
		}
		if size, err := sizeOf(t.Type, t.Shape); name == "" || err != nil || size != int64(len(t.Raw)) {
			return fmt.Errorf("tensor %q: %v%v with %d bytes cannot be written", graph.Short(t.Name), t.Type, t.Shape, len(t.Raw))
		}
		shape := t.Shape
		if shape == nil {
			shape = []int64{}
		}
		text, err := json.Marshal(entry{name, shape, [2]int64{off, off + int64(len(t.Raw))}})
		if err != nil {
			return err
		}
		key, err := json.Marshal(t.Name)
		if err != nil {
			return err
		}
		header.WriteString("," + string(key) + ":" + string(text))
		off += int64(len(t.Raw))
	}
	header.WriteByte('}')
	for header.Len()%8 != 0 { // elements are aligned
		header.WriteByte(' ')
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))); err != nil {
		return err
	}
	if _, err := io.WriteString(w, header.String()); err != nil {
		return err
	}
	for _, t := range list {
		if _, err := w.Write(t.Raw); err != nil {
			return err
		}
	}
	return nil
}

package vm_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// sparseModel is y = Identity(w), where w is a sparse 2x3 tensor with the values 1.5 and
// 2.5 at indices 1 and 5. The indices have an element type of TensorProto, and width bytes.
func sparseModel(indexType uint64, width int) []byte {
	field := func(num protowire.Number, parts ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), slices.Concat(parts...))
	}
	number := func(num protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
	}
	var values, indices []byte
	for i, v := range []float32{1.5, 2.5} {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(v))
		indices = append(indices, binary.LittleEndian.AppendUint64(nil, uint64(1+4*i))[:width]...)
	}
	sparse := field(15,
		field(1, number(1, 2), number(2, 1), field(8, []byte("w")), field(9, values)),
		field(2, number(1, 2), number(2, indexType), field(9, indices)),
		number(3, 2), number(3, 3))
	node := field(1, field(1, []byte("w")), field(2, []byte("y")), field(4, []byte("Identity")))
	shape := field(2, field(1, number(1, 2)), field(1, number(1, 3)))
	output := field(12, field(1, []byte("y")), field(2, field(1, number(1, 1), shape)))
	return slices.Concat(number(1, 8), field(7, node, field(2, []byte("g")), sparse, output), field(8, number(2, 13)))
}

// TestSparseConstants: sparse tensors are dense when they run. ONNX has indices of int64;
// ONNX Runtime writes the narrowest type that holds them.
func TestSparseConstants(t *testing.T) {
	for _, c := range []struct {
		name  string
		dtype uint64
		width int
		want  string // an error
	}{
		{"int64", 7, 8, ""},
		{"int32", 6, 4, ""},
		{"int16", 5, 2, ""},
		{"int8", 3, 1, ""},
		{"uint8", 2, 1, "expected int64 indices, found uint8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := onnx.Parse("m.onnx", sparseModel(c.dtype, c.width))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v, want %s", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := passes.Optimize(context.Background(), m, passes.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := vm.New(r.Model, r.Plan)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			s, err := p.NewSession(vm.Options{Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out, err := s.Run(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := out["y"].Reals(); fmt.Sprint(got) != "[0 1.5 0 0 0 2.5]" {
				t.Errorf("got %v", got)
			}
		})
	}
}

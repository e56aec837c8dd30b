package safetensors

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// file makes a file of a header and elements.
func file(header string, elements int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, elements)...)
}

func TestRoundTrip(t *testing.T) {
	list := []Tensor{
		{"a", graph.Float32, []int64{2, 1}, []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{"b\"é", graph.BFloat16, []int64{0, 3}, []byte{}},
		{"c", graph.Float16, []int64{}, []byte{9, 10}},
	}
	var b bytes.Buffer
	if err := Write(&b, list); err != nil {
		t.Fatal(err)
	}
	got, err := Read(b.Bytes())
	if err != nil || !reflect.DeepEqual(got, list) {
		t.Errorf("read %v, %v: expected %v", got, err, list)
	}
	if at := 8 + binary.LittleEndian.Uint64(b.Bytes()); at%8 != 0 {
		t.Errorf("elements begin at byte %d, expected a multiple of 8", at)
	}
}

// TestHostile: a file that lies about itself is one error.
func TestHostile(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, "has 0 bytes: expected a safetensors file"},
		{file("{}", 0)[:9], "claims a header of 2 bytes, and has 1"},
		{binary.LittleEndian.AppendUint64(nil, 1<<63), "claims a header of 9223372036854775808 bytes"},
		{file(`{"a":1}`, 0), `tensor "a"`},
		{file(`{"a":`, 0), "header"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), "header"},
		{file(`{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}}`, 4), `element type "Q4"`},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "at bytes 0 to 4"},
		{file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 4), "at bytes 4 to 8"},
		{file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}`, 4), "at bytes 4 to 0"},
		{file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 4), "at bytes 0 to 0"},
		{file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 4), "begins at byte 1: expected 2"},
	} {
		if _, err := Read(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: found %v, expected %q", c.b, err, c.want)
		}
	}
}

// FuzzRead: no bytes make Read panic, and what it reads can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Add(file(`{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[],"data_offsets":[8,9]}}`, 9))
	f.Add(file(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := Read(b)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, list); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(again.Bytes()); err != nil || len(got) != len(list) {
			t.Fatalf("read %d tensors, then %d, %v", len(list), len(got), err)
		}
	})
}

package onnx_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/onnx"
)

// TestLongLists: names that are there twice are found in lists whose length the file determines,
// and nothing else is. A lookup that scans such a list would take this test many minutes.
func TestLongLists(t *testing.T) {
	const n = 200_000
	message := func(b []byte, num protowire.Number, m []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m)
	}
	many := func(num protowire.Number, make func(name []byte) []byte) []byte {
		var b []byte
		for i := range n {
			b = message(b, num, make(fmt.Appendf(nil, "n%d", i)))
		}
		return b
	}
	named := func(name []byte) []byte { return message(nil, 1, name) }
	empty := message(nil, 7, nil)
	for _, c := range []struct {
		doc     string
		model   []byte
		refused bool
	}{
		{"opset imports", append(many(8, named), empty...), true},
		{"functions", append(many(25, named), empty...), false},
		{"attributes", message(nil, 7, message(nil, 1, append(message(nil, 4, []byte("Relu")), many(5, named)...))), false},
	} {
		if _, err := onnx.Parse("m.onnx", c.model); (err != nil) != c.refused {
			t.Errorf("%s: got error %v, want one: %t", c.doc, err, c.refused)
		}
	}
}

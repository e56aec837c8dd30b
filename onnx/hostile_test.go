package onnx_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/onnx"
)

// TestLongListsAreReadFast: lookups by name do not scan lists whose length the file
// determines.
func TestLongListsAreReadFast(t *testing.T) {
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
		began := time.Now()
		if _, err := onnx.Parse("m.onnx", c.model); (err != nil) != c.refused {
			t.Errorf("%s: got error %v, want one: %t", c.doc, err, c.refused)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("%d %s took %v", n, c.doc, d)
		}
	}
}

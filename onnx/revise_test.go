package onnx_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
)

// TestEncodeLeavesOutRemovedNodes: the last node can be removed, too, while the others
// keep their places.
func TestEncodeLeavesOutRemovedNodes(t *testing.T) {
	f, err := onnx.Open("../testdata/light/light_squeezenet.onnx", onnx.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := len(f.Graph.Nodes)
	f.Graph.Nodes = f.Graph.Nodes[:n-1]
	im, err := onnx.Encode(f.Model)
	if err != nil {
		t.Fatal(err)
	}
	if im.Size >= int64(len(f.Source.Bytes)) {
		t.Errorf("%d bytes without the last of %d nodes, %d with it", im.Size, n, len(f.Source.Bytes))
	}
}

// TestEncodeReplacesInitializers: new elements replace those of the file; the name, the
// doc string and all other fields stay.
func TestEncodeReplacesInitializers(t *testing.T) {
	field := func(num protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), b)
	}
	number := func(num protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
	}
	float32s := func(list ...float32) []byte {
		var b []byte
		for _, x := range list {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		return b
	}
	// w is [1, 2] with a doc string, v is [3].
	w := slices.Concat(number(1, 2), number(2, 1), field(9, float32s(1, 2)), field(8, []byte("w")), field(12, []byte("the weight")))
	v := slices.Concat(number(1, 1), number(2, 1), field(8, []byte("v")), field(9, float32s(3)))
	g := slices.Concat(field(5, w), field(5, v))
	file := slices.Concat(number(1, 8), field(7, g))
	m, err := onnx.Parse("w.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	set := func(d *graph.Data) *onnx.Image {
		t.Helper()
		m.Graph.Tensors[0].Data = d
		im, err := onnx.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		return im
	}
	im := set(&graph.Data{Name: "w", Type: graph.Float32, Dims: []int64{2}, Bytes: 8, Raw: float32s(5, 6)})
	b, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != len(file) || !bytes.Contains(b, []byte("the weight")) || !bytes.Contains(b, field(5, v)) {
		t.Errorf("got %q, want the fields of %q", b, file)
	}
	got, err := onnx.Parse("new.onnx", b)
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Graph.Tensors[0].Data; !bytes.Equal(d.Raw, float32s(5, 6)) {
		t.Errorf("w is %v", d.Raw)
	}
	if d := got.Graph.Tensors[1].Data; !bytes.Equal(d.Raw, float32s(3)) {
		t.Errorf("v is %v", d.Raw)
	}
	if im.GraphSHA256() != onnx.GraphSHA256(got) {
		t.Error("the image and the written file have different hashes")
	}
	b, err = set(&graph.Data{Name: "w", Type: graph.Float32, Dims: []int64{2}, Bytes: 8, External: &graph.External{Location: "w.bin", Offset: 64, Length: 8}}).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte("w.bin")) || bytes.Contains(b, float32s(1, 2)) {
		t.Errorf("expected the elements in w.bin, got %q", b)
	}
}

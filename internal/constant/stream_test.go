package constant_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
)

// parts is a writer that notes the largest part.
type parts struct {
	bytes.Buffer
	largest int
}

func (p *parts) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.Buffer.Write(b)
}

// A Transpose is written in parts, and all of them are what Eval makes at once.
func TestStream(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range 60 {
		rank := 1 + r.IntN(4)
		shape, perm := make([]int64, rank), make([]int64, rank)
		for i, at := range r.Perm(rank) {
			shape[i], perm[i] = int64(1+r.IntN(9)), int64(at)
		}
		if k == 0 { // several parts
			shape, perm = []int64{700, 3000}, []int64{1, 0}
		}
		typ := []graph.DType{graph.Float32, graph.Float16, graph.Int8, graph.Float64}[k%4]
		x := &constant.Tensor{Type: typ, Shape: shape}
		out := func() *constant.Tensor {
			y := &constant.Tensor{Type: typ}
			for _, p := range perm {
				y.Shape = append(y.Shape, shape[p])
			}
			return y
		}
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		x.Raw = make([]byte, n*int64(typ.Bits())/8)
		for i := range x.Raw {
			x.Raw[i] = byte(r.Uint32())
		}
		node := &graph.Node{Op: "Transpose", Attrs: []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: perm}}}
		want := out()
		if err := constant.Eval(node, 17, []*constant.Tensor{x}, []*constant.Tensor{want}); err != nil {
			t.Fatal(err)
		}
		var got parts
		streamed, err := constant.Stream(node, []*constant.Tensor{x}, out(), &got)
		if err != nil || !streamed || !bytes.Equal(got.Bytes(), want.Raw) {
			t.Fatalf("%v by %v: %t, %v, equal %t", shape, perm, streamed, err, bytes.Equal(got.Bytes(), want.Raw))
		}
		if got.largest > 4<<20 {
			t.Errorf("%v by %v: a part of %d bytes, expected at most 4 MiB", shape, perm, got.largest)
		}
	}
	if streamed, err := constant.Stream(&graph.Node{Op: "Relu"}, nil, &constant.Tensor{Shape: []int64{2}}, &parts{}); streamed || err != nil {
		t.Errorf("Relu: %t, %v: expected that nothing is written", streamed, err)
	}
}

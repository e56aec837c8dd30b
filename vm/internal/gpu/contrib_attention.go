package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// contribAttentions lists the attention operators of ONNX Runtime.
var contribAttentions = []Row{
	{Name: "Attention", Make: makePackedAttention},
	{Name: "RotaryEmbedding", Make: makeContribRotary},
	{Name: "GroupQueryAttention", Make: makeGroupQueryAttention},
	{Name: "MultiHeadAttention", Make: makeMultiHeadAttention},
}

// makePackedAttention computes queries, keys and values by one product, in scratch.
func makePackedAttention(n *Node) error {
	x, weight, bias := n.In[0], n.In[1], n.Input(2)
	if err := narrowReals(x, weight, bias, n.Input(4), n.Input(5), n.Out[0], n.output(1)); err != nil {
		return err
	}
	f, qkv, err := n.PackedAttention()
	if err != nil {
		return refused(err)
	}
	room := n.scratch(int64(qkv.Bytes()))
	p := newMatrices(x.Shape, weight.Shape, false, false, false, false)
	r := &result{y: qkv, room: &room, bias: bias, rows: p.m, columns: p.n, finish: noFinish()}
	r.finish.BiasColumn = 1
	if err := p.launch(n, x, weight, r); err != nil {
		return err
	}
	return n.attendHeads(f, driver.Ptr(0), func(v *form.Projected) (any, error) {
		off := int64(v.First * qkv.Bytes() / max(1, qkv.Len()))
		return cuda.Room{Base: room.Base, Off: room.Off + off, Bytes: room.Bytes - off}, nil
	})
}

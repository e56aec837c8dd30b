package attr

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestNchwcBlock: the weights show how long the blocks of channels are, or the padding
// that a ReorderOutput removes.
func TestNchwcBlock(t *testing.T) {
	for _, c := range []struct {
		doc              string
		m, ch, channels  int64
		outside, varying bool
		want             int64
	}{
		{doc: "either", m: 64, ch: 32, channels: 64, want: 0},
		{doc: "half a block of 16", m: 24, ch: 32, channels: 24, want: 8},
		{doc: "half a block of 16 that is read", m: 64, ch: 24, channels: 64, want: 8},
		{doc: "an image of 8 channels, in blocks or not", m: 64, ch: 8, channels: 64, want: 0},
		{doc: "an image of less than a block", m: 64, ch: 14, channels: 64, want: 16},
		{doc: "padded by 8", m: 80, ch: 32, channels: 72, want: 16},
		{doc: "padded by less", m: 80, ch: 32, channels: 76, want: 0},
		{doc: "another domain", m: 24, ch: 32, channels: 24, outside: true, want: 0},
		{doc: "weights that are computed", m: 24, ch: 32, channels: 24, varying: true, want: 0},
	} {
		g := &graph.Graph{}
		x, w, y, z := g.NewTensor("x"), g.NewTensor("w"), g.NewTensor("y"), g.NewTensor("z")
		if !c.varying {
			g.Tensors[w].Data = &graph.Data{Dims: []int64{c.m, c.ch, 1, 1}}
		}
		domain := Nchwc
		if c.outside {
			domain = "com.acme"
		}
		g.Nodes = []*graph.Node{
			{Domain: domain, Op: "Conv", Inputs: []graph.TensorID{x, w}, Outputs: []graph.TensorID{y}},
			{Domain: Nchwc, Op: "ReorderOutput", Attrs: []*graph.Attr{{Name: "channels", Type: graph.AttrInt, Int: c.channels}}, Inputs: []graph.TensorID{y}, Outputs: []graph.TensorID{z}},
		}
		if got := NchwcBlock(g); got != c.want {
			t.Errorf("%s: got %d, want %d", c.doc, got, c.want)
		}
	}
	if got := NchwcBlock(nil); got != 0 {
		t.Errorf("no graph: got %d", got)
	}
}

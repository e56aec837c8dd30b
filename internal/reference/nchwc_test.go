package reference

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func image(shape []int, v ...float64) *Tensor { return Reals(shape, v...) }

// inBlocks are operators on images in blocks of two channels, with results computed by
// hand. The channels of the image 1 3 2 4 are (1, 2) and (3, 4).
var inBlocks = []handCase{
	{"com.microsoft.nchwc", "ReorderInput", nil, []*Tensor{image([]int{1, 3, 1, 2}, 1, 2, 3, 4, 5, 6)}, image([]int{1, 4, 1, 2}, 1, 3, 2, 4, 5, 0, 6, 0)},
	{"com.microsoft.nchwc", "ReorderInput", []*graph.Attr{{Name: "channels_last", Int: 1}}, []*Tensor{image([]int{1, 1, 2, 3}, 1, 3, 5, 2, 4, 6)}, image([]int{1, 4, 1, 2}, 1, 3, 2, 4, 5, 0, 6, 0)},
	{"com.microsoft.nchwc", "ReorderOutput", []*graph.Attr{{Name: "channels", Int: 3}}, []*Tensor{image([]int{1, 4, 1, 2}, 1, 3, 2, 4, 5, 0, 6, 0)}, image([]int{1, 3, 1, 2}, 1, 2, 3, 4, 5, 6)},
	{"com.microsoft.nchwc", "ReorderOutput", []*graph.Attr{{Name: "channels", Int: 3}, {Name: "channels_last", Int: 1}}, []*Tensor{image([]int{1, 4, 1, 2}, 1, 3, 2, 4, 5, 0, 6, 0)}, image([]int{1, 1, 2, 3}, 1, 3, 5, 2, 4, 6)},
	{
		"com.microsoft.nchwc", "Conv",
		[]*graph.Attr{{Name: "activation", String: "Relu"}},
		[]*Tensor{image([]int{1, 2, 1, 2}, 1, 3, 2, 4), image([]int{2, 2, 1, 1}, 1, 100, 10, 1000), row(0, 1), image([]int{1, 2, 1, 2}, 1, 0, 1, -5000)},
		image([]int{1, 2, 1, 2}, 32, 3101, 43, 0),
	},
	{"com.microsoft.nchwc", "Conv", nil, []*Tensor{image([]int{1, 1, 1, 2}, 1, 2), image([]int{2, 1, 1, 1}, 3, 5)}, image([]int{1, 2, 1, 2}, 3, 5, 6, 10)},
	{"com.microsoft.nchwc", "MaxPool", []*graph.Attr{{Name: "kernel_shape", Ints: []int64{1, 2}}}, []*Tensor{image([]int{1, 2, 1, 2}, 1, 3, 2, 4)}, image([]int{1, 2, 1, 1}, 2, 4)},
	{"com.microsoft.nchwc", "AveragePool", []*graph.Attr{{Name: "kernel_shape", Ints: []int64{1, 2}}}, []*Tensor{image([]int{1, 2, 1, 2}, 1, 3, 2, 4)}, image([]int{1, 2, 1, 1}, 1.5, 3.5)},
	{"com.microsoft.nchwc", "GlobalMaxPool", nil, []*Tensor{image([]int{1, 2, 1, 2}, 1, 3, 2, 4)}, image([]int{1, 2, 1, 1}, 2, 4)},
	{"com.microsoft.nchwc", "GlobalAveragePool", nil, []*Tensor{image([]int{1, 2, 1, 2}, 1, 3, 2, 4)}, image([]int{1, 2, 1, 1}, 1.5, 3.5)},
	{"com.microsoft.nchwc", "Upsample", []*graph.Attr{{Name: "scales", Ints: []int64{1, 1, 1, 2}}}, []*Tensor{image([]int{1, 2, 1, 2}, 1, 3, 2, 4)}, image([]int{1, 2, 1, 4}, 1, 3, 1, 3, 2, 4, 2, 4)},
}

func TestImagesInBlocks(t *testing.T) {
	for _, x := range inBlocks {
		n := &graph.Node{Op: x.op, Domain: x.domain, Attrs: x.attrs, Outputs: []graph.TensorID{0}}
		out, err := Layout{Block: 2}.Node(n, 1, x.in)
		if err != nil {
			t.Errorf("%s: %v", x.op, err)
			continue
		}
		if err := near(out[0].Tensor, x.out); err != nil {
			t.Errorf("%s: %v", x.op, err)
		}
		if _, err := Node(n, 1, x.in); err == nil {
			t.Errorf("%s is computed without the number of channels in a block", x.op)
		}
	}
}

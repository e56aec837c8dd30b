package models

import "github.com/onnxmem/onnxmem/graph"

// resNet3D is R3D of the paper (section 3): ResNet-18 with convolutions over
// time as well. The stem keeps all frames.
func resNet3D(b *builder) {
	size := b.whole("size")
	x := b.input("video", graph.Float32, b.dim("batch"), 3, b.whole("frames"), size, size)
	x = b.conv(x, "stem.0", conv{out: b.channels(64), kernel: []int64{3, 7, 7}, stride: []int64{1, 2, 2}, pad: []int64{1, 3, 3}})
	x = b.relu(b.batchNorm(x, "stem.1", 1e-5))
	b.residuals(x, basicBlock, normal(0.01), []int{2, 2, 2, 2})
}

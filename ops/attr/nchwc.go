package attr

import "github.com/onnxmem/onnxmem/graph"

// Nchwc is the domain of ONNX Runtime's operators on images whose channels are divided
// into blocks: [N, C, H, W] stands for [N, C/b, H, W, b].
const Nchwc = "com.microsoft.nchwc"

// NchwcBlock returns the number of channels in a block of the graph's images. It is a
// property of the machine that wrote the file, 16 with AVX-512 and 8 with AVX2, and the
// file does not name it. It is 8 if some weights have channels that 16 does not divide,
// and 16 if channels were padded by 8 or more; 0 if the graph does not tell.
func NchwcBlock(g *graph.Graph) int64 {
	if g == nil {
		return 0
	}
	for _, n := range g.Nodes {
		if n.Domain != Nchwc {
			continue
		}
		switch shape := NchwcWeights(g, n); {
		case shape == nil:
		case shape[0]%16 != 0 || shape[1] > 16 && shape[1]%16 != 0:
			return 8
		case shape[1] > 8 && shape[1] < 16: // fewer than a block: the image is not in blocks
			return 16
		}
	}
	made := map[graph.TensorID]int64{} // the channels that a convolution makes
	for _, n := range g.Nodes {
		if shape := NchwcWeights(g, n); shape != nil {
			made[n.Outputs[0]] = shape[0]
		}
	}
	for _, n := range g.Nodes {
		if n.Domain == Nchwc && n.Op == "ReorderOutput" && len(n.Inputs) > 0 && made[n.Inputs[0]] >= Int(n, "channels", 0)+8 {
			return 16
		}
	}
	return 0
}

// NchwcWeights returns the shape of the weights of a convolution of blocked images; nil
// if n is none, or its weights are no initializer.
func NchwcWeights(g *graph.Graph, n *graph.Node) []int64 {
	if n.Domain != Nchwc || n.Op != "Conv" || len(n.Inputs) < 2 || n.Inputs[1] < 0 || len(n.Outputs) == 0 {
		return nil
	}
	data := g.Tensors[n.Inputs[1]].Data
	if data == nil || len(data.Dims) != 4 {
		return nil
	}
	return data.Dims
}

package gpu

import "github.com/onnxmem/onnxmem/graph"

func init() {
	cases = append(cases, withdrawnCases...)
	exactCases = append(exactCases, withdrawnCases...)
}

var withdrawnCases = []nodeCase{
	{op: "Affine", version: 1, attrs: attrs(real("alpha", 1.3), real("beta", -2)), in: args(noise(3, 111)), types: allReals},
	{op: "ImageScaler", version: 1, attrs: attrs(real("scale", 0.3), &graph.Attr{Name: "bias", Type: graph.AttrFloats, Floats: []float32{-104, -117, 9}}), in: args(noise(2, 3, 7, 9)), types: float32s},
}

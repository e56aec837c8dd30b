package kernel

// Cases that are made here draw their numbers after all others, which so keep theirs.
func init() { cutCases = append(cutCases, convolutionCuts()...) }

// convolutionCuts are convolutions and products for which other kernels would be chosen if they
// were smaller.
func convolutionCuts() []nodeCase {
	return []nodeCase{
		{op: "Gemm", in: args(noise(9, 300), noise(300, 41), noise(9, 1))}, // a column of the result has the shape of what is added
		{op: "Gemm", attrs: attrs(float1("beta", 0.5)), in: args(noise(9, 300), noise(300, 41), noise(1, 41))},
		{op: "ConvTranspose", version: 22, attrs: attrs(ints("kernel_shape", 5, 1), ints("pads", 2, 0, 2, 0), ints("strides", 1, 1), ints("dilations", 1, 1)), in: args(noise(1, 5, 10, 5), noise(5, 8, 5, 1))},
		// Channels that are too large for one scratch.
		{op: "Conv", version: 22, attrs: attrs(ints("pads", 1, 1)), in: args(noise(1, 1, 70000), noise(1, 1, 3))},
		{op: "Conv", version: 22, attrs: attrs(ints("pads", 1, 2, 1, 2), ints("strides", 2, 1)), in: args(noise(1, 1, 510, 2060), noise(1, 1, 3, 5), noise(1))},
		{op: "ConvTranspose", version: 22, attrs: attrs(ints("strides", 3), whole1("group", 2)), in: args(noise(1, 2, 25000), noise(2, 1, 3), noise(2))},
		// Few outputs under a large kernel that may change from run to run: a gradient's form.
		{op: "Conv", version: 22, in: args(noise(4, 2, 9, 9), noise(8, 2, 7, 7))},
		{op: "Conv", version: 22, in: args(noise(4, 2, 11, 11), noise(10, 2, 7, 7))},
		{op: "Conv", version: 22, attrs: attrs(whole1("group", 3)), in: args(noise(4, 3, 9, 9), noise(3, 1, 7, 7))},
		{op: "Conv", version: 22, attrs: attrs(whole1("group", 3)), in: args(noise(4, 3, 11, 11), noise(3, 1, 7, 7))},
	}
}

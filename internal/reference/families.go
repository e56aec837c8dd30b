package reference

import "github.com/onnxmem/onnxmem/graph"

// families lists the operators, a file each, named as in package ops.
var families = []family{
	{"", elementwiseOperators, false},
	{"", arithmeticOperators, false},
	{"", castOperators, false},
	{"", layoutOperators, true},
	{"", concatOperators, true},
	{"", sliceOperators, true},
	{"", padOperators, true},
	{"", gatherOperators, true},
	{"", scatterOperators, false},
	{"", selectOperators, true},
	{"", generateOperators, true},
	{"", cumulateOperators, false},
	{"", signalOperators, false},
	{"", textOperators, false},
	{"", gridOperators, false},
	{"", quantizeOperators, false},
	{"", integerOperators, false},
	{graph.SwapDomain, swapOperators, true},
	{"", reduceOperators, false},
	{"", matmulOperators, false},
	{"", einsumOperators, false},
	{"", convOperators, false},
	{"", poolOperators, false},
	{"", normOperators, false},
	{"", softmaxOperators, false},
	{"", lossOperators, false},
	{"", resizeOperators, false},
	{"", randomOperators, false},
	{"", attentionOperators, false},
	{"com.microsoft", contribOperators, false},
	{"com.microsoft", contribAttentionOperators, false},
	{"", recurrentOperators, false},
}

package reference

// families lists the operators, a file each, named as in package ops.
var families = []family{
	{"", elementwiseOperators},
	{"", arithmeticOperators},
	{"", castOperators},
	{"", layoutOperators},
	{"", concatOperators},
	{"", sliceOperators},
	{"", padOperators},
	{"", gatherOperators},
	{"", scatterOperators},
	{"", selectOperators},
	{"", generateOperators},
	{"", reduceOperators},
	{"", matmulOperators},
	{"", einsumOperators},
	{"", convOperators},
	{"", poolOperators},
	{"", normOperators},
	{"", softmaxOperators},
	{"", lossOperators},
	{"", resizeOperators},
	{"", randomOperators},
	{"com.microsoft", contribOperators},
	{"", recurrentOperators},
}

package autodiff

// families lists the rules, a file each, named as in package ops.
var families = []family{
	{"", elementwiseRules},
	{"", arithmeticRules},
	{"", reduceRules},
	{"", matmulRules},
	{"", convRules},
	{"", poolRules},
	{"", normRules},
	{"", softmaxRules},
	{"", lossRules},
	{"", shapeRules},
	{"", selectRules},
	{"", padRules},
	{"", resizeRules},
	{"", einsumRules},
	{"", constantRules},
	{"com.microsoft", contribRules},
}

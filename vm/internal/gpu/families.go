package gpu

import "github.com/onnxmem/onnxmem/graph"

// family is the operators of a file.
type family struct {
	domain string
	rows   []Row
}

// families lists the tables. Domain "" is ONNX's own.
var families = []family{
	{"", elementwise},
	{"", activations},
	{"", comparisons},
	{"", casts},
	{"", generators},
	{"", randoms},
	{"", expansion},
	{"", withdrawn},
	{"", quantizers},
	{"com.microsoft", contribActivations},
	{"com.microsoft", quantizers},
	{"com.microsoft", quantizedOperators},
	{"", softmaxes},
	{"", reductions},
	{"", cumulations},
	{"", losses},
	{"", pooling},
	{"", regions},
	{"", normalization},
	{"com.microsoft", contribNormalization},
	{"", layouts},
	{graph.SwapDomain, putting},
	{graph.SwapDomain, convGradients},
	{"", indexing},
	{"", scattering},
	{"", padding},
	{"", selections},
	{"", products},
	{"", convolutions},
	{"", deformations},
	{"com.microsoft", contribProducts},
	{"com.microsoft", contribConvolutions},
	{"", integerProducts},
	{"", summations},
	{"com.microsoft", contribIntegerProducts},
	{"", transforms},
	{"", sampling},
	{"", grids},
	{"", recurrence},
	{"com.microsoft", contribRecurrence},
	{"", attentions},
	{"com.microsoft", contribAttentions},
	{"com.microsoft", packedNumbers},
}

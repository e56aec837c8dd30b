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
	{"", dynamicQuantizers},
	{"com.microsoft", quantizers},
	{"com.microsoft", contribQuantizers},
	{"", softmaxes},
	{"", reductions},
	{"", cumulations},
	{"", losses},
	{"", pooling},
	{"", regions},
	{"", normalization},
	{"", layouts},
	{"", joining},
	{"", slicing},
	{graph.SwapDomain, putting},
	{graph.SwapDomain, convGradients},
	{graph.SwapDomain, flashAttentions},
	{"", indexing},
	{"", scattering},
	{"", padding},
	{"", selections},
	{"", products},
	{"", convolutions},
	{"", integerProducts},
	{"", summations},
	{"", transforms},
	{"", sampling},
	{"", grids},
	{"", recurrence},
	{"", attentions},
	{"com.microsoft", contrib},
	{"com.microsoft", contribAttentions},
}

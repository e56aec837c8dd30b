package kernel

// family is the kernels of one file.
type family struct {
	domain string
	list   []Kernel
}

// families lists the kernels of every file.
var families = []family{
	elementwise,
	activations,
	comparisons,
	casts,
	generators,
	texts,

	products,
	convolution,
	integerProducts,
	pooling,
	regions,
	normalization,
	softmaxes,
	reductions,
	lines,
	recurrence,
	attentions,
	losses,
	quantizers,

	layouts,
	joining,
	cutting,
	expansion,
	padding,
	indexing,
	scattering,
	selections,
	sampling,
	grids,
	images,
	signals,

	contrib,
	contribAttentions,
	swaps,
}

type key struct{ domain, name string }

var table = map[key]*Kernel{}

func init() {
	for _, f := range families {
		for i := range f.list {
			k := key{f.domain, f.list[i].Name}
			if table[k] != nil {
				panic("kernel: two entries for " + k.domain + " " + k.name)
			}
			table[k] = &f.list[i]
		}
	}
}

// Lookup finds the kernel of an operator; nil if there is none. The domain
// ai.onnx is spelled "".
func Lookup(domain, name string) *Kernel { return table[key{domain, name}] }

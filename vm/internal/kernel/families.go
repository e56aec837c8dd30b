package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// family lists the kernels of one file, for operators of one domain.
type family struct {
	domain string
	list   []Kernel
}

// families lists the families of all files.
var families = []family{
	elementwise,
	activations,
	comparisons,
	casts,
	generators,
	randoms,
	texts,
	contribTexts,

	products,
	summation,
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
	contribQuantizers,
	blockedImages,

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
	withdrawn,

	classical,
	contrib,
	contribAttentions,
	swaps,
	putting,
	convGradients,
	flashAttentions,
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
			if of := f.list[i].Real; of != nil {
				op := ops.Lookup(k.domain, k.name)
				table[k].derive(of, op != nil && op.Activation)
			}
		}
	}
}

// Lookup returns the kernel of an operator, or nil if there is none. The domain of
// ai.onnx is "".
func Lookup(domain, name string) *Kernel { return table[key{domain, name}] }

// forFloats makes the kernel of an operator that is defined for float32 and float64,
// by the dtype of input 0.
func forFloats(f32, f64 func(*Invocation) (Run, error)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		switch c.In[0].Type {
		case graph.Float32:
			return f32(c)
		case graph.Float64:
			return f64(c)
		}
		return nil, unsupported(c.In[0].Type)
	}
}

package lower

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// gradientTables are those that kernels of gradients on the CPU fill and read: as many as are in
// use at once.
type gradientTables struct {
	bytes int64 // of each
	list  []gradientTable
}

type gradientTable struct {
	at   unsafe.Pointer
	ends int // the last step that reads it
}

// newGradientTables are the tables for some gradients.
func newGradientTables(f *Frame, list []*normGradient) *gradientTables {
	channels := 0
	for _, g := range list {
		channels = max(channels, f.Tensors[g.x].Shape[1])
	}
	return &gradientTables{bytes: int64(channels * kernel.NormGradientBytes)}
}

// onCPU returns the kernel of a gradient, for one step or for two. It reports false if there is no
// memory for its table: the nodes run one by one then.
func (t *gradientTables) onCPU(g *normGradient) (runs gradientRuns, ok bool) {
	f := g.f
	leader, writer := f.Steps[g.order[g.first]], f.Steps[g.order[g.second]]
	i := slices.IndexFunc(t.list, func(t gradientTable) bool { return t.ends < g.first })
	if i < 0 {
		at, err := leader.Table(t.bytes)
		if err != nil {
			return runs, false
		}
		i = len(t.list)
		t.list = append(t.list, gradientTable{at: at})
	}
	t.list[i].ends = g.end()
	k := &kernel.NormGradient{
		X: f.Tensors[g.x].Kernels(), D: f.Tensors[g.d].Kernels(), Scale: f.Tensors[g.scale].Kernels(), Out: f.Tensors[g.result].Kernels(),
		Otherwise: g.otherwise, Epsilon: g.epsilon, Part: g.part, Table: t.list[i].at,
	}
	if g.mask >= 0 {
		k.Mask = f.Tensors[g.mask].Kernels()
	}
	if leader == writer {
		runs.measure = k.Whole(leader.Call())
	} else {
		runs.measure, runs.write = k.Measure(leader.Call()), k.Write(writer.Call())
	}
	runs.sums, runs.products = g.copies(g.sums, k.Sums()), g.copies(g.products, k.Products())
	return runs, true
}

// copies returns a kernel that copies sums from the table to their place.
func (g *normGradient) copies(sums graph.NodeID, from []float32) kernel.Run {
	out := g.f.Steps[sums].Out[0]
	return func(*work.Pool) error {
		copy(unsafe.Slice((*float32)(out.At), len(from)), from)
		return nil
	}
}

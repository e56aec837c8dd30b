package optimize

import (
	"github.com/onnxmem/onnxmem/internal/memory"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/plan"
)

// ProcessBytes estimates from above the peak of the process of `onnxmem run` with a plan, on
// the CPU; with a plan for ranges, at its largest lengths. It counts the plan's arena,
// resident and host pools, and the values of the inputs, which the command holds beside their
// places in the arena. memory.RunBytes adds the rest. Tensors that the plan leaves out come
// on top. 0: the plan is for another runtime, or has no pool "arena" of its own.
func ProcessBytes(p *plan.Plan) int64 {
	if p.Sharing.Runtime != "" || len(p.Tiers()) > 0 {
		return 0
	}
	sum, nodes := p.Summary.TotalBytes, len(p.Steps)
	for _, pool := range p.Pools {
		if pool.Name == plan.Host {
			sum = units.Add(sum, pool.Bytes)
		}
	}
	sum = units.Add(sum, InputBytes(p))
	for i := range p.Subgraphs {
		nodes += len(p.Subgraphs[i].Steps)
	}
	return memory.RunBytes(sum, nodes)
}

// InputBytes is the size of the inputs, whose values a process of `onnxmem run` holds beside their
// places in the arena.
func InputBytes(p *plan.Plan) (sum int64) {
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Kind == plan.KindInput {
			sum = units.Add(sum, b.Bytes)
		}
	}
	return sum
}

package limits

import (
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
)

// Kept is what a search for a plan below a limit has chosen.
type Kept struct {
	*planner.Trial
	Choice
	Search   *Search // that found how the limit is kept; nil: there is none
	Frontier []plan.FrontierPoint
	known    *Base
	Unshared bool // aliases are known to make no plan of the main graph better
}

// giveAliases chooses the plan with aliases of the graph as it is, which was found first.
func (k *Kept) giveAliases(b *Search) {
	b.Before.Give(b.shared)
	b.InFile()
	t := *k.Trial
	t.Main = b.shared
	k.Trial = &t
}

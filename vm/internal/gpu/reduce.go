package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// reductions lists the operators that reduce axes to length 1.
var reductions = []Row{
	{Name: "ReduceSum", Make: reduce("sum", how{})},
	{Name: "ReduceMean", Make: reduce("sum", how{finish: finishMean})},
	{Name: "ReduceSumSquare", Make: reduce("sum", how{square: 1})},
	{Name: "ReduceL1", Make: reduce("sum", how{absolute: 1})},
	{Name: "ReduceL2", Make: reduce("sum", how{square: 1, finish: finishRoot})},
	{Name: "ReduceLogSum", Make: reduce("sum", how{finish: finishLog})},
	{Name: "ReduceLogSumExp", Make: reduce("log_sum_exp", how{})},
	{Name: "ReduceProd", Make: reduce("product", how{})},
	{Name: "ReduceMax", Make: reduce("extreme", how{})},
	{Name: "ReduceMin", Make: reduce("extreme", how{least: 1})},
	{Name: "ArgMax", Make: func(n *Node) error { return makeArg(n, 0) }},
	{Name: "ArgMin", Make: func(n *Node) error { return makeArg(n, 1) }},
}

// how is How of reduce.cu.
type how struct{ absolute, square, finish, least int32 }

// The last step of a reduction.
const (
	finishMean = 1 + iota
	finishRoot
	finishLog
)

func reduce(kind string, h how) func(n *Node) error {
	return func(n *Node) error {
		drop, err := kernel.ReducedAxes(n.Invocation)
		if err != nil {
			return err
		}
		return n.reduce(n.Out[0], n.In[0], drop, kind, h)
	}
}

// reduce appends a reduction of x along the axes in drop.
func (n *Node) reduce(y, x *kernel.Tensor, drop []bool, kind string, h how) error {
	definitions := []string{"ELEMENT=" + cType[x.Type]}
	bytes := 8 // of an accumulator
	switch x.Type {
	case graph.Int8, graph.Uint8, graph.Int32, graph.Uint32, graph.Int64, graph.Uint64:
		if kind == "log_sum_exp" || h.finish > finishMean {
			return unsupportedf("dtype %v", x.Type)
		}
	default:
		if !isFloat(x) {
			return unsupportedf("dtype %v", x.Type)
		}
		definitions = append(definitions, "REAL")
		if bytes = computeBytes(x); kind == "log_sum_exp" {
			bytes *= 2
		}
	}
	g, err := groupsOf(x.Shape, drop)
	if err != nil {
		return err
	}
	at, err := n.addresses(y, x)
	if err != nil {
		return err
	}
	form := "_axes"
	if g.lines {
		form = "_lines"
	}
	parts := n.scratch(0)
	if g.parts > 1 {
		parts = n.scratch(int64(g.parts) * int64(g.param.groups) * int64(bytes))
	}
	if err := n.launch3(n.kernel("reduce.cu", kind+form, definitions...), g.grid, g.block, 0, at[0], parts, at[1], g.param, h); err != nil {
		return err
	}
	if g.parts == 1 {
		return nil
	}
	grid, block := g.finish()
	return n.launch3(n.kernel("reduce.cu", kind+"_finish", definitions...), grid, block, 0,
		at[0], parts, int32(g.parts), g.param.groups, g.param.terms, h)
}

// makeArg finds the place of the largest or smallest element along an axis. Of equal
// elements it takes the first, or the last (attribute select_last_index).
func makeArg(n *Node, least int32) error {
	x, y := n.In[0], n.Out[0]
	switch x.Type {
	case graph.Int32, graph.Int64, graph.Uint32, graph.Uint64:
	default:
		if !isFloat(x) {
			return unsupportedf("dtype %v", x.Type)
		}
	}
	axis, err := n.axis(0, max(len(x.Shape), 1))
	if err != nil {
		return err
	}
	k := n.kernel("best.cu", "arg", "ELEMENT="+cType[x.Type])
	return n.launchTeams(k, linesOf(x.Shape, axis, false), 0, []*kernel.Tensor{y, x}, least, int32(n.Int("select_last_index", 0)))
}

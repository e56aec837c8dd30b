package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
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
		drop, err := form.ReducedAxes(n.Call)
		if err != nil {
			return err
		}
		return n.reduce(n.Out[0], n.In[0], drop, kind, h)
	}
}

// reduce appends a reduction of x along the axes in drop.
func (n *Node) reduce(y, x *form.Tensor, drop []bool, kind string, h how) error {
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
	at, err := n.addresses(y, x)
	if err != nil {
		return err
	}
	file := func(form string) cuda.Kernel { return n.kernel("reduce.cu", kind+form, definitions...) }
	if outer, kept, inner, ok := runsOf(x.Shape, drop); ok {
		if c, ok := channelsOf(outer, kept, inner); ok {
			return n.reduceChannels(c.at(at[1]), at, bytes, file, h)
		}
		if c, ok := columnsOf(outer, kept); ok && inner == 1 {
			return n.reduceColumns(c, at, bytes, file, h)
		}
	}
	g, err := groupsOf(x.Shape, drop)
	if err != nil {
		return err
	}
	form := "_axes"
	if g.lines {
		form = "_lines"
	}
	parts := n.partsRoom(g.parts, int(g.param.groups), bytes)
	if err := n.launch3(file(form), g.grid, g.block, 0, at[0], parts, at[1], g.param, h); err != nil {
		return err
	}
	if g.parts == 1 {
		return nil
	}
	grid, block := finishOf(int(g.param.groups))
	return n.launch3(file("_finish"), grid, block, 0, at[0], parts, int32(g.parts), g.param.groups, g.param.terms, h)
}

// reduceChannels appends the reduction of channels, whose accumulators have a size in bytes.
func (n *Node) reduceChannels(c *channels, at []driver.Ptr, bytes int, file func(form string) cuda.Kernel, h how) error {
	parts := n.partsRoom(c.parts, int(c.param.count), bytes)
	if err := n.launch3(file("_channels"), c.grid, c.block, 0, at[0], parts, at[1], c.param, int32(c.all), h); err != nil || c.parts == 1 {
		return err
	}
	const threads = 64 // there are few results
	return n.launch(file("_joined"), cuts(int(c.param.count), threads), threads, at[0], parts, int32(c.parts), c.param.count, int32(c.all), h)
}

// reduceColumns appends the reduction of columns.
func (n *Node) reduceColumns(c *columns, at []driver.Ptr, bytes int, file func(form string) cuda.Kernel, h how) error {
	parts := n.partsRoom(c.parts, c.count, bytes)
	packed := int32(1)
	if at[1]%16 != 0 {
		packed = 0
	}
	if err := n.launch3(file("_columns"), c.grid, c.block, 0, at[0], parts, at[1], int32(c.rows), int32(c.count), int32(c.part), packed, h); err != nil || c.parts == 1 {
		return err
	}
	grid, block := finishOf(c.count)
	return n.launch3(file("_finish"), grid, block, 0, at[0], parts, int32(c.parts), int32(c.count), int32(c.rows), h)
}

// partsRoom is scratch for the parts of results, none if each has one part.
func (n *Node) partsRoom(parts, results, bytes int) cuda.Room {
	if parts == 1 {
		return n.scratch(0)
	}
	return n.scratch(int64(parts) * int64(results) * int64(bytes))
}

package slicing

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Describe describes the region for the plan.
func (c *Choice) Describe() plan.SlicedRegion {
	g := c.p.g
	out := plan.SlicedRegion{Count: c.Slices, Exact: len(c.sum) == 0, Nodes: []string{}, Inputs: []plan.SlicedInput{}, Outputs: []plan.SlicedOutput{}}
	for _, v := range c.Nodes {
		out.Nodes = append(out.Nodes, g.Tensors[firstOf(g.Nodes[v].Outputs)].Name)
	}
	for _, a := range c.pieced {
		out.Running = append(out.Running, g.Tensors[g.Nodes[a.softmax].Outputs[0]].Name)
	}
	axes := map[graph.TensorID]*int{}
	for _, v := range c.Nodes {
		for j, rows := range c.rowsOf(v) {
			if t := g.Nodes[v].Inputs[j]; t >= 0 && rows.Axis >= 0 {
				axes[t] = &rows.Axis
			}
		}
	}
	for _, t := range c.Inputs {
		if c.p.Lists[t] {
			continue
		}
		out.Inputs = append(out.Inputs, plan.SlicedInput{Tensor: g.Tensors[t].Name, Axis: axes[t]})
	}
	for _, t := range c.Outputs {
		o := plan.SlicedOutput{Tensor: g.Tensors[t].Name}
		if axis, rows := c.axis[t]; rows {
			o.Axis = &axis
		}
		if x, stream := c.streams[t]; stream {
			o.Over = g.Tensors[x].Name
		}
		out.Outputs = append(out.Outputs, o)
	}
	return out
}

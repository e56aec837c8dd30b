package slicing

import (
	"slices"

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
	unread := c.unread()
	for _, t := range c.Inputs {
		if c.p.Lists[t] || unread[t] {
			continue
		}
		out.Inputs = append(out.Inputs, plan.SlicedInput{Tensor: g.Tensors[t].Name, Axis: axes[t]})
	}
	for _, t := range c.Outputs {
		o := plan.SlicedOutput{Tensor: g.Tensors[t].Name}
		if axis, rows := c.axisOf(t); rows {
			o.Axis = &axis
		}
		if x, stream := c.streams[t]; stream {
			o.Over = g.Tensors[x].Name
		}
		out.Outputs = append(out.Outputs, o)
	}
	return out
}

// unread returns the inputs of which no slice reads a row: operands of a Concat from whose
// result the slices take the rows of others alone.
func (c *Choice) unread() map[graph.TensorID]bool {
	g, list := c.p.g, map[graph.TensorID]bool{}
	for _, v := range c.Nodes {
		for j, rows := range c.rowsOf(v) {
			if t := g.Nodes[v].Inputs[j]; t >= 0 && rows.Empty {
				list[t] = true
			}
		}
	}
	for i := 0; i < c.Slices && len(list) > 0; i++ {
		s := c.Slice(i, c.Slices)
		for x, v := range c.Nodes {
			for j, rows := range c.rowsOf(v) {
				if in := s.Node[x].In[j]; !rows.Empty || in.Lo < in.Hi {
					delete(list, g.Nodes[v].Inputs[j])
				}
			}
		}
	}
	return list
}

// Owners returns, for each node of a graph that is sliced already, the index of its slice.
// rows are the tensors that hold rows of tensors of the model before. The index is -1 for a
// node that no inner region may contain: one that is no copy, sums, has several outputs,
// makes rows modulo an image, or reads rows of an initializer.
func Owners(g *graph.Graph, regions []*Choice, rows map[string]Part, weights []Weight) []int32 {
	cut := map[string]bool{}
	for _, w := range weights {
		cut[w.Tensor] = true
	}
	type slice struct{ region, slice int }
	numbers, owners := map[slice]int32{}, make([]int32, len(g.Nodes))
	for v, n := range g.Nodes {
		owners[v] = -1
		x, sliced := TagOf(n)
		if !sliced || x.Role != roleNode || len(n.Outputs) != 1 || len(regions[x.Region].pieced) > 0 {
			continue
		}
		made, known := rows[g.Tensors[n.Outputs[0]].Name]
		if !known || made.Modulo || slices.ContainsFunc(n.Inputs, func(t graph.TensorID) bool { return t >= 0 && cut[g.Tensors[t].Name] }) {
			continue
		}
		key := slice{x.Region, x.Slice}
		i, known := numbers[key]
		if !known {
			i = int32(len(numbers))
			numbers[key] = i
		}
		owners[v] = i
	}
	return owners
}

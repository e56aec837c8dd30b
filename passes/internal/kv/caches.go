package kv

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// cache is a graph input that a node extends into a graph output.
type cache struct {
	past, fresh, present graph.TensorID
	axis                 int
	node                 *graph.Node // Concat, or Attention, which concatenates by itself
	dimension            string      // of the past, by name or by place
}

// findCaches finds the caches: graph inputs that are the first operand of a Concat along
// an axis of open length, or the past keys and values of Attention, where the result is a
// graph output.
func (r *rewriter) findCaches() error {
	var rejected string
	for _, n := range r.g.Nodes {
		switch {
		case n.Domain != "":
		case ops.Concatenates(n) && len(n.Inputs) == 2:
			t := r.g.Tensor(n.Inputs[0])
			if t == nil || !t.Input || t.Data != nil || t.Declared == nil || !t.Declared.Type.Ranked {
				continue
			}
			axis, err := attr.Axis("axis", attr.Int(n, "axis", 0), len(t.Declared.Type.Shape))
			if err != nil || !r.open(n.Inputs[0], axis) {
				continue
			}
			if !r.g.Tensors[n.Outputs[0]].Output {
				rejected = fmt.Sprintf(": %q is extended into %q, which is no output", graph.Short(t.Name), graph.Short(r.nameOf(n.Outputs[0])))
				continue
			}
			r.add(n, n.Inputs[0], n.Inputs[1], n.Outputs[0], axis)
		case n.Op == "Attention" && len(n.Inputs) > 5 && len(n.Outputs) > 2:
			for k := range 2 {
				from, to := n.Inputs[4+k], n.Outputs[1+k]
				if from >= 0 && to >= 0 && r.g.Tensors[from].Input && r.g.Tensors[to].Output && r.open(from, 2) {
					r.add(n, from, n.Inputs[1+k], to, 2)
				}
			}
		}
	}
	if len(r.caches) == 0 {
		return graph.Errorf("no graph input is a cache that grows: expected past inputs that Concat, or Attention, extends by the new tokens into graph outputs%s", rejected)
	}
	for _, c := range r.caches {
		if _, given := r.opt.Infer.Dims[c.dimension]; given {
			return graph.Errorf("dimension %q is the length of the caches: expected no length for it beside the capacity", graph.Short(c.dimension))
		}
		if c.axis == 0 {
			e := graph.Errorf("grows along axis 0: expected the batch there, and the tokens on another axis")
			e.Tensor = r.nameOf(c.past)
			return e
		}
	}
	inputs := r.g.Inputs
	slices.SortStableFunc(r.caches, func(a, b *cache) int { return slices.Index(inputs, a.past) - slices.Index(inputs, b.past) })
	return nil
}

// open reports whether a graph input has no fixed length along an axis.
func (r *rewriter) open(id graph.TensorID, axis int) bool {
	d := r.g.Tensors[id].Declared
	return d != nil && axis < len(d.Type.Shape) && d.Type.Shape[axis] == graph.Unknown
}

func (r *rewriter) add(n *graph.Node, from, fresh, to graph.TensorID, axis int) {
	if slices.ContainsFunc(r.caches, func(c *cache) bool { return c.past == from }) {
		return // its second reader is refused
	}
	d := r.g.Tensors[from].Declared
	name := fmt.Sprintf("%s[%d]", r.nameOf(from), axis)
	if axis < len(d.Symbols) && d.Symbols[axis] != "" {
		name = d.Symbols[axis]
	}
	r.caches = append(r.caches, &cache{past: from, fresh: fresh, present: to, axis: axis, node: n, dimension: name})
}

// cacheOf returns the cache that enters as a tensor, nil if there is none.
func (r *rewriter) cacheOf(id graph.TensorID) *cache {
	for _, c := range r.caches {
		if c.past == id {
			return c
		}
	}
	return nil
}

// extends returns the caches that a node extends.
func (r *rewriter) extends(n *graph.Node) (list []*cache) {
	for _, c := range r.caches {
		if c.node == n {
			list = append(list, c)
		}
	}
	return list
}

package regions

import (
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// regionFound is what the nodes of a region say about it, to be compared with what the
// plan says.
type regionFound struct {
	position map[string]int // of the nodes, by the first output of each
	from     map[graph.TensorID]int
	inputs   map[string]*inputFound
	outputs  map[string]outputFound
	sums     map[graph.TensorID]*addition // by the sum
	running  []string                     // outputs of Softmax nodes whose axis is cut
	late     string                       // a node that stands before one that it reads
	// partial: copies of some of its nodes could not be compared, so what they read and make is
	// not known.
	partial bool
	faulty  bool // a fault of one of its nodes has been reported
}

// inputFound says along which axes an input is cut.
type inputFound struct{ axes []int }

// outputFound says how an output is made.
type outputFound struct {
	axis int // none: it is summed
	over string
	node string // the first one that puts it together, for messages
}

func (r *regionFound) begin(nodes []string) {
	r.position, r.from = make(map[string]int, len(nodes)), map[graph.TensorID]int{}
	for i, name := range nodes {
		r.position[name] = i
	}
	r.inputs, r.outputs = map[string]*inputFound{}, map[string]outputFound{}
	r.sums = map[graph.TensorID]*addition{}
}

// reads notes an input of the region; axis none: it is read whole.
func (r *regionFound) reads(name string, axis int) {
	x := r.inputs[name]
	if x == nil {
		x = &inputFound{}
		r.inputs[name] = x
	}
	if axis != none && !slices.Contains(x.axes, axis) {
		x.axes = append(x.axes, axis)
	}
}

// makes notes an output of the region.
func (r *regionFound) makes(name string, axis int, over, node string) {
	if _, twice := r.outputs[name]; !twice {
		r.outputs[name] = outputFound{axis, over, node}
	}
}

// over is the name of the input over which an output is written.
func (r *regionFound) over(c *sliced, t graph.TensorID) string {
	name := c.g.Tensors[t].Name
	c.isNamed(t, func(other string) bool {
		if _, known := r.inputs[other]; known {
			name = other
			return true
		}
		return false
	})
	return name
}

// origin notes that a tensor has rows of another one.
func (r *regionFound) origin(t, of graph.TensorID) {
	if i, known := r.from[of]; known {
		r.from[t] = i
	}
}

// order notes that a copy of a node runs, and that the nodes whose copies it reads stand
// before it in the list.
func (r *regionFound) order(n *graph.Node, tensor string) {
	i, known := r.position[tensor]
	if !known {
		return
	}
	for _, t := range n.Inputs {
		if k, made := r.from[t]; made && t >= 0 && k > i && r.late == "" {
			r.late = tensor
		}
	}
	for _, t := range n.Outputs {
		if t >= 0 {
			r.from[t] = i
		}
	}
}

// order notes for a region and those around it that a copy of a node runs.
func (c *sliced) order(p *sliceNode, n *graph.Node) {
	c.regions[p.region].order(n, p.tensor)
	name := p.tensor
	list := c.frames(p)
	for i := len(list) - 2; i >= 0; i-- {
		name = c.sourceName(name)
		c.regions[list[i].region].order(n, name)
	}
}

// partly notes for a region and those around it that a copy of a node was not compared.
func (c *sliced) partly(p *sliceNode) {
	c.regions[p.region].partial = true
	c.outer(p, func(r *regionFound, _ int) { r.partial = true })
}

// origin notes for a region and those around it that a tensor has rows of another one.
func (c *sliced) origin(p *sliceNode, t, of graph.TensorID) {
	c.regions[p.region].origin(t, of)
	c.outer(p, func(r *regionFound, _ int) { r.origin(t, of) })
}

// recorded compares what the plan says of a region with what its nodes do.
func (c *sliced) recorded(i int) {
	v, x, r := c.v, &c.v.Plan.Slices.Regions[i], &c.regions[i]
	if r.late != "" {
		v.Fault(Code, "slices: region %d: nodes: expected %q behind the nodes that it reads", i, graph.Short(r.late))
	}
	seen := map[string]bool{}
	for _, in := range x.Inputs {
		found := r.inputs[in.Tensor]
		switch {
		case !seen[in.Tensor] && r.partial && (found == nil || in.Axis != nil):
		case found == nil || seen[in.Tensor]:
			v.Fault(Code, "slices: region %d: input %q: expected a tensor that its nodes read, each once", i, graph.Short(in.Tensor))
		case in.Axis == nil && len(found.axes) > 0:
			v.Fault(Code, "slices: region %d: input %q: expected axis %d, of which slices read rows, found none", i, graph.Short(in.Tensor), found.axes[0])
		case in.Axis != nil && !slices.Contains(found.axes, *in.Axis):
			v.Fault(Code, "slices: region %d: input %q: expected one of the axes %v, of which slices read rows, found axis %d", i, graph.Short(in.Tensor), found.axes, *in.Axis)
		}
		seen[in.Tensor] = true
	}
	for _, name := range slices.Sorted(maps.Keys(r.inputs)) {
		if !seen[name] {
			v.Fault(Code, "slices: region %d: expected %q, which its nodes read, in the list of inputs", i, graph.Short(name))
		}
	}
	clear(seen)
	sums := false
	for _, out := range x.Outputs {
		found, made := r.outputs[out.Tensor]
		axis := none
		if out.Axis != nil {
			axis = *out.Axis
		}
		sums = sums || made && found.axis == none
		switch {
		case !made && r.partial && !seen[out.Tensor]:
		case !made || seen[out.Tensor]:
			v.Fault(Code, "slices: region %d: output %q: expected a tensor that its nodes make, each once", i, graph.Short(out.Tensor))
		case out.Axis == nil && found.axis != none:
			v.Fault(Code, "slices: region %d: output %q: expected axis %d, of which %s writes rows, found none", i, graph.Short(out.Tensor), found.axis, found.node)
		case out.Axis != nil && found.axis == none:
			v.Fault(Code, "slices: region %d: output %q: expected no axis, since %s sums, found %d", i, graph.Short(out.Tensor), found.node, axis)
		case axis != found.axis:
			v.Fault(Code, "slices: region %d: output %q: expected axis %d, of which %s writes rows, found %d", i, graph.Short(out.Tensor), found.axis, found.node, axis)
		case out.Over != found.over:
			v.Fault(Code, "slices: region %d: output %q: over: expected %q, over which %s writes, found %q", i, graph.Short(out.Tensor), graph.Short(found.over), found.node, graph.Short(out.Over))
		}
		seen[out.Tensor] = true
	}
	for _, name := range slices.Sorted(maps.Keys(r.outputs)) {
		if !seen[name] {
			v.Fault(Code, "slices: region %d: expected %q, which its nodes make, in the list of outputs", i, graph.Short(name))
		}
	}
	if want, found := slices.Sorted(slices.Values(r.running)), slices.Sorted(slices.Values(x.Running)); !r.partial && !slices.Equal(want, found) {
		v.Fault(Code, "slices: region %d: running: expected %q, which slices cut along the axis that is normalised, found %q", i, graph.Short(fmt.Sprint(want)), graph.Short(fmt.Sprint(found)))
	}
	if !r.partial && !c.unchecked && x.Exact == sums {
		v.Fault(Code, "slices: region %d: exact: expected %t, found %t", i, !sums, x.Exact)
	}
}

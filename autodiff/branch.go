package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// ifGrad emits an If whose branches compute the nodes of the forward branches again,
// and then the gradients of what these capture.
func ifGrad(c *Backward) {
	node := c.inGraph()
	var wanted []int // inputs of c.Node: what the branches capture
	var types []graph.Type
	for q := len(node.Inputs); q < len(c.Node.Inputs); q++ {
		if c.Needs(q) {
			wanted, types = append(wanted, q), append(types, c.typeOf(c.X(q)))
		}
	}
	bodies := map[string]*graph.Graph{}
	for _, name := range []string{"then_branch", "else_branch"} {
		b := c.newBody("gradient")
		b.finish(c.branch(b, node.Attr(name).Graph, wanted))
		bodies[name] = b.g
	}
	for k, d := range c.emitBody("If", nil, bodies, types, node.Inputs[0]) {
		c.Set(wanted[k], d)
	}
}

// branch emits the body of one branch and returns the gradients of the wanted inputs.
func (c *Backward) branch(b *body, from *graph.Graph, wanted []int) []ID {
	grads := slices.Repeat([]ID{graph.None}, len(wanted))
	if from.NeverRuns == "" {
		nodes, to := b.copyOf(from, nil)
		var asked, outs, seeds []ID
		for _, q := range wanted {
			asked = append(asked, b.capture(c.X(q)))
		}
		t := newTape(b.emitter)
		if err := t.analyse(b.lifted(nodes), nil, asked); err != nil {
			c.fail(err)
		}
		for k, o := range from.Outputs {
			if c.D(k) != graph.None && t.need[to[o]] {
				outs, seeds = append(outs, b.op("Identity", to[o])), append(seeds, b.capture(c.D(k)))
			}
		}
		if len(outs) > 0 && c.err == nil {
			made, err := b.differentiate(slices.Clone(b.g.Nodes), outs, seeds, asked)
			b.scope, b.of, b.phase = c.scope, c.of, phaseBackward
			if err != nil {
				c.fail(err)
				return grads
			}
			grads = made
		}
	}
	for k, q := range wanted {
		if grads[k] == graph.None {
			grads[k] = b.zeros(b.capture(c.X(q)), c.shape(c.X(q))...)
		}
	}
	return grads
}

package reference

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// control evaluates an operator with bodies; ok is false if it is not known. They are
// not nodes by themselves: Node and Knows leave them out.
func (s *scope) control(c *evaluation) (out []*Tensor, ok bool) {
	if c.Domain != "" {
		return nil, false
	}
	switch c.Op {
	case "If":
		return s.branch(c), true
	case "Scan":
		return s.scan(c), true
	}
	return nil, false
}

// run evaluates a body of a node of this scope.
func (s *scope) run(body *graph.Graph, in ...*Tensor) []*Tensor {
	inner := newScope(s.model, body, s.opsets)
	inner.attrs = s.attrs
	for i, id := range body.Inputs {
		inner.values[id] = in[i]
	}
	for _, c := range body.Captures {
		inner.values[c.Inner] = s.value(c.Outer)
	}
	var out []*Tensor
	for _, id := range body.Outputs {
		out = append(out, inner.value(id))
	}
	return out
}

func (s *scope) branch(c *evaluation) []*Tensor {
	name := "else_branch"
	if c.x(0).I[0] != 0 {
		name = "then_branch"
	}
	return s.run(c.attr(name).Graph)
}

// scan is Scan of opset 9 and later, along axis 0.
func (s *scope) scan(c *evaluation) []*Tensor {
	for _, name := range []string{"scan_input_axes", "scan_output_axes"} {
		if slices.ContainsFunc(c.ints(name, nil), func(a int) bool { return a != 0 }) {
			fail("%s: expected axis 0", name)
		}
	}
	body, m := c.attr("body").Graph, c.int("num_scan_inputs", 0)
	n := len(c.in) - m
	reversed := func(name string, k int) bool {
		list := c.ints(name, nil)
		return k < len(list) && list[k] != 0
	}
	states, steps := slices.Clone(c.in[:n]), c.x(n).Shape[0]
	rows := make([][]*Tensor, len(body.Outputs)-n)
	for i := range steps {
		in := slices.Clone(states)
		for k, x := range c.in[n:] {
			at := i
			if reversed("scan_input_directions", k) {
				at = steps - 1 - i
			}
			in = append(in, x.part(0, at, 1).shaped(x.Shape[1:]...))
		}
		out := s.run(body, in...)
		states = out[:n:n]
		for k, y := range out[n:] {
			rows[k] = append(rows[k], y.shaped(append([]int{1}, y.Shape...)...))
		}
	}
	for k, list := range rows {
		if len(list) == 0 {
			fail("no iterations: the shape of output %d is not known", n+k)
		}
		if reversed("scan_output_directions", k) {
			slices.Reverse(list)
		}
		states = append(states, concat(0, list...))
	}
	return states
}

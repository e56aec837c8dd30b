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
	case "Loop":
		return s.loop(c), true
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

// loop is Loop: it ends after a number of iterations, or when its condition says so.
func (s *scope) loop(c *evaluation) []*Tensor {
	body := c.attr("body").Graph
	states := slices.Clone(c.in[2:])
	n := len(states)
	rows := make([][]*Tensor, len(body.Outputs)-1-n)
	going := true
	if c.x(1) != nil {
		going = c.x(1).I[0] != 0
	}
	for i := int64(0); going && (c.x(0) == nil || i < c.x(0).I[0]); i++ {
		number := &Tensor{Type: graph.Int64, Shape: []int{}, I: []int64{i}}
		on := &Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{1}}
		out := s.run(body, append([]*Tensor{number, on}, states...)...)
		going, states = out[0].I[0] != 0, out[1:1+n:1+n]
		for k, y := range out[1+n:] {
			rows[k] = append(rows[k], y.shaped(append([]int{1}, y.Shape...)...))
		}
	}
	return joined(states, rows, func(int) int { return 0 })
}

// joined appends the outputs of all iterations, each along its axis, to the states.
func joined(states []*Tensor, rows [][]*Tensor, axis func(k int) int) []*Tensor {
	for k, list := range rows {
		if len(list) == 0 {
			fail("no iterations: the shape of output %d is not known", len(states)+k)
		}
		states = append(states, concat(axis(k), list...))
	}
	return states
}

// scan is Scan of opset 9 and later.
func (s *scope) scan(c *evaluation) []*Tensor {
	axis := func(name string, k, rank int) int {
		if list := c.ints(name, nil); k < len(list) {
			return wrapAxis(list[k], rank)
		}
		return 0
	}
	body, m := c.attr("body").Graph, c.int("num_scan_inputs", 0)
	n := len(c.in) - m
	reversed := func(name string, k int) bool {
		list := c.ints(name, nil)
		return k < len(list) && list[k] != 0
	}
	states, steps := slices.Clone(c.in[:n]), c.x(n).Shape[axis("scan_input_axes", 0, len(c.x(n).Shape))]
	rows := make([][]*Tensor, len(body.Outputs)-n)
	for i := range steps {
		in := slices.Clone(states)
		for k, x := range c.in[n:] {
			at := i
			if reversed("scan_input_directions", k) {
				at = steps - 1 - i
			}
			a := axis("scan_input_axes", k, len(x.Shape))
			in = append(in, x.part(a, at, 1).shaped(slices.Delete(slices.Clone(x.Shape), a, a+1)...))
		}
		out := s.run(body, in...)
		states = out[:n:n]
		for k, y := range out[n:] {
			rows[k] = append(rows[k], y.shaped(slices.Insert(slices.Clone(y.Shape), axis("scan_output_axes", k, len(y.Shape)+1), 1)...))
		}
	}
	for k, list := range rows {
		if reversed("scan_output_directions", k) {
			slices.Reverse(list)
		}
	}
	return joined(states, rows, func(k int) int { return axis("scan_output_axes", k, len(rows[k][0].Shape)) })
}

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/vm"
)

// at returns the program at the lengths that the given inputs and --dim have. A dimension
// for which neither has a length has the largest one of the plan. A plan without ranges is
// for one point.
func (c *runCmd) at(program *vm.Program, p *plan.Plan, given map[string]vm.Value) (*vm.Program, error) {
	for _, name := range slices.Sorted(maps.Keys(c.Dim)) {
		n := c.Dim[name]
		switch d, known := p.Dims[name]; {
		case !known:
			return nil, usagef("--dim %s=%d: expected a dimension of the plan%s", name, n, listed(p))
		case d.Follows:
			return nil, usagef("--dim %s=%d: expected none, since it follows from other dimensions%s", name, n, listed(p))
		case !d.Has(n):
			return nil, usagef("--dim %s=%d: expected one of %v, for which the plan is", name, n, d)
		}
	}
	if p.Ranges == nil {
		return program, nil
	}
	dims, err := program.LengthsOf(given)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Dim)) {
		if n, is := dims[name]; is && n != c.Dim[name] {
			return nil, usagef("--dim %s=%d: the inputs have %d", name, c.Dim[name], n)
		}
		dims[name] = c.Dim[name]
	}
	names, _ := p.Box()
	for _, name := range names {
		if _, is := dims[name]; !is {
			dims[name] = p.Dims[name].Value
		}
	}
	return program.At(dims)
}

// listed lists the dimensions of a plan that have lengths of their own.
func listed(p *plan.Plan) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.Dims)) {
		if d := p.Dims[name]; !d.Follows {
			list = append(list, fmt.Sprintf("%s=%v", graph.Short(name), d))
		}
	}
	if len(list) == 0 {
		return ", which has none"
	}
	return ": " + strings.Join(list, ", ")
}

// pointText writes the point at which a program runs.
func pointText(dims map[string]int64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(dims)) {
		list = append(list, fmt.Sprintf("%s=%d", graph.Short(name), dims[name]))
	}
	return strings.Join(list, ", ")
}

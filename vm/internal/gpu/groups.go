package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// groups describes, for each result, the elements that it is computed from: those along
// the reduced axes of a tensor.
type groups struct {
	param       groupParam
	grid, block driver.Dim3
	parts       int // of a group, in different blocks
	lines       bool
}

// groupParam is Groups of groups.cuh.
type groupParam struct {
	groups, terms, part, along int32
	kept, keptStep             [3]int32
	reduced, reducedStep       [3]int32
	by                         [3]int32
}

// manyBlocks keeps any GPU busy; few groups are cut into parts until there are that many
// blocks, or leastTerms terms for each thread. Both are fixed, and so is the order of a
// sum.
const (
	manyBlocks = 512
	leastTerms = 16
)

// groupsOf shares the reduction of the axes in drop out to blocks. Threads that are
// neighbours have neighbouring elements: of one group if the last axis is reduced, else of
// neighbouring groups.
func groupsOf(shape []int, drop []bool) (*groups, error) {
	if n := count(shape); n > 1<<31-1<<20 {
		return nil, unsupportedf("the reduction of %d elements", n)
	}
	f := form.FoldAxes(shape, drop)
	if len(f.Kept) > 3 || len(f.Reduced) > 3 {
		return nil, unsupportedf("the reduction of %d separate runs of axes, more than 3", max(len(f.Kept), len(f.Reduced)))
	}
	g := &groups{lines: len(f.Reduced) <= 1}
	p := &g.param
	p.kept, p.keptStep = three(f.Kept, f.KeptStride)
	p.reduced, p.reducedStep = three(f.Reduced, f.ReducedStride)
	many, terms := count(f.Kept), count(f.Reduced)
	p.groups, p.terms = int32(many), int32(terms)
	inner := 0 // the stride of the reduced elements that come first
	if k := len(f.Reduced); k > 0 {
		inner = f.ReducedStride[k-1]
	}
	var x1, y1, team int
	if inner == 1 || many == 1 {
		p.along = 1
		x1 = atLeast(terms, 32)
		if terms > 1024 {
			x1 = 256
		}
		y1 = min(128/min(x1, 128), max(32/min(x1, 32), atLeast(many, 128))) // whole warps: lanes exchange values
		team = x1
		g.grid = driver.Dim3{X: uint32((many + y1 - 1) / y1), Y: 1, Z: 1}
	} else {
		x1 = atLeast(many, 32)
		y1 = atLeast(terms, 256/x1)
		team = y1
		g.grid = driver.Dim3{X: uint32((many + x1 - 1) / x1), Y: 1, Z: 1}
	}
	g.block = driver.Dim3{X: uint32(x1), Y: uint32(y1), Z: 1}
	g.parts = max(1, min((manyBlocks+int(g.grid.X)-1)/int(g.grid.X), terms/(team*leastTerms)))
	part := (terms + g.parts - 1) / g.parts
	if part > 0 {
		g.parts = (terms + part - 1) / part
	}
	p.part, g.grid.Y = int32(part), uint32(g.parts)
	for a, rest := 2, int32(team); a >= 0; a-- {
		if p.by[a] = rest; a > 0 {
			p.by[a] = rest % max(p.reduced[a], 1)
			rest /= max(p.reduced[a], 1)
		}
	}
	return g, nil
}

// finishOf is the grid of the kernel that joins the parts of some results.
func finishOf(results int) (grid, block driver.Dim3) {
	return driver.Dim3{X: uint32((results + 31) / 32), Y: 1, Z: 1}, driver.Dim3{X: 32, Y: 8, Z: 1}
}

// three returns the lengths and steps of at most three axes, after axes of length 1.
func three(shape, stride []int) (n, step [3]int32) {
	n = [3]int32{1, 1, 1}
	for i := range shape {
		k := 3 - len(shape) + i
		n[k], step[k] = int32(max(shape[i], 1)), int32(stride[i])
	}
	return n, step
}

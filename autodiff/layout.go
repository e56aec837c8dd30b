package autodiff

import (
	"github.com/onnxmem/onnxmem/ops/attr"
)

// layoutRules cover operators that change the shape or the order of elements.
var layoutRules = []Rule{
	{Op: "Reshape", Inputs: []int{0}, Forwards: true, Grad: reshapeGrad},
	{Op: "Flatten", Forwards: true, Grad: reshapeGrad},
	{Op: "Squeeze", Inputs: []int{0}, Forwards: true, Grad: reshapeGrad},
	{Op: "Unsqueeze", Inputs: []int{0}, Forwards: true, Grad: reshapeGrad},
	{Op: "Transpose", Forwards: true, Grad: transposeGrad},
	{Op: "SpaceToDepth", Grad: func(c *Backward) {
		c.Set(0, c.with("DepthToSpace", attrs{"blocksize": c.Int("blocksize", 1), "mode": c.Str("mode", "DCR")}, c.D(0)))
	}},
	{Op: "DepthToSpace", Grad: depthToSpaceGrad},
}

// reshapeGrad gives the gradient the shape of the input: a view.
func reshapeGrad(c *Backward) { c.Set(0, c.reshape(c.D(0), c.shape(c.X(0)))) }

func transposeGrad(c *Backward) {
	perm, err := attr.Permutation(c.Node, c.rank(c.X(0)))
	if err != nil {
		c.Failf("%w", err)
		return
	}
	if len(perm) == 2 && perm[0] == 1 && c.turns(c.D(0), c.Node.Outputs[0]) {
		c.Set(0, c.turned(c.D(0)))
		return
	}
	inverse := make([]int64, len(perm))
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	c.Set(0, c.transpose(c.D(0), inverse...))
}

// depthToSpaceGrad is SpaceToDepth, preceded by a permutation of axes in mode
// CRD.
func depthToSpaceGrad(c *Backward) {
	b := c.Int("blocksize", 1)
	if c.Str("mode", "DCR") == "DCR" {
		c.Set(0, c.with("SpaceToDepth", attrs{"blocksize": b}, c.D(0)))
		return
	}
	x := c.shape(c.X(0))
	if c.err != nil {
		return
	}
	d := c.reshape(c.D(0), []int64{x[0], x[1] / (b * b), x[2], b, x[3], b})
	c.Set(0, c.reshape(c.transpose(d, 0, 1, 3, 5, 2, 4), x))
}

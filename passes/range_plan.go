package passes

import (
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// planStacking returns the stacking of a region as indices into its buffers, and for each
// of these the index of its size as a polynomial, or -1.
func (g *ranged) planStacking(r *region) (stacking, sizeOf []int) {
	at := r.stacked()
	stacking = []int{}
	for _, rank := range r.stack.Stack.Ranking() {
		stacking = append(stacking, at[rank])
	}
	_, of := g.sizes.Plan()
	sizeOf = make([]int, len(r.buffers))
	for i := range sizeOf {
		sizeOf[i] = -1
	}
	for i, k := range at {
		sizeOf[k] = of[r.stackSizes+i]
	}
	return stacking, sizeOf
}

// planProofs lists the certificates of a region at the points, each once, those that prove
// most points first.
func (g *ranged) planProofs(r *region) []plan.RangeCertificate {
	var bounds []*box.PointBound
	for i := range g.proven {
		if p := &g.proven[i]; p.refused == "" {
			bounds = append(bounds, &p.bounds[r.rangeGraph])
		}
	}
	certificates := []plan.RangeCertificate{}
	for _, proof := range g.graphs[r.rangeGraph].Proofs(bounds) {
		if proof.Kind == schedule.KindSearch {
			continue
		}
		c := plan.RangeCertificate{Kind: proof.Kind, Nodes: []string{}, Steps: r.steps(proof.Nodes)}
		for _, step := range c.Steps {
			c.Nodes = append(c.Nodes, r.g.Nodes[step].Name)
		}
		certificates = append(certificates, c)
	}
	return certificates
}

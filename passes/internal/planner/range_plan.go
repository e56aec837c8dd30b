package planner

import (
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// PlanStacking returns the stacking of a region as indices into its buffers, and for each
// of these the index of its size as a polynomial, or -1.
func (g *Ranged) PlanStacking(r *Region) (stacking, sizeOf []int) {
	in := r.Boxes[r.G]
	at := r.stacked(in.Chosen)
	stacking = []int{}
	for _, rank := range in.Chosen.Stack.Ranking() {
		stacking = append(stacking, at[rank])
	}
	of := g.Found.Sizes.Of(in)
	sizeOf = make([]int, len(r.Buffers))
	for i := range sizeOf {
		sizeOf[i] = -1
	}
	for i, k := range at {
		sizeOf[k] = of[i]
	}
	return stacking, sizeOf
}

// PlanProofs lists the certificates of a region at the points, each once, those that prove
// most points first.
func (g *Ranged) PlanProofs(r *Region) []plan.RangeCertificate {
	certificates := []plan.RangeCertificate{}
	for _, proof := range g.Found.Proofs(r.Boxes[r.G]) {
		if proof.Kind == schedule.KindSearch {
			continue
		}
		c := plan.RangeCertificate{Kind: proof.Kind, Nodes: []string{}, Steps: r.Steps(proof.Nodes)}
		for _, step := range c.Steps {
			c.Nodes = append(c.Nodes, r.G.Nodes[step].Name)
		}
		certificates = append(certificates, c)
	}
	return certificates
}

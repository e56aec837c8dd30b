package passes

import (
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// planStacking returns the stacking of a region as indices into its buffers, and for each
// of these the index of its size as a polynomial, or -1.
func (g *ranged) planStacking(r *region) (stacking, sizeOf []int) {
	in := r.boxes[r.g]
	at := r.stacked(in.Chosen)
	stacking = []int{}
	for _, rank := range in.Chosen.Stack.Ranking() {
		stacking = append(stacking, at[rank])
	}
	of := g.found.Sizes.Of(in)
	sizeOf = make([]int, len(r.buffers))
	for i := range sizeOf {
		sizeOf[i] = -1
	}
	for i, k := range at {
		sizeOf[k] = of[i]
	}
	return stacking, sizeOf
}

// planProofs lists the certificates of a region at the points, each once, those that prove
// most points first.
func (g *ranged) planProofs(r *region) []plan.RangeCertificate {
	certificates := []plan.RangeCertificate{}
	for _, proof := range g.found.Proofs(r.boxes[r.g]) {
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

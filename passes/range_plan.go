package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// planStacking returns the stacking of a region as indices into its buffers, and for each
// of these the index of its size as a polynomial, or -1.
func (g *ranged) planStacking(r *region) (stacking, sizeOf []int) {
	at := r.stacked()
	stacking = []int{}
	for _, rank := range r.stack.stack.Ranking() {
		stacking = append(stacking, at[rank])
	}
	_, of := g.sizes.plan()
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
	var list []schedule.Certificate
	var uses []int
	for _, p := range g.proven {
		if p.refused != "" {
			continue
		}
		has := p.bounds[r.rangeGraph]
		c := has.proof
		if has.known >= 0 {
			c = g.graphs[r.rangeGraph].known[has.known]
		}
		i := slices.IndexFunc(list, func(x schedule.Certificate) bool { return sameProof(x, c) })
		if i < 0 {
			i = len(list)
			list, uses = append(list, c), append(uses, 0)
		}
		uses[i]++
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return uses[b] - uses[a] })
	certificates := []plan.RangeCertificate{}
	for _, i := range order {
		if list[i].Kind == schedule.KindSearch {
			continue
		}
		c := plan.RangeCertificate{Kind: list[i].Kind, Nodes: []string{}, Steps: r.steps(list[i].Nodes)}
		for _, step := range c.Steps {
			c.Nodes = append(c.Nodes, r.g.Nodes[step].Name)
		}
		certificates = append(certificates, c)
	}
	return certificates
}

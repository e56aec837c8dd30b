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

// planRanges adds to the plan of the corner what holds at the other points.
func (s *State) planRanges(p *plan.Plan) {
	g := s.ranged
	if g == nil {
		return
	}
	p.Version = plan.RangesVersion
	s.planLengths(p.Dims)
	r := &plan.Ranges{Points: g.box.Points, Inferred: len(g.points), Proof: plan.ProofEnumerated, Table: []plan.RangePoint{}}
	if len(g.points) < g.box.Points {
		r.Proof = plan.ProofBounded
	}
	r.Sizes, _ = g.sizes.plan()
	r.Stacking, r.SizeOf = g.planStacking(s.main)
	for _, q := range g.proven {
		if q.refused == "" && q.arena == q.bound {
			r.OptimalPoints++
		}
	}
	r.Refused = len(g.points) - len(g.accepted)
	if r.Refused > 0 {
		r.Refusal = g.proven[slices.IndexFunc(g.proven, func(p provenPoint) bool { return p.refused != "" })].refused
		for name, a := range g.box.Accepted(g.accepted) {
			if r.Accepted == nil {
				r.Accepted = map[string]plan.AcceptedLengths{}
			}
			r.Accepted[name] = plan.AcceptedLengths{Low: a.Low, High: a.High(), Step: a.Step}
		}
	}
	row := func(i int) plan.RangePoint {
		at := g.points[i]
		return plan.RangePoint{Dims: g.box.At(at), ArenaBytes: g.proven[i].arena, PeakBytes: g.proven[i].peak, LowerBoundBytes: g.proven[i].bound}
	}
	r.Smallest, r.Worst = row(g.smallest), row(g.worst)
	for _, q := range g.grid {
		i, _ := slices.BinarySearch(g.points, q.index)
		r.Table = append(r.Table, row(i))
	}
	r.Certificates = g.planProofs(s.main)
	p.Ranges = r
}

// planLengths writes the lengths of the ranges into the plan's dimensions. What has another
// length at another point, but no range, follows from those that do.
func (s *State) planLengths(dims map[string]plan.Dim) {
	g := s.ranged
	for k, name := range g.box.Names {
		d, l := dims[name], g.box.Lengths[k]
		if l.Values != nil {
			d.Values = slices.Clone(l.Values)
		} else {
			low := l.Low
			d.Low, d.Step = &low, l.Step
		}
		dims[name] = d
	}
	for name, d := range dims {
		if g.follows[name] {
			d.Follows = true
			dims[name] = d
		}
	}
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

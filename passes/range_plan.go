package passes

import (
	"slices"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// orderRange puts the nodes of the main graph into the order of the pass range.
func (s *State) orderRange() error {
	if err := s.reorder(s.main, s.ranged.chosen.order); err != nil {
		return err
	}
	s.main.loads.Taken = s.ranged.chosen.taken
	return nil
}

// placeRange makes the buffers of the main graph and places those of the arena by the
// stacking of the pass range.
func (s *State) placeRange() (err error) {
	r, c := s.main, s.ranged.chosen
	if r.buffers, err = r.chains(c.taken); err != nil {
		return err
	}
	r.resident = 0
	at := s.ranged.bufferOf(r)
	sizes, offsets := make([]int64, len(c.buffers)), make([]int64, len(c.buffers))
	for k := range r.buffers {
		b := &r.buffers[k]
		if b.resident {
			b.offset = r.resident
			r.resident += b.bytes
		}
	}
	for i, k := range at {
		sizes[i] = r.buffers[k].bytes
	}
	if r.arena, err = c.stack.Place(sizes, offsets); err != nil {
		return err
	}
	for i, k := range at {
		r.buffers[k].offset = offsets[i]
	}
	r.optimal = r.arena == r.loads.Peak
	return nil
}

// bufferOf returns, for each buffer of the stacking, its index in the buffers of a region.
func (g *ranged) bufferOf(r *region) []int {
	byStorage, byNode := map[int32]int{}, map[int]int{}
	for k := range r.buffers {
		if b := &r.buffers[k]; b.node >= 0 {
			byNode[int(b.node)] = k
		} else {
			byStorage[b.storages[0]] = k
		}
	}
	at := make([]int, len(g.chosen.buffers))
	for i, b := range g.chosen.buffers {
		if len(b.Tensors) > 0 {
			at[i] = byStorage[b.Tensors[0]]
		} else {
			at[i] = byNode[int(r.stepOf[b.Node])]
		}
	}
	return at
}

// planRanges adds to the plan of the corner what holds at the other points.
func (s *State) planRanges(p *plan.Plan) {
	g := s.ranged
	if g == nil {
		return
	}
	p.Version = plan.RangesVersion
	s.planLengths(p.Dims)
	r := &plan.Ranges{Points: g.box.Points, Inferred: len(g.points), Proof: plan.ProofEnumerated, Stacking: []int{}, Certificates: []plan.RangeCertificate{}, Table: []plan.RangePoint{}}
	if len(g.points) < g.box.Points {
		r.Proof = plan.ProofBounded
	}
	at := g.bufferOf(s.main)
	for _, rank := range g.chosen.stack.Ranking() {
		r.Stacking = append(r.Stacking, at[rank])
	}
	list, of := g.sizes.plan()
	r.Sizes, r.SizeOf = list, make([]int, len(p.Buffers))
	for i := range r.SizeOf {
		r.SizeOf[i] = -1
	}
	for i, k := range at {
		r.SizeOf[k] = of[i]
	}
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
		return plan.RangePoint{Dims: g.box.At(at), ArenaBytes: g.proven[i].arena, PeakBytes: g.peaks[at], LowerBoundBytes: g.proven[i].bound}
	}
	r.Smallest, r.Worst = row(g.smallest), row(g.worst)
	for _, q := range g.grid {
		i, _ := slices.BinarySearch(g.points, q.index)
		r.Table = append(r.Table, row(i))
	}
	s.planProofs(r)
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

// planProofs lists the certificates of the points, each once, those that prove most points
// first.
func (s *State) planProofs(r *plan.Ranges) {
	var list []schedule.Certificate
	var uses []int
	for _, p := range s.ranged.proven {
		c := p.proof
		switch {
		case p.refused != "":
			continue
		case p.known >= 0:
			c = s.ranged.known[p.known]
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
	for _, i := range order {
		if list[i].Kind == schedule.KindSearch {
			continue
		}
		c := plan.RangeCertificate{Kind: list[i].Kind, Nodes: []string{}, Steps: s.main.steps(list[i].Nodes)}
		for _, step := range c.Steps {
			c.Nodes = append(c.Nodes, s.main.g.Nodes[step].Name)
		}
		r.Certificates = append(r.Certificates, c)
	}
}

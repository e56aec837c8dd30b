package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Beside ranges of dimensions, each buffer has one pool at all points: the one that it gets at
// the corner, where all buffers are largest. The buffers of a pool are stacked like those of one
// arena, so a pool is nowhere larger than at the corner, where it keeps to its capacity.

// divide divides the buffers of the main graph among the pools, and stacks those of each pool. The
// order has been chosen, and its bounds are proven.
func (b *rangeSolver) divide(ctx context.Context) error {
	if len(b.pools) == 0 {
		return nil
	}
	x := b.graphs[len(b.graphs)-1]
	r, err := b.dividedAtCorner(ctx)
	if err != nil {
		return err
	}
	at := r.stacked(x.Chosen)
	memory, sizes, offsets := make([]int, len(at)), make([]int64, len(at)), make([]int64, len(at))
	for i, k := range at {
		memory[i], sizes[i], offsets[i] = r.buffers[k].pool, r.buffers[k].bytes, r.buffers[k].offset
	}
	if err := x.Divide(memory, len(r.pools), sizes, offsets); err != nil {
		return err
	}
	return b.each(ctx, len(b.found.Points), func(m *graph.Model, i int) error {
		p, point := &b.found.Proven[i], b.found.Points[i]
		if p.Refused != "" {
			return nil
		}
		if _, err := b.infer(m, point); err != nil {
			return err
		}
		placed, err := b.placeAt(m, point, nil)
		if err != nil {
			return err
		}
		p.Arena = placed.Arenas[len(placed.Arenas)-1]
		return nil
	})
}

// withPools returns a ceiling that is no higher than what several pools hold together; nil without
// either.
func withPools(c *box.Ceiling, pools []memory) *box.Ceiling {
	if len(pools) == 0 {
		return c
	}
	var sum int64
	for _, p := range pools {
		sum = units.Add(sum, p.Capacity)
	}
	if c != nil && c.Bytes <= sum {
		return c
	}
	return &box.Ceiling{Bytes: sum}
}

// dividedAtCorner returns the main graph at the corner, in the order that was chosen, with its
// buffers in the pools.
func (b *rangeSolver) dividedAtCorner(ctx context.Context) (*region, error) {
	m := *b.model
	m.Graph = b.model.Graph.Clone()
	if _, err := b.infer(&m, b.box.Corner()); err != nil {
		return nil, err
	}
	b.share(&m)
	r, err := b.shared(&m, b.given.Given, nil)
	if err != nil {
		return nil, err
	}
	r.boxes = b.boxesOf(&m)
	if err := r.planBodies(ctx, b.search); err != nil {
		return nil, err
	}
	if err := r.order(ctx, b.search); err != nil {
		return nil, err
	}
	r.boxes = nil // its buffers have no places yet
	if b.keep != nil && b.keep.Arena {
		_, err := r.placeWithin(ctx, b.keep.Bytes, b.search)
		return r, err
	}
	return r, r.place(ctx, b.search)
}

// tieredAt gives the plan of a point with several pools what nodes move there, and the bound that
// the plan's prices prove. m is inferred at the point.
func tieredAt(m *graph.Model, p, at *plan.Plan, inf *ops.Inference) error {
	list := p.Tiers()
	if list == nil {
		return nil
	}
	keepTaken(m, p)
	x := &rules{align: p.Alignment, noViews: !p.Sharing.Views, noInplace: !p.Sharing.Inplace}
	index := map[string]int{}
	for i, t := range list {
		index[t.Name] = i
		x.pools = append(x.pools, memory{Name: t.Name, Capacity: t.Capacity, BytesPerSecond: t.BytesPerSecond})
	}
	r, err := x.shared(m, inf.Given, nil)
	if err != nil {
		return err
	}
	problem, placed, err := r.poolProblem(r.takenBy(at))
	if err != nil {
		return err
	}
	byName, byNode := map[string]*plan.Buffer{}, map[int]*plan.Buffer{}
	for i := range at.Buffers {
		b := &at.Buffers[i]
		if b.Node != nil {
			byNode[*b.Node] = b
		}
		for _, name := range b.Tensors {
			byName[name] = b
		}
	}
	d := &tiers.Division{Bytes: make([]int64, len(list))}
	for _, k := range placed {
		b := byNode[int(r.buffers[k].node)]
		if len(r.buffers[k].storages) > 0 {
			b = byName[r.nameOf(r.buffers[k].storages[0])]
		}
		d.Memory, d.Offsets = append(d.Memory, index[b.Pool]), append(d.Offsets, b.Offset)
	}
	r.divided(problem, placed, d)
	var prices []tiers.Price
	for _, x := range p.TrafficPrices {
		prices = append(prices, tiers.Price{Step: x.Step, Value: x.Price})
	}
	r.trafficBound = problem.Bound(prices)
	for i := range at.Pools {
		if t := at.Pools[i].Tier; t != nil {
			*t = r.tiers[index[at.Pools[i].Name]]
		}
	}
	at.Summary.Tiered, at.TrafficPrices = r.tiered(), p.TrafficPrices
	return nil
}

// takenBy returns the in-place pairs of a plan's buffers, and notes its workspaces.
func (r *region) takenBy(p *plan.Plan) (taken []schedule.Pair) {
	of := map[string]int32{}
	for id, i := range r.storageOf {
		if i != noStorage {
			of[r.g.Tensors[id].Name] = i
		}
	}
	for k := range p.Buffers {
		b := &p.Buffers[k]
		if b.Node != nil {
			r.workspace[*b.Node] = b.Bytes
		}
		if plan.Stays(b.Kind) {
			continue // updates chain them
		}
		before := int32(noStorage)
		for _, name := range b.Tensors {
			i := of[name]
			if before != noStorage && i != before {
				taken = append(taken, schedule.Pair{Over: before, Result: i})
			}
			before = i
		}
	}
	return taken
}

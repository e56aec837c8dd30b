package planner

import (
	"cmp"
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/schedule"
)

// Place assigns offsets to the buffers of a region.
func (r *Region) Place(ctx context.Context, x *Search) error {
	if len(r.Pools) > 0 && r.kind == mainGraph {
		_, err := r.DividePools(ctx, x)
		return err
	}
	if c := r.stack(); c != nil {
		return r.placeStack(ctx, c)
	}
	if err := r.placeArena(ctx, x); err != nil {
		return err
	}
	return r.placeHost(ctx)
}

// PlaceWithin places a main graph, and returns its arena. If that exceeds the limit, what
// the buffers need of several pools may fit all the same: it is more in sum than at any
// step, since each pool is as large as its own peak. So the slowest pool gets what the
// others leave of the limit, and the others less and less of their capacity, down to
// nothing, until the buffers fit.
func (r *Region) PlaceWithin(ctx context.Context, limit int64, x *Search) (arena int64, err error) {
	r.room = nil
	if err := r.Place(ctx, x); err != nil || r.Arena <= limit || len(r.Pools) == 0 {
		return r.Arena, err
	}
	arena = r.Arena
	last := len(r.Pools) - 1
	for part := int64(poolParts); part >= 0; part-- {
		r.room = make([]int64, last+1)
		left := limit
		for m, pool := range r.Pools[:last] {
			r.room[m] = min(pool.Capacity/poolParts*part+pool.Capacity%poolParts*part/poolParts, left)
			left -= r.room[m]
		}
		r.room[last] = min(r.Pools[last].Capacity, left)
		var full *FullError
		switch err := r.Place(ctx, x); {
		case errors.As(err, &full):
		case err != nil:
			return 0, err
		default:
			return r.Arena, nil
		}
	}
	r.room = nil
	return arena, nil
}

// poolParts is the number of parts in which a fast pool is given up.
const poolParts = 4

// placeArena places the buffers of the arena. It first tries two choices of
// in-place pairs with the least effort. If the better one is not proven optimal,
// it spends the full effort on it.
func (r *Region) placeArena(ctx context.Context, x *Search) error {
	taken, err := r.placeQuickly(ctx, x)
	late := x.TimeIsUp()
	if err != nil || late || r.Optimal || x.Placement != "" || x.Effort == schedule.EffortFast && x.Solving.Solver == nil {
		return err
	}
	opt := alloc.Options{Strategy: x.Placement, Effort: Placement(x.Effort)}
	if r.kind == mainGraph {
		opt.Solver, opt.SolverTime, opt.Threads, opt.Progress = x.Solving.Solver, x.Solving.PackTime, x.Solving.Threads, x.Progress
	}
	return r.placeWith(ctx, taken, opt, x)
}

// placeQuickly places the buffers of a region twice: with all in-place pairs, and
// with only those that the peak needs. Each pair forces two tensors to one
// offset, which can cost more in fragmentation than it saves. It keeps the
// placement with the smaller arena, the first if they are equal, and returns its
// pairs.
func (r *Region) placeQuickly(ctx context.Context, x *Search) ([]schedule.Pair, error) {
	if q := r.quick; q != nil {
		r.placed, r.Loads = q.placed, q.loads
		return q.taken, nil
	}
	quick := alloc.Options{Strategy: x.Placement, Effort: alloc.EffortFast}
	all := r.Loads
	if err := r.placeWith(ctx, all.Taken, quick, x); err != nil {
		return nil, err
	}
	if r.Optimal || len(all.Taken) == 0 {
		return all.Taken, nil
	}
	few, err := r.Problem().EvaluateSharing(Identity(len(r.G.Nodes)), all.Peak)
	if err != nil {
		return nil, err
	}
	kept := *r
	if err := r.placeWith(ctx, few.Taken, quick, x); err != nil {
		return nil, err
	}
	if r.Arena < kept.Arena {
		r.Loads = few
		return few.Taken, nil
	}
	*r = kept
	return all.Taken, nil
}

// placeWith makes the buffers that follow from the given in-place pairs and
// places them.
func (r *Region) placeWith(ctx context.Context, taken []schedule.Pair, opt alloc.Options, x *Search) error {
	var err error
	if r.Buffers, err = r.Chains(taken); err != nil {
		return err
	}
	p := alloc.Problem{Alignment: r.Align}
	var placed []int
	parent := r.parentOf()
	r.resident = 0
	for k := range r.Buffers {
		b := &r.Buffers[k]
		if r.putResident(b) {
			continue
		}
		if b.Host || parent != nil && parent[k] {
			continue
		}
		p.Buffers = append(p.Buffers, alloc.Buffer{Size: b.Bytes, First: b.First, Last: b.Last})
		placed = append(placed, k)
	}
	parents := r.placedParents()
	for _, parts := range parents {
		p.Buffers = append(p.Buffers, r.parentBuffer(parts))
	}
	// Short: the last 0.1 % of the arena is not worth the waiting time of a user.
	opt.Short = true
	search, end := x.Context(ctx)
	defer end()
	found, err := alloc.Solve(search, p, opt)
	if errors.Is(err, context.DeadlineExceeded) && x.TimeIsUp() {
		// There is no time left, but the buffers need offsets.
		x.Log.TimedOut = true
		opt.Strategy, opt.Solver = cmp.Or(opt.Strategy, alloc.Strategies[0].Name), nil
		found, err = alloc.Solve(context.WithoutCancel(ctx), p, opt)
	}
	if err != nil {
		return err
	}
	for i, k := range placed {
		r.Buffers[k].Offset = found.Offsets[i]
	}
	for i, parts := range parents {
		at := found.Offsets[len(placed)+i]
		for _, k := range parts {
			r.Buffers[k].Offset = at
			at += r.Buffers[k].Bytes
		}
	}
	r.Arena, r.Optimal, r.ClaimedBy, r.Packed = found.Arena, found.Optimal, found.ClaimedBy, found.Solver
	return nil
}

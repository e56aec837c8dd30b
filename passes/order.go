package passes

import (
	"context"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// order solves the bare problem of a region, then reorders the nodes and
// everything that refers to them by index.
func (r *region) order(ctx context.Context, x *search) error {
	if c := r.stack(); c != nil {
		return r.orderStack(c)
	}
	p := r.problem()
	if err := r.findOrders(ctx, p, x); err != nil {
		return err
	}
	return r.arrange(ctx, p, x)
}

// findOrders solves the bare problem p of a region.
func (r *region) findOrders(ctx context.Context, p *schedule.Problem, x *search) (err error) {
	if k := x.known; k != nil && r.kind == mainGraph && reflect.DeepEqual(k.problem, p) {
		r.solved = k.solved
		return nil
	}
	r.solved, err = r.solve(ctx, p, x)
	return err
}

// arrange puts the nodes of a region into one of the orders that were found for its bare
// problem p.
func (r *region) arrange(ctx context.Context, p *schedule.Problem, x *search) error {
	g := r.onePoint(p, x)
	// A strategy, and a search that sees the nodes in another order, may find another order
	// than before, in which a body takes other memory than in what was planned with it.
	g.Fixed = g.Fixed || x.fixes(r.kind)
	if g.Listed {
		if err := x.traversable(r.g); err != nil {
			return err
		}
	}
	l, err := g.List(ctx, &x.Search)
	if err != nil {
		return turned(err, r.g)
	}
	if err := r.choose(ctx, g, l.Orders, x); err != nil || !g.Listed {
		return err
	}
	x.log.timedOut = x.log.timedOut || x.TimeIsUp()
	order := l.Orders[0]
	r.listAs(order, l.Listing(order), l.BestPeak)
	return nil
}

// onePoint returns the bare problem p of a region as that of a box of one point, with what is known
// if it is solved.
func (r *region) onePoint(p *schedule.Problem, x *search) *box.Graph {
	g := &box.Graph{
		Main: r.kind == mainGraph, Fixed: r.inFunction || x.fixed && r.kind == mainGraph,
		Precedence: x.precedence(r, p), Listed: x.traversal != nil && !r.inFunction,
	}
	g.Set([]box.Point{{Problem: p}}, true)
	if r.solved == nil {
		return g
	}
	orders := x.Orders(r.solved)
	if x.peakAlone && g.Main && !g.Listed {
		orders = orders[:1]
	}
	g.Know(r.solved.Bound, orders)
	return g
}

// precedence pairs nodes of a region, with the bare problem p, of which the first must stay before
// the second.
func (x *search) precedence(r *region, p *schedule.Problem) (pairs [][2]int32) {
	fixed := x.fixes(r.kind)
	if x.keepRandom && !fixed && !r.inFunction {
		pairs = effectsInOrder(r.g, schedule.Program(p))
	}
	if r.kind == mainGraph {
		// With a fixed order, updates are already last; operands that were swapped
		// out come back right before their update.
		if x.updatesLast && !fixed {
			pairs = append(pairs, updatesLast(r.g)...)
		}
		pairs = append(pairs, x.turns...)
	}
	return pairs
}

// solve solves the bare problem p of a region.
func (r *region) solve(ctx context.Context, p *schedule.Problem, x *search) (*schedule.Result, error) {
	solved, err := r.onePoint(p, x).Solve(ctx, &x.Search)
	if err != nil {
		return nil, err
	}
	x.log.timedOut = x.log.timedOut || solved.Ended != nil
	return solved, nil
}

// effectsInOrder pairs each node that has an effect (see [graph.Effects]) with
// the next such node of an order.
func effectsInOrder(g *graph.Graph, order []int32) (pairs [][2]int32) {
	effects, last := graph.Effects(g), int32(-1)
	for _, n := range order {
		if !effects[n] {
			continue
		}
		if last >= 0 {
			pairs = append(pairs, [2]int32{last, n})
		}
		last = n
	}
	return pairs
}

// choose puts the nodes of a region into the one of several orders that has the smallest arena,
// the first of those that do; g is the region's bare problem. If there is but one, it is not placed.
// The orders come sorted: program order first, if it is one of them, then by area.
func (r *region) choose(ctx context.Context, g *box.Graph, orders [][]int32, x *search) error {
	if len(orders) == 1 {
		return r.reorder(orders[0])
	}
	bound := g.Corner().Bound
	order, quick, err := box.Choose(g, &x.Search, orders, func(order []int32, _ box.Fit) (*quickPlacement, box.Fit, error) {
		if err := r.reorder(order); err != nil {
			return nil, box.Fit{}, err
		}
		taken, err := r.placeQuickly(ctx, x)
		return &quickPlacement{r.placed, r.loads, taken}, box.Fit{Worst: box.Ratio(r.arena, bound)}, err
	})
	if err != nil {
		return err
	}
	if err := r.reorder(order); err != nil {
		return err
	}
	r.quick = quick
	return nil
}

// problem makes the bare problem of a region. Tensor i is storage i. Tensors of 0
// bytes follow; they carry the precedence that merging views and leaving out
// dynamic tensors would lose.
func (r *region) problem() *schedule.Problem {
	p := &schedule.Problem{Name: r.g.Name, Nodes: make([]schedule.Node, len(r.g.Nodes))}
	for i, n := range r.g.Nodes {
		p.Nodes[i] = schedule.Node{Name: n.Name, Op: n.Op, Workspace: r.workspace[i]}
	}
	p.Tensors = make([]schedule.Tensor, 0, len(r.g.Tensors))
	for i := range r.storages {
		st := &r.storages[i]
		t := schedule.Tensor{
			Name: r.nameOf(int32(i)), Bytes: st.bytes, Producer: int32(st.maker),
			Resident: !r.live(int32(i)), Output: st.output,
		}
		for _, n := range r.readers(int32(i)) {
			if n != st.maker {
				t.Consumers = append(t.Consumers, int32(n))
			}
		}
		t.Reuses = r.reuses(int32(i))
		p.Tensors = append(p.Tensors, t)
	}
	for id, t := range r.g.Tensors {
		if i := r.storageOf[id]; t.Maker < 0 || i != noStorage && r.storages[i].maker == t.Maker {
			continue
		}
		control := schedule.Tensor{Name: t.Name, Kind: "control", Producer: int32(t.Maker)}
		for _, n := range t.Readers {
			control.Consumers = append(control.Consumers, int32(n))
		}
		if len(control.Consumers) > 0 {
			p.Tensors = append(p.Tensors, control)
		}
	}
	r.updateEdges(p)
	return p
}

// nameOf is the name of the first tensor of a storage.
func (r *region) nameOf(i int32) string {
	st := &r.storages[i]
	if len(st.tensors) == 0 {
		return r.g.Tensors[st.covers[0]].Name
	}
	return r.g.Tensors[st.tensors[0]].Name
}

// reuses returns the storages that storage i may overwrite: those of the inputs
// for which ops allows it, if they have the same size and are not resident,
// outside the region or graph outputs.
func (r *region) reuses(i int32) schedule.Reuses {
	if r.reuse != nil {
		return slices.Clone(r.reuse[i])
	}
	st := &r.storages[i]
	if r.noInplace || st.maker < 0 || !r.live(i) || st.bytes == 0 {
		return nil
	}
	var list schedule.Reuses
	n := r.g.Nodes[st.maker]
	for _, a := range n.Semantics.Inplace {
		if n.Outputs[a.Out] != st.tensors[0] {
			continue
		}
		over := r.storageOf[n.Inputs[a.In]]
		if over == noStorage || !r.live(over) || r.storages[over].output || r.storages[over].bytes != st.bytes {
			continue
		}
		if !slices.Contains(list, over) {
			list = append(list, over)
		}
	}
	return list
}

// at returns the present step of a node by its index in the file.
func (r *region) at(n int) graph.NodeID {
	if r.stepOf == nil {
		return graph.NodeID(n)
	}
	return r.stepOf[n]
}

// restore puts the nodes of a region and of its bodies back into the order of the file.
func (r *region) restore() error {
	for _, b := range r.bodies {
		if err := b.r.restore(); err != nil {
			return err
		}
	}
	return r.reorder(identity(len(r.g.Nodes)))
}

// reorder reorders the nodes, and everything that refers to them by index. The
// order lists indices in the file.
func (r *region) reorder(order []int32) error {
	r.renumber(order)
	var err error
	r.loads, err = r.problem().Evaluate(identity(len(order)))
	return err
}

// inFileOrder puts the nodes into the order of the file, in which nodes may not be able to run: an
// update may stand before another reader of the old value. The loads stay those of the order before.
func (r *region) inFileOrder() { r.renumber(identity(len(r.g.Nodes))) }

// renumber reorders the nodes, and everything that refers to them by index, but not the loads.
func (r *region) renumber(order []int32) {
	r.quick = nil
	if r.stepOf == nil {
		r.stepOf = make([]graph.NodeID, len(order))
		for i := range r.stepOf {
			r.stepOf[i] = graph.NodeID(i)
		}
	}
	ids := make([]graph.NodeID, len(order)) // the nodes in their present order
	workspace, scratch := make([]int64, len(order)), slices.Clone(r.scratch)
	place := make([]graph.NodeID, len(order)) // of each node in its present position: its step in the new order
	for step, n := range order {
		now := r.stepOf[n]
		ids[step], workspace[step], place[now] = now, r.workspace[now], graph.NodeID(step)
		if scratch != nil {
			scratch[step] = r.scratch[now]
		}
	}
	r.g.Reorder(ids)
	r.workspace, r.scratch = workspace, scratch
	for i := range r.storages {
		if st := &r.storages[i]; st.maker >= 0 {
			st.maker = place[st.maker]
		}
	}
	for i := range r.bodies {
		r.bodies[i].node = place[r.bodies[i].node]
	}
	for i, now := range r.stepOf {
		r.stepOf[i] = place[now]
	}
}

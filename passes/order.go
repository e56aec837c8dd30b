package passes

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/schedule"
)

// order puts the main graph's nodes into the order of the smallest peak.
func order(ctx context.Context, s *State) error { return s.order(ctx, s.main) }

// programOrder keeps the nodes in program order.
func programOrder(ctx context.Context, s *State) error {
	s.opt.Schedule = "program"
	return s.order(ctx, s.main)
}

// order solves the bare problem of a region and puts its nodes, and all that
// speaks of them by index, into the order found.
func (s *State) order(ctx context.Context, r *region) error {
	search, end := s.searching(ctx)
	defer end()
	p := s.problem(r)
	opt := schedule.Options{Strategy: s.opt.Schedule, Effort: s.opt.Effort, Goal: s.opt.Goal}
	switch {
	case r.inFunction:
		opt.Strategy = "program"
	case s.keepOrder && r == s.main:
		opt.Strategy = "program"
	case s.opt.KeepRandomOrder:
		opt.Precedence = effectsInOrder(r.g, schedule.Program(p))
	}
	if r == s.main {
		opt.Progress = s.opt.Progress
		// With a fixed order, updates are already last; operands that were swapped
		// out come back right before their update.
		if s.opt.UpdatesLast && !s.keepOrder {
			opt.Precedence = append(opt.Precedence, updatesLast(r.g)...)
		}
	}
	var err error
	if r.solved, err = schedule.Solve(search, p, opt); err != nil {
		return err
	}
	ended := r.solved.Ended != nil
	s.late = s.late || ended
	if r == s.main && r.solved.KeptBound > r.solved.Bound {
		s.notes = append(s.notes, s.keptNote(r.solved))
	}
	orders := r.solved.Orders
	if s.opt.Goal == schedule.GoalArea || ended {
		orders = orders[:1]
	}
	return s.choose(ctx, r, orders)
}

// effectsInOrder pairs each node that has an effect, as [graph.Effects] has it,
// with the next one in an order.
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

// keptNote says what the precedence that was asked for costs.
func (s *State) keptNote(r *schedule.Result) string {
	why := "random operators keep their order"
	if s.opt.UpdatesLast {
		why = "updates run last"
	}
	what := fmt.Sprintf("its peak is at least %s", units.Bytes(r.KeptBound))
	if r.Evaluation.Peak == r.KeptBound {
		what = "no order that does has a smaller peak"
	}
	return fmt.Sprintf("%s: %s; the bound of %s is that of all orders", why, what, units.Bytes(r.Bound))
}

// choose tries several orders of one peak and keeps the one with the smallest
// arena, the first of equal ones: neither the area of the load nor the distance
// from the program's order predicts which one that is. The orders come sorted:
// the program's order first, if it is among them, then by area.
func (s *State) choose(ctx context.Context, r *region, orders [][]int32) error {
	best, arena := -1, int64(0)
	for k, order := range orders {
		if err := s.follow(r, order); err != nil {
			return err
		}
		if len(orders) == 1 {
			return nil
		}
		if _, err := s.placeQuickly(ctx, r); err != nil {
			return err
		}
		if best < 0 || r.arena < arena {
			best, arena = k, r.arena
		}
		if r.optimal {
			break
		}
	}
	return s.follow(r, orders[best])
}

// problem is the bare problem of a region. Tensor i is storage i; behind them
// stand tensors of 0 bytes that carry the precedence which merging views and
// leaving out dynamic tensors would lose.
func (s *State) problem(r *region) *schedule.Problem {
	p := &schedule.Problem{Name: r.g.Name, Nodes: make([]schedule.Node, len(r.g.Nodes))}
	for i, n := range r.g.Nodes {
		p.Nodes[i] = schedule.Node{Name: n.Name, Op: n.Op, Workspace: r.workspace[i]}
	}
	p.Tensors = make([]schedule.Tensor, 0, len(r.g.Tensors))
	for i := range r.storages {
		st := &r.storages[i]
		t := schedule.Tensor{
			Name: r.g.Tensors[st.tensors[0]].Name, Bytes: st.bytes, Producer: int32(st.maker),
			Resident: !r.live(int32(i)), Output: st.output,
		}
		for _, n := range r.readers(int32(i)) {
			if n != st.maker {
				t.Consumers = append(t.Consumers, int32(n))
			}
		}
		t.Reuses = r.reuses(int32(i), s.opt.NoInplace)
		p.Tensors = append(p.Tensors, t)
	}
	for id, t := range r.g.Tensors {
		if i := r.of[id]; t.Maker < 0 || i != noStorage && r.storages[i].maker == t.Maker {
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

// reuses gives the storages that storage i may be written over: those of inputs
// of its maker that ops allows, of the same size, not resident, not outside and
// without a graph output.
func (r *region) reuses(i int32, noInplace bool) schedule.Reuses {
	st := &r.storages[i]
	if noInplace || st.maker < 0 || !r.live(i) || st.bytes == 0 {
		return nil
	}
	var list schedule.Reuses
	n := r.g.Nodes[st.maker]
	for _, a := range n.Semantics.Inplace {
		if n.Outputs[a.Out] != st.tensors[0] {
			continue
		}
		over := r.of[n.Inputs[a.In]]
		if over == noStorage || !r.live(over) || r.storages[over].output || r.storages[over].bytes != st.bytes {
			continue
		}
		if !slices.Contains(list, over) {
			list = append(list, over)
		}
	}
	return list
}

// follow puts the nodes, and all that speaks of them by index, into an order
// that is given by their indices in the file.
func (s *State) follow(r *region, order []int32) error {
	if r.step == nil {
		r.step = make([]graph.NodeID, len(order))
		for i := range r.step {
			r.step[i] = graph.NodeID(i)
		}
	}
	ids := make([]graph.NodeID, len(order)) // the nodes as they stand now
	workspace := make([]int64, len(order))
	place := make([]graph.NodeID, len(order)) // of each node as it stands now, its step
	for step, n := range order {
		now := r.step[n]
		ids[step], workspace[step], place[now] = now, r.workspace[now], graph.NodeID(step)
	}
	r.g.Reorder(ids)
	r.workspace = workspace
	for i := range r.storages {
		if st := &r.storages[i]; st.maker >= 0 {
			st.maker = place[st.maker]
		}
	}
	for i := range r.bodies {
		r.bodies[i].node = place[r.bodies[i].node]
	}
	for i, now := range r.step {
		r.step[i] = place[now]
	}
	var err error
	r.loads, err = s.problem(r).Evaluate(identity(len(order)))
	return err
}

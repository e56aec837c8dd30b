package budget

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// adapt searches, for each limit of the grid, for an order in which the cheapest plan
// needs less memory, and plans again in that order. Recomputation changes which
// buffers are live at a step, so another order may suit it. adapt returns all followed
// by the chainers of the new orders. It skips the plans in adapted, for which an
// earlier call has already done this.
//
// An order of the smallest peak need not be a good order for plans with
// recomputation. On our own ResNet-50 at 50 % of its peak, plans in such orders cost
// 5.34 %, plans in adapted orders 5.00 % (lower bound 4.91).
func (s *Solver) adapt(w *work, all []*chainer, grid []int64, adapted []entry, pace *pacer) []*chainer {
	if s.opt.NoBound || s.opt.KeepOrders || w.leavesOut("adapt") || s.rules.overwrite(s.p) {
		return all
	}
	try := func(c *chainer, plan recomputeSet, how greedyOptions) {
		how.rounds = maxRounds
		if c.greedy(&plan, how) {
			c.trim(&plan)
			c.record(&s.archive, plan)
		}
	}
	given := len(all)
	var last entry // the cheapest plan for the previous limit
	for i, limit := range grid {
		pace.next()
		if x := s.archive.cheapest(limit); x != nil && x.peak == adapted[i].peak && x.cost == adapted[i].cost {
			last = *x
			continue
		}
		if c := all[last.line]; int(last.line) >= given && !w.exhausted() && !pace.spent() {
			c.limit = limit
			try(c, slices.Clone(last.set), greedyOptions{batch: 0.5, thresholds: plain})
			try(c, nil, greedyOptions{batch: 0.25, thresholds: plain})
		}
		for range maxAdapted {
			if w.exhausted() || pace.spent() {
				break
			}
			from := s.archive[0] // without a plan for the limit, start from the one of the smallest peak
			if x := s.archive.cheapest(limit); x != nil {
				from = *x
			}
			if bound, _ := s.bound.at(limit); from.cost-bound <= bound/closeEnough {
				break
			}
			was := all[from.line].line
			order, steps := s.reorder(w, was, from)
			if order == nil {
				break
			}
			now := s.newLine(order)
			c := newChainer(newSweep(now, w))
			s.lines, all = append(s.lines, now), append(all, c)
			c.limit = limit
			try(c, was.translate(from.set, steps, now), greedyOptions{batch: 0.5, thresholds: plain})
			try(c, nil, greedyOptions{batch: 0.25, thresholds: plain})
			try(c, nil, greedyOptions{batch: 0.5, thresholds: plain})
			if x := s.archive.cheapest(limit); x == nil && s.archive[0].peak >= from.peak || x != nil && x.cost >= from.cost {
				break
			}
		}
		if x := s.archive.cheapest(limit); x != nil {
			last, adapted[i] = *x, *x
		}
	}
	return all
}

const (
	maxAdapted  = 4    // orders tried for one limit
	closeEnough = 50   // a plan at most 1/closeEnough above its lower bound is not adapted
	reorderWork = 5000 // the work charged for each node of a search for an order
)

// overwrite reports whether some node overwrites a tensor that is not resident.
func (r *rules) overwrite(p *schedule.Problem) bool {
	for t, writers := range r.writers {
		if len(writers) > 0 && !p.Tensors[t].Resident {
			return true
		}
	}
	return false
}

// reorder searches for a better order of a plan's steps. It returns the order of the
// first runs in it, and all its steps, or nil if nothing is gained. It omits runs
// whose results are not read before the node runs again; the node's next run then
// becomes its first.
func (s *Solver) reorder(w *work, l *line, plan entry) (order []int32, steps []int) {
	all := l.unroll(plan.set)
	was := s.read(all)
	w.count(reorderWork * len(was))
	found, err := schedule.Solve(w.ctx, s.expand(was), schedule.Options{Effort: schedule.EffortFast})
	if err != nil {
		panic("budget: " + err.Error())
	}
	if found.Evaluation.Peak >= plan.peak && len(was) == len(all) {
		return nil, nil
	}
	for _, i := range found.Order {
		steps = append(steps, was[i])
	}
	return s.firstRuns(steps), steps
}

// firstRuns returns the order of the first runs in steps.
func (s *Solver) firstRuns(steps []int) []int32 {
	order := make([]int32, 0, len(s.p.Nodes))
	ran := make([]bool, len(s.p.Nodes))
	for _, v := range steps {
		if !ran[v] {
			ran[v] = true
			order = append(order, int32(v))
		}
	}
	return order
}

// read returns the steps without the runs whose results are not read before the node
// runs again.
func (s *Solver) read(steps []int) []int {
	reads, makes := s.touched()
	wanted := make([]bool, len(s.p.Tensors))
	for t := range wanted {
		wanted[t] = s.p.Tensors[t].Output
	}
	runs := make([]bool, len(s.p.Nodes)) // node -> it runs at a later step
	kept := make([]int, 0, len(steps))
	for _, v := range slices.Backward(steps) {
		if runs[v] && !slices.ContainsFunc(makes[v], func(t int32) bool { return wanted[t] }) {
			continue
		}
		runs[v] = true
		kept = append(kept, v)
		for _, t := range makes[v] {
			wanted[t] = false
		}
		for _, t := range reads[v] {
			wanted[t] = true
		}
	}
	slices.Reverse(kept)
	return kept
}

// touched lists the tensors that each node reads and the tensors that it makes.
func (s *Solver) touched() (reads, makes [][]int32) {
	reads, makes = make([][]int32, len(s.p.Nodes)), make([][]int32, len(s.p.Nodes))
	for i := range s.p.Tensors {
		t := &s.p.Tensors[i]
		if t.Producer >= 0 {
			makes[t.Producer] = append(makes[t.Producer], int32(i))
		}
		for _, v := range t.Consumers {
			if v != t.Producer {
				reads[v] = append(reads[v], int32(i))
			}
		}
	}
	return reads, makes
}

// expand returns the problem in which every step is a node of its own: node i is the
// run at step i. Each run makes its own instances and reads the newest instances of
// its inputs. Only resident tensors may be overwritten in p.
func (s *Solver) expand(steps []int) *schedule.Problem {
	p := s.p
	x := &schedule.Problem{Nodes: make([]schedule.Node, len(steps))}
	reads, makes := s.touched()
	newest := make([]int32, len(p.Tensors))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if newest[i] = -1; t.Producer < 0 {
			newest[i] = int32(len(x.Tensors))
			x.Tensors = append(x.Tensors, schedule.Tensor{Bytes: t.Bytes, Producer: -1, Resident: t.Resident, Output: t.Output})
		}
	}
	last := make([]int32, len(p.Nodes)) // node -> its last run
	for i, v := range steps {
		last[v] = int32(i)
	}
	for i, v := range steps {
		x.Nodes[i].Workspace = p.Nodes[v].Workspace
		for _, t := range reads[v] {
			in := &x.Tensors[newest[t]]
			in.Consumers = append(in.Consumers, int32(i))
		}
		for _, o := range makes[v] {
			t := &p.Tensors[o]
			instance := schedule.Tensor{Bytes: t.Bytes, Producer: int32(i), Resident: t.Resident, Output: t.Output}
			for _, over := range t.Reuses {
				instance.Reuses = append(instance.Reuses, newest[over])
			}
			if newest[o] >= 0 {
				x.Tensors[newest[o]].Output = false
			}
			newest[o] = int32(len(x.Tensors))
			x.Tensors = append(x.Tensors, instance)
			if t.Bytes == 0 && last[v] > int32(i) {
				// A node that overwrites a parameter runs after every run that reads it.
				for _, w := range t.Consumers {
					x.Tensors = append(x.Tensors, schedule.Tensor{Producer: int32(i), Consumers: []int32{last[w]}})
				}
			}
		}
	}
	return x
}

// translate returns the plan for another line, whose order is that of the first runs
// in steps. A buffer that steps recompute is recomputed in the slot of the next first
// run.
func (l *line) translate(plan recomputeSet, steps []int, to *line) recomputeSet {
	wanted := map[int32]bool{} // tensors
	for _, m := range plan {
		wanted[l.tensor[m.buffer()]] = true
	}
	return to.repeated(steps, func(b int32) bool { return wanted[to.tensor[b]] })
}

package schedule

import "slices"

// solveKeeping is [Solve] with further precedence. The orders keep it; the bound
// holds for all orders, and is proven on the problem as it is, so that nobody who
// checks it needs to know what was asked. Where an order that Solve finds without
// the precedence keeps it already, that is the answer; else the problem is solved
// again with a tensor of 0 bytes for each pair.
func solveKeeping(p *Problem, opt Options) (*Result, error) {
	keep := opt.Precedence
	opt.Precedence = nil
	q := *p
	q.Tensors = slices.Clone(p.Tensors)
	for _, e := range keep {
		q.Tensors = append(q.Tensors, Tensor{Kind: "control", Producer: e[0], Consumers: []int32{e[1]}})
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	free, err := Solve(p, opt)
	if err != nil {
		return nil, err
	}
	step := make([]int, len(p.Nodes))
	breaks := func(order []int32) bool {
		for i, v := range order {
			step[v] = i
		}
		return slices.ContainsFunc(keep, func(e [2]int32) bool { return step[e[0]] > step[e[1]] })
	}
	if !breaks(free.ProgramOrder) {
		if kept := slices.DeleteFunc(slices.Clone(free.Orders), breaks); len(kept) > 0 {
			free.Orders, free.Order = kept, kept[0]
			free.Evaluation, err = p.Evaluate(kept[0])
			return free, err
		}
	}
	r, err := Solve(&q, opt)
	if err != nil {
		return nil, err
	}
	r.Bound, r.BoundNode, r.Certificates = free.Bound, free.BoundNode, free.Certificates
	r.Optimal = r.Evaluation.Peak == r.Bound
	if r.Ended == nil {
		r.Ended = free.Ended
	}
	return r, nil
}

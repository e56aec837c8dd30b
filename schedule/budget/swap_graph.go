package budget

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// swapProblem is a problem with the transfers as nodes; see [SwapPlan.Problem].
type swapProblem struct {
	set     []swap
	tensors []int32 // of set
	problem *schedule.Problem
	order   []int32
	peak    int64
	waiting int64 // nanoseconds
}

// withTransfers returns the problem with a set of swaps as nodes, in the order in which
// they run under a limit. In each gap, swaps out come before swaps in.
func (h *lineSwapper) withTransfers(w *work, set []swap, limit int64) swapProblem {
	t, _ := h.simulate(w, set, limit)
	p := h.problem
	x := swapProblem{set: set, waiting: t.end - h.begin[len(h.order)]}
	nodes, tensors := int32(len(p.Nodes)), int32(len(p.Tensors))
	q := *p
	q.Nodes, q.Tensors = slices.Clone(p.Nodes), slices.Clone(p.Tensors)
	step := make([]int32, nodes)
	for i, v := range h.order {
		step[v] = int32(i)
		q.Nodes[v].Cost = h.cost[i]
	}
	outs, ins := queues(set)
	for i := range int32(len(h.order)) {
		for ; len(outs) > 0 && t.away[outs[0]] < i; outs = outs[1:] {
			x.order = append(x.order, nodes+2*outs[0])
		}
		for ; len(ins) > 0 && t.returns[ins[0]] == i; ins = ins[1:] {
			x.order = append(x.order, nodes+2*ins[0]+1)
		}
		x.order = append(x.order, h.order[i])
	}
	back := map[int32]swap{} // tensor -> its swap
	name := map[int32]int32{}
	for k, s := range set {
		t := h.tensor[s.buffer]
		x.tensors = append(x.tensors, t)
		back[t], name[t] = s, tensors+2*int32(k)+1
		q.Nodes = append(q.Nodes,
			schedule.Node{Name: p.Tensors[t].Name + ".out", Op: OpSwapOut, Once: true},
			schedule.Node{Name: p.Tensors[t].Name + ".in", Op: OpSwapIn, Once: true})
		var early, late []int32
		for _, v := range p.Tensors[t].Consumers {
			if step[v] < s.to {
				early = append(early, v)
			} else {
				late = append(late, v)
			}
		}
		out, in := nodes+2*int32(k), nodes+2*int32(k)+1
		q.Tensors[t].Consumers = append(early, out)
		q.Tensors = append(q.Tensors,
			schedule.Tensor{Name: p.Tensors[t].Name + ".host", Producer: out, Consumers: []int32{in}},
			schedule.Tensor{Name: p.Tensors[t].Name + ".back", Bytes: s.size, Producer: in, Consumers: late, Kind: p.Tensors[t].Kind})
	}
	// Those that run late name the tensor that is back.
	rename := func(list []int32, at int32) []int32 {
		list = slices.Clone(list)
		for i, t := range list {
			if s, ok := back[t]; ok && at >= s.to {
				list[i] = name[t]
			}
		}
		return list
	}
	for v := range nodes {
		q.Nodes[v].Args = rename(q.Nodes[v].Args, step[v])
		q.Nodes[v].Writes = rename(q.Nodes[v].Writes, step[v])
	}
	for t := range tensors {
		if v := q.Tensors[t].Producer; v >= 0 {
			q.Tensors[t].Reuses = rename(q.Tensors[t].Reuses, step[v])
		}
	}
	x.problem = &q
	e, err := q.Evaluate(x.order)
	if err != nil {
		panic("swap: " + err.Error())
	}
	x.peak = e.Peak
	return x
}

// swaps finds the transfers in some steps.
func (x *swapProblem) swaps(steps []int) []Swap {
	nodes := len(x.problem.Nodes) - 2*len(x.set)
	swaps := make([]Swap, len(x.set))
	for k, s := range x.set {
		swaps[k] = Swap{Tensor: x.tensors[k], Bytes: s.size}
	}
	for i, v := range steps {
		if k := v - nodes; k >= 0 && k%2 == 0 {
			swaps[k/2].Out = i
		} else if k >= 0 {
			swaps[k/2].In = i
		}
	}
	return swaps
}

// Package bare turns a bare scheduling problem into the model of which proofs speak.
package bare

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// Problem reads sizes and precedence: makers run before readers, whatever the size, and what is
// resident takes no bytes. A pair counts if its sizes agree, and what is overwritten is an
// operand and no output.
func Problem(s *schedule.Problem) *model.Problem {
	p := &model.Problem{Before: make([][]int32, len(s.Nodes)), Pairs: make([][]model.Pair, len(s.Nodes))}
	for i := range s.Nodes {
		p.Work = append(p.Work, s.Nodes[i].Workspace)
	}
	for i := range s.Tensors {
		t := &s.Tensors[i]
		x := model.Tensor{Bytes: t.Bytes, Maker: t.Producer, Output: t.Output}
		if t.Resident {
			x.Bytes = 0
		}
		x.Readers = slices.Clone(t.Consumers)
		slices.Sort(x.Readers)
		x.Readers = slices.DeleteFunc(slices.Compact(x.Readers), func(r int32) bool { return r == t.Producer })
		if t.Producer >= 0 {
			for _, r := range x.Readers {
				p.Before[r] = append(p.Before[r], t.Producer)
			}
		}
		p.Tensors = append(p.Tensors, x)
	}
	for v := range p.Before {
		slices.Sort(p.Before[v])
		p.Before[v] = slices.Compact(p.Before[v])
	}
	for i := range s.Tensors {
		v := s.Tensors[i].Producer
		over := slices.Clone(s.Tensors[i].Reuses)
		slices.Sort(over)
		for _, o := range slices.Compact(over) {
			from, to := &p.Tensors[o], &p.Tensors[i]
			if v >= 0 && from.Bytes > 0 && from.Bytes == to.Bytes && !from.Output && slices.Contains(from.Readers, v) {
				p.Pairs[v] = append(p.Pairs[v], model.Pair{Result: int32(i), Over: o})
			}
		}
	}
	return p
}

// Claim is the claim of a result: that no order of the problem has a peak below its bound.
func Claim(s *schedule.Problem, r *schedule.Result) proof.Claim {
	var list []proof.Certificate
	for _, c := range r.Certificates {
		list = append(list, proof.Certificate{Bytes: c.Value, Set: c.Nodes, Last: c.Kind == schedule.KindLast, Searched: c.Kind == schedule.KindSearch})
	}
	c := named(s, proof.OrderOf(Problem(s), list, r.Bound, r.Order))
	c.Says = fmt.Sprintf("No order of the %d nodes has a peak below %d bytes, with the sizes, workspaces and pairs of the problem.", len(s.Nodes), r.Bound)
	return c
}

// Extra is the claim of a plan below a limit: that none that keeps it runs nodes again for less time
// than its bound.
func Extra(s *schedule.Problem, x *budget.Plan) proof.Claim {
	if x.Feasible != budget.Found {
		return proof.Claim{Name: "extra-time", Refused: "no plan was found that keeps the limit"}
	}
	p := Problem(s)
	costs, _ := budget.Costs(s) // those of the plan, which has them
	a := &model.Again{Cost: costs, Over: overwritten(s), Limit: x.Limit}
	for i := range s.Nodes {
		a.Once = append(a.Once, s.Nodes[i].Once)
	}
	c := named(s, proof.ExtraOf(p, a, x.LowerBound, []int32{x.LowerBoundNode}, x.Steps))
	c.Says = fmt.Sprintf("No plan of the %d nodes with a peak of at most %d bytes takes less than %d ns for runs behind first ones, in any order, with the costs, sizes, workspaces and pairs of the problem.", len(s.Nodes), x.Limit, x.LowerBound)
	return c
}

// overwritten lists, by tensor, the nodes that overwrite it, where they come before all that else reads
// it in the order of the problem's nodes: a plan reads what is overwritten as often as there.
func overwritten(s *schedule.Problem) [][]int32 {
	list, last := make([][]int32, len(s.Tensors)), make([]int32, len(s.Tensors))
	for v := range s.Nodes {
		for _, t := range s.Nodes[v].Writes {
			if int32(v) != s.Tensors[t].Producer && !slices.Contains(list[t], int32(v)) {
				list[t], last[t] = append(list[t], int32(v)), int32(v)
			}
		}
	}
	for t := range list {
		if slices.ContainsFunc(s.Tensors[t].Consumers, func(r int32) bool { return r < last[t] && !slices.Contains(list[t], r) }) {
			list[t] = nil
		}
	}
	return list
}

// named adds the names of a problem to a claim.
func named(s *schedule.Problem, c proof.Claim) proof.Claim {
	c.Node = func(i int32) string { return fmt.Sprintf("%.64q", s.Nodes[i].Name) }
	c.Tensor = func(i int32) string { return fmt.Sprintf("%.64q", s.Tensors[i].Name) }
	return c
}

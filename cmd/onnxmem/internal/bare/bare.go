// Package bare turns a bare scheduling problem into the model of which proofs speak.
package bare

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/internal/proof"
	"github.com/onnxmem/onnxmem/internal/proof/model"
	"github.com/onnxmem/onnxmem/schedule"
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
	c := proof.OrderOf(Problem(s), list, r.Bound, r.Order)
	c.Says = fmt.Sprintf("No order of the %d nodes has a peak below %d bytes, with the sizes, workspaces and pairs of the problem.", len(s.Nodes), r.Bound)
	c.Node = func(i int32) string { return fmt.Sprintf("%.64q", s.Nodes[i].Name) }
	c.Tensor = func(i int32) string { return fmt.Sprintf("%.64q", s.Tensors[i].Name) }
	return c
}

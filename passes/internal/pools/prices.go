package pools

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/alloc/tiers"
	"github.com/onnxmem/onnxmem/plan"
)

// Prove bounds the slow traffic from below, in any division: the main graph then has the bound, and
// the prices that prove it.
func (p *Plan) Prove() error {
	q, err := p.unmoved()
	if err != nil {
		return err
	}
	r, prices := p.Main, q.Prices()
	r.Prices, r.TrafficBound = nil, q.Bound(prices)
	for _, x := range prices {
		r.Prices = append(r.Prices, plan.TrafficPrice{Step: x.Step, Price: x.Value})
	}
	return nil
}

// unmoved returns the problem in which a buffer and its copies are one, and copying moves
// nothing: the bound on the traffic is that of the nodes that were there before.
func (x *Plan) unmoved() (*tiers.Problem, error) {
	p := x.problem
	if x.Moved == nil {
		return p, nil
	}
	added := make([]bool, len(x.Main.G.Nodes))
	for i := range added {
		added[i] = true
	}
	for _, step := range x.Moved.FirstStep {
		added[step] = false
	}
	at := problemBuffers(x.Main)
	q := *p
	q.Buffers = slices.Clone(p.Buffers)
	root := make([]int, len(q.Buffers))
	for i := range root {
		root[i] = i
	}
	for v, n := range x.Main.G.Nodes { // a copy stands behind what it copies
		if added[v] {
			root[at[x.Main.StorageOf[n.Outputs[0]]]] = root[at[x.Main.StorageOf[n.Inputs[0]]]]
		}
	}
	uses := make([][]tiers.Use, len(q.Buffers))
	for i := range q.Buffers {
		for _, u := range q.Buffers[i].Uses {
			if !added[u.Step] {
				uses[root[i]] = append(uses[root[i]], u)
			}
		}
	}
	for i := range q.Buffers {
		b := &q.Buffers[i]
		if root[i] != i {
			to := &q.Buffers[root[i]]
			if to.Rows != b.Rows {
				to.Rows = 0
			}
			to.Last = max(to.Last, b.Last)
			b.Content, b.Rows, b.Given, b.Kept, b.Size = 0, 0, false, false, 0
		}
	}
	for i := range q.Buffers {
		b := &q.Buffers[i]
		slices.SortStableFunc(uses[i], func(u, v tiers.Use) int { return u.Step - v.Step })
		for k := 1; k < len(uses[i]); k++ {
			if uses[i][k].Step == uses[i][k-1].Step {
				return nil, fmt.Errorf("internal error: step %d uses a buffer and its copy", uses[i][k].Step)
			}
		}
		if b.Uses = uses[i]; b.Rows == 0 {
			b.Uses = slices.Clone(b.Uses)
			for k := range b.Uses {
				b.Uses[k].From, b.Uses[k].To = 0, 0
			}
		}
	}
	return &q, nil
}

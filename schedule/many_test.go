package schedule

import (
	"math/rand/v2"
	"testing"
)

// A node with more matchings than are listed is bounded from below, and loaded
// exactly.
func TestManyMatchings(t *testing.T) {
	for i := range randomGraphs(t, 300) {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		p := randomProblem(r, 8)
		// One node more, late, that may write each of 4 results over each of 4
		// tensors; some of these have other readers, before it and after it.
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, Node{}, Node{})
		var over Reuses
		for k := range 5 {
			x := Tensor{Bytes: 7, Producer: -1, Consumers: []int32{v}}
			if k > 0 {
				x.Producer = int32(r.IntN(int(v)))
			}
			for range r.IntN(3) {
				if reader := int32(r.IntN(int(v))); reader > x.Producer {
					x.Consumers = append(x.Consumers, reader)
				}
			}
			if r.IntN(6) == 0 {
				x.Consumers = append(x.Consumers, v+1)
			}
			over = append(over, int32(len(p.Tensors)))
			p.Tensors = append(p.Tensors, x)
		}
		for range 4 {
			p.Tensors = append(p.Tensors, Tensor{Bytes: 7, Producer: v, Consumers: []int32{v + 1}, Reuses: over})
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		best := newBrute(p, true).optimum()
		got, err := Solve(p, Options{})
		if err != nil || got.Bound > best || got.Evaluation.Peak != best {
			t.Fatalf("graph %d: %v: bound %d, optimum %d, peak %d", i, err, got.Bound, best, got.Evaluation.Peak)
		}
		if !got.Optimal {
			t.Errorf("graph %d: bound %d, peak %d", i, got.Bound, got.Evaluation.Peak)
		}
		if b := Bound(p); b.Value > best {
			t.Errorf("graph %d: Bound %v, optimum %d", i, b, best)
		}
	}
}

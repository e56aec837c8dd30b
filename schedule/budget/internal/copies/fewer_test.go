package copies

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule"
)

// readsOf returns, for each node, what it reads.
func readsOf(p *schedule.Problem) [][]int32 {
	reads := make([][]int32, len(p.Nodes))
	for t := range p.Tensors {
		for _, v := range p.Tensors[t].Consumers {
			reads[v] = append(reads[v], int32(t))
		}
	}
	return reads
}

// A tower without some blocks is a tower: each node that stays reads as much as before, in an order of the whole. What
// is true of two vertices of the smaller one is true of the same two in the blocks that are like theirs.
func TestTowersWithFewerBlocks(t *testing.T) {
	lifted, others := 0, 0
	for seed := range uint64(100) {
		draw := rand.New(rand.NewPCG(seed, 1))
		blocks, nodes := 14+draw.IntN(10), 4+draw.IntN(12)
		p, _ := tower(draw, blocks, nodes)
		c := Find(p)
		if c == nil {
			t.Fatalf("seed %d: no copies found", seed)
		}
		const kept = 6
		f := c.Without(p, kept/2, c.Count-kept)
		if f == nil {
			t.Errorf("seed %d: the blocks do not fit together", seed)
			continue
		}
		if want := len(p.Nodes) - (c.Count-kept)*nodes; len(f.Nodes) < want-nodes || len(f.Nodes) > want+nodes {
			t.Errorf("seed %d: %d nodes, expected about %d", seed, len(f.Nodes), want)
		}
		whole, fewer := readsOf(p), readsOf(f.Problem)
		for v, reads := range fewer {
			sizes := func(p *schedule.Problem, list []int32) (s []int64) {
				for _, t := range list {
					s = append(s, p.Tensors[t].Bytes)
				}
				slices.Sort(s)
				return s
			}
			if a, b := sizes(f.Problem, reads), sizes(p, whole[f.Nodes[v]]); !slices.Equal(a, b) {
				t.Errorf("seed %d: node %d reads %v bytes, in the whole problem %v", seed, f.Nodes[v], a, b)
			}
		}
		order := make([]int32, len(p.Nodes))
		for v := range order {
			order[v] = int32(v)
		}
		if _, err := f.Evaluate(f.Order(order)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for _, as := range [][]int32{f.Stretched(), f.Repeated()} {
			for v, reads := range fewer {
				for _, x := range reads {
					f.Lift(int32(v), x, as, func(node, tensor int32) {
						if lifted++; !slices.Contains(whole[node], tensor) {
							others++
						}
					})
				}
			}
		}
	}
	if lifted < 50_000 || others*50 > lifted {
		t.Errorf("%d reads lifted, of which %d are none", lifted, others)
	}
}

package reduce

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// drawn returns a random problem of up to 40 nodes.
func drawn(r *rand.Rand) *indexed.Problem {
	g := &indexed.Problem{Nodes: 2 + r.IntN(39)}
	readers := make([][]int32, g.Nodes) // of what each node makes
	for v := range g.Nodes {
		from := max(0, v-1-r.IntN(12))
		for u := from; u < v; u++ {
			if r.IntN(3) == 0 {
				readers[u] = append(readers[u], int32(v))
				g.Preds.Items = append(g.Preds.Items, int32(u))
			}
		}
		g.Preds.Add()
		g.Transient = append(g.Transient, 0)
	}
	g.Preds.Finish()
	g.Succs = g.Preds.Inverse(g.Nodes)
	for v := range g.Nodes {
		size := r.Int64N(10)
		g.Transient[v] = size + r.Int64N(3)*r.Int64N(2)
		if size > 0 {
			g.AddTensor(size, int32(v), len(readers[v]) == 0 && r.IntN(2) == 0, readers[v])
		}
	}
	g.FinishTensors()
	return g
}

// Merging and delaying leave the sets of ancestors as they are found from the precedence of
// the nodes that are left.
func TestSetsOfAncestorsStayTrue(t *testing.T) {
	merged, delayed := 0, 0
	for i := range 2000 {
		g := drawn(rand.New(rand.NewPCG(uint64(i), 1)))
		c := newContraction(g)
		m := meter.New(t.Context())
		check := func(after string) {
			t.Helper()
			for _, v := range c.listing {
				if c.gone[v] {
					continue
				}
				above := map[int32]bool{v: true}
				for todo := []int32{v}; len(todo) > 0; {
					u := todo[len(todo)-1]
					todo = todo[:len(todo)-1]
					for _, p := range c.preds[u] {
						if !above[p] {
							above[p] = true
							todo = append(todo, p)
						}
					}
				}
				for _, u := range c.listing {
					if !c.gone[u] && c.sets.has(c.place[u], c.place[v]) != above[u] {
						t.Fatalf("graph %d: after %s node %d has node %d for an ancestor: %v, expected %v", i, after, v, u, !above[u], above[u])
					}
				}
			}
		}
		edges := func() (n int) {
			for _, p := range c.preds {
				n += len(p)
			}
			return n
		}
		for range 2 {
			left := c.left
			c.mergeEach(Without{}, m)
			check("merging")
			merged += left - c.left
			before := edges()
			c.delayEach(m)
			check("delaying each")
			delayed += edges() - before
			c.delayAll()
			check("delaying all")
		}
	}
	if merged == 0 || delayed == 0 {
		t.Errorf("%d nodes merged and %d edges added; expected some of both", merged, delayed)
	}
	t.Logf("%d nodes merged, %d edges added", merged, delayed)
}

// What is found among the nearest nodes after one is what its descendants read.
func TestReadersAfter(t *testing.T) {
	for i := range 500 {
		c := newContraction(drawn(rand.New(rand.NewPCG(uint64(i), 2))))
		for _, w := range c.listing {
			for x, readers := range c.readers {
				want := false
				for _, r := range readers {
					want = want || r != w && c.sets.has(c.place[w], c.place[r])
				}
				if got := c.near.reachesReader(w, int32(x), c.succs, c.reads); got != want {
					t.Fatalf("graph %d: after node %d a reader of tensor %d is found: %t, expected %t", i, w, x, got, want)
				}
			}
		}
	}
}

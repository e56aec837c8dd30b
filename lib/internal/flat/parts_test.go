package flat

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/schedule"
)

// node makes one tensor of those that it reads.
type node struct {
	size   int64
	reads  []int32
	writes []int32
	once   bool
	cost   int64
}

// graphOf returns the graph of nodes, without ranges.
func graphOf(nodes []node) *Graph {
	g := &Graph{Nodes: len(nodes), ConsumerBegin: []int64{0}, WriteBegin: []int64{0}, Offset: make([]int64, len(nodes))}
	for i, n := range nodes {
		g.Size, g.Producer, g.Parent = append(g.Size, n.size), append(g.Producer, int32(i)), append(g.Parent, -1)
		for k, x := range nodes {
			if slices.Contains(x.reads, int32(i)) {
				g.Consumer = append(g.Consumer, int32(k))
			}
		}
		g.ConsumerBegin = append(g.ConsumerBegin, int64(len(g.Consumer)))
		g.Write = append(g.Write, n.writes...)
		g.WriteBegin = append(g.WriteBegin, int64(len(g.Write)))
		once := uint8(0)
		if n.once {
			once = 1
		}
		g.Once, g.Cost = append(g.Once, once), append(g.Cost, n.cost)
	}
	return g
}

// TestOverwrittenRanges: who reads a tensor does not run again behind a node that overwrites a
// view of it, or what it is a piece of.
func TestOverwrittenRanges(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  []node
		parent []int32
		offset []int64
		steps  []int32
	}{
		// Node 3 overwrites tensor 1, a view of tensor 0, which node 2 reads.
		"view": {
			[]node{{size: 20, once: true, cost: 9}, {size: 10, reads: []int32{0}, cost: 1}, {size: 100, reads: []int32{0}, cost: 1}, {size: 1, reads: []int32{1, 2}, writes: []int32{1}, cost: 9}, {size: 100, reads: []int32{3}, cost: 9}, {size: 1, reads: []int32{4}, cost: 1}, {reads: []int32{2, 5}, cost: 1}},
			[]int32{-1, 0, -1, -1, -1, -1, -1},
			nil,
			[]int32{0, 1, 2, 3, 4, 5, 2, 6},
		},
		// Node 2 makes tensor 2 of the pieces 0 and 1; node 4 overwrites it, also where it is piece 0, which node 3 reads.
		"whole": {
			[]node{{size: 10, once: true, cost: 9}, {size: 10, once: true, cost: 9}, {size: 20, reads: []int32{0, 1}, cost: 1}, {size: 100, reads: []int32{0}, cost: 1}, {size: 1, reads: []int32{2, 3}, writes: []int32{2}, cost: 9}, {size: 100, reads: []int32{4}, cost: 9}, {size: 1, reads: []int32{5}, cost: 1}, {reads: []int32{3, 6}, cost: 1}},
			[]int32{2, 2, -1, -1, -1, -1, -1, -1},
			[]int64{0, 10, 0, 0, 0, 0, 0, 0},
			[]int32{0, 1, 2, 3, 4, 5, 6, 3, 7},
		},
	} {
		g := graphOf(c.nodes)
		g.Parent = c.parent
		if c.offset != nil {
			g.Offset = c.offset
		}
		if _, err := g.VerifySteps(t.Context(), c.steps, nil); err == nil || !strings.Contains(err.Error(), "expected an instance that 0 nodes have overwritten") {
			t.Errorf("%s: steps that read what was overwritten: %v", name, err)
		}
		r, err := g.Below(t.Context(), Goal{Limit: units.Limit{Bytes: 135}}, schedule.EffortDefault)
		if err != nil || r.Feasible == 1 {
			t.Errorf("%s: %+v, %v: expected no steps", name, r, err)
		}
		g.WriteBegin, g.Write = []int64{0}, nil
		for range c.nodes {
			g.WriteBegin = append(g.WriteBegin, 0)
		}
		if v, err := g.VerifySteps(t.Context(), c.steps, nil); err != nil || v.Bytes > 135 {
			t.Errorf("%s: without a write: %+v, %v: expected at most 135 bytes", name, v, err)
		}
	}
}

// TestPlacesOfPieces: a buffer of a tensor has its pieces, from the first on.
func TestPlacesOfPieces(t *testing.T) {
	// Tensors 0 and 2 are pieces of tensor 3, in turned order; 1 is in between.
	g := graphOf([]node{{size: 4}, {size: 100, reads: []int32{0}}, {size: 4, reads: []int32{1}}, {size: 8, reads: []int32{0, 2}}, {size: 4, reads: []int32{3}}, {size: 4, reads: []int32{4}}})
	g.Parent, g.Offset = []int32{3, -1, 3, -1, 3, -1}, []int64{4, 0, 0, 0, 2, 0}
	l, err := g.Lifetimes([]int32{0, 1, 2, 3, 4, 5})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{0, 1, 0, 0, 0, 2}; !slices.Equal(l.Buffer, want) || l.Size[0] != 8 || l.Lower[0] != 0 || l.Upper[0] != 6 {
		t.Errorf("%+v, expected buffers %d, and buffer 0 with 8 bytes from step 0 to before step 6", l, want)
	}
}

// TestRandomRanges: orders, steps and places of graphs with views, pieces and writes are valid.
func TestRandomRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	views, wholes, repeated := 0, 0, 0
	for range 300 {
		g, v, w := randomGraph(r)
		views, wholes = views+v, wholes+w
		o, err := g.Order(t.Context(), schedule.EffortFast)
		if err != nil {
			t.Fatalf("%+v: %v", g, err)
		}
		if v, err := g.VerifyOrder(t.Context(), o.Order, o.Certificates, true); err != nil || v.Bytes != o.Peak {
			t.Fatalf("%+v: %+v: %+v, %v", g, o, v, err)
		}
		checkPlaces(t, g, o.Order)
		below, err := g.Below(t.Context(), Goal{Limit: units.Limit{Bytes: o.Peak * 9 / 10}}, schedule.EffortFast)
		if err != nil {
			t.Fatalf("%+v: %v", g, err)
		}
		if below.Feasible == 1 {
			repeated++
			if v, err := g.VerifySteps(t.Context(), below.Steps, nil); err != nil || v.Bytes != below.Peak {
				t.Fatalf("%+v: %+v: %+v, %v", g, below, v, err)
			}
		}
	}
	if views < 100 || wholes < 50 || repeated < 20 {
		t.Errorf("%d views, %d tensors with pieces, %d graphs below a limit", views, wholes, repeated)
	}
}

// randomGraph has views, also of views, and tensors with two pieces; some nodes overwrite what
// they read.
func randomGraph(r *rand.Rand) (g *Graph, views, wholes int) {
	nodes := []node{{size: 8}, {size: 8}}
	parent, offset := []int32{-1, -1}, []int64{0, 0}
	for len(nodes) < 10 {
		n, up, from := node{size: 4 * int64(1+r.IntN(5))}, int32(-1), int64(0)
		a, b := int32(r.IntN(len(nodes))), int32(r.IntN(len(nodes)))
		n.reads = []int32{a}
		if b != a && r.IntN(2) == 0 {
			n.reads = append(n.reads, b)
		}
		free := func(t int32) bool { return parent[t] < 0 && !slices.Contains(parent, t) }
		switch k := r.IntN(4); {
		case k == 0 && (parent[a] < 0 || parent[a] < a):
			n.size, up = min(n.size, nodes[a].size), a
			from = int64(r.IntN(int(nodes[a].size-n.size) + 1))
			views++
		case k == 1 && a != b && free(a) && free(b):
			n.reads, n.size = []int32{a, b}, nodes[a].size+nodes[b].size+2
			parent[a], parent[b], offset[a], offset[b] = int32(len(nodes)), int32(len(nodes)), nodes[b].size+1, 0
			wholes++
		case k == 2:
			n.writes = []int32{a}
		}
		nodes, parent, offset = append(nodes, n), append(parent, up), append(offset, from)
	}
	g = graphOf(nodes)
	g.Parent, g.Offset = parent, offset
	return g, views, wholes
}

// checkPlaces packs an order, and checks that each tensor lies where its range says, that its
// buffer is there for as long as it, and that only ranges of one tensor share bytes.
func checkPlaces(t *testing.T, g *Graph, order []int32) {
	t.Helper()
	l, err := g.Lifetimes(order)
	if err != nil {
		t.Fatal(err)
	}
	b := Buffers{Lower: l.Lower, Upper: l.Upper, Size: l.Size, Capacity: []int64{-1}}
	p, err := b.Pack(t.Context(), alloc.EffortFast)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Verify(p.Offsets, nil); err != nil {
		t.Fatal(err)
	}
	step := make([]int64, len(order))
	for k, n := range order {
		step[n] = int64(k)
	}
	for i := range g.Size {
		within, top := int64(0), int32(i)
		for g.Parent[top] >= 0 {
			within, top = within+g.Offset[top], g.Parent[top]
		}
		first := step[g.Producer[i]]
		last := first
		for _, n := range g.Consumer[g.ConsumerBegin[i]:g.ConsumerBegin[i+1]] {
			last = max(last, step[n])
		}
		k := l.Buffer[i]
		if k < 0 || k != l.Buffer[top] {
			t.Fatalf("%+v: tensor %d, of %d, is in buffer %d, expected %d", g, i, top, k, l.Buffer[top])
		}
		if within+g.Size[i] > l.Size[k] || first < l.Lower[k] || last >= l.Upper[k] {
			t.Fatalf("%+v: tensor %d from byte %d on, at steps %d to %d: expected it within buffer %d of %+v", g, i, within, first, last, k, l)
		}
		for j := range i { // without reuses, a buffer is one tensor's with its ranges
			other := int32(j)
			for g.Parent[other] >= 0 {
				other = g.Parent[other]
			}
			if l.Buffer[j] == k && other != top {
				t.Fatalf("%+v: tensors %d and %d share buffer %d", g, i, j, k)
			}
		}
	}
}

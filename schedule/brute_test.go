package schedule

import (
	"context"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// brute checks problems of up to 20 nodes by dynamic programming over all downsets, which
// are sets of bits. It follows the definition of the load literally.
type brute struct {
	p       *Problem
	preds   []uint32 // node -> nodes whose tensors it reads
	readers []uint32 // tensor -> its readers without its producer
	sharing bool
}

func newBrute(p *Problem, sharing bool) *brute {
	b := &brute{p, make([]uint32, len(p.Nodes)), make([]uint32, len(p.Tensors)), sharing}
	for t := range p.Tensors {
		x := &p.Tensors[t]
		for _, r := range x.Consumers {
			if r == x.Producer {
				continue
			}
			b.readers[t] |= 1 << r
			if x.Producer >= 0 {
				b.preds[r] |= 1 << x.Producer
			}
		}
	}
	return b
}

func has(set uint32, v int32) bool { return set>>uint(v)&1 == 1 }

// load returns the load of v if the nodes of ran have run.
func (b *brute) load(ran uint32, v int32) int64 {
	load := b.p.Nodes[v].Workspace
	for t := range b.p.Tensors {
		x := &b.p.Tensors[t]
		switch {
		case x.Resident:
		case x.Producer == v:
			load += x.Bytes
		case x.Producer >= 0 && !has(ran, x.Producer):
		case x.Output || b.readers[t]&^ran != 0 || x.Producer < 0 && b.readers[t] == 0 && ran == 0:
			load += x.Bytes
		}
	}
	if b.sharing {
		load -= b.saved(ran, v, 0, nil)
	}
	return load
}

func (b *brute) saved(ran uint32, v int32, o int, used []int32) int64 {
	for ; o < len(b.p.Tensors); o++ {
		if x := &b.p.Tensors[o]; x.Producer == v && !x.Resident && x.Bytes > 0 && len(x.Reuses) > 0 {
			break
		}
	}
	if o == len(b.p.Tensors) {
		return 0
	}
	most := b.saved(ran, v, o+1, used)
	x := &b.p.Tensors[o]
	for _, r := range x.Reuses {
		t := &b.p.Tensors[r]
		if b.readers[r]&^ran == 1<<v && !t.Resident && !t.Output && t.Bytes == x.Bytes && !slices.Contains(used, r) {
			most = max(most, x.Bytes+b.saved(ran, v, o+1, append(slices.Clip(used), r)))
		}
	}
	return most
}

// optimum returns the least peak over all orders that keep the given edges, too.
func (b *brute) optimum() int64 {
	n := len(b.p.Nodes)
	peak := make([]int64, 1<<n) // downset -> the least peak of its orders
	for i := range peak {
		peak[i] = math.MaxInt64
	}
	peak[0] = 0
	for i := range peak {
		if peak[i] == math.MaxInt64 {
			continue
		}
		ran := uint32(i)
		for left := ^ran & (1<<n - 1); left != 0; left &= left - 1 {
			v := int32(bits.TrailingZeros32(left))
			if b.preds[v]&^ran == 0 {
				next := ran | 1<<v
				peak[next] = min(peak[next], max(peak[i], b.load(ran, v)))
			}
		}
	}
	return peak[len(peak)-1]
}

// randomProblem draws a problem of 1 to most nodes of one of four kinds: nodes read any
// earlier nodes, near ones, or both, or the problem is a training step.
func randomProblem(r *rand.Rand, most int) *Problem {
	p := &Problem{}
	kind := r.IntN(4)
	if kind == 3 {
		p = randomTraining(r, most)
	} else {
		n := 1 + r.IntN(most)
		p.Nodes = make([]Node, n)
		for v := range n {
			if r.IntN(3) == 0 {
				p.Nodes[v].Workspace = r.Int64N(20)
			}
			made := 1
			if r.IntN(5) == 0 {
				made = r.IntN(4)
			}
			for range made {
				x := Tensor{Bytes: r.Int64N(20), Producer: int32(v), Output: r.IntN(12) == 0}
				if r.IntN(8) == 0 {
					x.Bytes = 0
				}
				for range r.IntN(4) {
					if v+1 == n {
						break
					}
					reach := n - v - 1
					if kind == 1 || kind == 2 && r.IntN(2) == 0 {
						reach = min(reach, 3)
					}
					x.Consumers = append(x.Consumers, int32(v+1+r.IntN(reach)))
				}
				p.Tensors = append(p.Tensors, x)
			}
		}
	}
	for range r.IntN(3) {
		x := Tensor{Bytes: r.Int64N(20), Producer: -1, Output: r.IntN(10) == 0}
		for range 1 + r.IntN(3) {
			x.Consumers = append(x.Consumers, int32(r.IntN(len(p.Nodes))))
		}
		if r.IntN(40) == 0 {
			x.Consumers = nil
		}
		p.Tensors = append(p.Tensors, x)
	}
	drawSharing(r, p)
	return p
}

// withSibling is randomProblem, but in some problems a node has a sibling: a node with the
// same inputs and readers, like the two comparisons of a clip.
func withSibling(r *rand.Rand, most int) *Problem {
	p := randomProblem(r, most-1)
	if r.IntN(3) > 0 {
		return p
	}
	v, w := int32(r.IntN(len(p.Nodes))), int32(len(p.Nodes))
	p.Nodes = append(p.Nodes, Node{Workspace: p.Nodes[v].Workspace})
	if r.IntN(2) == 0 {
		p.Nodes[w].Workspace = r.Int64N(20)
	}
	for t := range p.Tensors {
		x := &p.Tensors[t]
		if slices.Contains(x.Consumers, v) {
			x.Consumers = append(x.Consumers, w)
		}
		if x.Producer == v {
			y := Tensor{Bytes: x.Bytes, Producer: w, Consumers: slices.Clone(x.Consumers)}
			if y.Bytes > 0 && r.IntN(2) == 0 {
				y.Bytes = 1 + r.Int64N(20)
			}
			for o := range p.Tensors {
				if over := &p.Tensors[o].Reuses; slices.Contains(*over, int32(t)) {
					*over = append(*over, int32(len(p.Tensors)))
				}
			}
			p.Tensors = append(p.Tensors, y)
		}
	}
	return p
}

// drawSharing mostly rounds sizes to a few values, so that tensors of equal size form pairs.
// It makes some sizes so large that the others hardly count, and adds in-place pairs.
func drawSharing(r *rand.Rand, p *Problem) {
	if few := 1 + r.Int64N(4); r.IntN(3) > 0 {
		for t := range p.Tensors {
			if x := &p.Tensors[t]; x.Bytes > 0 {
				x.Bytes = 3*(x.Bytes%few) + 2
			}
		}
	}
	if r.IntN(4) == 0 {
		for t := range p.Tensors {
			if x := &p.Tensors[t]; x.Bytes%3 != 0 {
				x.Bytes *= 100
			}
		}
	}
	often := r.IntN(10)
	for o := range p.Tensors {
		v := p.Tensors[o].Producer
		for t := range p.Tensors {
			if v >= 0 && t != o && slices.Contains(p.Tensors[t].Consumers, v) && r.IntN(10) < often {
				p.Tensors[o].Reuses = append(p.Tensors[o].Reuses, int32(t))
			}
		}
	}
}

// randomTraining draws a small training step: a chain with skip connections, its gradients,
// updates that are one node, a chain or a diamond, counters that touch no bytes, and
// control edges.
func randomTraining(r *rand.Rand, most int) *Problem {
	p := &Problem{}
	node := func(workspace int64, read ...int) int32 {
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, Node{Workspace: workspace})
		for _, t := range read {
			p.Tensors[t].Consumers = append(p.Tensors[t].Consumers, v)
		}
		return v
	}
	tensor := func(bytes int64, producer int32) int {
		p.Tensors = append(p.Tensors, Tensor{Bytes: bytes, Producer: producer})
		return len(p.Tensors) - 1
	}
	some := func() int64 { return 1 + r.Int64N(12) }
	room := func(n int) bool { return len(p.Nodes)+n <= most }
	shared := tensor(1+r.Int64N(2), -1)
	acts := []int{tensor(some(), -1)}
	for range 1 + r.IntN(3) {
		read := []int{acts[len(acts)-1]}
		if len(acts) > 1 && r.IntN(3) == 0 {
			read = append(read, acts[r.IntN(len(acts)-1)])
		}
		v := node(r.Int64N(2)*r.Int64N(6), read...)
		acts = append(acts, tensor(some(), v))
		if r.IntN(3) == 0 && room(6) {
			if r.IntN(2) == 0 {
				node(r.Int64N(2), tensor(0, v))
			} else {
				node(r.Int64N(2) * some())
			}
		}
	}
	loss := tensor(1, node(0, acts[len(acts)-1], shared))
	p.Tensors[loss].Output = r.IntN(2) == 0
	grad := tensor(p.Tensors[acts[len(acts)-1]].Bytes, node(0, loss, shared))
	update := func(g int, made int32) {
		bytes := p.Tensors[g].Bytes
		switch kind := r.IntN(4); {
		case kind == 0 && room(1):
			if r.IntN(3) == 0 {
				node(0, g, tensor(0, made))
			} else {
				node(0, g)
			}
		case kind == 1 && room(3):
			m := tensor(bytes, node(0, g))
			node(r.Int64N(2)*bytes, m, tensor(bytes, node(0, g)))
		case kind == 2 && room(4):
			m := node(0, g)
			root := tensor(bytes, node(0, tensor(0, m), g))
			node(0, tensor(bytes, node(0, root)))
		}
	}
	for i := len(acts) - 2; i >= 0 && room(3); i-- {
		if r.IntN(2) == 0 {
			v := node(r.Int64N(3), grad, acts[i])
			w := tensor(some(), v)
			grad = tensor(p.Tensors[acts[i]].Bytes, v)
			update(w, v)
			continue
		}
		v := node(r.Int64N(2)*r.Int64N(8), grad, acts[i])
		w := tensor(some(), v)
		read := []int{grad}
		for _, t := range []int{acts[i], shared} {
			if r.IntN(2) == 0 {
				read = append(read, t)
			}
		}
		grad = tensor(p.Tensors[acts[i]].Bytes, node(0, read...))
		update(w, v)
	}
	return p
}

// randomGraphs returns the number of random problems that a test draws, which
// ONNXMEM_RANDOM_GRAPHS can raise.
func randomGraphs(tb testing.TB, usual int) int {
	if s := os.Getenv("ONNXMEM_RANDOM_GRAPHS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			tb.Fatal(err)
		}
		return n
	}
	return usual
}

func TestSolveFindsTheOptimum(t *testing.T) {
	n := randomGraphs(t, 3000)
	proven, searched, bad := 0, 0, 0
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		p := withSibling(r, 15)
		noPairs := r.IntN(4) == 0
		best := newBrute(p, !noPairs).optimum()
		got, err := Solve(context.Background(), p, Options{NoPairs: noPairs})
		if err != nil {
			t.Fatal(err)
		}
		c := got.Certificates[0]
		if got.Bound > best || got.Evaluation.Peak != best || !got.Optimal {
			t.Errorf("graph %d of %d nodes: bound %d by %s, optimum %d, peak %d, optimal %v", i, len(p.Nodes), got.Bound, c.Kind, best, got.Evaluation.Peak, got.Optimal)
			if bad++; bad > 10 {
				t.FailNow()
			}
		}
		if got.Optimal {
			proven++
		}
		if c.Kind == KindSearch {
			searched++
		}
		if !noPairs {
			checkCertificate(t, p, c)
		}
		for _, order := range got.Orders {
			if e, err := p.Evaluate(order); err != nil || !noPairs && e.Peak != best {
				t.Errorf("graph %d: an order of peak %d, %v; want %d", i, e.Peak, err, best)
			}
		}
	}
	t.Logf("%d of %d proven, %d of them by search", proven, n, searched)
}

// checkCertificate computes the value of a certificate from its definition.
func checkCertificate(t *testing.T, p *Problem, c Certificate) {
	t.Helper()
	var value int64
	switch c.Kind {
	case KindCut:
		value = CutBound(p, c.Nodes[0])
	case KindFirst:
		value = FirstBound(p, c.Nodes)
	case KindLast:
		value = LastBound(p, c.Nodes)
	default:
		return
	}
	if value != c.Value {
		t.Errorf("certificate %v: the network gives %d", c, value)
	}
}

// The bound of each node and of each set is at most the optimum.
func TestBoundsAreBelowTheOptimum(t *testing.T) {
	for i := range randomGraphs(t, 1000) {
		r := rand.New(rand.NewPCG(uint64(i), 2))
		p := randomProblem(r, 12)
		best := newBrute(p, true).optimum()
		for v := range p.Nodes {
			if b := CutBound(p, int32(v)); b > best {
				t.Fatalf("graph %d: cut at %d gives %d, optimum %d", i, v, b, best)
			}
		}
		for range 3 {
			set := []int32{int32(r.IntN(len(p.Nodes)))}
			for v := range p.Nodes {
				if r.IntN(3) == 0 && int32(v) != set[0] {
					set = append(set, int32(v))
				}
			}
			if b := FirstBound(p, set); b > best {
				t.Fatalf("graph %d: first of %v gives %d, optimum %d", i, set, b, best)
			}
			if b := LastBound(p, set); b > best {
				t.Fatalf("graph %d: last of %v gives %d, optimum %d", i, set, b, best)
			}
		}
	}
}

// leastOfSet returns the least load of the node of a set that runs first, or last, over all
// states from which it may.
func (b *brute) leastOfSet(set []int32, last bool) int64 {
	n := len(b.p.Nodes)
	var all uint32
	for _, v := range set {
		all |= 1 << v
	}
	least := int64(math.MaxInt64)
	reached := make([]bool, 1<<n)
	reached[0] = true
	for i, ok := range reached {
		if !ok {
			continue
		}
		ran := uint32(i)
		for left := ^ran & (1<<n - 1); left != 0; left &= left - 1 {
			v := int32(bits.TrailingZeros32(left))
			if b.preds[v]&^ran != 0 {
				continue
			}
			reached[ran|1<<v] = true
			if has(all, v) && (!last && ran&all == 0 || last && all&^ran == 1<<v) && ran != 0 {
				least = min(least, b.load(ran, v))
			}
		}
	}
	return least
}

// The bound of a set is the least load that its first, or last, node has in any state, and
// below it only if a node has too many matchings.
func TestSetBoundsAreExact(t *testing.T) {
	exact := 0
	for i := range randomGraphs(t, 2000) {
		r := rand.New(rand.NewPCG(uint64(i), 31))
		p := withSibling(r, 12)
		// A first node without bytes, so that no state asked about is the empty one.
		first := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, Node{})
		for v := range first {
			p.Tensors = append(p.Tensors, Tensor{Producer: first, Consumers: []int32{v}})
		}
		b := newBrute(p, true)
		g := indexed.NewProblem(index(p))
		for range 3 {
			var set []int32
			many := false
			for v := range first {
				if r.IntN(3) == 0 {
					set = append(set, v)
					_, more := g.Choices(v)
					many = many || more > 0
				}
			}
			if len(set) == 0 {
				continue
			}
			for _, end := range []struct {
				name      string
				got, want int64
			}{{"first", FirstBound(p, set), b.leastOfSet(set, false)}, {"last", LastBound(p, set), b.leastOfSet(set, true)}} {
				if end.got > end.want || end.got < end.want && !many {
					t.Fatalf("graph %d: %s of %v gives %d, want %d", i, end.name, set, end.got, end.want)
				}
				if end.got == end.want {
					exact++
				}
			}
		}
	}
	t.Logf("%d bounds are exact", exact)
}

// The first of all nodes that may be first runs at the first step, at which the inputs that
// nobody reads are live, too.
func TestFirstStepHoldsUnreadInputs(t *testing.T) {
	for i := range randomGraphs(t, 500) {
		r := rand.New(rand.NewPCG(uint64(i), 32))
		p := withSibling(r, 9)
		p.Tensors = append(p.Tensors, Tensor{Bytes: int64(1 + r.IntN(20)), Producer: -1})
		g := indexed.NewProblem(index(p))
		b := newBrute(p, true)
		var sources []int32
		want, many := int64(math.MaxInt64), false
		for v := range int32(len(p.Nodes)) {
			if b.preds[v] == 0 {
				sources = append(sources, v)
				want = min(want, b.load(0, v))
				_, more := g.Choices(v)
				many = many || more > 0
			}
		}
		if got := FirstBound(p, sources); got > want || got < want && !many {
			t.Fatalf("graph %d: the first of %v needs %d, want %d", i, sources, got, want)
		}
	}
}

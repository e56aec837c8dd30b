package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// updating is a small graph in which a parameter is updated by way of one or two values between,
// each of which may be written over the one before.
type updating struct {
	*scope
	param, last int32   // storages: of the parameter, and of its new value
	between     []int32 // of the values between
}

// randomUpdate makes a graph of a parameter w that other nodes read, too.
func randomUpdate(r *rand.Rand) updating {
	g := &graph.Graph{}
	tensor := func(bytes int64) graph.TensorID {
		id := g.NewTensor(fmt.Sprint("t", len(g.Tensors)))
		g.Tensors[id].Bytes = bytes
		return id
	}
	size := func() int64 { return 64 * int64(1+r.IntN(4)) }
	w := tensor(size())
	g.Tensors[w].Input = true
	g.Inputs = []graph.TensorID{w}
	chain, length := []graph.TensorID{w}, 2+r.IntN(2)
	for n := range 5 + r.IntN(4) {
		node := &graph.Node{Name: fmt.Sprint("n", n)}
		for range r.IntN(3) {
			if id := graph.TensorID(r.IntN(len(g.Tensors))); id != w || r.IntN(2) == 0 {
				node.Inputs = append(node.Inputs, id)
			}
		}
		// Each link of the chain is made by some node, the update by one of the last.
		if step := len(chain); step < length && r.IntN(3) == 0 || step == length && n > 4 {
			at := len(node.Inputs)
			node.Inputs = append(node.Inputs, chain[step-1])
			node.Outputs = []graph.TensorID{tensor(g.Tensors[w].Bytes)}
			node.Semantics.Inplace = []graph.Alias{{In: at}}
			if at > 0 && r.IntN(2) == 0 {
				node.Semantics.Inplace = append(node.Semantics.Inplace, graph.Alias{})
			}
			if chain = append(chain, node.Outputs[0]); step == length {
				length = 0
			}
		} else {
			node.Outputs = []graph.TensorID{tensor(size())}
		}
		if g.Nodes = append(g.Nodes, node); length == 0 {
			break
		}
	}
	if length > 0 {
		return updating{}
	}
	g.Outputs = []graph.TensorID{chain[len(chain)-1]}
	g.Link()
	v := &verifier{p: &plan.Plan{Alignment: 64, Sharing: plan.Sharing{Inplace: true}}, r: &Report{}}
	v.updates = map[string]string{g.Tensors[w].Name: g.Tensors[g.Outputs[0]].Name}
	s := v.newScope(g, mainGraph, "")
	s.share()
	x := updating{scope: s, param: s.storageOf[w], last: s.storageOf[g.Outputs[0]]}
	for _, t := range chain[1 : len(chain)-1] {
		x.between = append(x.between, s.storageOf[t])
	}
	return x
}

// least is the least peak of an order: of the values between, any may lie in the parameter's
// buffer whose readers, and those of all that lay there before, have run.
func (x updating) least(order []graph.NodeID) int64 {
	at := make([]int, len(order))
	for i, n := range order {
		at[n] = i
	}
	best := int64(math.MaxInt64)
	for set := range 1 << len(x.between) {
		held, fits := x.param, true
		for k, i := range slices.Concat(x.between, []int32{x.last}) {
			if k < len(x.between) && set>>k&1 == 0 {
				continue
			}
			maker := x.storages[i].maker
			for _, r := range x.storages[held].readers {
				fits = fits && (at[r] < at[maker] || r == maker && x.over(maker, held))
			}
			held = i
		}
		if !fits {
			continue
		}
		for k, i := range x.between {
			x.storages[i].resident = set>>k&1 != 0
		}
		_, peak := x.simulate(order)
		best = min(best, peak)
	}
	for _, i := range x.between {
		x.storages[i].resident = true
	}
	return best
}

// over reports whether a node may write its result over a storage.
func (x updating) over(n graph.NodeID, i int32) bool {
	return slices.ContainsFunc(x.g.Nodes[n].Semantics.Inplace, func(a graph.Alias) bool {
		return x.storageOf[x.g.Nodes[n].Inputs[a.In]] == i
	})
}

// TestBoundsOfUpdates: no order, wherever it puts the values between a parameter and its update, has
// a peak below a bound that is proven for a plan that writes all of them over the parameter.
func TestBoundsOfUpdates(t *testing.T) {
	graphs, met, orders := 0, 0, 0
	for seed := range 6000 {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		x := randomUpdate(r)
		if x.scope == nil {
			continue
		}
		graphs++
		held := x.param
		for _, i := range x.between {
			x.storages[i].resident = true
			x.chained = append(x.chained, update{held, i})
			held = i
		}
		x.chained = append(x.chained, update{held, x.last})
		b, q := newBounds(x.scope), newStates(x.scope)
		n := len(x.g.Nodes)
		least := int64(math.MaxInt64)
		for range 30 {
			orders++
			least = min(least, x.least(randomOrder(r, q)))
		}
		exact := false
		check := func(what string, bound func(target int64) answer) {
			if a := bound(least + 64); !a.unknown && a.bytes > least {
				t.Fatalf("seed %d: a bound of %d bytes (%s), but an order of %d", seed, a.bytes, what, least)
			}
			a := bound(least)
			exact = exact || !a.unknown && a.bytes >= least
		}
		for v := range n {
			check(fmt.Sprint("at node ", v), func(target int64) answer { return b.atNode(graph.NodeID(v), target) })
		}
		for range 4 {
			var set []graph.NodeID
			for _, v := range r.Perm(n)[:1+r.IntN(n)] {
				set = append(set, graph.NodeID(v))
			}
			check(fmt.Sprint("the first of ", set), func(target int64) answer { return b.firstOf(set, target) })
			check(fmt.Sprint("the last of ", set), func(target int64) answer { return b.lastOf(set, target) })
		}
		if exact {
			met++
		}
	}
	t.Logf("%d graphs, %d orders, %d graphs whose bound an order meets", graphs, orders, met)
	if graphs < 1000 || met < graphs/4 {
		t.Error("too few cases are tested")
	}
}

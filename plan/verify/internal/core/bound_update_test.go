package core_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core/coretest"
)

// updating is a small problem in which a parameter is updated by way of one or two values
// between, each of which may be written over the one before. Storage 0 is the parameter.
type updating struct {
	*core.Problem
	last    int32   // its new value
	between []int32 // the values between
}

// randomUpdate draws a parameter that other nodes read, too; ok is false if it is not updated.
func randomUpdate(r *rand.Rand) (x updating, ok bool) {
	p := &core.Problem{Inplace: true, Sums: &core.Sums{}}
	size := func() int64 { return 64 * int64(1+r.IntN(4)) }
	p.Storages = []core.Storage{{Maker: core.None, Bytes: size(), Resident: true, Update: true}}
	chain, length := []int32{0}, 2+r.IntN(2)
	for n := range int32(5 + r.IntN(4)) {
		var node core.Node
		read := func(i int32) {
			st := &p.Storages[i]
			node.Reads = append(node.Reads, i)
			if st.Maker >= 0 {
				node.After = append(node.After, st.Maker)
			}
			if !slices.Contains(st.Readers, n) {
				st.Readers = append(st.Readers, n)
			}
		}
		over := func(i int32) {
			node.Overwrite = append(node.Overwrite, i)
			if result := int32(len(p.Storages)); p.Storages[i].Bytes == p.Storages[0].Bytes {
				node.Over = append(node.Over, core.Pair{Result: result, Over: i})
			}
		}
		for range r.IntN(3) {
			if i := int32(r.IntN(len(p.Storages))); i > 0 || r.IntN(2) == 0 {
				read(i)
			}
		}
		// Each link of the chain is made by some node, the update by one of the last.
		made := core.Storage{Maker: n, Bytes: size()}
		step := len(chain)
		link := step < length && r.IntN(3) == 0 || step == length && n > 4
		if link {
			made.Bytes = p.Storages[0].Bytes
			read(chain[step-1])
			over(chain[step-1])
			if len(node.Reads) > 1 && r.IntN(2) == 0 {
				over(node.Reads[0])
			}
			chain = append(chain, int32(len(p.Storages)))
		}
		node.Writes = []int32{int32(len(p.Storages))}
		p.Storages, p.Nodes, p.Work = append(p.Storages, made), append(p.Nodes, node), append(p.Work, 0)
		if link && step == length {
			x = updating{p, node.Writes[0], chain[1:step]}
			st := &p.Storages[x.last]
			st.Resident, st.Update, st.Output = true, true, true
			p.Updated = []core.Update{{Old: 0, New: x.last}}
			return x, true
		}
	}
	return x, false
}

// least is the least peak of an order: of the values between, any may lie in the parameter's
// buffer whose readers, and those of all that lay there before, have run.
func (x updating) least(order []int32) int64 {
	at := make([]int, len(order))
	for i, n := range order {
		at[n] = i
	}
	best := int64(math.MaxInt64)
	for set := range 1 << len(x.between) {
		held, fits := int32(0), true
		for k, i := range slices.Concat(x.between, []int32{x.last}) {
			if k < len(x.between) && set>>k&1 == 0 {
				continue
			}
			maker := x.Storages[i].Maker
			for _, r := range x.Storages[held].Readers {
				fits = fits && (at[r] < at[maker] || r == maker && slices.Contains(x.Nodes[maker].Overwrite, held))
			}
			held = i
		}
		if !fits {
			continue
		}
		for k, i := range x.between {
			x.Storages[i].Resident = set>>k&1 != 0
		}
		_, peak := x.Simulate(order)
		best = min(best, peak)
	}
	for _, i := range x.between {
		x.Storages[i].Resident = true
	}
	return best
}

// TestBoundsOfUpdates: no order, wherever it puts the values between a parameter and its update, has
// a peak below a bound that is proven for a plan that writes all of them over the parameter.
func TestBoundsOfUpdates(t *testing.T) {
	problems, met, orders := 0, 0, 0
	for seed := range 6000 {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		x, ok := randomUpdate(r)
		if !ok {
			continue
		}
		problems++
		held := int32(0)
		for _, i := range x.between {
			x.Storages[i].Resident = true
			x.Chained = append(x.Chained, core.Update{Old: held, New: i})
			held = i
		}
		x.Chained = append(x.Chained, core.Update{Old: held, New: x.last})
		b, q := core.NewBounds(x.Problem, core.MaxWork), coretest.NewStates(x.Problem)
		n := len(x.Nodes)
		least := int64(math.MaxInt64)
		for range 30 {
			orders++
			least = min(least, x.least(q.Order(r)))
		}
		exact := false
		check := func(what string, bound func(target int64) core.Answer) {
			if a := bound(least + 64); !a.Unknown && a.Bytes > least {
				t.Fatalf("seed %d: a bound of %d bytes (%s), but an order of %d", seed, a.Bytes, what, least)
			}
			a := bound(least)
			exact = exact || !a.Unknown && a.Bytes >= least
		}
		for v := range n {
			check(fmt.Sprint("at node ", v), func(target int64) core.Answer { return b.AtNode(int32(v), target) })
		}
		for range 4 {
			var set []int32
			for _, v := range r.Perm(n)[:1+r.IntN(n)] {
				set = append(set, int32(v))
			}
			check(fmt.Sprint("the first of ", set), func(target int64) core.Answer { return b.FirstOf(set, target) })
			check(fmt.Sprint("the last of ", set), func(target int64) core.Answer { return b.LastOf(set, target) })
		}
		if exact {
			met++
		}
	}
	t.Logf("%d problems, %d orders, %d problems whose bound an order meets", problems, orders, met)
	if problems < 1000 || met < problems/4 {
		t.Error("too few cases are tested")
	}
}

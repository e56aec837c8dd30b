package core_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core/coretest"
)

// TestCheck: a problem that does not contradict itself is taken, and each contradiction in it
// is found.
func TestCheck(t *testing.T) {
	reader := func(p *core.Problem) (i int) { // a storage that a node makes and another reads
		return slices.IndexFunc(p.Storages, func(st core.Storage) bool { return st.Maker >= 0 && len(st.Readers) > 0 })
	}
	changes := []struct {
		what string
		do   func(p *core.Problem, i int)
	}{
		{"a reader is missing", func(p *core.Problem, i int) { p.Storages[i].Readers = p.Storages[i].Readers[1:] }},
		{"a reader that does not read", func(p *core.Problem, i int) {
			n := int32(len(p.Nodes))
			p.Nodes, p.Work = append(p.Nodes, core.Node{}), append(p.Work, 0)
			p.Storages[i].Readers = append(p.Storages[i].Readers, n)
		}},
		{"a reader before the maker", func(p *core.Problem, i int) { p.Storages[i].Maker = p.Storages[i].Readers[0] }},
		{"a reader twice", func(p *core.Problem, i int) {
			p.Storages[i].Readers = append(p.Storages[i].Readers, p.Storages[i].Readers[0])
		}},
		{"another maker", func(p *core.Problem, i int) {
			maker := p.Storages[i].Maker
			p.Nodes[maker].Writes = slices.DeleteFunc(slices.Clone(p.Nodes[maker].Writes), func(k int32) bool { return k == int32(i) })
		}},
		{"no such maker", func(p *core.Problem, i int) { p.Storages[i].Maker = int32(len(p.Nodes)) }},
		{"no such storage", func(p *core.Problem, _ int) {
			p.Nodes[0].Reads = append(p.Nodes[0].Reads, int32(len(p.Storages)))
		}},
		{"a pair of two sizes", func(p *core.Problem, i int) {
			n := &p.Nodes[p.Storages[i].Readers[0]]
			n.Writes = append(n.Writes, int32(len(p.Storages)))
			n.Over = append(n.Over, core.Pair{Result: int32(len(p.Storages)), Over: int32(i)})
			p.Storages = append(p.Storages, core.Storage{Maker: p.Storages[i].Readers[0], Bytes: p.Storages[i].Bytes + 64})
		}},
		{"a pair over what is not read", func(p *core.Problem, i int) {
			n := &p.Nodes[p.Storages[i].Maker]
			n.Over = append(n.Over, core.Pair{Result: int32(i), Over: int32(i)})
		}},
		{"a node before one that it waits for", func(p *core.Problem, _ int) { p.Nodes[0].After = []int32{1} }},
		{"a size below 0", func(p *core.Problem, i int) { p.Storages[i].Bytes = -64 }},
		{"work below 0", func(p *core.Problem, _ int) { p.Work[0] = -64 }},
		{"work of another node", func(p *core.Problem, _ int) { p.Work = p.Work[1:] }},
		{"an update of nothing", func(p *core.Problem, i int) { p.Updated = []core.Update{{Old: core.None, New: int32(i)}} }},
		{"no such part", func(p *core.Problem, i int) { p.Storages[i].Parts = []int32{core.None} }},
		{"bytes besides the parts", func(p *core.Problem, i int) {
			p.Storages[i].Bytes, p.Storages[i].Parts = 64, []int32{int32(len(p.Storages))}
			p.Storages = append(p.Storages, core.Storage{Bytes: 64, Maker: p.Storages[i].Maker, Readers: p.Storages[i].Readers})
		}},
	}
	tested := 0
	for seed := range uint64(300) {
		draw := func() *core.Problem { return coretest.Random(rand.New(rand.NewPCG(seed, 11)), 2+int(seed%6)) }
		if err := draw().Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		i := reader(draw())
		if i < 0 {
			continue
		}
		tested++
		for _, c := range changes {
			p := draw()
			if c.do(p, i); p.Check() == nil {
				t.Fatalf("seed %d: %s: not found", seed, c.what)
			}
		}
	}
	if tested < 100 {
		t.Errorf("%d problems were changed: too few are tested", tested)
	}
}

package verify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// rectangles makes the verifier's extents of plain buffers.
func rectangles(v *verifier, list []plan.Buffer) []extent {
	s := v.newScope(&graph.Graph{}, mainGraph, "")
	all := make([]extent, len(list))
	for k, b := range list {
		all[k] = extent{b.Offset, b.Offset + b.Bytes, b.First, b.Last, s, list, k}
	}
	return all
}

// TestOverlapIsQuadratic compares the sweep with a check of every pair.
func TestOverlapIsQuadratic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "buffers")
		list := make([]plan.Buffer, n)
		for k := range list {
			b := &list[k]
			b.Pool = plan.Arena
			b.Offset = int64(rapid.IntRange(0, 20).Draw(t, "offset"))
			b.Bytes = int64(rapid.IntRange(1, 8).Draw(t, "bytes"))
			b.First = rapid.IntRange(0, 10).Draw(t, "first")
			b.Last = b.First + rapid.IntRange(0, 4).Draw(t, "steps")
		}
		faulty := map[int]bool{} // buffers that overlap one before them in the sweep
		for x := range list {
			for y := range x {
				a, b := &list[x], &list[y]
				if a.First <= b.Last && b.First <= a.Last && a.Offset < b.Offset+b.Bytes && b.Offset < a.Offset+a.Bytes {
					faulty[x] = true
				}
			}
		}
		v := &verifier{r: &Report{}}
		v.overlap(rectangles(v, list))
		if found := len(v.r.Violations); (found > 0) != (len(faulty) > 0) || found > n {
			t.Fatalf("%d violations, expected some: %t\n%v", found, len(faulty) > 0, v.r.Violations)
		}
	})
}

func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 63, 64, 65, 4096, 4097, 300_000}).Draw(t, "size")
		r, have := newRanks(size), map[int]bool{}
		at := rapid.IntRange(0, size-1)
		for range rapid.IntRange(0, 30).Draw(t, "members") {
			i := at.Draw(t, "set")
			r.set(i)
			have[i] = true
		}
		for i := range have {
			if rapid.Bool().Draw(t, "clear") {
				r.clear(i)
				delete(have, i)
			}
		}
		i := at.Draw(t, "at")
		before, after := -1, -1
		for j := range have {
			if j < i {
				before = max(before, j)
			}
			if j > i && (after < 0 || j < after) {
				after = j
			}
		}
		if r.before(i) != before || r.after(i) != after {
			t.Fatalf("around %d: %d and %d, expected %d and %d", i, r.before(i), r.after(i), before, after)
		}
	})
}

// TestSaved compares the matching with all matchings.
func TestSaved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &scope{}
		for range 8 {
			s.storages = append(s.storages, storage{bytes: int64(64 * rapid.IntRange(1, 2).Draw(t, "bytes"))})
		}
		var pairs []pair
		for result := range int32(4) {
			for over := int32(4); over < 8; over++ {
				if s.storages[result].bytes == s.storages[over].bytes && rapid.Bool().Draw(t, "pair") {
					pairs = append(pairs, pair{result, over})
				}
			}
		}
		best := int64(0)
		for set := range 1 << len(pairs) {
			sum, taken := int64(0), map[int32]bool{}
			for i, p := range pairs {
				if set>>i&1 == 0 {
					continue
				}
				if taken[p.result] || taken[p.over] {
					sum = -1
					break
				}
				taken[p.result], taken[p.over] = true, true
				sum += s.storages[p.over].bytes
			}
			best = max(best, sum)
		}
		if got := s.saved(pairs); got != best {
			t.Fatalf("%v saves %d, expected %d", pairs, got, best)
		}
	})
}

// BenchmarkOverlap sweeps buffers with many live at a time.
func BenchmarkOverlap(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("buffers=%d", n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			list := make([]plan.Buffer, n)
			for k := range list {
				list[k] = plan.Buffer{Pool: plan.Arena, Offset: int64(k) * 64, Bytes: 64, First: r.IntN(n)}
				list[k].Last = list[k].First + r.IntN(n)
			}
			r.Shuffle(n, func(x, y int) { list[x].Offset, list[y].Offset = list[y].Offset, list[x].Offset })
			v := &verifier{r: &Report{}}
			all := rectangles(v, list)
			for b.Loop() {
				v.overlap(slices.Clone(all))
			}
			if len(v.r.Violations) > 0 {
				b.Fatal(v.r.Violations[0])
			}
		})
	}
}

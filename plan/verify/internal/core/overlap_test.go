package core

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestOverlapIsQuadratic compares the sweep with a check of every pair.
func TestOverlapIsQuadratic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "buffers")
		list := make([]Extent, n)
		for k := range list {
			b := &list[k]
			b.Offset = int64(rapid.IntRange(0, 20).Draw(t, "offset"))
			b.End = b.Offset + int64(rapid.IntRange(1, 8).Draw(t, "bytes"))
			b.First = rapid.IntRange(0, 10).Draw(t, "first")
			b.Last = b.First + rapid.IntRange(0, 4).Draw(t, "steps")
		}
		faulty := map[int]bool{} // buffers that overlap one before them in the sweep
		for x := range list {
			for y := range x {
				a, b := &list[x], &list[y]
				if a.First <= b.Last && b.First <= a.Last && a.Offset < b.End && b.Offset < a.End {
					faulty[x] = true
				}
			}
		}
		found := 0
		Overlap(list, func(x, y int) {
			found++
			if a, b := &list[x], &list[y]; a.First > b.Last || b.First > a.Last || a.Offset >= b.End || b.Offset >= a.End {
				t.Fatalf("%v and %v do not overlap", *a, *b)
			}
		})
		if (found > 0) != (len(faulty) > 0) || found > n {
			t.Fatalf("%d overlaps, expected some: %t", found, len(faulty) > 0)
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

// BenchmarkOverlap sweeps buffers with many live at a time.
func BenchmarkOverlap(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("buffers=%d", n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			list := make([]Extent, n)
			for k := range list {
				list[k] = Extent{Offset: int64(k) * 64, End: int64(k+1) * 64, First: r.IntN(n)}
				list[k].Last = list[k].First + r.IntN(n)
			}
			r.Shuffle(n, func(x, y int) {
				list[x].Offset, list[y].Offset = list[y].Offset, list[x].Offset
				list[x].End, list[y].End = list[y].End, list[x].End
			})
			for b.Loop() {
				Overlap(list, func(x, y int) { b.Fatal(x, y) })
			}
		})
	}
}

package core

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSaved compares the matching with all matchings.
func TestSaved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Problem{}
		for range 8 {
			p.Storages = append(p.Storages, Storage{Bytes: int64(64 * rapid.IntRange(1, 2).Draw(t, "bytes"))})
		}
		var pairs []Pair
		for result := range int32(4) {
			for over := int32(4); over < 8; over++ {
				if p.Storages[result].Bytes == p.Storages[over].Bytes && rapid.Bool().Draw(t, "pair") {
					pairs = append(pairs, Pair{result, over})
				}
			}
		}
		best := int64(0)
		for set := range 1 << len(pairs) {
			sum, taken := int64(0), map[int32]bool{}
			for i, x := range pairs {
				if set>>i&1 == 0 {
					continue
				}
				if taken[x.Result] || taken[x.Over] {
					sum = -1
					break
				}
				taken[x.Result], taken[x.Over] = true, true
				sum += p.Storages[x.Over].Bytes
			}
			best = max(best, sum)
		}
		if got := p.Saved(pairs); got != best {
			t.Fatalf("%v saves %d, expected %d", pairs, got, best)
		}
	})
}

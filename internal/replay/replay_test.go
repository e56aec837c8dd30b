package replay

import (
	"math/rand/v2"
	"testing"
)

// TestFind: which blocks of a plan a run's requests are.
func TestFind(t *testing.T) {
	long := ""
	for i := range 3000 {
		long += string(rune('A' + i%57)) // no key is "."
	}
	for _, c := range []struct {
		plan, run string
		nearby    int
		want      []int
	}{
		{"abcd", "abcd", 2, []int{0, 1, 2, 3}},
		{"abcd", "acbd", 2, []int{0, 2, 1, 3}},
		{"abcd", "axbd", 2, []int{0, -1, 1, 3}},
		{"abcd", "aab", 2, []int{0, -1, 1}},
		{"aaba", "aaab", 2, []int{0, 1, 3, 2}},
		{"abcdef", "af", 2, []int{0, -1}},
		{"abcdefgh", "axxh", 2, []int{0, -1, -1, -1}},
		{"abcdefgh", "axxxh", 2, []int{0, -1, -1, -1, 7}},
		{"abcdefgh", "ahab", 0, []int{0, 7, -1, 1}},
		{"abcdefgh", "hab", 2, []int{-1, 0, 1}},
		{"abc", "abcabc", 2, []int{0, 1, 2, -1, -1, -1}},
	} {
		var blocks []Block[rune]
		for _, key := range c.plan {
			blocks = append(blocks, Block[rune]{Key: key})
		}
		w := NewWalk(NewPlan(blocks), c.nearby)
		for range 2 {
			for i, key := range c.run {
				if got := w.Find(key); got != c.want[i] {
					t.Errorf("plan %s, run %s, nearby %d: request %d is block %d, expected %d", c.plan, c.run, c.nearby, i, got, c.want[i])
				}
			}
			w.Reset()
		}
	}
	// However many requests are missed, blocks are looked for no farther than 1024 ahead.
	blocks := []Block[rune]{}
	for _, key := range long {
		blocks = append(blocks, Block[rune]{Key: key})
	}
	blocks[1023].Key, blocks[2047].Key = '!', '?'
	w := NewWalk(NewPlan(blocks), Nearby)
	for range 5000 {
		w.Find('.')
	}
	if far, last := w.Find('?'), w.Find('!'); far != -1 || last != 1023 {
		t.Errorf("blocks %d and %d, expected -1 and 1023", far, last)
	}
}

// TestLive: places and holes as in an array of bytes.
func TestLive(t *testing.T) {
	const arena = 60
	random := rand.New(rand.NewPCG(1, 2))
	var l Live
	var of [arena]int64 // the number of the range of each byte; 0: none
	ranges := 0
	for number := int64(1); number < 20000; number++ {
		offset, size := random.Int64N(arena), 1+random.Int64N(12)
		size = min(size, arena-offset)
		if of[offset] != 0 && (offset == 0 || of[offset-1] != of[offset]) && random.IntN(2) == 0 {
			for i, n := offset, of[offset]; i < arena && of[i] == n; i++ {
				of[i] = 0
			}
			if !l.Free(offset) {
				t.Fatalf("nothing to free at %d", offset)
			}
			ranges--
			continue
		}
		vacant := true
		for i := range size {
			vacant = vacant && of[offset+i] == 0
		}
		if got := l.Take(offset, size); got != vacant {
			t.Fatalf("[%d, %d) taken: %t, expected %t", offset, offset+size, got, vacant)
		}
		if vacant {
			ranges++
			for i := range size {
				of[offset+i] = number
			}
		}
		best, room, from := int64(-1), int64(arena+1), int64(0)
		end := int64(0)
		for i := int64(0); i <= arena; i++ {
			if i < arena && of[i] == 0 {
				continue
			}
			if i-from >= size && i-from < room {
				best, room = from, i-from
			}
			from = i + 1
			if i < arena {
				end = i + 1
			}
		}
		if at, found := l.Hole(size, arena); found != (best >= 0) || found && at != best {
			t.Fatalf("a hole of %d bytes at %d (%t), expected %d", size, at, found, best)
		}
		if l.Len() != ranges || l.End() != end {
			t.Fatalf("%d ranges to %d, expected %d to %d", l.Len(), l.End(), ranges, end)
		}
	}
}

// TestMerge: whatever two runs take, a plan for both has room for either: blocks that are live
// at once in a run are so in the plan, and none is larger than planned.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	draw := func(keys int) (run []Block[int]) {
		n := 1 + random.IntN(12)
		for i := range n {
			run = append(run, Block[int]{Key: random.IntN(keys), Size: 1 + random.Int64N(9), Last: i + random.IntN(n-i), Stays: random.IntN(9) == 0})
		}
		return run
	}
	behind := 0
	for range 20000 {
		keys := 1 + random.IntN(14)
		plan, run := draw(keys), draw(keys)
		w := NewWalk(NewPlan(plan), random.IntN(6))
		var found []int
		for _, b := range run {
			next := w.Next()
			found = append(found, w.Find(b.Key))
			if i := found[len(found)-1]; i >= 0 && i < next {
				behind++
			}
		}
		merged := Merge(plan, run, found, func(bytes int64) int64 { return bytes + 1 })
		// The blocks of both keep their order: those of the plan all, those of the run that
		// were found ahead or not at all.
		at := make([]int, len(plan))
		of := make([]int, len(run))
		k, position := 0, 0
		for i := range plan {
			at[i] = -1
		}
		for position < len(merged) {
			for k < len(run) && found[k] >= 0 && at[found[k]] >= 0 { // behind, or its turn has come
				of[k] = at[found[k]]
				k++
			}
			i := 0
			for i < len(plan) && at[i] >= 0 {
				i++
			}
			switch {
			case k < len(run) && found[k] < 0:
				of[k] = position
				k++
			case i < len(plan):
				at[i] = position
			default:
				t.Fatalf("merged %+v has more than %+v and %+v", merged, plan, run)
			}
			position++
		}
		for ; k < len(run); k++ {
			of[k] = at[found[k]]
		}
		check := func(blocks []Block[int], of []int) {
			for i, b := range blocks {
				if m := merged[of[i]]; m.Size < b.Size || m.Key != b.Key || b.Stays && !m.Stays {
					t.Fatalf("block %+v became %+v", b, m)
				}
				for j := i + 1; j <= b.Last; j++ {
					a, c := min(of[i], of[j]), max(of[i], of[j])
					if merged[a].Last < c {
						t.Fatalf("blocks %d and %d are live at once; in the plan %d ends at %d, before %d:\n%+v\n%+v\n%v\n%+v", i, j, a, merged[a].Last, c, plan, run, found, merged)
					}
				}
			}
		}
		check(plan, at)
		check(run, of)
	}
	if behind < 1000 {
		t.Errorf("%d blocks were found behind, expected more", behind)
	}
}

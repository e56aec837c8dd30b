package alloc

import "testing"

func TestSizeClass(t *testing.T) {
	for size, want := range map[int64]int{1: 0, 2: 4, 3: 6, 4: 8, 5: 9, 7: 11, 8: 12, 9: 12, 10: 13, 1 << 20: 80} {
		if got := sizeClass(size); got != want {
			t.Errorf("%d bytes: class %d, want %d", size, got, want)
		}
	}
}

// Buffers of one class take as many rows as live together at most.
func TestRowsByClass(t *testing.T) {
	p := parse(t, "a:8@0-2 b:9@1-3 c:8@3-5 d:9@4-4 big:64@0-9 e:8@6-6")
	s := prepare(p)
	got := rowsByClass(p, s)
	// b and c wait for none, d takes the row of b, e that of d: free for longest.
	for i, want := range []int32{0, 1, 0, 1, 0, 1} {
		if got[i] != want {
			t.Errorf("%s: row %d, want %d", p.Buffers[i].ID, got[i], want)
		}
	}
}

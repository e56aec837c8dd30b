package memory

import (
	"slices"
	"testing"
)

// Only mappings of the program of which nothing was written are given back.
func TestUnwritten(t *testing.T) {
	const smaps = `00400000-01000000 r-xp 00000000 fe:00 11      /usr/bin/my tool
Rss:                8000 kB
Anonymous:             0 kB
01000000-01800000 r--p 00c00000 fe:00 11      /usr/bin/my tool
Anonymous:             0 kB
01800000-01900000 r--p 01400000 fe:00 11      /usr/bin/my tool
Anonymous:             8 kB
01900000-01a00000 rw-p 01500000 fe:00 11      /usr/bin/my tool
Anonymous:             0 kB
7f0000000000-7f0010000000 r--s 00000000 fe:00 12      /home/a/model.onnx
Anonymous:             0 kB
7ffc00000000-7ffc00021000 r--p 00000000 00:00 0       [vvar]
Anonymous:             0 kB
`
	want := []span{{0x400000, 0x1000000}, {0x1000000, 0x1800000}}
	if got := unwritten(texts(map[string]string{"proc/self/smaps": smaps}), "/usr/bin/my tool"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// The program runs on after its pages were given back.
func TestSettle(t *testing.T) {
	before := make([]int, 1000)
	for i := range before {
		before[i] = i
	}
	for range 3 {
		Settle()
	}
	for i, x := range before {
		if x != i {
			t.Fatalf("element %d is %d", i, x)
		}
	}
}

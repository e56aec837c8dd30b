package alloc

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestCheck: both checks find each kind of fault.
func TestCheck(t *testing.T) {
	good := []int64{0, 4, 6, 0}
	for _, c := range []struct {
		name      string
		offsets   []int64
		arena     int64
		alignment int64
		want      string
	}{
		{"good", good, 7, 0, ""},
		{"one byte", []int64{0, 3, 6, 0}, 7, 0, `buffer 0 "a" (bytes 0-3, steps 0-1) and buffer 1 "b" (bytes 3-4, steps 0-1) overlap at step 0`},
		{"at the last step of one", []int64{0, 4, 3, 4}, 8, 0, `buffer 0 "a" (bytes 0-3, steps 0-1) and buffer 2 "c" (bytes 3-3, steps 1-2) overlap at step 1`},
		{"an arena too small", good, 6, 0, "arena: expected 7 bytes, the end of the highest buffer, found 6"},
		{"an arena too large", good, 8, 0, "arena: expected 7 bytes, the end of the highest buffer, found 8"},
		{"an offset missing", good[:3], 7, 0, "offsets: expected one for each of 4 buffers, found 3"},
		{"a negative offset", []int64{0, 4, -1, 0}, 6, 0, "found -1"},
		{"an offset at the end of int64", []int64{math.MaxInt64, 4, 6, 0}, 7, 0, "found 9223372036854775807"},
		{"not aligned", good, 8, 2, ""},
		{"not aligned", []int64{0, 4, 7, 0}, 9, 2, `buffer 2 "c": offset: expected a multiple of 2`},
		{"size rounded up", good, 7, 2, "arena: expected 8 bytes"},
	} {
		p := parse(t, picture)
		p.Alignment = c.alignment
		for name, check := range map[string]func(Placement) error{"Check": p.Check, "CheckSweep": p.CheckSweep} {
			got := message(check(Placement{c.offsets, c.arena}))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want[strings.LastIndex(c.want, ":")+1:]) {
				t.Errorf("%s: %s: got %q, want %q", name, c.name, got, c.want)
			}
		}
	}
	zero := parse(t, "a:4@0-1 z:0@0-1")
	for _, check := range []func(Placement) error{zero.Check, zero.CheckSweep} {
		if check(Placement{[]int64{0, 4}, 4}) == nil {
			t.Error("0 bytes at an offset of 4 were accepted")
		}
	}
}

// TestChecksAgree: both checks accept the same placements, even if a buffer is moved by
// a byte.
func TestChecksAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 12)
		a := GreedyBySize(p)
		for i := range a.Offsets {
			if rapid.IntRange(0, 5).Draw(t, "moved") == 0 {
				a.Offsets[i] += int64(rapid.IntRange(-1, 1).Draw(t, "by")) * p.align(i)
			}
		}
		a.Arena = 0
		for i, off := range a.Offsets {
			a.Arena = max(a.Arena, off+p.size(i))
		}
		plain, sweep := p.Check(a), p.CheckSweep(a)
		if (plain == nil) != (sweep == nil) {
			t.Fatalf("offsets %v: Check says %v, CheckSweep says %v", a.Offsets, plain, sweep)
		}
	})
}

// TestCheckObjects: each kind of fault is found.
func TestCheckObjects(t *testing.T) {
	good := Objects{[]int{0, 1, 2, 1}, []int64{4, 4, 1}, 9}
	for _, c := range []struct {
		name string
		o    Objects
		want string
	}{
		{"good", good, ""},
		{"two at a time", Objects{[]int{0, 1, 1, 0}, []int64{4, 2}, 6}, `buffer 1 "b" and buffer 2 "c" are both in object 1 at step 1`},
		{"a buffer forgotten", Objects{good.Object[:3], good.Sizes, 9}, "objects: expected one for each of 4 buffers, found 3"},
		{"in no object", Objects{[]int{0, 1, -1, 1}, []int64{4, 4}, 8}, `buffer 2 "c": object: expected 0 to 1, found -1`},
		{"in an object that does not exist", Objects{[]int{0, 1, 3, 1}, good.Sizes, 9}, `buffer 2 "c": object: expected 0 to 2, found 3`},
		{"an object too small", Objects{good.Object, []int64{4, 2, 1}, 7}, "object 1: expected 4 bytes, the size of its largest buffer, found 2"},
		{"an object of nothing", Objects{good.Object, []int64{4, 4, 1, 5}, 14}, "object 3: expected 0 bytes, the size of its largest buffer, found 5"},
		{"a wrong sum", Objects{good.Object, good.Sizes, 8}, "objects: expected a total of 9 bytes, found 8"},
	} {
		if got := message(parse(t, picture).CheckObjects(c.o)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := message(parse(t, "z:0@0-1").CheckObjects(Objects{[]int{0}, []int64{0}, 0})); !strings.Contains(got, "expected -1 for 0 bytes") {
		t.Errorf("0 bytes in an object: got %q", got)
	}
}

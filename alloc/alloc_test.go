package alloc

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMaxLoad: the steps and the rounded sizes that count.
func TestMaxLoad(t *testing.T) {
	for _, c := range []struct {
		name, problem string
		alignment     int64
		want          int64
	}{
		{"no buffers", "", 0, 0},
		{"the picture", picture, 0, 7},
		{"both ends of a lifetime count", "a:4@0-1 b:3@1-2 c:4@2-3", 0, 7},
		{"rounded sizes", "a:4@0-1 b:3@1-2", 8, 16},
		{"an alignment of its own rounds no size", "a:5@0-1%8 b:3@1-2", 4, 9},
		{"0 bytes", "a:0@0-9", 8, 0},
		{"a step before 0", "a:4@-3--1 b:3@-1-7", 0, 7},
	} {
		p := parse(t, c.problem)
		p.Alignment = c.alignment
		if got := p.MaxLoad(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func naiveLoad(p Problem) int64 {
	var most int64
	for _, x := range p.Buffers {
		var load int64
		for i, b := range p.Buffers {
			if b.First <= x.First && x.First <= b.Last {
				load += p.size(i)
			}
		}
		most = max(most, load)
	}
	return most
}

// TestValidate: each fault is named, and Solve returns the same error.
func TestValidate(t *testing.T) {
	for _, c := range []struct {
		p    Problem
		want string
	}{
		{Problem{}, ""},
		{parse(t, picture), ""},
		{Problem{Alignment: -1}, "alignment: expected 0 or more bytes, found -1"},
		{parse(t, "a:4@0-1 b:-4@0-1"), `buffer 1 "b": size: expected 0 or more bytes, found -4`},
		{parse(t, "a:4@0-1%-2"), `buffer 0 "a": alignment: expected 0 or more bytes, found -2`},
		{parse(t, "a:4@3-2"), `buffer 0 "a": lifetime: expected a first step not after the last, found 3-2`},
		{Problem{Buffers: []Buffer{{Size: math.MaxInt64}}}, ""},
		{Problem{Buffers: []Buffer{{Size: math.MaxInt64}, {Size: 1}}}, "buffer 1: 1 bytes aligned to 1: all sizes together exceed 9223372036854775807"},
		{Problem{Buffers: []Buffer{{Size: math.MaxInt64 - 5}}, Alignment: 8}, "buffer 0: 9223372036854775802 bytes aligned to 8: all sizes together exceed 9223372036854775807"},
		{Problem{Buffers: []Buffer{{Size: 1, First: math.MinInt, Last: math.MaxInt}}}, ""},
	} {
		err := c.p.Validate()
		if got := message(err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if r, solved := Solve(t.Context(), c.p, Options{}); message(solved) != c.want {
			t.Errorf("Solve: got %v, want %q", solved, c.want)
		} else if solved == nil {
			if err := c.p.Check(r.Placement); err != nil {
				t.Error(err)
			}
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestRounded: the alignments and sizes that rounding changes, and its errors.
func TestRounded(t *testing.T) {
	for _, c := range []struct {
		name, problem string
		alignment, to int64
		want          []int64 // offsets
		arena         int64
		err           string
	}{
		{"sizes and offsets", "a:5@0-1 b:3@0-1", 0, 8, []int64{0, 8}, 16, ""},
		{"1 changes nothing", picture, 0, 1, []int64{0, 4, 6, 0}, 7, ""},
		{"an alignment of its own is kept", "a:5@0-1 b:5@0-1%12", 0, 8, []int64{0, 24}, 32, ""},
		{"the alignment of the problem is kept", "a:5@0-1 b:3@0-1", 6, 4, []int64{0, 12}, 24, ""},
		{"no bytes", picture, 0, 0, nil, 0, "alignment: expected 1 or more bytes, found 0"},
		{"too much", "a:9223372036854775807@0-1%3", 0, 8, nil, 0, `buffer 0 "a": 9223372036854775807 bytes aligned to 3: rounded up to 8 they exceed 9223372036854775807`},
		{"too much together", "a:9223372036854775800@0-1 b:8@0-1", 0, 8, nil, 0, `buffer 0 "a": 9223372036854775800 bytes aligned to 8: all sizes together exceed 9223372036854775807`},
		{"no common multiple", "a:4@0-1%4611686018427387905", 0, math.MaxInt64, nil, 0, `buffer 0 "a": 4 bytes aligned to 4611686018427387905: rounded up to 9223372036854775807 they exceed 9223372036854775807`},
	} {
		p := parse(t, c.problem)
		p.Alignment = c.alignment
		q, err := p.Rounded(c.to)
		if message(err) != c.err {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
		}
		if err != nil {
			continue
		}
		a := GreedyBySize(q)
		if d := gocmp.Diff(c.want, a.Offsets); d != "" || a.Arena != c.arena {
			t.Errorf("%s: arena %d, want %d; offsets want - got +:\n%s", c.name, a.Arena, c.arena, d)
		}
	}
}

// TestSortBy: the radix sort is a stable sort.
func TestSortBy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		keys := rapid.SliceOfN(rapid.OneOf(rapid.Int(), rapid.IntRange(-3, 3)), n, n).Draw(t, "keys")
		got := make([]int32, n)
		for i := range got {
			got[i] = int32(i)
		}
		want := slices.Clone(got)
		sortBy(got, func(i int32) uint64 { return keyOf(keys[i]) })
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) })
		if !slices.Equal(got, want) {
			t.Fatalf("keys %v: got %v, want %v", keys, got, want)
		}
	})
}

// TestKeyOfFloat: keys have the order of their numbers.
func TestKeyOfFloat(t *testing.T) {
	row := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, 0, math.SmallestNonzeroFloat64, 0.5, 2, math.MaxFloat64, math.Inf(1)}
	for i := range row[1:] {
		if keyOfFloat(row[i]) >= keyOfFloat(row[i+1]) {
			t.Errorf("%v is not below %v", row[i], row[i+1])
		}
	}
	if keyOfFloat(math.Copysign(0, -1)) != keyOfFloat(0) {
		t.Error("-0 is not 0")
	}
}

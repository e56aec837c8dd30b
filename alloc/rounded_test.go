package alloc

import (
	"math"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

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
		{"an alignment of its own stays", "a:5@0-1 b:5@0-1%12", 0, 8, []int64{0, 24}, 32, ""},
		{"the problem's stays", "a:5@0-1 b:3@0-1", 6, 4, []int64{0, 12}, 24, ""},
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

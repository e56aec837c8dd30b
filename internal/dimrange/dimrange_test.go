package dimrange

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, back string
		lengths    []int64
	}{
		{"3..6", "3..6", []int64{3, 4, 5, 6}},
		{"64..128:32", "64..128:32", []int64{64, 96, 128}},
		{"8,1,4", "1,4,8", []int64{1, 4, 8}},
		{"7", "7", []int64{7}},
		{"0..0", "0", []int64{0}},
		{"9223372036854775806..9223372036854775807", "9223372036854775806..9223372036854775807", []int64{9223372036854775806, 9223372036854775807}},
	} {
		l, err := Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var got []int64
		for i := range l.Count {
			got = append(got, l.At(i))
		}
		if !slices.Equal(got, c.lengths) || l.String() != c.back {
			t.Errorf("%s: expected %v as %s, found %v as %s", c.text, c.lengths, c.back, got, l)
		}
		if _, err := Parse(l.String()); err != nil {
			t.Errorf("%s: %v", l, err)
		}
		for _, i := range l.sample() {
			if i < 0 || i >= l.Count {
				t.Errorf("%s: sample of %d lengths has index %d", l, l.Count, i)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `found ""`},
		{"x", `found "x"`},
		{"-1", `found "-1"`},
		{"1..", `found ""`},
		{"1..4:", `found ""`},
		{"1,,2", `found ""`},
		{"1..99999999999999999999", `found "99999999999999999999"`},
		{"4..1", "expected a last length of 4 or more, found 1"},
		{"1..4:0", "expected a step of 1 or more, found 0"},
		{"1..8:4", "reached in steps of 4, such as 5, found 8"},
		{"2,4,2", "expected each length once, found 2 twice"},
		{"0..9223372036854775807", "expected fewer lengths"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: expected an error with %q, found %v", c.text, c.want, err)
		}
	}
}

func TestSample(t *testing.T) {
	for _, c := range []struct {
		text string
		want []int64
	}{
		{"1..20", []int64{1, 2, 3, 4, 8, 16, 19, 20}},
		{"64..320:16", []int64{64, 80, 96, 128, 256, 304, 320}},
		{"1,3,9,27,81,243", []int64{1, 3, 9, 27, 81, 243}},
		{"5", []int64{5}},
	} {
		l, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, i := range l.sample() {
			got = append(got, l.At(i))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: expected %v, found %v", c.text, c.want, got)
		}
	}
}

// TestBox: the points are all combinations, each once, and Find is the inverse of At.
func TestBox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := map[string]Lengths{}
		for range rapid.IntRange(0, 3).Draw(t, "dimensions") {
			text := rapid.SampledFrom([]string{"1..4", "3", "1,2,7", "16..64:16", "0..2"}).Draw(t, "lengths")
			l, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			dims[rapid.SampledFrom([]string{"batch", "height", "width"}).Draw(t, "name")] = l
		}
		b, err := NewBox(dims, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Points {
			at := b.At(i)
			if got, err := b.Find(at); err != nil || got != i {
				t.Fatalf("%v: expected point %d, found %d, %v", at, i, got, err)
			}
			if i > 0 && maps.Equal(at, b.At(i-1)) {
				t.Fatalf("points %d and %d are the same: %v", i-1, i, at)
			}
		}
		for name, n := range b.At(b.Corner()) {
			if n != dims[name].High() {
				t.Fatalf("%s at the corner: expected %d, found %d", name, dims[name].High(), n)
			}
		}
		grid := b.Grid()
		if !slices.IsSorted(grid) || grid[0] != 0 || grid[len(grid)-1] != b.Corner() || len(slices.Compact(slices.Clone(grid))) != len(grid) {
			t.Fatalf("grid of %d points: expected it to rise from the first to the corner, found %v", b.Points, grid)
		}
	})
}

func TestBoxErrors(t *testing.T) {
	all := Lengths{Low: 1, Step: 1, Count: 1 << 40}
	if _, err := NewBox(map[string]Lengths{"a": all, "b": all}, 65536); err == nil || !strings.Contains(err.Error(), "the ranges of a, b have more than 65536 points") {
		t.Errorf("expected an error about the points, found %v", err)
	}
	if _, err := NewBox(map[string]Lengths{"a": {}}, 65536); err == nil || !strings.Contains(err.Error(), `dimension "a": expected 1 or more lengths, found 0`) {
		t.Errorf("expected an error about no lengths, found %v", err)
	}
	b, err := NewBox(map[string]Lengths{"height": {Low: 32, Step: 32, Count: 3}}, 65536)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dims map[string]int64
		want string
	}{
		{map[string]int64{"height": 33}, `dimension "height": expected one of 32..96:32, found 33`},
		{map[string]int64{"height": 128}, `dimension "height": expected one of 32..96:32, found 128`},
		{map[string]int64{"width": 32}, `dimension "height": expected one of 32..96:32, found no length`},
	} {
		if _, err := b.Find(c.dims); err == nil || err.Error() != c.want {
			t.Errorf("%v: expected %q, found %v", c.dims, c.want, err)
		}
	}
}

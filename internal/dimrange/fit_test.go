package dimrange

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestInterpolate: the polynomial of random factors is found again from its values.
func TestInterpolate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lengths [][]int64
		count := 1
		for range rapid.IntRange(0, 3).Draw(t, "dimensions") {
			list := rapid.SliceOfNDistinct(rapid.Int64Range(0, 200), 1, 3, rapid.ID[int64]).Draw(t, "lengths")
			slices.Sort(list)
			lengths = append(lengths, list)
			count *= len(list)
		}
		factors := rapid.SliceOfN(rapid.Int64Range(-100, 100), count, count).Draw(t, "factors")
		values := make([]int64, count)
		split := func(i int) []int {
			digits := make([]int, len(lengths))
			for k := len(lengths) - 1; k >= 0; k-- {
				digits[k] = i % len(lengths[k])
				i /= len(lengths[k])
			}
			return digits
		}
		for i := range values {
			at := split(i)
			for j, f := range factors {
				term := f
				for k, power := range split(j) {
					for range power {
						term *= lengths[k][at[k]]
					}
				}
				values[i] += term
			}
		}
		terms, ok := Interpolate(lengths, values)
		if !ok {
			t.Fatal("expected a polynomial, found none")
		}
		found := make([]int64, count)
		for _, term := range terms {
			at := 0
			for k, p := range term.Powers {
				at = at*len(lengths[k]) + p
			}
			found[at] = term.Factor
		}
		if !slices.Equal(found, factors) {
			t.Fatalf("expected the factors %v, found %v", factors, found)
		}
	})
}

func TestInterpolateFraction(t *testing.T) {
	if terms, ok := Interpolate([][]int64{{1, 3}}, []int64{0, 1}); ok {
		t.Errorf("n/2 - 1/2: expected no whole factors, found %v", terms)
	}
}

// TestInterpolation: the points are all combinations of accepted lengths.
func TestInterpolation(t *testing.T) {
	height, _ := Parse("64..320")
	batch, _ := Parse("1..2")
	b, err := NewBox(map[string]Lengths{"batch": batch, "height": height}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	multiples := func(point int) bool { return b.At(point)["height"]%16 == 0 }
	lengths, points := b.Interpolation(multiples)
	if want := [][]int64{{1, 2}, {64, 256, 320}}; !slices.EqualFunc(lengths, want, slices.Equal) {
		t.Errorf("expected the lengths %v, found %v", want, lengths)
	}
	for i, p := range points {
		at := b.At(p)
		if at["batch"] != lengths[0][i/3] || at["height"] != lengths[1][i%3] {
			t.Errorf("point %d: expected %d and %d, found %v", i, lengths[0][i/3], lengths[1][i%3], at)
		}
	}
	if lengths, points := b.Interpolation(func(int) bool { return false }); lengths != nil || points != nil {
		t.Errorf("nothing accepted: expected no points, found %v", points)
	}
}

package alloc

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

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

package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The vectors give the bits of Go's operators, for every length, and in place, too.
func TestArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := values()
	for n := range 100 {
		a, b := make([]float32, n), make([]float32, n)
		for i := range n {
			a[i], b[i] = all[r.IntN(len(all))], all[r.IntN(len(all))]
		}
		s := all[r.IntN(len(all))]
		for _, op := range []struct {
			name string
			got  func(dst, a, b []float32)
			want func(a, b float32) float32
		}{
			{"Add", Add, func(a, b float32) float32 { return a + b }},
			{"Sub", Sub, func(a, b float32) float32 { return a - b }},
			{"Mul", Mul, func(a, b float32) float32 { return a * b }},
			{"Div", Div, func(a, b float32) float32 { return a / b }},
			{"Max", Max, func(a, b float32) float32 { return max(a, b) }},
			{"Min", Min, func(a, b float32) float32 { return min(a, b) }},
			{"MaxScalar", func(dst, a, _ []float32) { MaxScalar(dst, a, s) }, func(a, _ float32) float32 { return max(a, s) }},
			{"MinScalar", func(dst, a, _ []float32) { MinScalar(dst, a, s) }, func(a, _ float32) float32 { return min(a, s) }},
			{"Neg", one(Neg), func(a, _ float32) float32 { return -a }},
			{"Sign", one(Sign), func(a, _ float32) float32 {
				if a == 0 || a != a {
					return a
				}
				return float32(math.Copysign(1, float64(a)))
			}},
			{"AddScalar", func(dst, a, _ []float32) { AddScalar(dst, a, s) }, func(a, _ float32) float32 { return a + s }},
			{"SubFrom", func(dst, a, _ []float32) { SubFrom(dst, a, s) }, func(a, _ float32) float32 { return s - a }},
			{"MulScalar", func(dst, a, _ []float32) { MulScalar(dst, a, s) }, func(a, _ float32) float32 { return a * s }},
			{"DivScalar", func(dst, a, _ []float32) { DivScalar(dst, a, s) }, func(a, _ float32) float32 { return a / s }},
			{"Sqrt", one(Sqrt), inReals(math.Sqrt)},
			{"Abs", one(Abs), inReals(math.Abs)},
			{"RoundToEven", one(RoundToEven), inReals(math.RoundToEven)},
			{"Floor", one(Floor), inReals(math.Floor)},
			{"Ceil", one(Ceil), inReals(math.Ceil)},
			{"DivBy", func(dst, a, _ []float32) { DivBy(dst, a, s) }, func(a, _ float32) float32 { return s / a }},
		} {
			got := make([]float32, n+1)
			op.got(got[:n], a, b)
			place := append([]float32{}, a...)
			op.got(place, place, b)
			for i := range n {
				w := op.want(a[i], b[i])
				signed := math.Signbit(float64(got[i])) != math.Signbit(float64(w)) && w == w
				if signed || got[i] != w && w == w || (got[i] == got[i]) != (w == w) {
					t.Fatalf("%s of %v and %v (%v): got %v, want %v", op.name, a[i], b[i], s, got[i], w)
				}
				if math.Float32bits(place[i]) != math.Float32bits(got[i]) && w == w {
					t.Fatalf("%s in place: %v, expected %v", op.name, place[i], got[i])
				}
			}
			if got[n] != 0 {
				t.Fatalf("%s: a number beyond the end was written", op.name)
			}
		}
	}
}

func TestSums(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 200 {
		x := make([]float32, n)
		sum, squares := 0.0, 0.0
		for i := range x {
			x[i] = r.Float32()
			sum += float64(x[i])
			squares += (float64(x[i]) - 0.25) * (float64(x[i]) - 0.25)
		}
		if got := Sum(x); math.Abs(got-sum) > 1e-13*sum {
			t.Errorf("sum of %d: got %v, want %v", n, got, sum)
		}
		if got := Squares(x, 0.25); math.Abs(got-squares) > 1e-13*squares {
			t.Errorf("squares of %d: got %v, want %v", n, got, squares)
		}
	}
}

// The vectors round like Go's operators, for every length, and in place, too.
func TestStandardize(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	all := values()
	for n := range 100 {
		x, got := make([]float32, n), make([]float32, n+1)
		for i := range x {
			x[i] = all[r.IntN(len(all))]
		}
		mean, inverse := r.NormFloat64(), 1/r.Float64()
		Standardize(got[:n], x, mean, inverse)
		place := append([]float32{}, x...)
		Standardize(place, place, mean, inverse)
		for i, v := range x {
			want := float32((float64(v) - mean) * inverse)
			if got[i] != want && want == want || (got[i] == got[i]) != (want == want) {
				t.Fatalf("%v less %v times %v: got %v, want %v", v, mean, inverse, got[i], want)
			}
			if math.Float32bits(place[i]) != math.Float32bits(got[i]) && want == want {
				t.Fatalf("in place: %v, expected %v", place[i], got[i])
			}
		}
		if got[n] != 0 {
			t.Fatal("a number beyond the end was written")
		}
	}
}

// Every other number of the list changes, and none beyond its end.
func TestAddEveryOther(t *testing.T) {
	for n := range 70 {
		src, got := make([]float32, n), make([]float32, 2*n+2)
		for i := range src {
			src[i] = float32(i + 1)
		}
		for i := range got {
			got[i] = float32(-i)
		}
		AddEveryOther(got[:max(2*n-1, 0)], src)
		for i, g := range got {
			want := float32(-i)
			if i%2 == 0 && i/2 < n {
				want += src[i/2]
			}
			if g != want {
				t.Fatalf("%d numbers, element %d: got %v, want %v", n, i, g, want)
			}
		}
	}
}

// Each number is added in float64, and no sum beyond the end changes.
func TestAddWide(t *testing.T) {
	for n := range 70 {
		src, got := make([]float32, n), make([]float64, n+1)
		for i := range src {
			src[i] = 1 / float32(i+3)
		}
		for i := range got {
			got[i] = 1 / float64(i+7)
		}
		AddWide(got, src)
		for i, g := range got {
			want := 1 / float64(i+7)
			if i < n {
				want += float64(src[i])
			}
			if g != want {
				t.Fatalf("%d numbers, element %d: got %v, want %v", n, i, g, want)
			}
		}
	}
}

// Whichever place the largest number has, it is found, and NaN are left out.
func TestLargest(t *testing.T) {
	nan, low := float32(math.NaN()), float32(math.Inf(-1))
	for n := range 100 {
		x := make([]float32, n)
		for i := range x {
			x[i] = low
			if i%3 == 0 {
				x[i] = nan
			}
		}
		if got := Largest(x); got != low {
			t.Errorf("of %v: got %v, want %v", x, got, low)
		}
		for i := range x {
			was := x[i]
			x[i] = -float32(i + 1)
			if got := Largest(x); got != x[i] {
				t.Errorf("of %v: got %v, want %v", x, got, x[i])
			}
			x[i] = was
		}
	}
}

func TestTranspose(t *testing.T) {
	t.Run("32 bits", func(t *testing.T) { transposes(t, Transpose[float32]) })
	t.Run("16 bits", func(t *testing.T) { transposes(t, Transpose[uint16]) })
	t.Run("8 bits", func(t *testing.T) { transposes(t, TransposeBytes) })
}

func transposes[T float32 | uint16 | byte](t *testing.T, transpose func(dst, src *T, dstStep, srcStep, rows, columns int)) {
	for _, s := range [][2]int{{0, 3}, {1, 1}, {7, 9}, {8, 8}, {16, 24}, {23, 150}, {130, 17}} {
		rows, columns := s[0], s[1]
		srcStep, dstStep := columns+3, rows+5
		src, dst := make([]T, rows*srcStep+1), make([]T, columns*dstStep+1)
		for i := range src {
			src[i] = T(i + 1)
		}
		transpose(&dst[0], &src[0], dstStep, srcStep, rows, columns)
		for i, got := range dst {
			c, r := i/dstStep, i%dstStep
			want := T(0)
			if c < columns && r < rows {
				want = src[r*srcStep+c]
			}
			if got != want {
				t.Fatalf("%d x %d: element (%d, %d) is %v, expected %v", rows, columns, c, r, got, want)
			}
		}
	}
}

// one is an operation that has a single operand.
func one(f func(dst, a []float32)) func(dst, a, _ []float32) {
	return func(dst, a, _ []float32) { f(dst, a) }
}

// inReals computes in float64 and rounds.
func inReals(f func(float64) float64) func(a, _ float32) float32 {
	return func(a, _ float32) float32 { return float32(f(float64(a))) }
}

// The extremes are those of Go's operators, for every length and every place of NaN, 0 and
// infinities; Largest and Smallest leave out NaN.
func TestExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	all := values()
	for n := range 100 {
		for share := range 3 { // of special numbers: none, some, all
			x := make([]float32, n)
			most, least := float32(math.Inf(-1)), float32(math.Inf(1))
			largest, smallest := most, least
			for i := range x {
				x[i] = r.Float32() - 0.5
				if r.IntN(2*n) < share*n {
					x[i] = all[r.IntN(len(all))]
				}
				most, least = max(most, x[i]), min(least, x[i])
				if x[i] == x[i] {
					largest, smallest = max(largest, x[i]), min(smallest, x[i])
				}
			}
			bits := func(name string, got, want float32) {
				if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
					t.Fatalf("%s of %v: got %v, want %v", name, x, got, want)
				}
			}
			bits("Highest", Highest(x), most)
			bits("Lowest", Lowest(x), least)
			bits("Largest", Largest(x)+0, largest+0)
			bits("Smallest", Smallest(x)+0, smallest+0)
		}
	}
}

package alloc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// tile is the steps [lo, hi) and the bytes [from, to).
type tile struct{ lo, hi, from, to int64 }

func (x tile) area() int64 { return (x.hi - x.lo) * (x.to - x.from) }

// perfect cuts a rectangle of steps and bytes at random into n pieces or a few more: a
// piece into two, or by a pinwheel into five, which no straight cut separates. Then it
// removes a share of the pieces. The height can be reached, and the load is the height
// nearly everywhere, so a packing has no slack.
func perfect(seed uint64, n, steps int, height int64, takenAway float64) Problem {
	r := rand.New(rand.NewPCG(11, seed))
	pieces := []tile{{0, int64(steps), 0, height}}
	within := func(lo, hi int64) int64 { return lo + 1 + r.Int64N(hi-lo-1) }
	for tries := 0; len(pieces) < n && tries < 100*n; tries++ {
		k := r.IntN(len(pieces))
		for range 3 { // prefer large pieces
			if j := r.IntN(len(pieces)); pieces[j].area() > pieces[k].area() {
				k = j
			}
		}
		x := pieces[k]
		wide, high := x.hi-x.lo, x.to-x.from
		switch kind := r.IntN(5); {
		case kind < 2 && wide >= 3 && high >= 3:
			a := within(x.lo, x.hi-1)
			b := within(a, x.hi)
			c := within(x.from, x.to-1)
			d := within(c, x.to)
			whirl := []tile{{x.lo, b, x.from, c}, {b, x.hi, x.from, d}, {a, x.hi, d, x.to}, {x.lo, a, c, x.to}, {a, b, c, d}}
			if r.IntN(2) == 0 {
				for i, y := range whirl {
					whirl[i].lo, whirl[i].hi = x.lo+x.hi-y.hi, x.lo+x.hi-y.lo
				}
			}
			pieces = append(slices.Delete(pieces, k, k+1), whirl...)
		case kind%2 == 0 && wide >= 2:
			at := within(x.lo, x.hi)
			pieces[k].hi = at
			pieces = append(pieces, tile{at, x.hi, x.from, x.to})
		case kind%2 == 1 && high >= 2:
			at := within(x.from, x.to)
			pieces[k].to = at
			pieces = append(pieces, tile{x.lo, x.hi, at, x.to})
		}
	}
	r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
	pieces = pieces[:len(pieces)-int(takenAway*float64(len(pieces)))]
	var p Problem
	for _, x := range pieces {
		p.Buffers = append(p.Buffers, Buffer{Size: x.to - x.from, First: int(x.lo), Last: int(x.hi) - 1})
	}
	return p
}

// kinds are kinds of perfect packings: they differ in how often steps and sizes coincide.
var kinds = []struct {
	name   string
	steps  func(n int) int
	height int64
}{
	{"few-steps", func(n int) int { return n / 2 }, 1000},
	{"small-sizes", func(n int) int { return n }, 64},
	{"generic", func(n int) int { return 4 * n }, 1 << 20},
}

// TestPerfect: the pieces of a rectangle fit into it again.
func TestPerfect(t *testing.T) {
	for _, kind := range kinds {
		for _, n := range []int{20, 60, 120} {
			for _, away := range []float64{0, 0.05} {
				for seed := range uint64(4) {
					p := perfect(seed, n, kind.steps(n), kind.height, away)
					r, err := Solve(t.Context(), p, Options{Capacity: kind.height})
					if err != nil {
						t.Fatal(err)
					}
					if err := p.Check(r.Placement); err != nil {
						t.Fatal(err)
					}
					if r.Fit != FitFound {
						t.Errorf("%s, n %d, %.2f taken away, seed %d: arena %d, want %d", kind.name, n, away, seed, r.Arena, kind.height)
					}
				}
			}
		}
	}
}

// BenchmarkPerfect reports how many of ten perfect packings are fitted at the
// default effort.
func BenchmarkPerfect(b *testing.B) {
	const seeds = 10
	for _, n := range []int{120, 200, 300, 500} {
		for _, kind := range kinds {
			for _, away := range []int{0, 5} {
				b.Run(fmt.Sprintf("buffers=%d/kind=%s/away=%d%%", n, kind.name, away), func(b *testing.B) {
					solved := 0
					for b.Loop() {
						solved = 0
						for seed := range uint64(seeds) {
							p := perfect(seed, n, kind.steps(n), kind.height, float64(away)/100)
							r, err := Solve(b.Context(), p, Options{Capacity: kind.height})
							if err != nil {
								b.Fatal(err)
							}
							if r.Fit == FitFound {
								solved++
							}
						}
					}
					b.ReportMetric(float64(solved), "solved")
					b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/seeds, "s/packing")
				})
			}
		}
	}
}

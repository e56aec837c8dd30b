package tiers

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// draw returns a small problem with a fast memory and one without end.
func draw(t *rapid.T) *Problem {
	p := &Problem{Alignment: 1, Capacities: []int64{rapid.Int64Range(0, 12).Draw(t, "capacity"), 1 << 20}}
	for range rapid.IntRange(1, 7).Draw(t, "buffers") {
		first := rapid.IntRange(0, 6).Draw(t, "first")
		b := Buffer{Size: rapid.Int64Range(1, 6).Draw(t, "size"), First: first, Last: rapid.IntRange(first, 7).Draw(t, "last")}
		b.Given, b.Kept = first == 0 && rapid.Bool().Draw(t, "given"), b.Last == 7 && rapid.Bool().Draw(t, "kept")
		for s := b.First; s <= b.Last; s++ {
			if u := (Use{Step: s, Read: rapid.Int64Range(0, b.Size).Draw(t, "read"), Written: rapid.Int64Range(0, b.Size).Draw(t, "written")}); u.Read+u.Written > 0 {
				b.Uses = append(b.Uses, u)
			}
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// least returns the least slow traffic of whole buffers whose loads fit, over all sets.
func least(p *Problem) int64 {
	all := int64(0)
	for i := range p.Buffers {
		all += p.Buffers[i].traffic()
	}
	most := int64(0)
	for set := range 1 << len(p.Buffers) {
		var loads [8]int64
		saved, fits := int64(0), true
		for i := range p.Buffers {
			if b := &p.Buffers[i]; set>>i&1 == 1 {
				saved += b.traffic()
				for s := b.First; s <= b.Last; s++ {
					loads[s] += b.Size
					fits = fits && loads[s] <= p.Capacities[0]
				}
			}
		}
		if fits {
			most = max(most, saved)
		}
	}
	return all - most
}

func TestSolveIsBetweenTheBoundAndEverySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t)
		d, err := Solve(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		slow := int64(0)
		for i := range p.Buffers {
			a := &p.Buffers[i]
			if d.Offsets[i]+a.Size > p.Capacities[d.Memory[i]] {
				t.Fatalf("buffer %d ends behind its memory", i)
			}
			if d.Memory[i] > 0 {
				slow += a.traffic()
			}
			for j := range i {
				b := &p.Buffers[j]
				if d.Memory[i] == d.Memory[j] && a.First <= b.Last && b.First <= a.Last && d.Offsets[i] < d.Offsets[j]+b.Size && d.Offsets[j] < d.Offsets[i]+a.Size {
					t.Fatalf("buffers %d and %d overlap", i, j)
				}
			}
		}
		bound, best := p.Bound(p.Prices()), least(p)
		if bound > best || best > slow || d.Optimal && best < slow {
			t.Fatalf("found %d (optimal: %v), the best set has %d, the bound is %d", slow, d.Optimal, best, bound)
		}
	})
}

// The best of all ways to keep parts of buffers between their uses, byte by byte.
func kept(arcs []arc, capacity int64) int64 {
	var unit []arc
	for _, a := range arcs {
		for range a.bytes {
			unit = append(unit, a)
		}
	}
	best := int64(0)
	for set := range 1 << len(unit) {
		var loads [16]int64
		saved, fits := int64(0), true
		for i, a := range unit {
			if set>>i&1 == 1 {
				saved += a.saves
				for s := a.from + 1; s <= a.to; s++ {
					loads[s]++
					fits = fits && loads[s] <= capacity
				}
			}
		}
		if fits {
			best = max(best, saved)
		}
	}
	return best
}

func TestPricesAreTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Problem{Capacities: []int64{rapid.Int64Range(0, 4).Draw(t, "capacity"), 100}}
		for range rapid.IntRange(1, 5).Draw(t, "buffers") {
			first := rapid.IntRange(0, 4).Draw(t, "first")
			size := rapid.Int64Range(1, 2).Draw(t, "size")
			b := Buffer{Size: size, First: first, Last: rapid.IntRange(first+1, 6).Draw(t, "last")}
			b.Uses = []Use{{Step: b.First, Written: size}, {Step: b.Last, Read: rapid.Int64Range(1, size).Draw(t, "read")}}
			p.Buffers = append(p.Buffers, b)
		}
		arcs := p.arcs()
		all := int64(0)
		for _, a := range arcs {
			all += a.bytes * a.saves
		}
		if want, got := all-kept(arcs, p.Capacities[0]), p.Bound(p.Prices()); got != want {
			t.Fatalf("bound %d, expected %d: capacity %d, %v", got, want, p.Capacities[0], p.Buffers)
		}
		any := []Price{{rapid.IntRange(0, 3).Draw(t, "step"), rapid.Int64Range(0, 3).Draw(t, "price")}, {rapid.IntRange(4, 9).Draw(t, "later"), 1}}
		if got := p.Bound(any); got > all-kept(arcs, p.Capacities[0]) {
			t.Fatalf("prices %v give a bound of %d, above what a plan has", any, got)
		}
	})
}

func TestFull(t *testing.T) {
	p := &Problem{Capacities: []int64{1, 4}, Alignment: 1, Buffers: []Buffer{
		{Size: 3, First: 0, Last: 1}, {Size: 2, First: 1, Last: 2}, {Size: 4, First: 1, Last: 1},
	}}
	var full *FullError
	if _, err := Solve(context.Background(), p); !errors.As(err, &full) || full.Step != 1 || full.Load != 9 || full.Capacity != 5 || full.Buffers[0] != 2 {
		t.Fatalf("found %+v, %v", full, err)
	}
}

func TestExampleOfThePackage(t *testing.T) {
	p := &Problem{Capacities: []int64{2, 10}, Alignment: 1, Buffers: []Buffer{
		{Size: 2, First: 0, Last: 1, Uses: []Use{{Step: 0, Written: 2}, {Step: 1, Read: 2}}},
		{Size: 1, First: 1, Last: 3, Uses: []Use{{Step: 1, Written: 1}, {Step: 3, Read: 1}}},
		{Size: 1, First: 2, Last: 3, Uses: []Use{{Step: 2, Written: 1}, {Step: 3, Read: 1}}},
	}}
	if got := least(p); got != 2 {
		t.Errorf("the least slow traffic is %d, expected 2", got)
	}
	if got := p.Bound(p.Prices()); got != 0 {
		t.Errorf("the bound is %d, expected 0", got)
	}
}

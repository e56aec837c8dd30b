package simd

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The vectors agree with Go's operators, for every length, in place, and where a list is a
// single number.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	all := values()
	for n := range 140 {
		a, b := make([]float32, n), make([]float32, n)
		p, q := make([]uint8, n), make([]uint8, n)
		for i := range n {
			a[i], b[i] = all[r.IntN(len(all))], all[r.IntN(len(all))]
			if r.IntN(3) == 0 {
				b[i] = a[i]
			}
			p[i], q[i] = uint8(r.IntN(3)*127), uint8(r.IntN(3)*127)
		}
		for _, lists := range [][2][]float32{{a, b}, {a[:min(n, 1)], b}, {a, b[:min(n, 1)]}} {
			x, y := lists[0], lists[1]
			at := func(list []float32, i int) float32 { return list[min(i, len(list)-1)] }
			for relation := Less; relation <= Unordered; relation++ {
				got := make([]uint8, n+1)
				Compare(got[:n], x, y, relation)
				for i := range n {
					if want := bit(relation.holds(at(x, i), at(y, i))); got[i] != want {
						t.Fatalf("relation %d of %v and %v: got %d, want %d", relation, at(x, i), at(y, i), got[i], want)
					}
				}
				if got[n] != 0 {
					t.Fatal("Compare wrote beyond the end")
				}
			}
		}
		got := make([]uint8, n+1)
		for _, op := range []struct {
			name string
			got  func(dst, a, b []uint8)
			want func(a, b bool) bool
		}{
			{"And", And, func(a, b bool) bool { return a && b }},
			{"Or", Or, func(a, b bool) bool { return a || b }},
			{"Xor", Xor, func(a, b bool) bool { return a != b }},
			{"Not", func(dst, a, _ []uint8) { Not(dst, a) }, func(a, _ bool) bool { return !a }},
		} {
			op.got(got[:n], p, q)
			place := append([]uint8{}, p...)
			op.got(place, place, q)
			for i := range n {
				if want := bit(op.want(p[i] != 0, q[i] != 0)); got[i] != want || place[i] != want {
					t.Fatalf("%s of %d and %d: got %d, in place %d, want %d", op.name, p[i], q[i], got[i], place[i], want)
				}
			}
			if got[n] != 0 {
				t.Fatalf("%s wrote beyond the end", op.name)
			}
		}
		u, v := make([]uint32, n), make([]uint32, n)
		for i := range n {
			u[i], v[i] = r.Uint32(), r.Uint32()
		}
		for _, lists := range [][2][]uint32{{u, v}, {u[:min(n, 1)], v}, {u, v[:min(n, 1)]}} {
			got := make([]uint32, n+1)
			Choose(got[:n], p, lists[0], lists[1])
			for i := range n {
				want := lists[1][min(i, len(lists[1])-1)]
				if p[i] != 0 {
					want = lists[0][min(i, len(lists[0])-1)]
				}
				if got[i] != want {
					t.Fatalf("choice %d of %d: got %d, want %d", i, n, got[i], want)
				}
			}
			if got[n] != 0 {
				t.Fatal("Choose wrote beyond the end")
			}
		}
		halves := func(list []uint32) []uint16 {
			low := make([]uint16, len(list))
			for i, x := range list {
				low[i] = uint16(x)
			}
			return low
		}
		for _, lists := range [][2][]uint32{{u, v}, {u[:min(n, 1)], v}, {u, v[:min(n, 1)]}} {
			wide, got := make([]uint32, n), make([]uint16, n+1)
			Choose(wide, p, lists[0], lists[1])
			Choose16(got[:n], p, halves(lists[0]), halves(lists[1]))
			if !slices.Equal(got, append(halves(wide), 0)) {
				t.Fatalf("%d numbers of 16 bits: got %v, want %v and 0 behind", n, got, halves(wide))
			}
		}
		if n > 0 {
			place := append([]uint32{}, u...)
			Choose(place, p, place, v)
			for i := range n {
				if want := map[bool]uint32{true: u[i], false: v[i]}[p[i] != 0]; place[i] != want {
					t.Fatalf("in place: got %d, want %d", place[i], want)
				}
			}
		}
	}
}

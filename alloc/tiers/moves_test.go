package tiers

import (
	"slices"
	"testing"
)

// A buffer with uses at both ends of its life, and a large one in between.
func TestMovesOfABufferThatIsUsedAtBothEnds(t *testing.T) {
	p := &Problem{Capacities: []int64{10, 1 << 20}, Buffers: []Buffer{
		{Size: 4, Last: 9, Uses: []Use{{Step: 0, Written: 4}, {Step: 1, Read: 4}, {Step: 2, Read: 4}, {Step: 8, Read: 4}, {Step: 9, Read: 4}}},
		{Size: 8, First: 4, Last: 6, Uses: []Use{{Step: 4, Written: 8}, {Step: 5, Read: 8, Written: 8}, {Step: 6, Read: 8}}},
	}}
	d, err := Solve(t.Context(), p)
	if err != nil || d.Memory[0] == 0 {
		t.Fatal(err, d)
	}
	all := func(Move) bool { return true }
	for _, moves := range p.Moves(d, all) {
		for _, want := range []Move{{0, 0, 3}, {0, 3, 5}} {
			if !slices.Contains(moves, want) {
				t.Errorf("found %v, expected %v: it saves more than its copy moves", moves, want)
			}
		}
	}
	if lists := p.Moves(d, func(Move) bool { return false }); len(lists) > 0 {
		t.Errorf("found %v: expected none where none may be", lists)
	}
	p.Buffers[0].Uses[3].Written = 4 // so the copy for it cannot stand beside the buffer
	for _, moves := range p.Moves(d, all) {
		if slices.Contains(moves, Move{0, 3, 4}) {
			t.Errorf("found %v: a copy is written while the buffer is read", moves)
		}
	}
}

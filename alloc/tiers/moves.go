package tiers

import (
	"cmp"
	"slices"
)

// Move says that some uses of a buffer happen in the first memory, and others in a slower
// one: those from From to To-1, by their place in Uses. If From is 0, the buffer begins in
// the first memory, and is copied to a slower one behind use To-1. Else it begins in a
// slower one, and a copy in the first memory serves these uses. If there are uses behind
// them, the buffer stays in the slower one, too, and nothing writes it behind use From.
type Move struct{ Buffer, From, To int }

// stay is a use of the first memory that moves consider.
type stay struct {
	Move
	first, last int   // steps
	saves       int64 // bytes of traffic, less those of the copies
}

// moveWork limits the steps that Moves looks at.
const moveWork = 200_000_000

// mostUses is the largest number of uses of a buffer for which moves are looked for.
const mostUses = 64

// Moves returns two lists of moves that may lower the slow traffic of a division, as far as
// may permits them. The first one adds to it, in the room that it leaves in the first
// memory, the move that saves the most first. The second one begins with nothing in the
// first memory, and takes whole buffers and moves by what they save for the room and the
// time that they take. What a division of the buffers with their copies really saves must
// be computed for it.
func (p *Problem) Moves(d *Division, may func(Move) bool) (lists [][]Move) {
	end := 0
	for i := range p.Buffers {
		end = max(end, p.Buffers[i].Last+1)
	}
	var stays []stay
	work := 0
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Size == 0 || b.Size > p.Capacities[0] || len(b.Uses) == 0 {
			continue
		}
		stays = append(stays, stay{Move{i, 0, len(b.Uses)}, b.First, b.Last, b.traffic()})
		if len(b.Uses) > mostUses {
			continue
		}
		for from := range b.Uses {
			saves := int64(0)
			for to := from + 1; to <= len(b.Uses); to++ {
				u := b.Uses[to-1]
				if saves += u.Read + u.Written; from == 0 && to == len(b.Uses) {
					continue
				}
				s := stay{Move{i, from, to}, b.First, u.Step + 1, saves - b.content()}
				if from > 0 {
					s.first, s.last = b.Uses[from].Step-1, u.Step
				}
				if s.saves > 0 && b.copied(s.Move) && may(s.Move) {
					stays = append(stays, s)
				}
			}
		}
	}
	for _, again := range []bool{false, true} {
		room := make([]int64, end+1)
		for k := range room {
			room[k] = p.Capacities[0]
		}
		var taken []stay
		take := func(s stay) {
			for k := max(0, s.first); k <= min(s.last, end); k++ {
				room[k] -= p.Buffers[s.Buffer].Size
			}
			taken = append(taken, s)
		}
		list := slices.Clone(stays)
		if again {
			slices.SortStableFunc(list, func(a, b stay) int {
				worth := func(s stay) float64 {
					return float64(s.saves) / (float64(p.Buffers[s.Buffer].Size) * float64(s.last-s.first+1))
				}
				return cmp.Compare(worth(b), worth(a))
			})
		} else {
			for i, m := range d.Memory {
				if b := &p.Buffers[i]; m == 0 {
					take(stay{Move{i, 0, len(b.Uses)}, b.First, b.Last, 0})
				}
			}
			slices.SortStableFunc(list, func(a, b stay) int { return cmp.Compare(b.saves, a.saves) })
		}
		for _, s := range list {
			size, fits := p.Buffers[s.Buffer].Size, work < moveWork
			for _, t := range taken {
				fits = fits && (t.Buffer != s.Buffer || t.together(s))
			}
			for k := max(0, s.first); fits && k <= min(s.last, end); k++ {
				fits = room[k] >= size
				work++
			}
			if fits {
				take(s)
			}
		}
		var moves []Move
		for _, s := range taken {
			if s.From > 0 || s.To < len(p.Buffers[s.Buffer].Uses) {
				moves = append(moves, s.Move)
			}
		}
		if len(moves) > 0 {
			lists = append(lists, moves)
		}
	}
	return lists
}

// together reports whether two moves of one buffer can both be made: both serve other
// uses, and at most one is a buffer that begins in the first memory, before the other.
func (s stay) together(t stay) bool {
	if s.From > t.From {
		s, t = t, s
	}
	return s.To <= t.From
}

// content returns the bytes that a copy moves.
func (b *Buffer) content() int64 {
	if b.Content > 0 {
		return min(b.Content, b.Size)
	}
	return b.Size
}

// copied reports whether nothing writes the buffer behind the copy of a move while both are
// used.
func (b *Buffer) copied(m Move) bool {
	if m.From == 0 || m.To == len(b.Uses) {
		return true
	}
	return !slices.ContainsFunc(b.Uses[m.From:], func(u Use) bool { return u.Written > 0 })
}

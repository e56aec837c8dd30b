package proof

import "github.com/onnxmem/onnxmem/internal/proof/model"

// known is what follows from rows by unit propagation: first from the rows alone, then, in a
// case, from "this node is the one that runs" as well. Each literal that follows has the row
// in which it is the last one that can be true.
type known struct {
	f      *model.Formula
	in     [][]int32 // by literal: the rows of Least 1 with it
	value  []int8    // by literal: 1 true, -1 false
	reason []int32   // by variable: its row, or decided
	open   []int32   // by row: literals that are not false
	trail  []model.Lit
	global int // what follows in all cases: so much of the trail
}

// The reasons of a literal that no row gives: it is assumed, or it has been derived.
const (
	decided = -1
	derived = -2
)

func newKnown(f *model.Formula) *known {
	k := &known{f: f, in: make([][]int32, 2*len(f.Names)), value: make([]int8, 2*len(f.Names)), reason: make([]int32, len(f.Names)), open: make([]int32, len(f.Rows))}
	for i, r := range f.Rows {
		k.open[i] = int32(len(r.Lits))
		if r.Least != 1 {
			continue
		}
		for _, l := range r.Lits {
			k.in[l] = append(k.in[l], int32(i))
		}
	}
	for i, r := range f.Rows {
		if r.Least == 1 && len(r.Lits) == 1 && k.value[r.Lits[0]] == 0 {
			k.set(r.Lits[0], int32(i))
		}
	}
	k.propagate(0)
	k.global = len(k.trail)
	return k
}

func (k *known) set(l model.Lit, reason int32) {
	k.value[l], k.value[l.Not()] = 1, -1
	k.reason[l.Var()] = reason
	k.trail = append(k.trail, l)
}

// assume adds an assumption and what follows. It returns a row that is then broken, or -1.
func (k *known) assume(l model.Lit) int32 {
	from := len(k.trail)
	k.set(l, decided)
	return k.propagate(from)
}

// propagate goes on from a place of the trail.
func (k *known) propagate(from int) (broken int32) {
	broken = -1
	for ; from < len(k.trail); from++ {
		for _, i := range k.in[k.trail[from].Not()] {
			if k.open[i]--; k.open[i] > 1 {
				continue
			}
			free, satisfied := model.Lit(-1), false
			for _, l := range k.f.Rows[i].Lits {
				satisfied = satisfied || k.value[l] > 0
				if k.value[l] == 0 {
					free = l
				}
			}
			switch {
			case satisfied:
			case free >= 0:
				k.set(free, i)
			case broken < 0:
				broken = i
			}
		}
	}
	return broken
}

// back takes back what was assumed, down to a length of the trail.
func (k *known) back(to int) {
	for len(k.trail) > to {
		l := k.trail[len(k.trail)-1]
		k.trail = k.trail[:len(k.trail)-1]
		k.value[l], k.value[l.Not()] = 0, 0
		for _, i := range k.in[l.Not()] {
			k.open[i]++
		}
	}
}

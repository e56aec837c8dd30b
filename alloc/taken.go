package alloc

import (
	"cmp"
	"slices"
)

// taken knows which bytes are taken in which sections.
//
// It is a tree over spans of sections. Each tree node holds the union of what
// is taken anywhere in its span, so a deep stack of buffers is one run there,
// and a few tree nodes answer for a long lifetime. What is taken throughout a
// span is told to the node's halves not at once but many runs at a time; until
// then a question that goes below the node asks it too. Below the leaves, of
// about √n sections each, are plain lists of the buffers that cover a part of
// the leaf: the tree stays small, and so does its memory.
type taken struct {
	work int // gaps and unions looked at so far, by all calls of between

	width  int32 // sections per leaf
	leaves int32 // a power of two; tree node 1 is the root, node x has halves 2x and 2x+1
	any    []runs
	owed   []runs    // taken throughout the span, and the halves do not know it yet
	all    []runs    // by leaf: taken throughout
	parts  [][]piece // by leaf: by ascending offset

	asked       []runs  // what answers the question at hand
	met         [2]runs // of parts, at either end of the lifetime
	gaps, spare []run
}

// piece is a buffer that covers a part of a leaf.
type piece struct {
	run
	lo, hi int32 // its sections
}

func newTaken(sections int) *taken {
	t := &taken{leaves: 1}
	for int(t.leaves)*int(t.leaves) < sections {
		t.leaves *= 2
	}
	t.width = (int32(sections) + t.leaves - 1) / t.leaves
	t.any = make([]runs, 2*t.leaves)
	t.owed = make([]runs, 2*t.leaves)
	t.all = make([]runs, t.leaves)
	t.parts = make([][]piece, t.leaves)
	return t
}

// span is the sections of a tree node.
type span struct{ lo, hi int32 }

func (t *taken) root() span { return span{0, t.width * t.leaves} }

func (s span) halves() (span, span) {
	mid := (s.lo + s.hi) / 2
	return span{s.lo, mid}, span{mid, s.hi}
}

// take marks bytes as taken in the sections [lo, hi).
func (t *taken) take(lo, hi int32, x run) { t.takeIn(1, t.root(), piece{x, lo, hi}) }

func (t *taken) takeIn(node int32, at span, x piece) {
	if x.hi <= at.lo || at.hi <= x.lo {
		return
	}
	t.any[node].add(x.run)
	covered := x.lo <= at.lo && at.hi <= x.hi
	switch leaf := node - t.leaves; {
	case leaf >= 0 && covered:
		t.all[leaf].add(x.run)
	case leaf >= 0:
		t.parts[leaf] = insert(t.parts[leaf], x)
	case covered:
		t.owed[node].add(x.run)
	default:
		left, right := at.halves()
		t.takeIn(2*node, left, x)
		t.takeIn(2*node+1, right, x)
	}
}

// insert keeps the pieces by ascending offset.
func insert(parts []piece, x piece) []piece {
	parts = append(parts, x)
	i := len(parts) - 1
	for ; i > 0 && parts[i-1].run.lo > x.run.lo; i-- {
		parts[i] = parts[i-1]
	}
	parts[i] = x
	return parts
}

// between returns the gaps of at least size bytes that are free in all of the
// sections [lo, hi), ascending, and where the highest run ends. The gaps hold
// until the next call.
//
// The unions that answer are not merged: the gaps of the shortest are cut by
// the next, and so on. Few gaps are large enough, so most of the longer ones are
// but looked up in: half-and-half lifetimes, 100,000 buffers, by size, take a
// tenth of the time.
func (t *taken) between(lo, hi int32, size int64) (gaps []run, top int64) {
	t.asked = t.asked[:0]
	t.ask(1, t.root(), span{lo, hi})
	slices.SortFunc(t.asked, func(a, b runs) int { return cmp.Compare(len(a), len(b)) })
	for _, r := range t.asked {
		top = max(top, r.top())
	}
	t.gaps = append(t.gaps[:0], run{0, top})
	for _, r := range t.asked {
		t.spare = r.gapsIn(t.spare[:0], t.gaps, size)
		t.gaps, t.spare = t.spare, t.gaps
		t.work += len(t.gaps) + 1
	}
	return t.gaps, top
}

// ask collects the unions that together are what is taken in the span wanted.
func (t *taken) ask(node int32, at, want span) {
	if want.hi <= at.lo || at.hi <= want.lo {
		return
	}
	if want.lo <= at.lo && at.hi <= want.hi {
		t.askFor(t.any[node])
		return
	}
	if leaf := node - t.leaves; leaf >= 0 {
		t.askFor(t.all[leaf])
		t.askFor(t.meet(leaf, at, want))
		return
	}
	if owed := len(t.owed[node]); owed > 8 && owed > (len(t.any[2*node])+len(t.any[2*node+1]))/8 {
		t.settle(node)
	}
	t.askFor(t.owed[node])
	left, right := at.halves()
	t.ask(2*node, left, want)
	t.ask(2*node+1, right, want)
}

func (t *taken) askFor(r runs) {
	if len(r) > 0 {
		t.asked = append(t.asked, r)
	}
}

// meet returns what the pieces of a leaf take in a part of it. A lifetime has
// two such leaves at most, one where it begins and one where it ends.
func (t *taken) meet(leaf int32, at, want span) runs {
	r := &t.met[0]
	if want.lo <= at.lo {
		r = &t.met[1]
	}
	*r = (*r)[:0]
	for _, x := range t.parts[leaf] {
		if x.lo < want.hi && want.lo < x.hi {
			r.extend(x.run)
		}
	}
	return *r
}

// settle tells the halves of a tree node what it owes them.
func (t *taken) settle(node int32) {
	for half := 2 * node; half <= 2*node+1; half++ {
		t.merge(&t.any[half], t.owed[node])
		if leaf := half - t.leaves; leaf >= 0 {
			t.merge(&t.all[leaf], t.owed[node])
		} else {
			t.merge(&t.owed[half], t.owed[node])
		}
	}
	t.owed[node] = t.owed[node][:0]
}

func (t *taken) merge(r *runs, more runs) {
	t.spare = union(t.spare[:0], *r, more)
	*r = append((*r)[:0], t.spare...)
}

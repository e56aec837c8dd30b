package alloc

// taken knows which bytes are taken in which sections.
//
// It is a tree over spans of sections. Each tree node holds the union of what
// is taken anywhere in its span, so a question about a long lifetime is
// answered by a few nodes, and a deep stack of buffers is one run there. What
// covers a whole span is told to the node's halves only when a later question
// or buffer comes by, many at a time. Below the leaves, of about √n sections
// each, there are plain lists of the buffers that cover a part of the leaf: the
// tree stays small, and so does its memory.
type taken struct {
	width  int32 // sections per leaf
	leaves int32 // a power of two; tree node 1 is the root, node x has halves 2x and 2x+1
	any    []runs
	owed   []runs    // taken throughout the span, and the halves do not know it yet
	all    []runs    // by leaf: taken throughout
	parts  [][]piece // by leaf: by ascending offset
	found  runs      // the answer
	spare  runs
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
		t.settle(node)
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

// settle tells the halves of a tree node what it owes them.
func (t *taken) settle(node int32) {
	owed := t.owed[node]
	if len(owed) == 0 {
		return
	}
	for half := 2 * node; half <= 2*node+1; half++ {
		t.merge(&t.any[half], owed)
		if leaf := half - t.leaves; leaf >= 0 {
			t.merge(&t.all[leaf], owed)
		} else {
			t.merge(&t.owed[half], owed)
		}
	}
	t.owed[node] = owed[:0]
}

func (t *taken) merge(r *runs, more runs) {
	if len(more) == 1 {
		r.add(more[0])
		return
	}
	t.spare = union(t.spare[:0], *r, more)
	*r = append((*r)[:0], t.spare...)
}

// during returns the bytes taken in any of the sections [lo, hi). The answer
// holds until the next call.
func (t *taken) during(lo, hi int32) runs {
	t.found = t.found[:0]
	t.collect(1, t.root(), span{lo, hi})
	return t.found
}

func (t *taken) collect(node int32, at, want span) {
	if want.hi <= at.lo || at.hi <= want.lo {
		return
	}
	if want.lo <= at.lo && at.hi <= want.hi {
		t.find(t.any[node])
		return
	}
	if leaf := node - t.leaves; leaf >= 0 {
		t.find(t.all[leaf])
		t.findParts(t.parts[leaf], want)
		return
	}
	t.settle(node)
	left, right := at.halves()
	t.collect(2*node, left, want)
	t.collect(2*node+1, right, want)
}

// find adds to the answer.
func (t *taken) find(r runs) {
	if len(r) == 0 {
		return
	}
	t.spare = union(t.spare[:0], t.found, r)
	t.found, t.spare = t.spare, t.found
}

func (t *taken) findParts(parts []piece, want span) {
	var r runs
	for _, x := range parts {
		if x.lo < want.hi && want.lo < x.hi {
			r.extend(x.run)
		}
	}
	t.find(r)
}

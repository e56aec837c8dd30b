package schedule

import (
	"github.com/onnxmem/onnxmem/ilp"
)

// offsetRows makes the columns of offsets and equations 6, 7a, 7b and 8, with Offsets.
func (b *builder) offsetRows() {
	if !b.opt.Offsets {
		return
	}
	b.findItems()
	b.findCouples()
	for i := range b.couples {
		if b.tooLarge() {
			return
		}
		b.coupleRows(&b.couples[i])
	}
	b.pairOffsetRows()
	for _, it := range b.items {
		b.add(1, it.column)
		b.add(-1, b.program.Peak)
		b.atMost(-it.size, "c8_"+it.name())
	}
}

// findItems lists what has an offset, with its column.
func (b *builder) findItems() {
	most := b.program.Columns[b.program.Peak].Upper
	add := func(t, v int32, bytes int64) {
		if bytes > 0 {
			it := item{tensor: t, node: v, size: bytes / b.program.Unit}
			it.column = b.program.Add(ilp.Column{Name: "A" + it.name(), Upper: max(0, most-it.size)})
			b.items = append(b.items, it)
		}
	}
	for t, bytes := range b.Size {
		add(int32(t), -1, bytes)
	}
	for v, bytes := range b.Workspace {
		add(-1, int32(v), bytes)
	}
}

// findCouples lists the pairs of items that may be live together, or all pairs, if
// section 4.2 is left out.
func (b *builder) findCouples() {
	ancestors := b.ancestors()
	for i := range b.items {
		for j := i + 1; j < len(b.items); j++ {
			low, high := b.items[i], b.items[j]
			if !b.opt.NoDisjoint && (b.endsBefore(ancestors, low, high) || b.endsBefore(ancestors, high, low)) {
				continue
			}
			if b.tooLarge() {
				return
			}
			name := low.name() + "_" + high.name()
			b.couples = append(b.couples, couple{
				low: i, high: j,
				a: b.program.Add(ilp.Column{Name: "a" + name, Upper: 1, Integer: true}),
				b: b.program.Add(ilp.Column{Name: "b" + name, Upper: 1, Integer: true}),
			})
		}
	}
}

// ancestors returns for each node the set of its ancestors, as bits.
func (b *builder) ancestors() [][]uint64 {
	sets := make([][]uint64, b.Nodes)
	preds := b.Precedence()
	for _, v := range breadthFirst(b.Graph) {
		sets[v] = make([]uint64, (b.Nodes+63)/64)
		for _, u := range preds.Of(v) {
			for i, word := range sets[u] {
				sets[v][i] |= word
			}
			sets[v][u/64] |= 1 << (u % 64)
		}
	}
	return sets
}

// endsBefore reports whether an item is never live when, or after, another one is made:
// its span ends before that of the maker begins, or all its last nodes are ancestors of
// the maker (section 4.2).
func (b *builder) endsBefore(ancestors [][]uint64, it, other item) bool {
	maker := b.maker(other)
	if maker < 0 {
		return false // live from step 0
	}
	ends := func(v int32) bool {
		return b.last[v] < b.first[maker] || ancestors[maker][v/64]>>(v%64)&1 == 1
	}
	if it.tensor < 0 {
		return ends(it.node)
	}
	readers := b.Readers.Of(it.tensor)
	for _, r := range readers {
		if !ends(r) {
			return false
		}
	}
	switch m := b.Producer[it.tensor]; {
	case b.Output[it.tensor]:
		return false
	case len(readers) > 0:
		return true
	case m < 0:
		return b.first[maker] > 0 // live at step 0 alone
	default:
		return ends(m)
	}
}

// maker returns the node at whose step an item begins to live, or -1: at step 0.
func (b *builder) maker(it item) int32 {
	if it.tensor < 0 {
		return it.node
	}
	return b.Producer[it.tensor]
}

// live adds coef to the row if an item is live at a step, and reports whether that is
// possible.
func (b *builder) live(coef int64, it item, step int) bool {
	terms, constant := len(b.row), b.constant
	switch t := it.tensor; {
	case t < 0:
		b.runs(coef, it.node, step)
	case b.Nodes == 0:
		b.constant += coef
	case b.Producer[t] < 0 && !b.Kept(t):
		if step == 0 {
			b.constant += coef
		}
	default:
		b.made(coef, t, step)
		b.held(coef, t, step)
	}
	return len(b.row) > terms || b.constant != constant
}

// coupleRows makes equations 6, 7a and 7b of two items. Two that are one in a pair need not
// be apart at the step at which it is taken.
func (b *builder) coupleRows(c *couple) {
	low, high := b.items[c.low], b.items[c.high]
	name := low.name() + "_" + high.name()
	b.add(1, c.a)
	b.add(1, c.b)
	b.atMost(1, "c6_"+name)
	apart := false // the rows so far say that the two are apart in any case
	for step := range max(1, b.Nodes) {
		if !b.live(1, low, step) || !b.live(1, high, step) {
			b.row, b.constant = b.row[:0], 0
			continue
		}
		for k, pair := range b.pairsAt(low, high) {
			if pair {
				b.takes(-1, k, step)
			}
		}
		always := len(b.row) == 0
		if always && apart {
			b.constant = 0
			continue
		}
		apart = apart || always
		b.add(-1, c.a)
		b.add(-1, c.b)
		b.atMost(1, "c6_"+name, step)
	}
	most := b.program.Columns[b.program.Peak].Upper
	b.add(1, low.column)
	b.add(-1, high.column)
	b.add(most, c.a)
	b.atMost(most-low.size, "c7a_"+name)
	b.add(1, high.column)
	b.add(-1, low.column)
	b.add(most, c.b)
	b.atMost(most-high.size, "c7b_"+name)
}

// pairsAt yields the in-place pairs, and for each whether it makes two items one.
func (b *builder) pairsAt(low, high item) func(func(int, bool) bool) {
	return func(yield func(int, bool) bool) {
		for k, pair := range b.Pairs {
			if low.tensor < 0 || high.tensor < 0 {
				return
			}
			same := pair.Result == low.tensor && pair.Over == high.tensor || pair.Over == low.tensor && pair.Result == high.tensor
			if !yield(k, same) {
				return
			}
		}
	}
}

// pairOffsetRows gives the tensors of a taken pair one offset.
func (b *builder) pairOffsetRows() {
	column := make([]int, len(b.Size))
	for _, it := range b.items {
		if it.tensor >= 0 {
			column[it.tensor] = it.column
		}
	}
	most := b.program.Columns[b.program.Peak].Upper
	for k, pair := range b.Pairs {
		for i, tensors := range [2][2]int32{{pair.Result, pair.Over}, {pair.Over, pair.Result}} {
			b.add(1, column[tensors[0]])
			b.add(-1, column[tensors[1]])
			for step := b.from[k]; step <= b.last[pair.Node]; step++ {
				b.takes(most, k, step)
			}
			b.atMost(most, "o", k, i)
		}
	}
}

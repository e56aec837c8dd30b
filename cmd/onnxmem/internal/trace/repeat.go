package trace

// repetition is a part of the stream that repeats: events [begin, end) have the period
// period, at least twice.
type repetition struct{ begin, end, period int }

func (r repetition) length() int { return r.end - r.begin }

// better reports whether r is longer than s or, at the same length, has the shorter
// period.
func (r repetition) better(s repetition) bool {
	return r.length() > s.length() || r.length() == s.length() && r.period < s.period
}

// symbols numbers the events so that equal ones have equal numbers: allocations of the
// same size and stream, and frees of blocks that have equally many newer live blocks.
// Frees of blocks from before the recording equal nothing. It takes O(n log n).
//
// SmartPool compares kinds and sizes alone. The number of newer live blocks also tells
// blocks of one size apart: it says when a block is freed, given the events from its
// allocation on, so lifetimes repeat where these numbers do. What is still live from
// a warm-up does not change it.
func (t *Trace) symbols() []int32 {
	type key struct {
		free bool
		a, b int64
	}
	known := map[key]int32{}
	symbols := make([]int32, len(t.Events))
	live := counter{sums: make([]int32, len(t.Events)+1)}
	for i, e := range t.Events {
		b := &t.Blocks[e.Block]
		k := key{false, b.Size, b.Stream}
		switch {
		case !e.Free:
			live.add(i, 1)
		case b.Alloc < 0:
			k = key{true, int64(i), 1}
		default:
			live.add(b.Alloc, -1)
			k = key{true, int64(live.after(b.Alloc)), 0}
		}
		s, ok := known[k]
		if !ok {
			s = int32(len(known))
			known[k] = s
		}
		symbols[i] = s
	}
	return symbols
}

// counter counts the live blocks by the event of their allocation: a tree of sums of
// Fenwick (1994). Each call takes O(log n).
type counter struct {
	sums  []int32
	total int32
}

func (c *counter) add(event int, n int32) {
	c.total += n
	for i := event + 1; i < len(c.sums); i += i & -i {
		c.sums[i] += n
	}
}

// after counts the blocks that were allocated after an event.
func (c *counter) after(event int) int32 {
	n := c.total
	for i := event + 1; i > 0; i -= i & -i {
		n -= c.sums[i]
	}
	return n
}

// longestRepetition returns the part of a text of symbols with the shortest period
// that repeats at least twice and is longest; of equal ones, the one with the shortest
// period. It is the zero value if nothing repeats.
//
// This is the rule of SmartPool (Zhang et al. 2019, section V: "Once two consecutive
// subsequences are detected to be repeating", they are the iteration), for a stream
// that is known as a whole. Online, the first repetition counts; here it is the
// longest, because within an iteration there are short ones, such as the scratch of
// equal layers, and before and after the iterations there is other work.
//
// All maximal repetitions are found by the division of Main and Lorentz (1984, "An O(n log n)
// algorithm for finding all repetitions in a string"). Those across the middle of a text
// follow from common prefixes and suffixes, for each period at once; the others lie in one of
// its halves. A half that is no longer than the best repetition is left out, so that a stream
// that repeats nearly from its beginning to its end takes linear time.
func longestRepetition(text []int32) repetition {
	m := mainLorentz{text: text, z: make([]int32, len(text)/2+2), match: make([]int32, len(text)+1), reversed: make([]int32, len(text))}
	for i, s := range text {
		m.reversed[len(text)-1-i] = s
	}
	m.divide(0, len(text))
	return m.best
}

type mainLorentz struct {
	text, reversed []int32
	z, match       []int32 // reused
	best           repetition
}

func (m *mainLorentz) divide(lo, hi int) {
	if hi-lo < 2 || hi-lo <= m.best.length() {
		return
	}
	mid := (lo + hi) / 2
	m.across(lo, mid, hi)
	m.divide(lo, mid)
	m.divide(mid, hi)
}

// across finds the repetitions in [lo, hi) that contain mid-1 and mid and have a whole
// period on one side of it.
func (m *mainLorentz) across(lo, mid, hi int) {
	n := len(m.text)
	left, right, all := m.text[lo:mid], m.text[mid:hi], m.text[lo:hi]
	leftBack, allBack := m.reversed[n-mid:n-lo], m.reversed[n-hi:n-lo]

	// The period lies to the right: the text around mid equals the text a period later.
	z := prefixes(right, m.z[:len(right)])
	zr := make([]int32, len(right))
	copy(zr, z)
	back := prefixes(leftBack, m.z[:len(leftBack)])
	match := matches(leftBack, back, allBack, m.match[:len(allBack)])
	for p := 1; p <= len(right); p++ {
		before, after := int(match[len(right)-p]), 0
		if p < len(right) {
			after = int(zr[p])
		}
		m.offer(mid-before, mid+p+after, p, before+after)
	}

	// The period lies to the left.
	zl := make([]int32, len(left))
	copy(zl, back)
	match = matches(right, zr, all, m.match[:len(all)])
	for p := 1; p <= len(left); p++ {
		before, after := 0, int(match[len(left)-p])
		if p < len(left) {
			before = int(zl[p])
		}
		m.offer(mid-p-before, mid+after, p, before+after)
	}
}

// offer keeps a repetition with extra events beyond one period if it is the best.
func (m *mainLorentz) offer(begin, end, period, extra int) {
	if r := (repetition{begin, end, period}); extra >= period && (m.best.period == 0 || r.better(m.best)) {
		m.best = r
	}
}

// prefixes returns for each position the length of the longest common prefix of the
// text and its rest from there: the Z function.
func prefixes(text, z []int32) []int32 {
	if len(text) == 0 {
		return z
	}
	z[0] = int32(len(text))
	from, to := 0, 0 // the match that reaches farthest
	for i := 1; i < len(text); i++ {
		k := 0
		if i < to {
			k = min(to-i, int(z[i-from]))
		}
		for i+k < len(text) && text[k] == text[i+k] {
			k++
		}
		if z[i] = int32(k); i+k > to {
			from, to = i, i+k
		}
	}
	return z
}

// matches returns for each position of a text the length of the longest common prefix
// of a pattern, with its Z function, and the text from there.
func matches(pattern, z, text, match []int32) []int32 {
	from, to := 0, 0
	for i := range text {
		k := 0
		if i < to {
			k = min(to-i, int(z[i-from]))
		}
		for i+k < len(text) && k < len(pattern) && pattern[k] == text[i+k] {
			k++
		}
		if match[i] = int32(k); i+k > to {
			from, to = i, i+k
		}
	}
	return match
}

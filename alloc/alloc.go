package alloc

import (
	"fmt"
	"math"
)

// Buffer is a range of bytes that is needed during a lifetime. [Solve] and the
// strategies place it; they never move or shorten the lifetime.
type Buffer struct {
	ID    string // for messages; may be empty
	Size  int64  // bytes
	First int    // the first step at which it is live
	Last  int    // the last step at which it is live, inclusive
	Align int64  // the offset is a multiple of it, and the size is not rounded; 0: see Problem.Alignment
	Fixed *int64 // the required offset, in bytes; nil: any
	Hint  *int64 // an offset that the exact search tries first; nil: none
	Gaps  []Gap  // ascending; at these steps it needs fewer bytes, or none
}

// Gap is the steps [First, Last], both inclusive, within a lifetime at which the
// buffer needs only its bytes [From, To), or none if From = To. [Problem.MaxLoad]
// and the checks count only the bytes needed, and [Solve] puts other buffers into
// gaps. The strategies and the exact search on their own reserve all bytes
// throughout: the result is a valid placement, but may not be the best.
type Gap struct {
	First, Last int
	From, To    int64
}

// Problem is a set of buffers that share one arena.
type Problem struct {
	Buffers   []Buffer
	Alignment int64 // of offsets and sizes of the buffers that have none of their own; 0: 1 byte

	// work is the number of gaps that a greedy strategy may visit before it gives
	// up and returns no offsets; 0: no limit. Solve sets it to bound its own time.
	work int
}

// Placement gives each buffer an offset in the arena.
type Placement struct {
	Offsets []int64 // by buffer, in bytes
	Arena   int64   // bytes: the largest offset + size
}

// Validate returns an error that names the first buffer at fault, nil if there is none. No
// size and no alignment may be negative. Each lifetime has a step, and gaps lie within it.
// Fixed offsets are aligned and do not overlap. All sizes together, rounded up and with the
// padding that alignment may need, fit into an int64. The strategies and MaxLoad require a
// valid problem. It takes O(n) and O(k log k) for k fixed offsets.
func (p Problem) Validate() error {
	if p.Alignment < 0 {
		return fmt.Errorf("alignment: expected 0 or more bytes, found %d", p.Alignment)
	}
	left, highest := int64(math.MaxInt64), int64(0)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		switch {
		case b.Size < 0:
			return fmt.Errorf("%s: size: expected 0 or more bytes, found %d", p.name(i), b.Size)
		case b.Align < 0:
			return fmt.Errorf("%s: alignment: expected 0 or more bytes, found %d", p.name(i), b.Align)
		case b.First > b.Last:
			return fmt.Errorf("%s: lifetime: expected a first step not after the last, found %d-%d", p.name(i), b.First, b.Last)
		case b.Fixed != nil && (*b.Fixed < 0 || *b.Fixed%p.align(i) != 0):
			return fmt.Errorf("%s: fixed offset: expected a multiple of %d, found %d", p.name(i), p.align(i), *b.Fixed)
		}
		if err := p.checkGaps(i); err != nil {
			return err
		}
		if b.Size == 0 {
			continue
		}
		if b.Fixed != nil {
			highest = max(highest, *b.Fixed)
		}
		// Rounding the size and the offset up adds at most align-1 each.
		for _, x := range [3]int64{b.Size, p.align(i) - 1, p.align(i) - 1} {
			if x > left {
				return fmt.Errorf("%s: %d bytes aligned to %d: all sizes together exceed %d", p.name(i), b.Size, p.align(i), math.MaxInt64)
			}
			left -= x
		}
		if highest > left {
			return fmt.Errorf("%s: fixed offset %d: all sizes together exceed %d", p.name(i), highest, math.MaxInt64)
		}
	}
	return p.checkFixed()
}

// MaxLoad returns the largest load: the sum of the rounded sizes of the buffers
// that are live at a step. No arena is smaller, because these buffers are in it
// together and do not overlap. O(n log n).
func (p Problem) MaxLoad() int64 {
	if p.hasGaps() {
		_, load := p.busiestStep()
		return load
	}
	var largest int64
	for _, load := range prepare(p).loads() {
		largest = max(largest, load)
	}
	return largest
}

// Rounded returns the problem with all sizes rounded up to multiples of n bytes and
// all offsets multiples of n, in addition to the alignments of p. It fails if n is
// below 1 or a number exceeds an int64. It does not change the buffers of p.
func (p Problem) Rounded(n int64) (Problem, error) {
	if n < 1 {
		return p, fmt.Errorf("alignment: expected 1 or more bytes, found %d", n)
	}
	q := Problem{Buffers: make([]Buffer, len(p.Buffers)), Alignment: lcm(max(1, p.Alignment), n)}
	if q.Alignment == 0 {
		return p, fmt.Errorf("alignment: %d and %d have no common multiple below 2^63", p.Alignment, n)
	}
	for i, b := range p.Buffers {
		if b.Align > 0 {
			align := lcm(b.Align, n)
			if align == 0 || b.Size > math.MaxInt64-n {
				return p, fmt.Errorf("%s: %d bytes aligned to %d: rounded up to %d they exceed %d", p.name(i), b.Size, b.Align, n, math.MaxInt64)
			}
			b.Align, b.Size = align, roundUp(b.Size, n)
		}
		q.Buffers[i] = b
	}
	return q, q.Validate()
}

// lcm returns the least common multiple, or 0 if it exceeds an int64.
func lcm(a, b int64) int64 {
	a /= gcd(a, b)
	if a > math.MaxInt64/b {
		return 0
	}
	return a * b
}

// align returns the alignment of buffer i, at least 1.
func (p Problem) align(i int) int64 {
	if a := p.Buffers[i].Align; a > 0 {
		return a
	}
	return max(1, p.Alignment)
}

// size returns the bytes that buffer i takes: its size, rounded up unless the
// buffer has an alignment of its own.
func (p Problem) size(i int) int64 {
	b := &p.Buffers[i]
	if b.Align > 0 {
		return b.Size
	}
	return roundUp(b.Size, max(1, p.Alignment))
}

// roundUp returns the smallest multiple of align that is at least x.
func roundUp(x, align int64) int64 {
	if rest := x % align; rest > 0 {
		return x + align - rest
	}
	return x
}

// name names a buffer in messages, as in `buffer 3 "conv1"`.
func (p Problem) name(i int) string {
	if id := p.Buffers[i].ID; id != "" {
		return fmt.Sprintf("buffer %d %.64q", i, id)
	}
	return fmt.Sprintf("buffer %d", i)
}
